"""Logs for tests: their ports on a real directory or a crash disk, and batches to put into them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from barnabas.protocol.batch import Codec
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.records import Record, build_batch
from barnabas.runtime.disk import Disk, SystemDisk
from barnabas.storage.append import AppendInfo, AppendOrigin
from barnabas.storage.creation import create_log
from barnabas.storage.log import Log
from barnabas.storage.log_config import LogConfig
from barnabas.storage.log_parts import LogPorts
from barnabas.storage.open_files import OpenFiles
from barnabas.storage.read import TimestampedOffset
from barnabas.storage.segment import Segment, SegmentFiles
from tests.support.clock import ManualClock

TP = TopicPartition("topic", 0)
NOW = 1_600_000_000_000


@dataclass
class Owner:
    """Keeps what a log asks for; `work` carries it out."""

    flushes: list[tuple[Log, int]] = field(default_factory=list)
    doomed: list[tuple[Segment, int]] = field(default_factory=list)
    suspects: list[tuple[Log, int]] = field(default_factory=list)

    def flush_soon(self, log: Log, up_to: int) -> None:
        self.flushes.append((log, up_to))

    def remove_later(self, segments: Sequence[Segment], delay_ms: int) -> None:
        self.doomed += [(segment, delay_ms) for segment in segments]

    def suspect(self, log: Log, offset: int) -> None:
        self.suspects.append((log, offset))

    def work(self) -> None:
        while self.flushes:
            log, up_to = self.flushes.pop(0)
            log.flush(up_to)
        for segment, _ in self.doomed:
            segment.close()
            segment.remove_files()
        self.doomed.clear()


def make_ports(disk: Disk | None = None, *, owner: Owner | None = None, clock: ManualClock | None = None) -> LogPorts:
    return LogPorts(
        files=SegmentFiles(disk or SystemDisk(), OpenFiles(8)),
        clock=clock or ManualClock(NOW),
        random=Random(1),
        owner=owner or Owner(),
        producer_expiration_ms=7 * 24 * 3600 * 1000,
    )


def make_log(directory: str, config: LogConfig | None = None, ports: LogPorts | None = None) -> Log:
    return create_log(TP, f"{directory}/topic-0", config or LogConfig(), ports or make_ports())


def batch(
    *values: bytes,
    timestamp: int = NOW,
    key: bytes | None = b"k",
    codec: Codec = Codec.NONE,
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> memoryview:
    """A batch with a record for each value; `producer` is (id, epoch, first sequence)."""
    records = [Record(0, timestamp, key, value) for value in values]
    return memoryview(
        bytearray(
            build_batch(
                records,
                codec=codec,
                producer_id=producer[0],
                producer_epoch=producer[1],
                base_sequence=producer[2],
                transactional=transactional,
                base_offset=base_offset,
                leader_epoch=leader_epoch,
            )
        )
    )


def append(log: Log, data: memoryview, *, leader_epoch: int = 0, now_ms: int = NOW) -> AppendInfo:
    return log.append(data, leader_epoch=leader_epoch, origin=AppendOrigin.CLIENT, now_ms=now_ms)


def replicate(log: Log, data: bytes | memoryview, *, now_ms: int = NOW) -> AppendInfo:
    return log.append(memoryview(data), leader_epoch=-1, origin=AppendOrigin.REPLICATION, now_ms=now_ms)


def read_bytes(log: Log, offset: int, *, max_bytes: int = 1 << 30, upper: int | None = None) -> bytes:
    read = log.read(
        offset,
        max_bytes=max_bytes,
        upper_bound_offset=log.log_end_offset if upper is None else upper,
        min_one_batch=True,
    )
    if read.slice is None:
        return b""
    data = read.slice.read()
    read.slice.release()
    return data


def offset_for_timestamp(log: Log, timestamp: int) -> TimestampedOffset | None:
    """The first record that is at least so late, searched for without a pause."""
    search = log.search_timestamp(timestamp)
    while True:
        try:
            next(search)
        except StopIteration as done:
            found: TimestampedOffset | None = done.value
            return found
