"""The names of the files and directories of a log, as Kafka 2.7 writes them.

A segment's files carry its base offset in 20 digits, a producer snapshot the offset before which it is true. The
directory of a partition is `topic-partition`; while it waits for its removal `topic-partition.<32 hex digits>-delete`,
and while it gathers in another log directory `topic-partition.<32 hex digits>-future`.
"""

import re
from typing import Final

from barnabas.protocol.ids import TopicPartition

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TXN_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
TEMPORARY_SUFFIX: Final = ".tmp"

SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)

DELETE_DIRECTORY_SUFFIX: Final = "-delete"
FUTURE_DIRECTORY_SUFFIX: Final = "-future"

LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT: Final = "log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT: Final = "replication-offset-checkpoint"
CLEANER_CHECKPOINT: Final = "cleaner-offset-checkpoint"
CHECKPOINTS: Final = (
    RECOVERY_POINT_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    CLEANER_CHECKPOINT,
)
META_PROPERTIES: Final = "meta.properties"
LOCK_FILE: Final = ".lock"
CLEAN_SHUTDOWN_MARKER: Final = ".kafka_cleanshutdown"

_LONGEST_NAME: Final = 255
_MOVED: Final = re.compile(r"^(?P<name>.+)\.[0-9a-f]{32}(?:-delete|-future)$")
_DIGITS: Final = re.compile(r"^[0-9]+$")


def segment_file(base_offset: int, suffix: str) -> str:
    """The name of one file of the segment, `00000000000000000042.log` for 42 and `.log`."""
    return f"{base_offset:020d}{suffix}"


def offset_of(name: str) -> int | None:
    """The offset that a file's name starts with, or None when it starts with something else."""
    digits = name.partition(".")[0]
    return int(digits) if _DIGITS.match(digits) else None


def partition_directory(topic_partition: TopicPartition) -> str:
    """The name of the directory that holds a partition's log."""
    return f"{topic_partition.topic}-{topic_partition.partition}"


def deleted_directory(topic_partition: TopicPartition, unique: str) -> str:
    """The name under which a partition's directory waits for its removal; `unique` is 32 hex digits."""
    suffix = f"-{topic_partition.partition}.{unique}{DELETE_DIRECTORY_SUFFIX}"
    return topic_partition.topic[: _LONGEST_NAME - len(suffix)] + suffix


def future_directory(topic_partition: TopicPartition, unique: str) -> str | None:
    """The name of the directory in which a partition's log gathers that moves; None where it would be too long."""
    name = f"{partition_directory(topic_partition)}.{unique}{FUTURE_DIRECTORY_SUFFIX}"
    return name if len(name) <= _LONGEST_NAME else None


def parse_partition_directory(name: str) -> TopicPartition | None:
    """The partition that a directory's name stands for, or None when it is not the name of one."""
    moved = _MOVED.match(name)
    topic, dash, partition = (moved["name"] if moved else name).rpartition("-")
    if not dash or not topic or not _DIGITS.match(partition) or not partition.isascii():
        return None
    return TopicPartition(topic, int(partition))


def is_deleted_directory(name: str) -> bool:
    """Whether the directory only waits for its removal."""
    return name.endswith(DELETE_DIRECTORY_SUFFIX) and _MOVED.match(name) is not None


def is_future_directory(name: str) -> bool:
    """Whether the directory is the target of an unfinished move between log directories."""
    return name.endswith(FUTURE_DIRECTORY_SUFFIX) and _MOVED.match(name) is not None
