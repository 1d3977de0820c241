"""What a worker is told of a cleaning and what it tells: values that can be pickled."""

from dataclasses import dataclass

from barnabas.protocol.ids import TopicPartition
from barnabas.storage.cleaning.clean_plan import SourceSegment
from barnabas.storage.txn_index import AbortedTxn


class CorruptSource(Exception):
    """A segment that is to be cleaned holds what cannot be read: cleaning it would make the damage look sound."""

    def __init__(self, problem: str, base_offset: int = 0) -> None:
        super().__init__(problem, base_offset)
        self.problem = problem
        self.base_offset = base_offset
        """Of the segment."""

    def __str__(self) -> str:
        return self.problem


@dataclass(slots=True, frozen=True)
class CleanLimits:
    """The settings that a cleaning acts on. Kafka's keys are in the comments."""

    segment_bytes: int  # segment.bytes
    segment_index_bytes: int  # segment.index.bytes
    index_interval_bytes: int  # index.interval.bytes
    offset_map_bytes: int  # log.cleaner.dedupe.buffer.size / log.cleaner.threads
    offset_map_load_factor: float  # log.cleaner.io.buffer.load.factor
    io_buffer_bytes: int  # log.cleaner.io.buffer.size / log.cleaner.threads
    max_bytes_per_second: float  # log.cleaner.io.max.bytes.per.second
    max_decompressed_bytes: int


@dataclass(slots=True, frozen=True)
class LastOfProducer:
    """Where a data batch ends that an active producer is known by; -1 when the log knows only a marker of its epoch.

    There are two of a producer whose last batch is not committed: that may be cut, and then the one before is the last.
    """

    producer_id: int
    epoch: int
    last_data_offset: int


@dataclass(slots=True, frozen=True)
class CleanJob:
    """A cleaning of one log.

    `sources` are closed segments, in order: all from the log's first one up to the uncleanable offset. `later_aborted`
    are the aborted transactions that began below that offset and whose marker stands in a later segment; those of the
    sources are read from their files. `producers` are all that the log knows of. `hash_key` is random, and secret as
    long as the cleaning runs: keys cannot be chosen so that they are taken for each other.
    """

    topic_partition: TopicPartition
    directory: str
    sources: tuple[SourceSegment, ...]
    first_dirty_offset: int
    delete_horizon_ms: int | None
    later_aborted: tuple[AbortedTxn, ...]
    producers: tuple[LastOfProducer, ...]
    limits: CleanLimits
    hash_key: bytes


@dataclass(slots=True, frozen=True)
class CleanProgress:
    """How far a cleaning is. Phases are `mapping`, over the dirty bytes, and then `cleaning`, over all bytes."""

    phase: str
    done_bytes: int
    total_bytes: int


@dataclass(slots=True, frozen=True)
class CleanedSegment:
    """The `.cleaned` files of a group are complete and synced. `sources` are the base offsets that they stand for.

    It may be empty. `next_offset` follows its last batch and is its base offset where there is none.
    """

    base_offset: int
    sources: tuple[int, ...]
    size_bytes: int
    next_offset: int
    first_timestamp: int | None
    max_timestamp: int
    offset_of_max_timestamp: int
    has_txn_index: bool
    modified_ms: int


@dataclass(slots=True, frozen=True)
class CleanResult:
    """The end of a cleaning: below `first_dirty_offset` the log is clean.

    `memory_bytes` is what offset map and buffers took at most; the interpreter and its libraries are not in it.
    """

    first_dirty_offset: int
    map_entries: int
    map_capacity: int
    bytes_read: int
    bytes_written: int
    records_read: int
    records_kept: int
    records_without_key: int
    memory_bytes: int
    mapping_ms: int
    cleaning_ms: int
