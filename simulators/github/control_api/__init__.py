"""``/_sim/…``: everything a person, an operator of GitHub, or a test does."""

from simulators.github.control_api.front import ControlFront

__all__ = ["ControlFront"]
