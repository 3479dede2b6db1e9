import asyncio

import pytest

from app.web.deadlines import Deadlines


async def test_many_at_once_then_only_those_that_take_too_long_are_late() -> None:
    deadlines = Deadlines(0.05)
    never = [asyncio.get_running_loop().create_future() for _ in range(3)]
    late = [asyncio.create_task(deadlines.wait_for(one)) for one in never]
    for number in range(100):
        assert await deadlines.wait_for(asyncio.sleep(0, number)) == number
    for task in late:
        with pytest.raises(TimeoutError):
            await task
    assert all(one.cancelled() for one in never)
    with pytest.raises(TimeoutError):  # and again, after nothing was waited for
        await deadlines.wait_for(asyncio.Event().wait())


async def test_cancelled_by_somebody_else_then_it_is_not_late() -> None:
    deadlines = Deadlines(60)
    task = asyncio.create_task(deadlines.wait_for(asyncio.Event().wait()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_work_that_fails_then_its_own_error_comes_through() -> None:
    async def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await Deadlines(60).wait_for(fail())
