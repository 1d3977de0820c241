"""Outcomes that are larger than a batch, and what a shard tells the operator."""

import asyncio
import logging

import pytest

from barnabas.coordinator.outcome import CoordinatorRecord, Outcome, Ticket
from barnabas.protocol.error_code import ErrorCode
from tests.support.virtual_time import virtual_time
from tests.unit.coordinator.counting import Call, Rung, Values, put
from tests.unit.coordinator.memory_log import MemoryLog
from tests.unit.coordinator.shard_runs import none_done, opened


def put_all(count: int, *, is_divisible: bool = True) -> Call:
    def call(machine: Values, ticket: Ticket, _now: int, _wall: int) -> Outcome:
        outcome = machine.put(ticket, "first", "v")
        outcome.records += [CoordinatorRecord(b"k%d" % number, b"v" * 20) for number in range(count - 1)]
        outcome.is_divisible = is_divisible
        outcome.effects.append(Rung("all"))
        return outcome

    return call


@virtual_time
async def test_what_is_divisible_goes_in_several_batches_and_is_answered_after_the_last() -> None:
    run = await opened(MemoryLog(max_batch_bytes=300))
    run.log.commit(0)
    asked = run.ask(put_all(30))
    await none_done(asked)
    sizes = [len(batch) for batch in run.log.records()]
    assert len(sizes) > 2
    assert sum(sizes) == 30
    assert max(len(batch) for _, batch in run.log.batches) <= 300
    run.log.commit(30 - sizes[-1])
    await none_done(asked)
    assert run.effects == []
    run.log.commit(30)
    assert await asked == "first=v"
    assert run.effects == ["all"]


@virtual_time
async def test_a_divided_outcome_whose_first_batch_fails_is_answered_once_and_costs_the_machine() -> None:
    run = await opened(MemoryLog(max_batch_bytes=300))
    run.log.fails = ErrorCode.NOT_ENOUGH_REPLICAS
    assert await run.ask(put_all(30)) == "failed: NOT_ENOUGH_REPLICAS"
    await asyncio.sleep(2)
    assert len(run.machines) == 2
    assert run.machines[1].values == {}
    assert run.effects == []


@virtual_time
async def test_what_is_not_divisible_is_refused_where_it_is_too_large() -> None:
    run = await opened(MemoryLog(max_batch_bytes=300))
    assert await run.ask(put_all(30, is_divisible=False)) == "failed: MESSAGE_TOO_LARGE"
    assert run.log.records() == []


@virtual_time
async def test_the_log_tells_of_loads_unloads_and_what_machines_note(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "barnabas.coordinator.shard")
    run = await opened()
    run.shard.tell(lambda machine, _now, _wall: Outcome(notes=["group g: stabilized"]))
    await run.ask(put("a", "1"))
    run.shard.close()
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        "__memory-0: loaded 0 records up to offset 0 in 0 ms, 0 left out: 0 values",
        "__memory-0: group g: stabilized",
        "__memory-0: unloaded 1 values; 0 requests waited",
    ]
