"""What goes on in the background, on the real event loop with short intervals."""

import asyncio
from pathlib import Path

import pytest

from barnabas.protocol.ids import TopicPartition
from barnabas.storage.append import AppendOrigin
from barnabas.storage.directories import StorageSettings
from barnabas.storage.log import Log, LogOffline
from barnabas.storage.log_config import LogConfig
from barnabas.storage.maintenance import MaintenanceSettings, flush_due, sweep_log
from tests.support.held_offload import HeldOffload
from tests.unit.storage.logs import NOW, TP, append, batch
from tests.unit.storage.stores import open_store

ONE = len(batch(b"v" * 20))
SHORT = StorageSettings(
    maintenance=MaintenanceSettings(
        initial_delay_ms=1,
        retention_check_interval_ms=5,
        recovery_point_interval_ms=5,
        start_offset_interval_ms=5,
        high_watermark_interval_ms=5,
        flush_check_interval_ms=5,
        removal_check_interval_ms=5,
    )
)


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.002)


async def maintained(tmp_path, config=None):
    store = await open_store(str(tmp_path), config=config, settings=SHORT)
    task = asyncio.create_task(store.directories.run_maintenance())
    return store, store.directories.create_log(TP), task


async def stop(store, task):
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await store.directories.close()


async def test_checkpoints_follow_the_logs(tmp_path):
    store, log, task = await maintained(tmp_path)
    append(log, batch(b"a", b"b", b"c"))
    log.set_high_watermark(2)
    log.advance_log_start_offset(1)
    hw, rp, start = (
        tmp_path / f"{name}-checkpoint" for name in ("replication-offset", "recovery-point-offset", "log-start-offset")
    )
    await until(lambda: hw.exists() and hw.read_text() == "0\n1\ntopic 0 2\n")
    await until(lambda: start.exists() and start.read_text() == "0\n1\ntopic 0 1\n")
    await until(lambda: rp.exists() and rp.read_text() == "0\n1\ntopic 0  0\n")
    await stop(store, task)
    assert rp.read_text() == "0\n1\ntopic 0  2\n", "one below the end, which a roll may make the start of a segment"


async def test_a_rolled_segment_is_flushed_and_closed_in_the_background(tmp_path):
    store, log, task = await maintained(tmp_path, LogConfig(segment_bytes=ONE))
    for number in range(3):
        append(log, batch(b"v" * 20, timestamp=NOW + number))
    await until(lambda: log.recovery_point == 2)
    assert [segment.growing is None for segment in log.segments] == [True, True, False]
    await stop(store, task)


async def test_retention_and_removal_go_on_by_themselves(tmp_path):
    config = LogConfig(segment_bytes=ONE, retention_bytes=ONE, file_delete_delay_ms=0)
    store, log, task = await maintained(tmp_path, config)
    for number in range(4):
        append(log, batch(b"v" * 20, timestamp=NOW + number))
    log.set_high_watermark(4)
    await until(lambda: log.log_start_offset == 3)
    await until(lambda: len(list((tmp_path / "topic-0").glob("*.log*"))) == 1)
    await stop(store, task)


async def test_retention_leaves_the_segment_that_is_being_written_to(tmp_path):
    store = await open_store(str(tmp_path), config=LogConfig(segment_bytes=2 * ONE, retention_ms=1000))
    held = store.directories.directories[0]._offload = HeldOffload()
    log = store.directories.create_log(TP)
    for _ in range(3):
        append(log, batch(b"v" * 20))
    log.set_high_watermark(3)
    later = NOW + 60_000
    new = batch(b"w" * 20, timestamp=later)
    prepared = log.prepare_append(new, leader_epoch=0, origin=AppendOrigin.CLIENT, now_ms=later)
    held.hold("write")
    writing = asyncio.ensure_future(store.directories.directory_of(TP).write_in_thread(prepared))
    await until(lambda: held.waiting("write") == 1)
    sweep_log(store.directories.directory_of(TP), log, later)
    assert log.log_start_offset == 2, "the others go"
    held.release("write")
    await writing
    assert log.publish(prepared).first_offset == 3
    read = log.read(3, max_bytes=1000, upper_bound_offset=4, min_one_batch=True)
    assert read.slice is not None
    assert b"w" * 20 in bytes(read.slice.read())
    log.set_high_watermark(4)
    sweep_log(store.directories.directory_of(TP), log, later + 60_000)
    assert log.log_start_offset == 4
    await store.directories.close()


async def test_maintenance_of_a_failed_directory_ends_and_the_others_go_on(tmp_path):
    store = await open_store(str(tmp_path / "a"), str(tmp_path / "b"), settings=SHORT)
    task = asyncio.create_task(store.directories.run_maintenance())
    for partition in range(2):
        append(store.directories.create_log(TopicPartition("t", partition)), batch(b"v"))
    store.directories.directories[0].fail(OSError("gone"))
    store.directories.log(TopicPartition("t", 1)).set_high_watermark(1)
    checkpoint = tmp_path / "b/replication-offset-checkpoint"
    await until(lambda: checkpoint.exists() and checkpoint.read_text() == "0\n1\nt 1 1\n")
    assert not task.done()
    await stop(store, task)


async def test_a_log_is_flushed_when_it_had_something_to_flush_for_long_enough(tmp_path):
    store = await open_store(str(tmp_path), config=LogConfig(flush_ms=1000))
    log = store.directories.create_log(TP)
    directory = store.directories.directories[0]
    append(log, batch(b"v"))
    store.clock.advance(999)
    await flush_due(directory, store.clock.monotonic_ms())
    assert log.recovery_point == 0
    store.clock.advance(1)
    await flush_due(directory, store.clock.monotonic_ms())
    assert log.recovery_point == 1
    before = log.last_flush_ms
    store.clock.advance(5000)
    await flush_due(directory, store.clock.monotonic_ms())
    assert log.last_flush_ms == before, "there was nothing to flush"


@pytest.mark.interpreted
async def test_a_log_that_goes_while_it_is_flushed_does_not_keep_the_others_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await open_store(str(tmp_path), config=LogConfig(flush_ms=1000))
    directory = store.directories.directories[0]
    gone, kept = (store.directories.create_log(TopicPartition("t", number)) for number in (5, 6))
    for log in (gone, kept):
        append(log, batch(b"v"))
    store.clock.advance(1000)
    flush = directory.flush

    async def deleted_meanwhile(log: Log, offset: int) -> None:
        if log is gone:
            raise LogOffline("deleted")
        await flush(log, offset)

    monkeypatch.setattr(directory, "flush", deleted_meanwhile)
    await flush_due(directory, store.clock.monotonic_ms())
    assert kept.recovery_point == 1


async def test_flush_by_count_is_asked_for_when_so_many_records_are_unflushed(tmp_path):
    store = await open_store(str(tmp_path), config=LogConfig(flush_messages=3))
    log = store.directories.create_log(TP)
    append(log, batch(b"a", b"b"))
    assert not log.needs_flush()
    append(log, batch(b"c"))
    assert log.needs_flush()
    await store.directories.directories[0].flush(log, 3)
    assert not log.needs_flush()


async def test_a_sweep_forgets_idle_producers(tmp_path):
    settings = StorageSettings(producer_expiration_ms=1000)
    store = await open_store(str(tmp_path), settings=settings)
    log = store.directories.create_log(TP)
    append(log, batch(b"a", producer=(7, 0, 0), timestamp=NOW))
    directory = store.directories.directories[0]
    sweep_log(directory, log, NOW)
    sweep_log(directory, log, NOW + 999)
    assert log.producers.get(7) is not None
    sweep_log(directory, log, NOW + 1000)
    assert log.producers.get(7) is None


async def test_snapshots_that_no_recovery_needs_are_removed(tmp_path):
    store = await open_store(str(tmp_path), config=LogConfig(segment_bytes=ONE))
    log = store.directories.create_log(TP)
    directory = store.directories.directories[0]
    for number in range(6):
        append(log, batch(b"v" * 20, timestamp=NOW + number, producer=(7, 0, number)))
    assert log.snapshots.offsets == (1, 2, 3, 4, 5)
    await directory.checkpoint_all()
    assert log.snapshots.offsets == (1, 2, 3, 4, 5), "recovery would begin at the start"
    await directory.flush(log, 6)
    log.set_high_watermark(2)
    await directory.checkpoint_all()
    assert log.snapshots.offsets == (2, 3, 4, 5), "what is not committed may be cut"
    append(log, batch(b"v" * 20, timestamp=NOW, producer=(7, 0, 6)))
    await directory.flush(log, 7)
    log.set_high_watermark(7)
    await directory.checkpoint_all()
    assert log.snapshots.offsets == (5, 6)
    store.kill()
    store = await open_store(str(tmp_path), config=LogConfig(segment_bytes=ONE))
    assert store.directories.log(TP).producers.get(7).last_sequence == 6
