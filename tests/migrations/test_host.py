from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from app.db.host import host_id


def test_first_askers_at_the_same_time_get_one_answer(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: host_id(tmp_path), range(32)))
    assert len(set(answers)) == 1
    assert len(answers[0]) == 16
    assert [file.name for file in tmp_path.iterdir()] == ["host-id"]
