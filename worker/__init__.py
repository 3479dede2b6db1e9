"""Runs steps: takes deliveries in, advances specs, performs effects, sweeps up what was missed."""
