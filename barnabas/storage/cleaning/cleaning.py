"""One cleaning of one log, step by step: filling the offset map, then writing the segments again, group by group.

The state of a worker, and of one piece of its work. Memory is bounded by the offset map, a read buffer (which grows to
the largest batch) and what one batch inflates to, or some small ones. Bytes count against the rate that is allowed when
they are read, each time, and when they are written.
"""

from collections.abc import Generator, Iterator
from contextlib import suppress
from typing import Final

from barnabas.protocol.batch import CorruptBatch
from barnabas.runtime.clock import Clock
from barnabas.runtime.disk import Disk
from barnabas.runtime.offload import Pause
from barnabas.storage.cleaning.batch_table import BatchTable, read_tables
from barnabas.storage.cleaning.clean_job import (
    CleanedSegment,
    CleanJob,
    CleanProgress,
    CleanResult,
    CorruptSource,
)
from barnabas.storage.cleaning.clean_plan import SourceSegment, decide_groups, keeps_deletes
from barnabas.storage.cleaning.cleaned_segment import CleanedSegmentWriter
from barnabas.storage.cleaning.cleaned_transactions import CleanedTransactions
from barnabas.storage.cleaning.key_hash import KeyHash
from barnabas.storage.cleaning.map_filling import MapFilling
from barnabas.storage.cleaning.offset_map import OffsetMap
from barnabas.storage.cleaning.record_filter import RecordFilter
from barnabas.storage.file_names import LOG_SUFFIX, TXN_INDEX_SUFFIX, segment_file
from barnabas.storage.index import CorruptIndex
from barnabas.storage.txn_index import AbortedTxn, decode_aborted

Steps = Generator[CleanProgress | CleanedSegment | Pause, None, None]

_MAPPING: Final = "mapping"
_CLEANING: Final = "cleaning"
_BUFFERS_AT_ONCE: Final = 4
"""So many of Kafka's buffers are read at once: their records share what a call on columns costs."""
_REPORT_READS: Final = 2
_LEAST_PAUSE_MS: Final = 5
_CATCH_UP_US: Final = 100_000


class Cleaning:
    """A cleaning under way."""

    __slots__ = (
        "_aborted",
        "_bytes_read",
        "_bytes_written",
        "_clock",
        "_disk",
        "_done_bytes",
        "_due_us",
        "_filling",
        "_job",
        "_key_hash",
        "_map",
        "_phase",
        "_read_bytes",
        "_reported_bytes",
        "_total_bytes",
    )

    def __init__(self, disk: Disk, clock: Clock, job: CleanJob) -> None:
        assert job.sources
        limits = job.limits
        self._disk = disk
        self._clock = clock
        self._job = job
        self._aborted = [*self._read_aborted(), *job.later_aborted]
        self._key_hash = KeyHash(job.hash_key)
        self._map = OffsetMap(
            max_bytes=limits.offset_map_bytes,
            load_factor=limits.offset_map_load_factor,
            expected_keys=max(1, job.sources[-1].next_base_offset - job.first_dirty_offset),
        )
        self._filling = MapFilling(
            self._map,
            self._key_hash,
            self._aborted,
            first_dirty_offset=job.first_dirty_offset,
            max_decompressed_bytes=limits.max_decompressed_bytes,
        )
        self._phase = _MAPPING
        self._read_bytes = limits.io_buffer_bytes * _BUFFERS_AT_ONCE
        self._done_bytes = self._total_bytes = self._reported_bytes = 0
        self._bytes_read = self._bytes_written = 0
        self._due_us = clock.monotonic_us()

    def steps(self) -> Generator[CleanProgress | CleanedSegment | Pause, None, CleanResult]:
        """The whole of it. Raises CorruptSource or OSError."""
        job, clock, counts_from = self._job, self._clock, self._clock.monotonic_ms()
        yield from self._fill_map()
        mapped_ms = clock.monotonic_ms()
        sources = [source for source in job.sources if source.base_offset < self._filling.end_offset]
        kept = RecordFilter(
            self._map,
            self._key_hash,
            CleanedTransactions(self._aborted),
            job.producers,
            end_offset=self._filling.end_offset,
            max_decompressed_bytes=job.limits.max_decompressed_bytes,
        )
        self._begin(_CLEANING, sources)
        for group in decide_groups(
            sources, segment_bytes=job.limits.segment_bytes, segment_index_bytes=job.limits.segment_index_bytes
        ):
            yield from self._clean_group(group, kept)
        return CleanResult(
            first_dirty_offset=self._filling.end_offset,
            map_entries=len(self._map),
            map_capacity=self._map.capacity,
            bytes_read=self._bytes_read,
            bytes_written=self._bytes_written,
            records_read=kept.counts.read,
            records_kept=kept.counts.kept,
            records_without_key=kept.counts.without_key,
            memory_bytes=self._map.memory_bytes + kept.counts.buffer_bytes,
            mapping_ms=mapped_ms - counts_from,
            cleaning_ms=clock.monotonic_ms() - mapped_ms,
        )

    def _fill_map(self) -> Steps:
        dirty = [source for source in self._job.sources if source.next_base_offset > self._job.first_dirty_offset]
        self._begin(_MAPPING, dirty)
        for source in dirty:
            for table in self._tables(source):
                try:
                    has_room = self._filling.add(table)
                except CorruptBatch as error:
                    raise self._corrupt(source, error) from error
                yield from self._pass(read_bytes=table.size_bytes)
                if not has_room:
                    return
            self._filling.pass_segment(source.next_base_offset)
            yield self._progress()

    def _clean_group(self, group: list[SourceSegment], kept: RecordFilter) -> Steps:
        job = self._job
        writer = CleanedSegmentWriter(self._disk, job.directory, group, job.limits)
        try:
            for source in group:
                deletes_stay = keeps_deletes(
                    source, first_dirty_offset=job.first_dirty_offset, horizon_ms=job.delete_horizon_ms
                )
                for table in self._tables(source):
                    try:
                        batches = kept.apply(table, keeps_deletes=deletes_stay)
                    except CorruptBatch as error:
                        raise self._corrupt(source, error) from error
                    writer.add(batches)
                    yield from self._pass(read_bytes=table.size_bytes, written_bytes=len(batches.data))
                yield self._progress()
            cleaned = writer.finish(kept.take_aborted())
        except BaseException:
            with suppress(OSError):
                writer.discard()
            raise
        yield cleaned

    def _tables(self, source: SourceSegment) -> Iterator[BatchTable]:
        file = self._disk.open(self._path(source, LOG_SUFFIX), writable=False)
        try:
            yield from read_tables(file, end=source.size_bytes, buffer_bytes=self._read_bytes)
        except CorruptSource as error:
            raise CorruptSource(error.problem, source.base_offset) from error
        finally:
            file.close()

    def _read_aborted(self) -> list[AbortedTxn]:
        """What the sources' own files say of aborted transactions. Raises CorruptSource or OSError."""
        aborted: list[AbortedTxn] = []
        for source in self._job.sources:
            if source.has_txn_index:
                path = self._path(source, TXN_INDEX_SUFFIX)
                try:
                    aborted += decode_aborted(self._disk.read_bytes(path), base_offset=source.base_offset)
                except CorruptIndex as error:
                    raise CorruptSource(f"{path}: {error}", source.base_offset) from error
        return aborted

    def _begin(self, phase: str, sources: list[SourceSegment]) -> None:
        self._phase = phase
        self._total_bytes = sum(source.size_bytes for source in sources)
        self._done_bytes = self._reported_bytes = 0

    def _pass(self, *, read_bytes: int, written_bytes: int = 0) -> Iterator[CleanProgress | Pause]:
        """Account for bytes; wait where they were too many for the time, and tell of the progress now and then."""
        self._bytes_read += read_bytes
        self._bytes_written += written_bytes
        self._done_bytes += read_bytes
        now_us = self._clock.monotonic_us()
        took_us = (read_bytes + written_bytes) / self._job.limits.max_bytes_per_second * 1_000_000
        # What was not used of the rate is not saved up, but for a moment.
        self._due_us = max(self._due_us, now_us - _CATCH_UP_US) + round(took_us)
        ahead_ms = (self._due_us - now_us) // 1000
        if ahead_ms >= _LEAST_PAUSE_MS:
            yield Pause(ahead_ms)
        if self._done_bytes - self._reported_bytes >= _REPORT_READS * self._read_bytes:
            yield self._progress()

    def _progress(self) -> CleanProgress:
        self._reported_bytes = self._done_bytes
        return CleanProgress(self._phase, self._done_bytes, self._total_bytes)

    def _corrupt(self, source: SourceSegment, error: CorruptBatch) -> CorruptSource:
        return CorruptSource(f"{self._path(source, LOG_SUFFIX)}: {error}", source.base_offset)

    def _path(self, source: SourceSegment, suffix: str) -> str:
        return f"{self._job.directory}/{segment_file(source.base_offset, suffix)}"
