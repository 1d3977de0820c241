"""Snapshots of producers that a start finds above the recovery point: nobody knows whether they were synced."""

import pytest

from barnabas.storage.log_config import LogConfig
from tests.support.crash_disk import CrashDisk
from tests.unit.storage.logs import NOW, TP, append, batch
from tests.unit.storage.stores import Store, open_store

ONE = len(batch(b"v" * 20, producer=(7, 0, 0)))
CONFIG = LogConfig(segment_bytes=4 * ONE, index_interval_bytes=1, file_delete_delay_ms=0)


async def opened(disk: CrashDisk) -> Store:
    disk.restart()
    return await open_store("/data", disk=disk, config=CONFIG)


@pytest.mark.parametrize("first_end", ["kill", "power cut"])
async def test_a_snapshot_is_synced_before_those_that_were_go(first_end: str) -> None:
    """After the power cut the log is there, as a flush by the operating system would have left it."""
    disk = CrashDisk(lambda: NOW)
    store = await open_store("/data", disk=disk, config=CONFIG)
    log = store.directories.create_log(TP)
    append(log, batch(b"v" * 20, producer=(8, 3, 0)))
    for number in range(13):
        append(log, batch(b"v" * 20, producer=(7, 0, number)))
        if number == 4:
            await store.directories.directories[0].carry_out_flushes()
            await store.directories.directories[0].checkpoint_all()
    if first_end == "kill":
        disk.kill()
    else:
        for segment in log.segments:
            segment.log_file.fsync()
        disk.fsync_directory(log.directory)
        disk.power_cut()
    store = await opened(disk)
    log, directory = store.directories.log(TP), store.directories.directories[0]
    assert log is not None
    assert log.log_end_offset == 14
    await directory.carry_out_flushes()
    log.set_high_watermark(14)
    log.discard(log.segments.remove_first(1))
    log.advance_log_start_offset(4)
    await directory.checkpoint_all()
    disk.power_cut()
    store = await opened(disk)
    log = store.directories.log(TP)
    assert log is not None
    assert (log.log_start_offset, log.log_end_offset) == (4, 14)
    known = log.producers.get(8)
    assert known is not None, "its one batch is gone, only snapshots tell of it"
    assert known.epoch == 3
