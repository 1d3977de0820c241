"""Replies are told within the call that answers: what who is told may do there."""

from typing import Any

import pytest

from barnabas.protocol.error_code import ErrorCode
from tests.support.virtual_time import turns, virtual_time
from tests.unit.coordinator.counting import get, put, wait_for
from tests.unit.coordinator.shard_runs import Run, lost, opened


@virtual_time
async def test_replies_are_told_in_the_order_of_the_records_once_all_of_their_batch_is_committed() -> None:
    run = await opened()
    run.log.commit(0)
    told: list[str] = []
    for name in "abc":
        run.shard.ask(put(name, "1"), on_lost=lost).add_done_callback(lambda done: told.append(done.result()))
    await turns()
    assert told == []
    run.log.commit(2)
    await turns()
    assert told == []
    run.log.commit(3)
    await turns()
    assert told == ["a=1", "b=1", "c=1"]


@pytest.mark.parametrize("ends", ["commits", "is closed", "is refused"])
def test_who_is_told_may_give_up_what_else_it_asked(ends: str) -> None:
    @virtual_time
    async def story() -> None:
        run = await opened()
        run.log.commit(0)
        told: list[str] = []
        asked = [run.shard.ask(each, on_lost=lost) for each in (put("a", "1"), put("b", "1"), get("a"), wait_for("z"))]

        def give_up(done: Any) -> None:
            told.append(done.result())
            for each in (*asked[1:], later):
                each.cancel()

        later = run.shard.ask(put("c", "1"), on_lost=lost)
        asked[0].add_done_callback(give_up)
        await turns()
        _end(run, ends)
        await turns()
        assert len(told) == 1
        assert all(each.cancelled() for each in (*asked[1:], later))
        if ends == "commits":
            # What was given up stands in the log all the same.
            assert await run.ask(get("c")) == "1"

    story()


def _end(run: Run, how: str) -> None:
    if how == "commits":
        run.log.commit()
    elif how == "is closed":
        run.shard.close()
    else:
        run.log.commit(0, lacks=ErrorCode.NOT_ENOUGH_REPLICAS)
