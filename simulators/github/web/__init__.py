"""Pages for people."""

from simulators.github.web.front import WebFront

__all__ = ["WebFront"]
