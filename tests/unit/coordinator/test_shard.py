import asyncio

import pytest

from barnabas.coordinator.batches import batch_of, marker_batch
from barnabas.coordinator.outcome import CoordinatorRecord, Outcome, ProducerStamp
from barnabas.coordinator.ports import LogRefused
from barnabas.protocol.batch import Codec
from barnabas.protocol.error_code import ErrorCode
from tests.support.virtual_time import turns, virtual_time
from tests.unit.coordinator.counting import Rung, get, put, wait_for
from tests.unit.coordinator.memory_log import MemoryLog
from tests.unit.coordinator.shard_runs import LoopClock, Run, lost, none_done, opened

PRODUCER = ProducerStamp(7, 0)


@virtual_time
async def test_a_reply_leaves_when_its_record_is_committed() -> None:
    run = await opened()
    run.log.commit(0)
    asked = run.ask(put("a", "1"))
    await none_done(asked)
    assert run.log.records() == [[(b"a", b"1")]]
    run.log.commit(1)
    assert await asked == "a=1"


@virtual_time
async def test_a_read_waits_for_what_was_written_before_it() -> None:
    run = await opened()
    run.log.commit(0)
    written, read = run.ask(put("a", "1")), run.ask(get("a"))
    await none_done(written, read)
    run.log.commit(1)
    assert await read == "1"
    assert written.done()


@virtual_time
async def test_what_says_nothing_of_the_log_waits_for_nothing() -> None:
    run = await opened()
    run.log.commit(0)
    run.ask(put("a", "1"))
    await turns()
    assert run.shard.consult(lambda machine, now_ms: (machine.values, now_ms), on_lost=lost) == ({"a": "1"}, 1000)


@virtual_time
async def test_outcomes_that_come_while_an_append_is_under_way_share_the_next_one() -> None:
    run = await opened()
    run.log.appending.clear()
    asked = [run.ask(put(f"k{number}", "v")) for number in range(1)]
    await turns()
    asked += [run.ask(put(f"k{number}", "v")) for number in range(1, 6)]
    await none_done(*asked)
    run.log.appending.set()
    assert await asyncio.gather(*asked) == [f"k{number}=v" for number in range(6)]
    assert [len(batch) for batch in run.log.records()] == [1, 5]


@virtual_time
async def test_outcomes_that_come_in_one_turn_share_an_append() -> None:
    run = await opened()
    asked = [run.ask(put(f"k{number}", "v")) for number in range(3)]
    assert await asyncio.gather(*asked) == [f"k{number}=v" for number in range(3)]
    assert [len(batch) for batch in run.log.records()] == [3]


@virtual_time
async def test_an_append_that_breaks_is_the_process_s_end_and_nobody_is_answered() -> None:
    run = await opened()
    ends: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: ends.append(context["exception"]))
    run.log.breaks = RuntimeError("a bug")
    asked = [run.ask(put("a", "1"))]
    await turns()
    asked.append(run.ask(put("b", "2")))
    await none_done(*asked)
    assert ends == [run.log.breaks]


@virtual_time
async def test_no_append_is_greater_than_a_batch_may_be() -> None:
    run = await opened(MemoryLog(max_batch_bytes=300))
    for size in range(70, 100):
        before = len(run.log.batches)
        asked = [run.ask(put(f"k{number}", "v" * size)) for number in range(7)]
        await asyncio.gather(*asked)
        assert [len(batch) for batch in run.log.records()[before:]] in ([2, 2, 2, 1], [1] * 7)
    assert max(len(batch) for _, batch in run.log.batches) <= 300


@virtual_time
async def test_an_outcome_too_large_for_a_batch_fails_alone() -> None:
    run = await opened(MemoryLog(max_batch_bytes=300))
    small, great, other = run.ask(put("a", "1")), run.ask(put("b", "v" * 300)), run.ask(put("c", "1"))
    assert await asyncio.gather(small, great, other) == ["a=1", "failed: MESSAGE_TOO_LARGE", "c=1"]
    assert run.machines[-1].values == {"a": "1", "c": "1"}
    assert len(run.machines) == 1


@virtual_time
async def test_an_outcome_is_measured_as_it_will_be_written() -> None:
    run = await opened(MemoryLog(max_batch_bytes=300), codec=Codec.GZIP)
    assert await run.ask(put("b", "v" * 1000)) == "b=" + "v" * 1000


@virtual_time
async def test_what_the_log_would_refuse_is_refused_before_it_changes_anything() -> None:
    run = await opened()
    run.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    assert await run.ask(put("a", "1")) == "failed: NOT_ENOUGH_REPLICAS"
    run.log.refuses = None
    assert await run.ask(get("a")) is None
    assert len(run.machines) == 1
    assert run.log.records() == []


@virtual_time
async def test_a_machine_that_cannot_take_back_what_was_refused_is_loaded_again() -> None:
    run = await opened()
    parked = run.ask(wait_for("z"))
    await run.ask(put("a", "1"))
    run.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    assert await run.ask(put("a", "2", heals=False)) == "lost: COORDINATOR_NOT_AVAILABLE"
    assert await parked == "lost: COORDINATOR_LOAD_IN_PROGRESS"
    assert await run.ask(get("a")) == "lost: COORDINATOR_LOAD_IN_PROGRESS"
    run.log.refuses = None
    await asyncio.sleep(2)
    assert await run.ask(get("a")) == "1"
    assert len(run.machines) == 2


@virtual_time
async def test_an_append_that_fails_costs_the_machine_and_all_that_came_after_it() -> None:
    run = await opened()
    assert await run.ask(put("a", "1")) == "a=1"
    await asyncio.sleep(5)
    run.log.appending.clear()
    failed = run.ask(put("a", "2"))
    await turns()
    behind, read, parked = run.ask(put("b", "1")), run.ask(get("a")), run.ask(wait_for("z"))
    await none_done(failed, behind, read, parked)
    run.log.fails = ErrorCode.NOT_ENOUGH_REPLICAS
    run.log.appending.set()
    assert await asyncio.gather(failed, behind, read, parked) == [
        "failed: NOT_ENOUGH_REPLICAS",
        "failed: NOT_ENOUGH_REPLICAS",
        "lost: COORDINATOR_NOT_AVAILABLE",
        "lost: COORDINATOR_LOAD_IN_PROGRESS",
    ]
    assert run.shard.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await asyncio.sleep(0.1)
    assert await run.ask(get("a")) == "1"
    assert await run.ask(get("b")) is None


@virtual_time
async def test_machines_that_go_one_after_the_other_are_loaded_once_a_second() -> None:
    run = await opened()
    run.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    for _ in range(100):
        await run.ask(put("a", "1", heals=False))
        await asyncio.sleep(0.1)
    assert 5 <= run.shard.counts.loads <= 11


@virtual_time
async def test_what_is_told_of_a_machine_that_is_gone_reaches_no_other() -> None:
    run = await opened()
    former = run.shard.machine
    run.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    await run.ask(put("a", "1", heals=False))
    await asyncio.sleep(2)
    told: list[object] = []

    def tell(machine: object, _now_ms: int, _wall_ms: int) -> Outcome:
        told.append(machine)
        return Outcome()

    assert run.shard.machine is not former
    assert not run.shard.tell(tell, of=former)
    assert run.shard.tell(tell, of=run.shard.machine)
    assert told == [run.shard.machine]


@virtual_time
async def test_what_is_being_appended_while_the_machine_goes_is_in_the_next_one() -> None:
    run = await opened()
    await asyncio.sleep(5)
    run.log.appending.clear()
    under_way = run.ask(put("a", "1"))
    await turns()
    run.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    assert await run.ask(put("b", "1", heals=False)) == "lost: COORDINATOR_NOT_AVAILABLE"
    run.log.refuses = None
    await asyncio.sleep(1)
    assert not run.shard.is_loaded
    run.log.appending.set()
    assert await under_way == "a=1"
    await asyncio.sleep(1)
    assert await run.ask(get("a")) == "1"


@virtual_time
async def test_who_waits_too_long_for_a_commit_hears_so_and_the_machine_lives_on() -> None:
    run = await opened(commit_timeout_ms=5_000)
    run.log.commit(0)
    asked = run.ask(put("a", "1", effect=Rung("a")))
    await asyncio.sleep(3)
    later = run.ask(get("a"))
    await asyncio.sleep(1.99)
    await none_done(asked, later)
    await asyncio.sleep(0.02)
    assert asked.result() == "failed: REQUEST_TIMED_OUT"
    await none_done(later)
    await asyncio.sleep(3)
    assert later.result() == "lost: COORDINATOR_NOT_AVAILABLE"
    assert run.effects == []
    run.log.commit()
    await turns()
    assert run.effects == ["a"]
    assert await run.ask(get("a")) == "1"
    assert len(run.machines) == 1


@virtual_time
async def test_who_waits_while_too_few_replicas_are_left_hears_so_at_once() -> None:
    run = await opened()
    run.log.commit(0)
    asked = run.ask(put("a", "1", effect=Rung("a")))
    await none_done(asked)
    run.log.commit(0, lacks=ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    assert await asked == "failed: NOT_ENOUGH_REPLICAS_AFTER_APPEND"
    run.log.commit()
    await asyncio.sleep(1)
    assert run.effects == ["a"]
    assert await run.ask(get("a")) == "1"


@virtual_time
async def test_effects_begin_in_order_once_their_records_are_committed() -> None:
    run = await opened()
    run.log.commit(0)
    asked = [run.ask(put(name, "1", effect=Rung(name))) for name in "abc"]
    await none_done(*asked)
    assert run.effects == []
    run.log.commit()
    await asyncio.gather(*asked)
    assert run.effects == ["a", "b", "c"]


@virtual_time
async def test_effects_of_a_machine_that_is_gone_do_not_begin() -> None:
    run = await opened()
    await asyncio.sleep(5)
    run.log.commit(0)
    asked = run.ask(put("a", "1", effect=Rung("a")))
    await none_done(asked)
    run.first.append(Outcome(effects=[Rung("resumed")]))
    run.log.fails = ErrorCode.NOT_ENOUGH_REPLICAS
    await run.ask(put("b", "1"))
    await asyncio.sleep(1)
    run.log.commit()
    assert await asked == "a=1"
    await turns()
    assert run.effects == ["resumed"]


@virtual_time
async def test_the_end_of_a_leadership_is_told_to_all_who_wait() -> None:
    run = await opened()
    run.log.commit(0)
    written = run.ask(put("a", "1", effect=Rung("a")))
    read, parked = run.ask(get("a")), run.ask(wait_for("z"))
    await none_done(written, read, parked)
    run.shard.close()
    assert await asyncio.gather(written, read, parked) == [
        "failed: NOT_LEADER_OR_FOLLOWER",
        "lost: NOT_COORDINATOR",
        "lost: NOT_COORDINATOR",
    ]
    assert await run.ask(get("a")) == "lost: NOT_COORDINATOR"
    run.log.commit()
    await asyncio.sleep(1)
    assert run.effects == []


@pytest.mark.parametrize("when", ["load", "append", "commit"])
def test_a_leadership_may_end_while_anything_is_under_way(when: str) -> None:
    @virtual_time
    async def story() -> None:
        run = Run()
        if when == "load":
            run.log.put(batch_of([CoordinatorRecord(b"a", b"1")], 5, Codec.NONE, None))
            run.log.read_error = ErrorCode.NOT_LEADER_OR_FOLLOWER
            run.shard.open()
            await turns()
            answer = await run.ask(get("a"))
        else:
            await run.opened()
            if when == "append":
                run.log.fails = ErrorCode.NOT_LEADER_OR_FOLLOWER
            else:
                run.log.commit(0, lacks=ErrorCode.NOT_LEADER_OR_FOLLOWER)
            assert await run.ask(put("a", "1")) == "failed: NOT_LEADER_OR_FOLLOWER"
            answer = await run.ask(get("a"))
        assert answer == "lost: NOT_COORDINATOR"
        assert len(run.machines) == 1
        await asyncio.sleep(20)
        assert run.shard.error is ErrorCode.NOT_COORDINATOR

    story()


@virtual_time
async def test_a_close_while_loading_ends_the_load() -> None:
    log = MemoryLog()
    log.put(batch_of([CoordinatorRecord(b"a", b"1")], 5, Codec.NONE, None))
    run = Run(log)
    run.shard.open()
    assert await run.ask(get("a")) == "lost: COORDINATOR_LOAD_IN_PROGRESS"
    run.shard.close()
    await asyncio.sleep(1)
    assert run.shard.error is ErrorCode.NOT_COORDINATOR


@virtual_time
async def test_a_load_reads_in_pieces_and_applies_what_markers_end() -> None:
    log = MemoryLog()
    for number in range(10):
        log.put(batch_of([CoordinatorRecord(b"k%d" % number, b"v")], 5, Codec.ZSTD, None))
    log.put(batch_of([CoordinatorRecord(b"k0", None)], 5, Codec.NONE, None))
    for producer_id, name in ((1, b"kept"), (2, b"aborted"), (3, b"open")):
        log.put(batch_of([CoordinatorRecord(name, b"v")], 5, Codec.NONE, ProducerStamp(producer_id, 0)))
    log.put(marker_batch(ProducerStamp(1, 0), 4, 5, commit=True))
    log.put(marker_batch(ProducerStamp(2, 0), 4, 5, commit=False))
    run = await opened(log, load_buffer_bytes=200)
    machine = run.machines[-1]
    assert machine.values == {"k0": None, "kept": "v"} | {f"k{number}": "v" for number in range(1, 10)}
    assert machine.pending == {3: {"open": "v"}}
    assert len(log.reads) > 4


@virtual_time
async def test_what_a_load_cannot_understand_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    log = MemoryLog()
    log.put(batch_of([CoordinatorRecord(b"?new", b"v"), CoordinatorRecord(b"a", b"1")], 5, Codec.NONE, None))
    log.put(batch_of([CoordinatorRecord(b"b", b"1")] * 3, 5, Codec.GZIP, None))
    header, batch = log.batches[-1]
    log.batches[-1] = (header, batch[:61] + bytes(len(batch) - 61))
    log.put(batch_of([CoordinatorRecord(b"c", b"1")], 5, Codec.NONE, None))
    run = await opened(log)
    assert run.machines[-1].values == {"a": "1", "c": "1"}
    assert [record.getMessage().split(":")[1] for record in caplog.records if record.levelname == "ERROR"] == [
        " offset 0 is left out",
        " offset 2 is left out",
    ]


@virtual_time
async def test_a_log_that_cannot_be_read_is_tried_again_for_as_long_as_it_is_led() -> None:
    run = Run()
    run.log.put(batch_of([CoordinatorRecord(b"a", b"1")], 5, Codec.NONE, None))
    run.log.read_error = ErrorCode.KAFKA_STORAGE_ERROR
    run.shard.open()
    await asyncio.sleep(15)
    assert await run.ask(get("a")) == "lost: COORDINATOR_LOAD_IN_PROGRESS"
    run.log.read_error = None
    await asyncio.sleep(10)
    assert await run.ask(get("a")) == "1"


@virtual_time
async def test_what_follows_from_a_load_waits_until_all_that_was_read_is_committed() -> None:
    run = Run()
    run.log.put(batch_of([CoordinatorRecord(b"a", b"1")], 5, Codec.NONE, None))
    run.log.commit(0)
    run.first.append(Outcome(effects=[Rung("resume")]))
    await run.opened()
    asked = run.ask(get("a"))
    await none_done(asked)
    assert run.effects == []
    run.log.commit(1)
    assert await asked == "1"
    assert run.effects == ["resume"]


@virtual_time
async def test_timers_ring_when_they_are_due_and_not_after_the_machine_is_gone() -> None:
    run = await opened()
    now_ms = LoopClock().monotonic_ms()
    run.shard.tell(lambda *_: Outcome(timers=[("a", now_ms + 100), ("b", now_ms + 50), ("c", now_ms + 60)]))
    run.shard.tell(lambda *_: Outcome(timers=[("c", None), ("d", now_ms + 1000)]))
    await asyncio.sleep(0.5)
    assert [(key, at - now_ms) for key, at in run.machines[-1].rung] == [("b", 50), ("a", 100)]
    run.shard.close()
    await asyncio.sleep(2)
    assert len(run.machines[-1].rung) == 2


@virtual_time
async def test_a_transaction_is_a_batch_of_its_own_and_its_marker_keeps_its_place() -> None:
    run = await opened()
    run.log.appending.clear()
    first = run.ask(put("a", "1"))
    await turns()
    inside = [
        run.ask(put("x", "1")),
        run.ask(put("a", "2", producer=PRODUCER)),
        run.ask(put("y", "1")),
    ]
    await turns()
    marker = asyncio.create_task(run.shard.write_marker(PRODUCER, commit=True, coordinator_epoch=1))
    await turns()
    after = run.ask(put("b", "1", producer=ProducerStamp(8, 0)))
    await none_done(first, *inside, marker, after)
    run.log.appending.set()
    await asyncio.gather(first, *inside, marker, after)
    assert [(header.is_transactional, header.is_control) for header, _ in run.log.batches] == [
        (False, False),
        (False, False),
        (True, False),
        (False, False),
        (True, True),
        (True, False),
    ]
    assert run.machines[-1].values == {"a": "2", "x": "1", "y": "1"}
    assert run.machines[-1].pending == {8: {"b": "1"}}


@virtual_time
async def test_what_comes_late_for_a_transaction_whose_marker_is_on_its_way_is_refused_and_costs_no_machine() -> None:
    run = await opened()
    run.log.appending.clear()
    begun = run.ask(put("a", "1", producer=PRODUCER))
    await turns()
    marker = asyncio.create_task(run.shard.write_marker(PRODUCER, commit=True, coordinator_epoch=1))
    await turns()
    assert await run.ask(put("a", "2", producer=PRODUCER)) == "failed: INVALID_TXN_STATE"
    another = run.ask(put("b", "1", producer=ProducerStamp(8, 0)))
    run.log.appending.set()
    await asyncio.gather(begun, marker, another)
    assert run.machines[0].values == {"a": "1"}
    assert len(run.machines) == 1


@virtual_time
async def test_an_epoch_behind_a_later_one_that_is_on_its_way_is_refused_and_costs_no_machine() -> None:
    run = await opened()
    run.log.appending.clear()
    later = asyncio.create_task(run.shard.write_marker(ProducerStamp(7, 5), commit=True, coordinator_epoch=3))
    begun = run.ask(put("a", "1", producer=ProducerStamp(8, 5)))
    await turns()
    with pytest.raises(LogRefused, match="INVALID_PRODUCER_EPOCH"):
        await run.shard.write_marker(ProducerStamp(7, 4), commit=True, coordinator_epoch=3)
    with pytest.raises(LogRefused, match="TRANSACTION_COORDINATOR_FENCED"):
        await run.shard.write_marker(ProducerStamp(7, 5), commit=True, coordinator_epoch=2)
    with pytest.raises(LogRefused, match="INVALID_PRODUCER_EPOCH"):
        await run.shard.write_marker(ProducerStamp(8, 4), commit=True, coordinator_epoch=3)
    assert await run.ask(put("b", "1", producer=ProducerStamp(8, 4))) == "failed: INVALID_PRODUCER_EPOCH"
    again = asyncio.create_task(run.shard.write_marker(ProducerStamp(7, 5), commit=True, coordinator_epoch=3))
    run.log.appending.set()
    await asyncio.gather(later, begun, again)
    assert len(run.machines) == 1


@virtual_time
async def test_a_marker_hears_why_it_was_not_written() -> None:
    run = Run()
    with pytest.raises(LogRefused, match="COORDINATOR_LOAD_IN_PROGRESS"):
        await run.shard.write_marker(PRODUCER, commit=True, coordinator_epoch=1)
    await run.opened()
    run.log.refuses = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    with pytest.raises(LogRefused, match="TRANSACTION_COORDINATOR_FENCED"):
        await run.shard.write_marker(PRODUCER, commit=True, coordinator_epoch=1)
    run.log.refuses = None
    run.log.commit(0)
    waiting = asyncio.create_task(run.shard.write_marker(PRODUCER, commit=True, coordinator_epoch=1))
    await none_done(waiting)
    run.shard.close()
    with pytest.raises(LogRefused, match="NOT_LEADER_OR_FOLLOWER"):
        await waiting


@virtual_time
async def test_a_client_that_goes_leaves_nothing_behind() -> None:
    run = await opened()
    parked = run.ask(wait_for("a"))
    await turns()
    parked.cancel()
    await turns()
    assert run.shard._requests == {}
    assert await run.ask(put("a", "1")) == "a=1"
