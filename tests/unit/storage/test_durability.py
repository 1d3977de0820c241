"""What survives a power cut that keeps exactly what was synced, step by step where chance finds it seldom."""

import contextlib

from barnabas.protocol.entries import iterate_entries
from barnabas.storage.log_config import LogConfig
from tests.support.crash_disk import CrashDisk, Crashed
from tests.unit.storage.logs import NOW, TP, append, batch, offset_for_timestamp, read_bytes
from tests.unit.storage.stores import open_store

ONE = len(batch(b"v" * 20))
CONFIG = LogConfig(segment_bytes=3 * ONE, index_interval_bytes=1)


class Machine:
    """One log on a disk whose power can be cut; `append` gives record n the timestamp NOW + 10 n."""

    def __init__(self):
        self.disk = CrashDisk(lambda: NOW)
        self.store = None

    async def start(self, config=CONFIG):
        self.store = await open_store("/data", disk=self.disk, config=config)
        if self.log is None:
            self.store.directories.create_log(TP)
        return self.log

    @property
    def log(self):
        return self.store.directories.log(TP)

    @property
    def directory(self):
        return self.store.directories.directories[0]

    def append(self, *numbers, epoch=0):
        for number in numbers:
            append(self.log, batch(b"v" * 20, timestamp=NOW + 10 * number, producer=(7, 0, number)), leader_epoch=epoch)

    async def flush(self):
        await self.directory.flush(self.log, self.log.log_end_offset)

    async def stop(self):
        await self.store.directories.close()
        self.disk.kill()
        self.disk.restart()

    async def cut_power(self):
        self.disk.power_cut()
        self.disk.restart()
        return await self.start()

    async def kill(self):
        self.disk.kill()
        self.disk.restart()
        return await self.start()

    def epochs(self):
        found, offset = {}, self.log.log_start_offset
        while data := read_bytes(self.log, offset):
            for _, header in iterate_entries(data):
                found[header.base_offset] = header.leader_epoch
                offset = header.next_offset
        return found

    def check_timestamps(self):
        for number in range(self.log.log_start_offset, self.log.log_end_offset):
            assert offset_for_timestamp(self.log, NOW + 10 * number).offset == number


async def test_a_flush_after_a_roll_keeps_the_new_segments_name():
    machine = Machine()
    await machine.start()
    machine.append(0, 1)
    await machine.flush()
    machine.append(2, 3)
    await machine.flush()
    log = await machine.cut_power()
    assert log.log_end_offset == 4
    assert log.producers.get(7).last_sequence == 3


async def test_what_was_appended_and_rolled_while_a_flush_ran_is_not_taken_for_synced():
    machine = Machine()
    log = await machine.start()
    await machine.flush()
    machine.append(0, 1)
    flush = log.plan_flush()
    flush.sync()
    machine.append(2, 3)
    log.finish_flush(flush, succeeded=True)
    assert (log.recovery_point, len(log.segments)) == (2, 2)
    await machine.flush()
    await machine.directory.checkpoint_all()
    assert log.recovery_point == 4
    log = await machine.cut_power()
    assert (log.log_end_offset, list(machine.epochs())) == (4, [0, 1, 2, 3])
    machine.check_timestamps()


async def test_without_a_flush_a_new_log_may_be_gone():
    machine = Machine()
    await machine.start()
    machine.append(0)
    assert (await machine.cut_power()).log_end_offset == 0


async def test_a_cut_is_synced_before_anything_is_appended():
    machine = Machine()
    await machine.start()
    machine.append(*range(8))
    await machine.flush()
    await machine.store.directories.truncate({TP: 4})
    log = await machine.cut_power()
    assert (log.log_end_offset, log.leader_epochs.latest_epoch) == (4, 0)


async def damaged(machine, position):
    """Eight batches in three segments, of which one synced byte is bad, and nothing was promised."""
    await machine.start()
    machine.append(*range(8))
    for segment in machine.log.segments:
        segment.log_file.fsync()
    log_file = machine.log.segments[0].log_file
    log_file.pwrite(b"\xff", position)
    log_file.fsync()
    machine.disk.fsync_directory("/data/topic-0")
    machine.disk.fsync_directory("/data")
    assert (await machine.kill()).log_end_offset == position // ONE


async def test_a_power_cut_after_recovery_does_not_bring_back_the_bytes_that_it_cut():
    machine = Machine()
    await damaged(machine, ONE + 70)
    machine.disk.power_cut()
    machine.disk.restart()
    assert machine.disk.size("/data/topic-0/00000000000000000000.log") == ONE


async def test_a_power_cut_after_recovery_does_not_bring_back_the_segments_that_it_removed():
    machine = Machine()
    await damaged(machine, ONE + 70)
    machine.disk.power_cut()
    machine.disk.restart()
    names = machine.disk.list_directory("/data/topic-0")
    assert [name for name in names if ".log" in name] == ["00000000000000000000.log"]


async def test_no_recovery_point_on_disk_stays_above_a_cut():
    machine = Machine()
    await machine.start()
    machine.append(*range(8))
    await machine.flush()
    await machine.directory.checkpoint_all()
    await machine.store.directories.truncate({TP: 1})
    assert machine.disk.read_bytes("/data/recovery-point-offset-checkpoint") == b"0\n1\ntopic 0  0\n"
    machine.append(1, 2, 3, 4, epoch=1)
    log = await machine.cut_power()
    assert machine.epochs() == {0: 0}
    assert log.recovery_point <= 1


async def test_a_crash_in_the_middle_of_a_cut_leaves_no_hole():
    for change in range(12):
        machine = Machine()
        await machine.start()
        machine.append(*range(8))
        await machine.flush()
        await machine.directory.checkpoint_all()
        machine.directory.lower_recovery_point(machine.log, 2)
        await machine.directory.checkpoint("recovery-point-offset-checkpoint")
        machine.disk.crash_at(change, _Whole())
        with contextlib.suppress(Crashed):
            await machine.directory.truncate(machine.log, 2)
        log = await machine.cut_power()
        assert sorted(machine.epochs()) == list(range(log.log_end_offset))
        assert log.log_end_offset in (2, 3, 8)


class _Whole:
    """Does the change at which the crash comes."""

    def choice(self, _):
        return 1.0

    def random(self):
        return 0.5


async def test_the_index_of_a_segment_rolled_after_a_checkpoint_is_not_trusted_unless_written():
    machine = Machine()
    await machine.start()
    machine.append(0)
    await machine.stop()
    await machine.start()
    machine.append(1, 2)
    await machine.flush()
    await machine.directory.checkpoint_all()
    machine.append(3)
    log = await machine.kill()
    assert len(log.segments) == 2
    machine.check_timestamps()


async def test_the_index_of_a_segment_rolled_where_it_was_cut_is_not_trusted_unless_written():
    machine = Machine()
    await machine.start()
    machine.append(0)
    await machine.stop()
    await machine.start()
    machine.append(1, 2)
    await machine.flush()
    await machine.store.directories.truncate({TP: 2})
    append(machine.log, batch(b"v" * 2 * ONE, timestamp=NOW + 20))
    log = await machine.kill()
    assert [segment.base_offset for segment in log.segments] == [0, 2]
    machine.check_timestamps()


async def test_a_sealed_segment_that_was_synced_before_its_roll_still_gets_its_index():
    machine = Machine()
    await machine.start()
    machine.append(0)
    await machine.stop()
    await machine.start()
    machine.append(1, 2)
    await machine.flush()
    machine.append(3)
    await machine.stop()
    await machine.start()
    machine.check_timestamps()


async def test_epochs_on_disk_that_speak_of_cut_records_do_not_hide_those_in_the_log():
    machine = Machine()
    await machine.start()
    machine.append(0)
    machine.append(1, epoch=1)
    machine.log.set_high_watermark(2)
    machine.log.advance_log_start_offset(1)
    await machine.flush()
    machine.disk.open("/data/topic-0/00000000000000000000.log").truncate(ONE)
    log = await machine.kill()
    assert [tuple(entry) for entry in log.leader_epochs.entries] == [(0, 0)]


async def test_epochs_that_were_folded_to_a_start_that_was_lost_are_read_again():
    machine = Machine()
    await machine.start()
    machine.append(0, 1, 2)
    machine.append(3, 4, 5, 6, epoch=1)
    await machine.flush()
    await machine.directory.checkpoint("recovery-point-offset-checkpoint")
    machine.log.set_high_watermark(7)
    machine.log.advance_log_start_offset(5)
    await machine.flush()
    log = await machine.kill()
    assert log.log_start_offset == 0
    assert [tuple(entry) for entry in log.leader_epochs.entries] == [(0, 0), (1, 3)]


async def test_producers_are_read_from_a_batch_that_spans_the_logs_start():
    machine = Machine()
    log = await machine.start()
    append(log, batch(b"a", b"b", producer=(7, 0, 0)))
    append(log, batch(b"c", producer=(7, 0, 2)))
    log.set_high_watermark(3)
    log.advance_log_start_offset(1)
    log.truncate_to(2)
    assert log.producers.get(7).last_sequence == 1


async def test_what_a_snapshot_tells_is_not_applied_again():
    machine = Machine()
    await machine.start()
    machine.append(0, 1)
    await machine.stop()
    await machine.start()
    machine.append(2, 3)
    await machine.flush()
    await machine.directory.checkpoint_all()
    machine.disk.open("/data/topic-0/00000000000000000003.snapshot").truncate(9)
    log = await machine.kill()
    assert [batch.last_sequence for batch in log.producers.get(7).batches] == [1, 2, 3]


async def test_a_truncation_lowers_the_recovery_point():
    machine = Machine()
    log = await machine.start()
    machine.append(*range(8))
    await machine.flush()
    log.truncate_to(4)
    assert log.recovery_point == 4


async def test_a_log_that_was_dropped_for_its_start_keeps_that_start():
    machine = Machine()
    await machine.start()
    machine.append(0, 1)
    await machine.flush()
    machine.disk.write_durably("/data/log-start-offset-checkpoint", b"0\n1\ntopic 0 50\n")
    log = await machine.kill()
    assert log.log_start_offset == 50
    machine.disk.remove("/data/log-start-offset-checkpoint")
    machine.disk.fsync_directory("/data")
    assert (await machine.cut_power()).log_start_offset == 50
