"""How figures are shown and compared with their goals."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from bench.__main__ import main
from bench.figures import Figure, middle, render_table

FAST = Figure("ratio to a floor", 0.5, "x", "at least", 0.4)
LARGE = Figure("memory", 130.5, "MB", "at most", 120)
PLAIN = Figure("seconds", 1.25, "s")


@pytest.mark.parametrize(
    ("figure", "met"),
    [
        (FAST, True),
        (LARGE, False),
        (PLAIN, None),
        (Figure("exactly", 3, "x", "at most", 3), True),
        (Figure("exactly", 1, "x", "at least", 1), True),
    ],
)
def test_value_beside_its_goal_then_met_or_missed(figure: Figure, met: bool | None) -> None:
    assert figure.met is met


def test_one_round_disturbed_then_it_does_not_count() -> None:
    assert middle([1.0, 50.0, 1.2]) == 1.2


def test_table_then_goal_and_verdict_stand_beside_each_value() -> None:
    lines = [line.split() for line in render_table([FAST, LARGE, PLAIN]).splitlines()]
    assert lines[0] == ["figure", "value", "goal"]
    assert lines[2][-5:] == ["x", "at", "least", "0.4", "met"]
    assert lines[3][-6:] == ["130.5", "MB", "at", "most", "120", "MISSED"]
    assert lines[4] == ["seconds", "1.25", "s"]


class Measured(dict[str, Callable[[], list[Figure]]]):
    """Two measurements that end at once; `ran` names those that were made."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        super().__init__(
            receiver=lambda: self._measure("receiver", FAST), run=lambda: self._measure("run", LARGE)
        )

    def _measure(self, name: str, figure: Figure) -> list[Figure]:
        self.ran.append(name)
        return [figure]


def test_json_then_one_object_with_every_figure(capsys: pytest.CaptureFixture[str]) -> None:
    measured = Measured()
    assert main(["--json"], measured) == 0
    assert json.loads(capsys.readouterr().out) == {"figures": [FAST.as_json(), LARGE.as_json()]}
    assert FAST.as_json()["met"] is True
    assert measured.ran == ["receiver", "run"]


def test_only_one_then_the_other_does_not_run(capsys: pytest.CaptureFixture[str]) -> None:
    measured = Measured()
    assert main(["--only", "run"], measured) == 0
    assert "memory" in capsys.readouterr().out
    assert measured.ran == ["run"]


def test_unknown_measurement_then_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--only", "nothing"])
    assert ended.value.code == 2
    assert "receiver" in capsys.readouterr().err
