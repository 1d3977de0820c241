"""Good bytes in the place of damaged ones: written over them, or in a segment that is written anew."""

from dataclasses import replace

import pytest

from barnabas.protocol.entries import iterate_entries
from barnabas.storage.damage import DamagedRange
from barnabas.storage.log_config import LogConfig
from barnabas.storage.mended_segment import DamagedSegment, Fill, spool_path, write_anew, write_over
from barnabas.storage.replacement import replace_segments
from tests.support.crash_disk import CrashDisk
from tests.unit.storage.cleaning_store import CONFIG as CLEANING_CONFIG
from tests.unit.storage.cleaning_store import CleaningStore
from tests.unit.storage.logs import NOW, TP, append, batch, offset_for_timestamp, read_bytes
from tests.unit.storage.stores import open_store

ONE = len(batch(b"v" * 20))
CONFIG = LogConfig(segment_bytes=4 * ONE, index_interval_bytes=1, file_delete_delay_ms=0)


async def damaged_store():
    """Ten batches of one record in three segments, of which the second and third of the first are zeros."""
    disk = CrashDisk(lambda: NOW)
    store = await open_store("/data", disk=disk, config=CONFIG)
    log = store.directories.create_log(TP)
    for number in range(10):
        append(log, batch(b"v" * 20, timestamp=NOW + number))
    await store.directories.directories[0].carry_out_flushes()
    good = log.segments.first.log_file.pread(4 * ONE, 0)
    log.segments.first.log_file.pwrite(bytes(2 * ONE), ONE)
    damaged = DamagedRange(0, ONE, 3 * ONE, 1, 3, "zeros")
    log.damage.add(damaged)
    spool = disk.open(spool_path(log.directory, 0), create=True)
    return store, log, damaged, spool, good


async def test_as_many_bytes_are_written_over_the_damage_and_are_durable():
    store, log, damaged, spool, good = await damaged_store()
    spool.pwrite(b"other" + good[ONE : 3 * ONE], 0)
    write_over(log.segments.first.log_file, spool, Fill(damaged, 5, 2 * ONE))
    store.disk.power_cut()
    store.disk.restart()
    assert store.disk.read_bytes("/data/topic-0/00000000000000000000.log") == good


async def test_fewer_bytes_make_another_segment_with_indexes_of_its_own():
    store, log, damaged, spool, good = await damaged_store()
    spool.pwrite(good[2 * ONE : 3 * ONE], 0)
    fill = Fill(damaged, 0, ONE)
    assert not fill.fits
    segment = DamagedSegment(log.directory, 0, 4, 4 * ONE, False, 1)
    made = write_anew(store.disk, segment, spool, [fill])
    directory = store.directories.directories[0]
    assert await replace_segments(directory, log, made, generation=log.generation, offload=store.offload)
    log.damage.remove(damaged)
    found = [header.base_offset for offset in (0, 4, 8) for _, header in iterate_entries(read_bytes(log, offset))]
    assert found == [0, 2, 3, 4, 5, 6, 7, 8, 9]
    assert [offset_for_timestamp(log, NOW + number).offset for number in (0, 1, 2, 3, 4)] == [0, 2, 2, 3, 4]
    await store.directories.close()
    store.disk.kill()
    store.disk.restart()
    store = await open_store("/data", disk=store.disk, config=CONFIG)
    log = store.directories.log(TP)
    assert [header.base_offset for _, header in iterate_entries(read_bytes(log, 1))] == [2, 3]
    assert not [name for name in store.disk.list_directory("/data/topic-0") if "mended" in name]


@pytest.mark.interpreted
@pytest.mark.parametrize("when", ["before", "while the checkpoint is written"])
async def test_a_log_that_has_changed_since_a_segment_was_written_anew_keeps_its_own(monkeypatch, when):
    store, log, damaged, spool, good = await damaged_store()
    spool.pwrite(good[2 * ONE : 3 * ONE], 0)
    made = write_anew(
        store.disk, DamagedSegment(log.directory, 0, 4, 4 * ONE, False, 1), spool, [Fill(damaged, 0, ONE)]
    )
    directory, generation, segment = store.directories.directories[0], log.generation, log.segments.first
    log.set_high_watermark(10)
    checkpoint = directory.checkpoint

    async def checkpoint_and_cut(*names):
        await checkpoint(*names)
        assert log.advance_log_start_offset(1)

    if when == "before":
        log.advance_log_start_offset(1)
    else:
        monkeypatch.setattr(directory, "checkpoint", checkpoint_and_cut)
    assert not await replace_segments(directory, log, made, generation=generation, offload=store.offload)
    assert (log.segments.first is segment, log.segments.first.size_bytes) == (True, 4 * ONE)


async def test_a_kill_after_a_segment_lost_its_last_batch_to_the_leaders_cleaner_cuts_nothing():
    store, log, _, spool, _ = await damaged_store()
    directory = store.directories.directories[0]
    log.set_high_watermark(10)
    await directory.flush(log, 10)
    damaged = DamagedRange(0, ONE, 4 * ONE, 1, 4, "zeros")
    made = write_anew(store.disk, DamagedSegment(log.directory, 0, 4, 4 * ONE, False, 1), spool, [Fill(damaged, 0, 0)])
    assert made.next_offset == 1
    assert await replace_segments(directory, log, made, generation=log.generation, offload=store.offload)
    store.disk.kill()
    store.disk.restart()
    store = await open_store("/data", disk=store.disk, config=CONFIG)
    log = store.directories.log(TP)
    assert log.log_end_offset == 10
    assert [header.base_offset for _, header in iterate_entries(read_bytes(log, 1))] == [4, 5, 6, 7]


async def test_a_segment_that_is_not_below_the_recovery_point_keeps_its_place():
    store, log, damaged, spool, good = await damaged_store()
    spool.pwrite(good[ONE : 3 * ONE], 0)
    segment = DamagedSegment(log.directory, 0, 4, 4 * ONE, False, 1)
    made = write_anew(store.disk, segment, spool, [Fill(damaged, 0, 2 * ONE)])
    directory = store.directories.directories[0]
    log.recovery_point = 3
    assert not await replace_segments(directory, log, made, generation=log.generation, offload=store.offload)
    log.recovery_point = 4
    assert await replace_segments(directory, log, made, generation=log.generation, offload=store.offload)


async def test_what_was_aborted_stays_so_in_a_segment_that_is_written_anew():
    store = CleaningStore(config=replace(CLEANING_CONFIG, compact=False))
    await store.open()
    store.put((b"a", b"bad"), producer=(7, 0, 0), transactional=True)
    store.put((b"b", b"x"))
    await store.settle()
    log, base_offset = store.log, store.log.log_end_offset
    store.end_transaction(7, commit=False)
    store.put((b"c", b"x"))
    await store.settle()
    aborted = log.aborted_transactions(start=0, upper=1)
    assert [(txn.producer_id, txn.first_offset, txn.last_offset) for txn in aborted] == [(7, 0, 2)]
    segment = log.segments[1]
    plan = DamagedSegment(log.directory, base_offset, 4, segment.size_bytes, segment.has_txn_index, 1)
    spool = store.disk.open(spool_path(log.directory, base_offset), create=True)
    made = write_anew(store.disk, plan, spool, [])
    offload = store.store.offload
    assert await replace_segments(store.directory, log, made, generation=log.generation, offload=offload)
    assert log.segments[1] is not segment
    assert log.aborted_transactions(start=0, upper=1) == aborted
    await store.reopen()
    assert store.log.aborted_transactions(start=0, upper=1) == aborted
