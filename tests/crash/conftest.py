"""The flow's world, for runs in which the worker is killed at named points."""

from tests.flow.conftest import provider, pytest_runtest_makereport, shared_world, world

__all__ = ["provider", "pytest_runtest_makereport", "shared_world", "world"]
