"""Deliveries → facts. Needs no spec's lease and has its own slots, so a busy spec never holds up what people say."""

from worker.intake.take_in import Intake

__all__ = ["Intake"]
