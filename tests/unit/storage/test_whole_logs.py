"""A log of which nothing is lost shows no damage, and ends where it did, whatever the checkpoints were late to say."""

import asyncio

import pytest

from barnabas.storage.file_names import RECOVERY_POINT_CHECKPOINT
from barnabas.storage.log_config import LogConfig
from tests.support.crash_disk import CrashDisk
from tests.unit.storage.logs import TP, append, batch
from tests.unit.storage.stores import open_store


class Stop(Exception):
    """The process ends here."""


class Machine:
    """One log on a disk whose power can be cut."""

    def __init__(self):
        self.disk = CrashDisk()
        self.store = None

    @property
    def log(self):
        return self.store.directories.log(TP)

    @property
    def directory(self):
        return self.store.directories.directories[0]

    async def start(self, *, records=0):
        self.disk.restart()
        self.store = await open_store("/data", disk=self.disk)
        if self.log is None:
            self.store.directories.create_log(TP)
        return self.append(records)

    def append(self, count):
        for _ in range(count):
            append(self.log, batch(b"v"))
        return self

    async def sync(self):
        await self.directory.flush(self.log, self.log.log_end_offset)
        await self.directory.checkpoint_all()

    async def found_after(self, crash):
        crash()
        await self.start()
        return self.log.log_start_offset, self.log.log_end_offset, [str(each) for each in self.log.damage]


async def test_the_name_of_a_segment_that_begins_at_the_recovery_point_is_there_to_stay():
    """No new snapshot is written where the last stop wrote one, so nothing else synced the directory."""
    machine = await Machine().start(records=3)
    await machine.store.directories.close()
    machine.disk.kill()
    await machine.start()
    machine.log.roll()
    machine.append(1)
    await machine.directory.carry_out_flushes()
    await machine.directory.checkpoint_all()
    assert await machine.found_after(machine.disk.power_cut) == (0, 3, [])


async def test_a_segment_whose_name_may_go_does_not_say_where_the_recovery_point_is():
    """The one before it was deleted before it was flushed, and a power cut brings it back."""
    machine = await Machine().start(records=3)
    await machine.sync()
    machine.log.roll()
    machine.append(1)
    machine.log.set_high_watermark(4)
    machine.log.discard(machine.log.segments.remove_first(1))
    await machine.directory.carry_out_flushes()
    await machine.directory.checkpoint(RECOVERY_POINT_CHECKPOINT)
    assert await machine.found_after(machine.disk.power_cut) == (0, 3, [])


async def test_a_recovery_point_below_the_first_segment_is_not_taken_for_one_where_a_segment_begins():
    machine = await Machine().start(records=3)
    await machine.sync()
    machine.append(2)
    machine.log.roll()
    machine.append(1)
    machine.log.set_high_watermark(6)
    machine.log.discard(machine.log.segments.remove_first(1))
    await machine.directory.checkpoint(RECOVERY_POINT_CHECKPOINT)
    assert await machine.found_after(machine.disk.power_cut) == (0, 3, [])


@pytest.mark.parametrize("log_start_offset", [0, 20])
async def test_what_checkpoints_say_of_a_partition_that_a_killed_broker_had_deleted_is_not_said_of_the_next(
    log_start_offset,
):
    machine = await Machine().start(records=30)
    machine.log.set_high_watermark(30)
    machine.log.advance_log_start_offset(log_start_offset)
    await machine.sync()
    machine.store.directories.delete_log(TP)
    machine.disk.kill()
    await machine.start(records=1)
    assert await machine.found_after(machine.disk.kill) == (0, 1, [])


async def test_what_a_log_was_before_its_segments_were_lost_is_not_said_of_what_grows_there_again():
    machine = await Machine().start(records=30)
    await machine.sync()
    machine.disk.kill()
    machine.disk.restart()
    machine.disk.remove(f"/data/topic-0/{0:020}.log")
    await machine.start(records=1)
    assert await machine.found_after(machine.disk.kill) == (0, 1, [])


async def test_a_checkpoint_that_is_lowered_while_a_higher_one_is_written_is_written_again():
    machine = await Machine().start(records=10)
    await machine.sync()
    machine.append(10).log.flush()
    machine.store.offload.lets_others_run = True
    writing = asyncio.create_task(machine.directory.checkpoint(RECOVERY_POINT_CHECKPOINT))
    await asyncio.sleep(0)
    await machine.store.directories.truncate({TP: 10})
    await writing
    assert await machine.found_after(machine.disk.power_cut) == (0, 10, [])


@pytest.mark.interpreted
async def test_a_log_that_took_the_place_of_another_beside_it_need_not_begin_segments_where_that_did(monkeypatch):
    machine = await Machine().start(records=10)
    await machine.sync()
    machine.log.roll()
    await machine.directory.carry_out_flushes()
    await machine.directory.checkpoint_all()
    futures, present, write_all = machine.store.directories.futures, machine.log, machine.directory.checkpoint_all
    future = futures.create(TP, machine.directory, LogConfig())
    for _ in range(10):
        append(future, batch(b"v"))

    async def write_before_it_took_the_place():
        if machine.log is not present:
            raise Stop
        await write_all()

    monkeypatch.setattr(machine.directory, "checkpoint_all", write_before_it_took_the_place)
    with pytest.raises(Stop):
        await futures.put_in_place(present, machine.directory)
    assert await machine.found_after(machine.disk.power_cut) == (0, 10, [])
