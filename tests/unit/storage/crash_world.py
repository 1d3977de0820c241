"""A model of a log beside a log on a disk that crashes anywhere.

The model holds the batches that were published. After a kill all of them are there; after a power cut those below the
last recovery point. In either case the log is a prefix of the model, plus at most the batch that was under way.
"""

from random import Random

from barnabas.protocol.entries import iterate_entries
from barnabas.storage.log_config import LogConfig
from tests.support.clock import ManualClock
from tests.support.crash_disk import CrashDisk, Crashed
from tests.unit.storage.logs import NOW, TP, append, batch, offset_for_timestamp, read_bytes
from tests.unit.storage.stores import Store, open_store

CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=150, file_delete_delay_ms=0)

# What each action's argument is drawn from.
ACTIONS = {
    "append": (1, 4),
    "flush": (0, 0),
    "checkpoint": (0, 0),
    "truncate": (0, 12),
    "delete": (0, 12),
    "background": (0, 0),
    "reopen": (0, 0),
    "kill": (0, 40),
    "power cut": (0, 40),
}


class World:
    """The store under test and the model beside it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.clock = ManualClock(NOW)
        self.disk = CrashDisk(self.clock.wall_ms)
        self.disk.make_directory("/data")
        self.disk.fsync_directory("/")
        self.store: Store
        self.batches: list[tuple[int, bytes, int]] = []  # base offset, bytes, leader epoch
        self.under_way: bytes | None = None
        self.durable_to = 0
        self.epoch = 0
        self.sequence = 0
        self.crash: str | None = None
        self.cut_to: int | None = None
        self.empty_at = 0

    @property
    def log(self):
        return self.store.directories.log(TP)

    @property
    def end(self) -> int:
        return _end(self.batches[-1]) if self.batches else self.empty_at

    async def open(self) -> None:
        self.store = await open_store("/data", disk=self.disk, config=CONFIG, clock=self.clock)
        if self.log is None:
            self.store.directories.create_log(TP)

    async def append(self, count: int) -> None:
        data = batch(
            *[b"%d" % self.random.randrange(10**9) for _ in range(count)],
            timestamp=NOW + self.random.randrange(50),
            producer=(7, self.epoch, self.sequence),
        )
        self.under_way = bytes(data)
        append(self.log, data, leader_epoch=self.epoch)
        self.batches.append((self.log.log_end_offset - count, bytes(data), self.epoch))
        self.under_way = None
        self.sequence += count

    async def flush(self, _: int) -> None:
        await self.store.directories.directories[0].flush(self.log, self.log.log_end_offset)
        self.durable_to = self.log.recovery_point
        assert self.durable_to == self.log.log_end_offset

    async def checkpoint(self, _: int) -> None:
        self.log.set_high_watermark(self.random.randrange(self.log.log_end_offset + 1))
        await self.store.directories.directories[0].checkpoint_all()

    async def truncate(self, back: int) -> None:
        offset = max(self.log.log_start_offset, self.log.log_end_offset - back)
        # The batch that holds the offset goes too.
        offset_kept = max((_end(kept) for kept in self.batches if _end(kept) <= offset), default=0)
        self.durable_to = min(self.durable_to, offset_kept)
        self.cut_to = offset_kept
        await self.store.directories.truncate({TP: offset})
        self.cut_to = None
        self.batches = [kept for kept in self.batches if _end(kept) <= offset]
        self.epoch += 1
        self.sequence = 0

    async def delete(self, back: int) -> None:
        offset = max(0, self.log.log_end_offset - back)
        self.log.set_high_watermark(self.log.log_end_offset)
        self.log.advance_log_start_offset(max(offset, self.log.log_start_offset))
        self.log.delete_old_segments(NOW)

    async def background(self, _: int) -> None:
        directory = self.store.directories.directories[0]
        await directory.carry_out_flushes()
        await directory.carry_out_removals()

    async def reopen(self, _: int) -> None:
        await self.store.directories.close()
        assert not self.store.failures
        self.durable_to = self.end
        self.disk.kill()
        self.disk.restart()
        await self.open()

    async def do(self, name: str, argument: int) -> None:
        if name in ("kill", "power cut"):
            self.crash = name
            self.disk.crash_at(argument, self.random)
            return
        try:
            await getattr(self, name)(argument)
        except Crashed:
            await self.come_back()

    async def come_back(self) -> None:
        assert self.crash is not None
        if self.crash == "power cut":
            self.disk.power_cut(self.random)
        else:
            self.disk.kill()
        self.disk.restart()
        self.clock.advance(1)
        while True:
            try:
                await self.open()
                break
            except Crashed:
                self.disk.restart()
        was_cutting = self.cut_to is not None
        self.check(after_crash=self.crash)
        self.crash = None
        if was_cutting:
            # Until the cut is synced a power failure may bring back what was cut.
            await self.background(0)

    def check(self, *, after_crash: str | None) -> None:
        log = self.log
        found = dict(_batches_of(log))
        start = log.log_start_offset
        published = {base: data for base, data, _ in self.batches if _end((base, data, 0)) > start}
        at_least = self.durable_to if after_crash == "power cut" else self.end
        if self.cut_to is not None:
            at_least = min(at_least, self.cut_to)
            self.cut_to = None
        if self.under_way is not None and after_crash is not None:
            extra = {base: data for base, data in found.items() if base >= self.end}
            assert len(extra) <= 1
            for data in extra.values():
                assert data[21:] == self.under_way[21:]
                found.pop(self.end)
                self.batches.append((self.end, data, self.epoch))
                published[_start(data)] = data
                found[_start(data)] = data
            self.under_way = None
        assert log.log_end_offset >= min(at_least, self.end), f"lost what was promised up to {at_least}"
        for base, data in found.items():
            assert published.get(base) == data, f"the batch at {base} was never appended"
        self.batches = [kept for kept in self.batches if _end(kept) <= log.log_end_offset]
        assert sorted(found) == [base for base, _, _ in self.batches if base in published], "the log has a hole"
        if log.log_end_offset != self.end:
            # It ended below a start that had reached the disk, and began again there.
            assert log.log_start_offset == log.log_end_offset
            self.batches, self.empty_at = [], log.log_end_offset
        assert self.end == log.log_end_offset
        self.check_state(log)

    def check_state(self, log) -> None:
        assert log.log_start_offset <= log.high_watermark <= log.log_end_offset
        assert log.recovery_point <= log.log_end_offset
        assert not list(log.damage), list(log.damage)
        entry = log.producers.get(7)
        last = [(data, epoch) for _, data, epoch in self.batches]
        if last and log.log_start_offset < log.log_end_offset:
            header = next(iterate_entries(last[-1][0]))[1]
            assert entry is not None
            assert (entry.last_sequence, entry.epoch) == (header.last_sequence, header.producer_epoch)
            self.epoch, self.sequence = header.producer_epoch, header.last_sequence + 1
            assert log.leader_epochs.latest_epoch == last[-1][1]
        self.check_timestamps(log)
        self.epoch += 1
        self.sequence = 0

    def check_timestamps(self, log) -> None:
        records = [
            (offset, header.max_timestamp)
            for _, data, _ in self.batches
            for _, header in iterate_entries(data)
            for offset in range(header.base_offset, header.next_offset)
            if offset >= log.log_start_offset
        ]
        for wanted in (NOW, NOW + 17, NOW + 49):
            expected = next((offset for offset, timestamp in records if timestamp >= wanted), None)
            got = offset_for_timestamp(log, wanted)
            assert (None if got is None else got.offset) == expected


def _start(data: bytes) -> int:
    return next(iterate_entries(data))[1].base_offset


def _end(kept: tuple[int, bytes, int]) -> int:
    return next(iterate_entries(kept[1]))[1].next_offset


def _batches_of(log):
    offset = log.log_start_offset
    while data := read_bytes(log, offset):
        for position, header in iterate_entries(data):
            yield header.base_offset, data[position : position + header.size_bytes]
            offset = header.next_offset
