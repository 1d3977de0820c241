"""What the scenarios of a log directory have in common: one log, what was promised of it, and what must be whole."""

from barnabas.protocol.entries import iterate_entries
from barnabas.storage.log import Log
from barnabas.storage.log_config import LogConfig
from tests.support.clock import ManualClock
from tests.support.crash_points import CrashPoint, Scenario
from tests.unit.storage.logs import NOW, TP, append, batch, offset_for_timestamp, read_bytes
from tests.unit.storage.stores import Store, open_store

ONE = len(batch(b"v" * 20, producer=(7, 0, 0)))


class LogScenario(Scenario):
    """One log of batches of one record; record n has the timestamp NOW + n and the sequence n of producer 7."""

    config = LogConfig(segment_bytes=3 * ONE, index_interval_bytes=1, file_delete_delay_ms=0)

    def __init__(self) -> None:
        self.clock = ManualClock(NOW)
        self.store: Store
        self.records = 0
        self.flushed = 0
        self.cut_to: int | None = None
        """The offset that the log is being cut to, or was."""
        self.start = 0
        self.start_at_most = 0

    @property
    def paths(self) -> tuple[str, ...]:
        return (self.root,)

    async def open(self, disk) -> None:
        self.store = await open_store(*self.paths, disk=disk, config=self.config, clock=self.clock)
        if self.log is None:
            self.store.directories.create_log(TP)

    async def prepare(self, disk) -> None:
        await self.open(disk)
        self.append(8)
        await self.flush()
        await self.directory.checkpoint_all()
        await self.background()

    @property
    def log(self) -> Log:
        return self.store.directories.log(TP)

    @property
    def directory(self):
        return self.store.directories.directory_of(TP)

    def append(self, count: int, *, epoch: int = 0) -> None:
        for number in range(self.records, self.records + count):
            data = batch(b"v" * 20, timestamp=NOW + number, producer=(7, 0, number))
            append(self.log, data, leader_epoch=epoch)
            # Acknowledged from here on.
            self.records = number + 1

    async def flush(self) -> None:
        await self.directory.flush(self.log, self.log.log_end_offset)
        self.flushed = self.log.recovery_point

    async def background(self) -> None:
        for directory in self.store.directories.directories:
            await directory.carry_out_flushes()
            await directory.carry_out_removals()

    async def close(self) -> None:
        await self.store.directories.close()
        self.flushed = self.records

    async def check(self, disk, point: CrashPoint | None) -> None:
        promised = self.flushed if point is not None and point.end != "kill" else self.records
        if self.cut_to is not None:
            promised = min(promised, self.cut_to)
        await self.open(disk)
        self.check_log(promised)
        # It goes on, and what goes on outlives the next stop.
        end = self.log.log_end_offset
        self.records = end
        self.append(2, epoch=5)
        await self.background()
        await self.close()
        disk.kill()
        disk.restart()
        await self.open(disk)
        assert self.log.log_end_offset == end + 2
        self.check_log(end + 2)

    def check_log(self, promised: int) -> None:
        log = self.log
        assert not self.store.failures
        assert promised <= log.log_end_offset <= self.records + 1, f"ends at {log.log_end_offset}, promised {promised}"
        assert self.start <= log.log_start_offset <= self.start_at_most
        assert log.log_start_offset <= log.high_watermark <= log.log_end_offset
        assert log.recovery_point <= log.log_end_offset
        offset = log.log_start_offset
        while data := read_bytes(log, offset):
            for at, header in iterate_entries(data):
                assert header.base_offset == offset, f"a hole at {offset}"
                assert data[at + ONE - 20 - 1 : at + ONE - 1] == b"v" * 20
                offset = header.next_offset
        assert offset == log.log_end_offset
        if offset > log.log_start_offset:
            assert log.producers.get(7).last_sequence == offset - 1
        for number in range(log.log_start_offset, log.log_end_offset):
            assert offset_for_timestamp(log, NOW + number).offset == number
