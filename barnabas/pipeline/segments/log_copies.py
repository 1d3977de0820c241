"""What partitions stand in some directories: their segments, and how far the checkpoints say they may be read.

A directory is a log directory of a broker, or a copy of one, or a copy of one partition's directory. What waits for its
removal and what is still being moved is passed over. Nothing is written, and files of a broker that runs are read as
they are at the moment of planning.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from barnabas.protocol.ids import TopicPartition
from barnabas.runtime.disk import Disk
from barnabas.storage.checkpoints import CorruptCheckpoint, decode_offsets
from barnabas.storage.file_names import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    LOG_SUFFIX,
    META_PROPERTIES,
    SWAP_SUFFIX,
    is_deleted_directory,
    is_future_directory,
    offset_of,
    parse_partition_directory,
)


class UnreadableLogs(Exception):
    """The directories do not hold what was asked for, or not in a state in which it can be told what may be read."""


class LogEndsEarly(Exception):
    """A log does not reach the offset up to which it was replicated."""

    def __init__(self, topic_partition: TopicPartition, *, end: int, expected_end: int) -> None:
        super().__init__(topic_partition, end, expected_end)
        self.topic_partition = topic_partition
        self.end = end
        self.expected_end = expected_end

    def __str__(self) -> str:
        return (
            f"{self.topic_partition} ends at offset {self.end}, and was replicated up to {self.expected_end}: records "
            "are lost, or the copy is not whole; set failOnDataLoss to false to read what there is"
        )


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A segment's `.log` as it was when it was planned."""

    path: str
    base_offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class LogCopy:
    """One replica of a partition. `high_watermark` is None where no checkpoint says it."""

    topic_partition: TopicPartition
    directory: str
    segments: tuple[SegmentFile, ...]
    log_start_offset: int
    high_watermark: int | None


def find_logs(disk: Disk, paths: Iterable[str], topics: Collection[str]) -> list[LogCopy]:
    """One copy of each partition in the directories, sorted. Raises UnreadableLogs and OSError.

    Where a partition stands in several directories, as replicas do, the copy whose high watermark is highest is taken:
    below that all replicas hold the same.
    """
    found: dict[TopicPartition, LogCopy] = {}
    for path in paths:
        for copy in _logs_in(disk, path):
            if topics and copy.topic_partition.topic not in topics:
                continue
            other = found.get(copy.topic_partition)
            if other is None or _rank(copy) > _rank(other):
                found[copy.topic_partition] = copy
    missing = sorted(set(topics) - {each.topic for each in found})
    if missing:
        raise UnreadableLogs(f"no log of topic {', '.join(missing)} stands in {', '.join(paths)}")
    return [found[each] for each in sorted(found)]


def _rank(copy: LogCopy) -> tuple[int, int]:
    return (-1 if copy.high_watermark is None else copy.high_watermark, sum(s.size_bytes for s in copy.segments))


def _logs_in(disk: Disk, path: str) -> list[LogCopy]:
    path = path.rstrip("/") or "/"
    if not disk.is_directory(path):
        raise UnreadableLogs(f"{path} is no directory on this machine; the driver and all workers must see it")
    parent, _, name = path.rpartition("/")
    files = disk.list_directory(path)
    single = parse_partition_directory(name)
    if single is not None and any(_is_log(each) for each in files):
        return [_read_copy(disk, single, path, *_checkpoints(disk, parent or "."))]
    starts, watermarks = _checkpoints(disk, path)
    copies = []
    for name in sorted(files):
        topic_partition = parse_partition_directory(name)
        if topic_partition is None or is_deleted_directory(name) or is_future_directory(name):
            continue
        directory = f"{path}/{name}"
        if disk.is_directory(directory):
            copies.append(_read_copy(disk, topic_partition, directory, starts, watermarks))
    if not copies and META_PROPERTIES not in files:
        raise UnreadableLogs(f"{path} is no log directory: it holds no directory of a partition, such as NAME-0")
    return copies


_Offsets = dict[TopicPartition, int]


def _checkpoints(disk: Disk, directory: str) -> tuple[_Offsets, _Offsets]:
    """Log start offsets and high watermarks of a log directory; what is not there says nothing."""
    read: list[_Offsets] = []
    for name in (LOG_START_OFFSET_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT):
        path = f"{directory}/{name}"
        try:
            read.append(decode_offsets(disk.read_bytes(path)) if disk.exists(path) else {})
        except CorruptCheckpoint as error:
            raise UnreadableLogs(f"{path} cannot be read: {error}; take it away to read without it") from None
    return read[0], read[1]


def _is_log(name: str) -> bool:
    return name.endswith(LOG_SUFFIX) and offset_of(name) is not None


def _read_copy(
    disk: Disk, topic_partition: TopicPartition, directory: str, starts: _Offsets, watermarks: _Offsets
) -> LogCopy:
    files = disk.list_directory(directory)
    swapped = [name for name in files if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
    if swapped:
        # The segments that it replaces may be gone already; what was not finished is finished when a broker starts.
        raise UnreadableLogs(
            f"{directory}/{swapped[0]} is of a compaction that was under way; read again, and where no broker runs to "
            "end it, start one on the directory first"
        )
    segments = [
        SegmentFile(f"{directory}/{name}", offset_of(name) or 0, disk.size(f"{directory}/{name}"))
        for name in sorted(files, key=lambda each: offset_of(each) or 0)
        if _is_log(name)
    ]
    start = max(starts.get(topic_partition, 0), segments[0].base_offset if segments else 0)
    return LogCopy(topic_partition, directory, tuple(segments), start, watermarks.get(topic_partition))
