"""What a log directory does, scripted to be cut at each of its changes (`tests.support.crash_points`).

Each scenario says what must be whole afterwards. `promised` is what was acknowledged and flushed (after the end of the
process: all that was appended), less what the scenario itself is taking away; nothing else than what was appended
may be there, and no offset may be missing in between.
"""

from barnabas.storage.append import AppendOrigin
from barnabas.storage.boot_record import BOOT_RECORD
from barnabas.storage.cleaning.clean_job import CleanedSegment
from barnabas.storage.file_names import CLEAN_SHUTDOWN_MARKER, RECOVERY_POINT_CHECKPOINT
from barnabas.storage.log import Log
from barnabas.storage.log_config import LogConfig
from barnabas.storage.mended_segment import DamagedSegment, spool_path, write_anew
from barnabas.storage.replacement import replace_segments
from barnabas.storage.scrubber import Scrubber, ScrubSettings
from barnabas.storage.segment import Segment
from tests.unit.storage.log_scenario import ONE, LogScenario
from tests.unit.storage.logs import NOW, TP, read_bytes


class Append(LogScenario):
    """Appends that roll, each flushed."""

    async def act(self) -> None:
        for _ in range(4):
            self.append(1)
            await self.flush()
        await self.background()


class Roll(LogScenario):
    """Appends that roll; the flush of what was closed, and a checkpoint, come after."""

    async def act(self) -> None:
        self.append(5)
        await self.background()
        await self.directory.checkpoint_all()


class Truncate(LogScenario):
    """A cut within a segment that was flushed long ago, and appends of another leader after it."""

    to = 4

    async def act(self) -> None:
        self.cut_to = self.to
        await self.store.directories.truncate({TP: self.to})
        # The cut is synced: what comes back from here on was appended after it.
        self.cut_to = None
        self.records = self.flushed = self.log.log_end_offset
        self.append(3, epoch=1)
        await self.flush()
        await self.background()

    def check_log(self, promised: int) -> None:
        if self.cut_to is not None:
            self.records = max(self.records, 8)
        super().check_log(promised)


class TruncateAtDamage(Truncate):
    """A cut behind damage that is known and not committed: the log ends where that begins.

    As the follower does it: after a start again, while it is not done.
    """

    to = 5
    scrubber: Scrubber

    async def prepare(self, disk) -> None:
        await super().prepare(disk)
        file = self.log.segments[1].log_file
        file.pwrite(b"\xff" * ONE, (self.to - 3) * ONE)
        file.fsync()
        self.directory.suspect(self.log, self.to)
        while await self.scrubber.step(self.directory):
            pass
        assert [damaged.start_offset for damaged in self.log.damage] == [self.to]

    async def open(self, disk) -> None:
        await super().open(disk)
        directories, clock, offload = self.store.directories, self.clock, self.store.offload
        self.scrubber = Scrubber(
            directories, disk=disk, clock=clock, offload=offload, settings=ScrubSettings(), on_damage=lambda _: None
        )
        self.scrubber.recall()
        while await self.scrubber.step(self.directory):
            pass
        if self.cut_to is not None:
            await self.cut()

    async def cut(self) -> None:
        await self.store.directories.truncate({TP: 7})
        assert not self.log.damage

    async def act(self) -> None:
        self.cut_to = self.to
        await self.cut()
        assert self.log.log_end_offset == self.to
        self.cut_to = None
        self.records = self.flushed = self.to
        self.append(3, epoch=1)
        await self.flush()
        await self.background()


class TruncateAtSegment(Truncate):
    """A cut where a segment begins."""

    to = 3


class Restart(LogScenario):
    """The log begins again, empty, elsewhere: a follower whose leader has nothing of what it has."""

    async def act(self) -> None:
        self.cut_to = 0
        self.start_at_most = 20
        await self.store.directories.restart_at(TP, 20)
        self.cut_to = None
        self.start = self.records = self.flushed = 20
        self.append(2)
        await self.flush()
        await self.background()

    def check_log(self, promised: int) -> None:
        if self.cut_to is not None:
            # As it was, in part, or begun again.
            if self.log.log_start_offset == 20:
                promised = 20
            self.records = max(20, self.records)
        super().check_log(promised)


class DeleteRecords(LogScenario):
    """The start moves; the directory keeps it; retention removes what is below."""

    to = 4

    async def act(self) -> None:
        self.log.advance_high_watermark(8)
        self.start_at_most = self.to
        self.log.advance_log_start_offset(self.to)
        await self.directory.keep_start(self.log)
        # Told to the client: it never comes back.
        self.start = self.to
        self.log.delete_old_segments(NOW)
        await self.background()
        await self.directory.checkpoint_all()


class DeleteRecordsAtSegment(DeleteRecords):
    """The same where a segment begins: retention leaves nothing below the start."""

    to = 6


class RestartBelow(LogScenario):
    """A log whose start was kept begins again below it, and gets records there."""

    async def prepare(self, disk) -> None:
        await super().prepare(disk)
        self.log.advance_high_watermark(8)
        self.log.advance_log_start_offset(7)
        await self.directory.keep_start(self.log)
        self.start, self.start_at_most = 2, 7

    async def act(self) -> None:
        self.cut_to = 0
        await self.store.directories.restart_at(TP, 2)
        self.cut_to = None
        self.start = self.start_at_most = self.records = self.flushed = 2
        self.append(3)
        await self.flush()
        await self.background()

    def check_log(self, promised: int) -> None:
        if self.cut_to is not None:
            # As it was, or begun again; or empty at its old start, which is out of the range of its leader.
            promised, self.records = 2, max(self.records, 8)
        super().check_log(promised)


class Retention(LogScenario):
    """Old segments go by size."""

    async def act(self) -> None:
        self.log.advance_high_watermark(8)
        self.log.config = LogConfig(
            segment_bytes=3 * ONE, index_interval_bytes=1, file_delete_delay_ms=0, retention_bytes=3 * ONE
        )
        self.start_at_most = 8
        self.log.delete_old_segments(NOW)
        await self.background()
        await self.directory.checkpoint_all()


class Checkpoints(LogScenario):
    """All checkpoint files are written, with appends before and between."""

    async def act(self) -> None:
        self.append(1)
        await self.flush()
        self.log.advance_high_watermark(9)
        await self.directory.checkpoint_all()
        self.append(2)
        await self.directory.checkpoint(RECOVERY_POINT_CHECKPOINT)


class Close(LogScenario):
    """A clean stop with records that were not flushed."""

    async def act(self) -> None:
        self.append(2)
        await self.close()


class Start(LogScenario):
    """A start after a clean stop, and after a kill."""

    async def prepare(self, disk) -> None:
        await super().prepare(disk)
        await self.close()
        disk.kill()
        disk.restart()
        self.disk = disk

    async def act(self) -> None:
        await self.open(self.disk)
        self.append(1)
        await self.background()


class Recover(Start):
    """A recovery that cuts: the tail was written in part."""

    async def prepare(self, disk) -> None:
        await LogScenario.prepare(self, disk)
        self.append(1)
        file = self.log.segments.active.log_file
        file.pwrite(b"\x00\x00\x00\x00\x00\x00\x00\x09\x00\x00\x00\x50half", self.log.segments.active.size_bytes)
        file.fsync()
        disk.kill()
        disk.restart()
        self.disk = disk


class RecoverKafka(Start):
    """A recovery that cuts in the middle of what a broker of Kafka has left of a compacted log, which may have gaps."""

    config = LogConfig(segment_bytes=3 * ONE, index_interval_bytes=1, file_delete_delay_ms=0, compact=True)

    async def prepare(self, disk) -> None:
        await self.open(disk)
        self.append(12)
        await self.flush()
        await self.close()
        self.flushed = 4
        disk.remove(f"{self.root}/{CLEAN_SHUTDOWN_MARKER}")
        disk.remove(f"{self.root}/{BOOT_RECORD}")
        disk.write_durably(f"{self.root}/{RECOVERY_POINT_CHECKPOINT}", b"0\n1\ntopic 0 3\n")
        file = disk.open(f"{self.root}/topic-0/{3:020}.log")
        file.pwrite(bytes(ONE), ONE)
        file.fsync()
        disk.kill()
        disk.restart()
        self.disk = disk
        # What was written behind the damage counts for nothing.
        self.records = 4

    async def act(self) -> None:
        await self.open(self.disk)
        await self.background()


class FindLostEnd(Start):
    """A start that finds that a closed segment has lost its last batches, as its index tells, and a clean stop."""

    async def prepare(self, disk) -> None:
        await super().prepare(disk)
        file = disk.open(f"{self.root}/topic-0/{0:020}.log")
        file.truncate(ONE)
        file.fsync()

    async def act(self) -> None:
        await self.open(self.disk)
        await self.background()
        await self.close()

    async def check(self, disk, point) -> None:
        await self.open(disk)
        assert [(each.start_offset, each.end_offset) for each in self.log.damage] == [(1, 3)]
        assert self.log.log_end_offset == 8


class FindLostEndOfKafka(FindLostEnd):
    """The same where Kafka was before, so that recovery points are written at once."""

    async def prepare(self, disk) -> None:
        await super().prepare(disk)
        disk.remove(f"{self.root}/{BOOT_RECORD}")
        disk.write_durably(f"{self.root}/{RECOVERY_POINT_CHECKPOINT}", b"0\n1\ntopic 0 8\n")


class FindLostEndAfterKill(FindLostEnd):
    """The same after a kill, where the recovery point is in the segment behind it."""

    async def prepare(self, disk) -> None:
        await super().prepare(disk)
        disk.remove(f"{self.root}/{CLEAN_SHUTDOWN_MARKER}")
        disk.fsync_directory(self.root)


class Move(LogScenario):
    """The log moves to another directory (KIP-113)."""

    @property
    def paths(self) -> tuple[str, ...]:
        return f"{self.root}/a", f"{self.root}/b"

    async def act(self) -> None:
        directories = self.store.directories
        source = self.directory
        target = next((each for each in directories.directories if each is not source), source)
        future = directories.futures.create(TP, target, self.config)
        offset = 0
        while data := read_bytes(self.log, offset):
            append_copy(future, data)
            offset = future.log_end_offset
            # As now and then anyway.
            await target.checkpoint_all()
        await directories.futures.put_in_place(self.log, source)
        await self.background()


class Renew(Move):
    """The log gathers anew beside itself."""

    @property
    def paths(self) -> tuple[str, ...]:
        return (f"{self.root}/a",)


class Delete(LogScenario):
    """The partition is deleted; another of its name is made."""

    async def act(self) -> None:
        self.cut_to = 0
        self.store.directories.delete_log(TP)
        await self.background()
        await self.directory_at(0).checkpoint_all()
        self.store.directories.create_log(TP)
        self.records = self.flushed = 0
        self.cut_to = None
        self.append(1)
        await self.flush()

    def directory_at(self, place: int):
        return self.store.directories.directories[place]

    def check_log(self, promised: int) -> None:
        if self.cut_to is not None:
            self.records = max(self.records, 8)
        super().check_log(promised)


class WriteAnew(LogScenario):
    """A closed segment is written anew, as one that was damaged is, and takes the old one's place."""

    async def prepare(self, disk) -> None:
        await super().prepare(disk)
        self.disk = disk

    async def act(self) -> None:
        await self.replace(self.write_anew(self.log.segments.first))

    def write_anew(self, segment: Segment) -> CleanedSegment:
        assert segment.growing is None
        base_offset = segment.base_offset
        spool = self.disk.open(spool_path(self.log.directory, base_offset), create=True)
        plan = DamagedSegment(self.log.directory, base_offset, base_offset + 3, segment.size_bytes, False, 1)
        return write_anew(self.disk, plan, spool, [])

    async def replace(self, made: CleanedSegment) -> None:
        offload = self.store.offload
        assert await replace_segments(self.directory, self.log, made, generation=self.log.generation, offload=offload)
        await self.background()


class WriteAnewBehindOneGivenUp(WriteAnew):
    """So is the next one, when what was made for the first one was given up because the log had changed."""

    async def prepare(self, disk) -> None:
        await super().prepare(disk)
        self.write_anew(self.log.segments.first)

    async def act(self) -> None:
        await self.replace(self.write_anew(self.log.segments[1]))


def append_copy(log: Log, data: bytes) -> None:
    log.append(memoryview(data), leader_epoch=-1, origin=AppendOrigin.REPLICATION, now_ms=NOW)


SCENARIOS = (
    Append,
    Roll,
    Truncate,
    TruncateAtDamage,
    TruncateAtSegment,
    Restart,
    DeleteRecords,
    DeleteRecordsAtSegment,
    RestartBelow,
    Retention,
    Checkpoints,
    Close,
    Start,
    Recover,
    RecoverKafka,
    FindLostEnd,
    FindLostEndOfKafka,
    FindLostEndAfterKill,
    Move,
    Renew,
    Delete,
    WriteAnew,
    WriteAnewBehindOneGivenUp,
)
