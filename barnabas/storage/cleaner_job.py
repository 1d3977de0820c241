"""What the cleaner reads off a log: the facts that it plans with, and the job that it gives to the worker.

Only closed segments are cleaned: their batches and indexes are synced, and nothing is appended to them any more. A
segment that was rolled and is not flushed yet counts as active.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from barnabas.runtime.disk import Disk
from barnabas.storage.cleaning.clean_job import CleanJob, CleanLimits, LastOfProducer
from barnabas.storage.cleaning.clean_plan import CleanRange, LogFacts, SegmentFacts, SourceSegment, delete_horizon_ms
from barnabas.storage.file_names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from barnabas.storage.leftovers import remove_cleaned
from barnabas.storage.log import Log
from barnabas.storage.log_config import MAX_INT64
from barnabas.storage.producer_state import ProducerEntry
from barnabas.storage.read import aborted_in
from barnabas.storage.segment import Segment

NO_BOUND: Final = 1.7976931348623157e308


@dataclass(slots=True, frozen=True)
class CleanerSettings:
    """The broker's own settings of the cleaner; Kafka's keys are in the comments."""

    is_enabled: bool = True  # log.cleaner.enable
    backoff_ms: int = 15_000  # log.cleaner.backoff.ms
    dedupe_buffer_bytes: int = 128 * 1024 * 1024  # log.cleaner.dedupe.buffer.size
    io_buffer_bytes: int = 512 * 1024  # log.cleaner.io.buffer.size
    load_factor: float = 0.9  # log.cleaner.io.buffer.load.factor
    max_bytes_per_second: float = NO_BOUND  # log.cleaner.io.max.bytes.per.second


@dataclass(slots=True, frozen=True)
class SourceFiles:
    """The files of a segment that is to be read, and where its offsets end."""

    base_offset: int
    next_base_offset: int
    size_bytes: int
    log_path: str
    index_path: str
    time_index_path: str
    has_txn_index: bool


def describe_log(member: Log, *, checkpoint: int | None) -> LogFacts:
    """What planning asks of the log. Raises OSError and CorruptSegment."""
    config = member.config
    active = member.segments.growing()[0]
    needs_first_timestamps = config.max_compaction_lag_ms < MAX_INT64
    segments: list[SegmentFacts] = []
    for segment in member.segments:
        segments.append(
            SegmentFacts(
                segment.base_offset,
                segment.size_bytes,
                segment.largest_timestamp() if segment is not active else segment.max_timestamp,
                segment.find_first_timestamp() if needs_first_timestamps else None,
            )
        )
        if segment is active:
            break
    return LogFacts(
        segments,
        member.log_start_offset,
        member.log_end_offset,
        # With the high watermark in it, which 2.7 does not ask: a value that gives way to one that is then cut with
        # the end of the log would be lost, committed as it is.
        member.last_stable_offset,
        checkpoint,
        config.min_compaction_lag_ms,
        config.max_compaction_lag_ms,
    )


def choose_sources(member: Log, cleanable: CleanRange) -> list[SourceFiles]:
    """The segments to clean: all from the log's first one up to the uncleanable offset."""
    return [
        SourceFiles(
            segment.base_offset,
            end,
            segment.size_bytes,
            segment.path(LOG_SUFFIX),
            segment.path(INDEX_SUFFIX),
            segment.path(TIME_INDEX_SUFFIX),
            segment.has_txn_index,
        )
        for segment, end in zip(member.segments, member.segments.ends(), strict=True)
        if end is not None and end <= cleanable.uncleanable_offset and segment.growing is None
    ]


def measure_sources(disk: Disk, directory: str, files: Sequence[SourceFiles]) -> tuple[SourceSegment, ...]:
    """Sizes and ages from the disk; what an earlier worker left over goes. Runs in a thread. Raises OSError."""
    remove_cleaned(disk, directory)
    return tuple(
        SourceSegment(
            source.base_offset,
            source.next_base_offset,
            source.size_bytes,
            disk.size(source.index_path),
            disk.size(source.time_index_path),
            disk.modified_ms(source.log_path),
            source.has_txn_index,
        )
        for source in files
    )


def make_job(
    member: Log,
    cleanable: CleanRange,
    sources: tuple[SourceSegment, ...],
    settings: CleanerSettings,
    *,
    hash_key: bytes,
) -> CleanJob:
    """What the worker is told. Raises OSError or CorruptIndex where aborted transactions cannot be read."""
    end_offset = sources[-1].next_base_offset
    later: list[Segment] = [segment for segment in member.segments if segment.base_offset >= end_offset]
    return CleanJob(
        topic_partition=member.topic_partition,
        directory=member.directory,
        sources=sources,
        first_dirty_offset=cleanable.first_dirty_offset,
        delete_horizon_ms=delete_horizon_ms(
            sources,
            first_dirty_offset=cleanable.first_dirty_offset,
            delete_retention_ms=member.config.delete_retention_ms,
        ),
        later_aborted=tuple(
            txn for segment in later for txn in aborted_in(member, segment) if txn.first_offset < end_offset
        ),
        producers=tuple(
            last for entry in member.producers for last in _lasts_of(entry, high_watermark=member.high_watermark)
        ),
        limits=CleanLimits(
            segment_bytes=member.config.segment_bytes,
            segment_index_bytes=member.config.segment_index_bytes,
            index_interval_bytes=member.config.index_interval_bytes,
            offset_map_bytes=settings.dedupe_buffer_bytes,
            offset_map_load_factor=settings.load_factor,
            io_buffer_bytes=settings.io_buffer_bytes,
            max_bytes_per_second=settings.max_bytes_per_second,
            max_decompressed_bytes=member.config.max_decompressed_bytes,
        ),
        hash_key=hash_key,
    )


def _lasts_of(entry: ProducerEntry, *, high_watermark: int) -> list[LastOfProducer]:
    """The batches by which this producer is known, whatever is cut: its last one, and the last that is committed."""
    if not entry.batches:
        return [LastOfProducer(entry.producer_id, entry.epoch, -1)]
    committed = [batch for batch in entry.batches if batch.last_offset < high_watermark]
    offsets = {batch.last_offset for batch in (*committed[-1:], entry.batches[-1])}
    return [LastOfProducer(entry.producer_id, entry.epoch, offset) for offset in sorted(offsets)]
