"""What the demo says while it runs: numbered steps with notes below them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

STEPS = 6
_TITLE_WIDTH = 46
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


@dataclass
class Step:
    """One numbered step. `note` adds a line below it; the same line twice in a row is said once."""

    number: int
    title: str
    started: float = field(default_factory=time.monotonic)
    notes: list[str] = field(default_factory=list)
    seconds: float | None = None

    def head(self) -> str:
        return f"[{self.number}/{STEPS}] {self.title}"

    def elapsed(self) -> float:
        return self.seconds if self.seconds is not None else time.monotonic() - self.started


class Narrator:
    """Live on a terminal, plain lines elsewhere (each said the moment it is known). What is said raises OSError when it
    reaches nobody; `unheard` is True from then on.
    """

    def __init__(self, out: TextIO) -> None:
        from rich.console import Console

        self._out = out
        self._console: Console | None = (
            Console(file=out, highlight=False, soft_wrap=True) if out.isatty() else None
        )
        self._step: Step | None = None
        self.unheard = False

    def say(self, text: str = "") -> None:
        if self._console is not None:
            from rich.text import Text

            self._console.print(Text(text))
        else:
            self._print(text)

    def note(self, text: str) -> None:
        """A line below the current step."""
        if self._step is None or self._step.notes[-1:] == [text]:
            return
        self._step.notes.append(text)
        if self._console is None:
            self._print(f"      {text}")

    @contextmanager
    def step(self, number: int, title: str) -> Iterator[None]:
        self._step = step = Step(number, title)
        if self._console is None:
            self._print(step.head())
            yield
            self._print(f"      done in {step.elapsed():.1f} s")
        else:
            with self._live(self._console, step):
                yield
                step.seconds = step.elapsed()
            self._console.print(_drawn(step, done=True))
        self._step = None

    def _print(self, line: str) -> None:
        try:
            print(line, file=self._out, flush=True)
        except OSError:
            self.unheard = True
            raise

    @contextmanager
    def _live(self, console: Console, step: Step) -> Iterator[None]:
        from rich.live import Live

        with Live(
            console=console,
            get_renderable=lambda: _drawn(step, done=False),
            transient=True,
            refresh_per_second=10,
        ):
            yield


def _drawn(step: Step, *, done: bool) -> RenderableType:
    from rich.text import Text

    text = Text(no_wrap=True, overflow="ellipsis")
    mark = "✓" if done else _SPINNER[int(time.monotonic() * 10) % len(_SPINNER)]
    text.append(f"[{step.number}/{STEPS}] ", style="dim")
    text.append(f"{step.title:<{_TITLE_WIDTH}} ", style="bold")
    text.append(mark, style="green" if done else "yellow")
    text.append(f" {step.elapsed():5.1f} s", style="dim")
    for note in step.notes:
        text.append("\n      ")
        text.append(note, style="cyan" if note.startswith("http") else "")
    return text
