"""A log of which nothing is lost shows no damage, and ends where it did, whatever the checkpoints were late to say."""

from barnabas.storage.file_names import RECOVERY_POINT_CHECKPOINT
from tests.support.crash_disk import CrashDisk
from tests.unit.storage.logs import TP, append, batch
from tests.unit.storage.stores import open_store


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
