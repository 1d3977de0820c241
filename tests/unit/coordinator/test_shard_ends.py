"""The end of a leadership, and askers that go, while something is under way."""

import asyncio

import pytest

from barnabas.coordinator.batches import batch_of
from barnabas.coordinator.outcome import CoordinatorRecord, ProducerStamp
from barnabas.coordinator.ports import LogRefused
from barnabas.protocol.batch import Codec
from barnabas.protocol.error_code import ErrorCode
from tests.support.virtual_time import turns, virtual_time
from tests.unit.coordinator.counting import Rung, get, put, wait_for
from tests.unit.coordinator.memory_log import MemoryLog
from tests.unit.coordinator.test_shard import Run, lost, none_done, opened

GONE = "failed: NOT_LEADER_OR_FOLLOWER"


@virtual_time
async def test_an_append_that_ends_after_its_leadership_leaves_no_effect_and_no_second_answer() -> None:
    run = await opened()
    run.log.commit(0)
    first = run.ask(put("a", "1", effect=Rung("a")))
    await none_done(first)
    run.log.appending.clear()
    second, read = run.ask(put("b", "1", effect=Rung("b"))), run.ask(get("b"))
    await none_done(first, second, read)
    run.log.commit(0, lacks=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert [await first, await second, await read] == [GONE, GONE, "lost: NOT_COORDINATOR"]
    run.log.commit()
    run.log.appending.set()
    await asyncio.sleep(10)
    assert run.effects == []
    assert run.shard.error is ErrorCode.NOT_COORDINATOR


@virtual_time
async def test_all_that_is_on_its_way_is_answered_when_the_leadership_ends() -> None:
    run = await opened()
    run.log.commit(0)
    uncommitted = run.ask(put("a", "1"))
    await none_done(uncommitted)
    run.log.appending.clear()
    appending = run.ask(put("b", "1"))
    await none_done(uncommitted, appending)
    queued, parked = run.ask(put("c", "1")), run.ask(wait_for("d"))
    marker = asyncio.create_task(run.shard.write_marker(ProducerStamp(7, 0), commit=True, coordinator_epoch=1))
    await none_done(uncommitted, appending, queued, parked, marker)
    run.shard.close()
    assert [await uncommitted, await appending, await queued] == [GONE] * 3
    assert await parked == "lost: NOT_COORDINATOR"
    with pytest.raises(LogRefused, match="NOT_LEADER_OR_FOLLOWER"):
        await marker
    assert await run.ask(get("a")) == "lost: NOT_COORDINATOR"


@virtual_time
async def test_who_closes_while_it_is_loaded_reads_no_more() -> None:
    log = MemoryLog()
    for number in range(50):
        log.put(batch_of([CoordinatorRecord(b"%d" % number, b"v" * 100)], 1, Codec.NONE, None))
    run = Run(log, load_buffer_bytes=1)
    run.shard.open()
    await asyncio.sleep(0.01)
    run.shard.close()
    await turns()
    read = len(log.reads)
    assert 0 < read < 50
    await asyncio.sleep(10)
    assert len(log.reads) == read
    assert not run.shard.is_loaded
    assert await run.ask(get("1")) == "lost: NOT_COORDINATOR"


@virtual_time
async def test_an_answer_that_meets_an_asker_who_just_went_is_dropped() -> None:
    run = await opened()
    run.log.commit(0)
    gone = run.shard.ask(put("a", "1"), on_lost=lost)
    stays = run.ask(put("a", "2"))
    await none_done(stays)
    gone.cancel()
    # Before the loop turns: the shard has not heard of it.
    run.shard.close()
    assert await stays == GONE
    other = await opened()
    gone = other.shard.ask(wait_for("a"), on_lost=lost)
    gone.cancel()
    assert await other.ask(put("a", "1")) == "a=1"
