"""A store with one compacted log and a cleaner over it, for tests: keyed records in, what a consumer reads out."""

from collections.abc import Iterable
from random import Random

from barnabas.protocol.entries import iterate_entries
from barnabas.protocol.records import (
    ControlRecordType,
    EndTxnMarker,
    Record,
    build_batch,
    build_end_txn_marker,
    iterate_records,
)
from barnabas.storage.append import AppendOrigin
from barnabas.storage.cleaner import Cleaner
from barnabas.storage.cleaner_job import CleanerSettings
from barnabas.storage.log import Log
from barnabas.storage.log_config import LogConfig
from tests.support.clock import ManualClock
from tests.support.crash_disk import CrashDisk
from tests.unit.storage.logs import NOW, TP, append, read_bytes
from tests.unit.storage.stores import Store, open_store

CONFIG = LogConfig(
    compact=True,
    delete=False,
    segment_bytes=700,
    index_interval_bytes=150,
    file_delete_delay_ms=0,
    min_cleanable_dirty_ratio=0.0,
)
SETTINGS = CleanerSettings(dedupe_buffer_bytes=1024 * 1024, io_buffer_bytes=4096)


class CleaningStore:
    """`path` on a disk, with what is needed to write, clean and read its one log."""

    def __init__(
        self,
        path: str = "/data",
        *,
        disk: object = None,
        config: LogConfig = CONFIG,
        settings: CleanerSettings = SETTINGS,
    ) -> None:
        self.path = path
        self.clock = ManualClock(NOW)
        self.disk = disk or CrashDisk(self.clock.wall_ms)
        if disk is None:
            self.disk.make_directory(path)
            self.disk.fsync_directory("/")
        self.config = config
        self.settings = settings
        self.store: Store
        self.cleaner: Cleaner

    async def open(self) -> None:
        self.store = await open_store(self.path, disk=self.disk, config=self.config, clock=self.clock)
        self.store.offload.lets_others_run = True
        self.cleaner = Cleaner(
            self.store.directories,
            disk=self.disk,
            clock=self.clock,
            offload=self.store.offload,
            random=Random(1),
            settings=self.settings,
        )
        if self.store.directories.log(TP) is None:
            self.store.directories.create_log(TP)

    async def reopen(self) -> None:
        await self.store.directories.close()
        self.kill()
        await self.open()

    def kill(self) -> None:
        self.disk.kill()
        self.disk.restart()

    @property
    def log(self) -> Log:
        found = self.store.directories.log(TP)
        assert found is not None
        return found

    @property
    def directory(self):
        found = self.store.directories.directory_of(TP)
        assert found is not None
        return found

    def names(self) -> list[str]:
        return self.disk.list_directory(self.log.directory)

    def put(
        self,
        *records: tuple[bytes | None, bytes | None],
        timestamp: int | None = None,
        producer: tuple[int, int, int] = (-1, -1, -1),
        transactional: bool = False,
    ) -> None:
        """One batch of these keys and values."""
        at = self.clock.wall_ms() if timestamp is None else timestamp
        data = build_batch(
            [Record(0, at, key, value) for key, value in records],
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=producer[2],
            transactional=transactional,
        )
        append(self.log, memoryview(bytearray(data)), now_ms=self.clock.wall_ms())

    def end_transaction(self, producer_id: int, *, commit: bool, epoch: int = 0) -> None:
        kind = ControlRecordType.COMMIT if commit else ControlRecordType.ABORT
        marker = EndTxnMarker(kind, coordinator_epoch=0)
        data = build_end_txn_marker(
            marker, producer_id=producer_id, producer_epoch=epoch, timestamp=self.clock.wall_ms()
        )
        self.log.append(
            memoryview(bytearray(data)), leader_epoch=0, origin=AppendOrigin.COORDINATOR, now_ms=self.clock.wall_ms()
        )

    def put_all(self, keys: Iterable[int], *, value: bytes = b"v" * 30) -> None:
        """A batch for each key; the value tells which one it was."""
        for key in keys:
            self.put((b"key %d" % key, b"%d " % self.log.log_end_offset + value))

    async def settle(self, *, committed: int | None = None, rolls: bool = True) -> None:
        """Everything written is committed, or all below an offset; all is flushed, and its segments are closed."""
        log = self.log
        log.set_high_watermark(log.log_end_offset if committed is None else committed)
        if rolls:
            log.roll()
        await self.directory.carry_out_flushes()
        await self.directory.flush(log, log.log_end_offset)

    async def clean(self) -> bool:
        await self.settle()
        cleaned = await self.cleaner.clean_filthiest()
        await self.directory.carry_out_removals()
        return cleaned

    def records(self) -> list[tuple[int, bytes | None, bytes | None]]:
        """(offset, key, value) of all that a consumer reads, transactions or not."""
        return list(records_of(self.log))


def records_of(log: Log, offset: int | None = None) -> Iterable[tuple[int, bytes | None, bytes | None]]:
    at = log.log_start_offset if offset is None else offset
    while data := read_bytes(log, at):
        for position, header in iterate_entries(data):
            at = header.next_offset
            if not header.is_control:
                for record in iterate_records(data, position, header, 1 << 20):
                    yield record.offset, record.key, record.value


def last_values(records: Iterable[tuple[int, bytes | None, bytes | None]]) -> dict[bytes | None, bytes | None]:
    return {key: value for _, key, value in records}
