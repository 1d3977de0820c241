"""From raw record batches, as a broker sends them or a segment holds them, to Arrow record batches.

All codecs and message formats; control batches, aborted transactions and offsets outside of the range are left out;
checksums are verified. Only the columns that are asked for are decoded. Records of format 2 cost no Python object each;
messages of formats 0 and 1 are read one by one. What stands before a corrupt batch is given before `CorruptRecords` is
raised. Memory is bounded by the options and the largest record, whatever the bytes say.

Left out: fetching, files, and where the next fetch begins (`fetched_records.find_whole_entries`).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from barnabas.client.fetched_records import AbortedRange
from barnabas.pipeline.columns.chunk import Chunk, InvalidBatchContent, WalkedChunk
from barnabas.pipeline.columns.fields import RecordFields, read_fields
from barnabas.pipeline.columns.gathering import ConstantColumns, gather
from barnabas.pipeline.columns.legacy_rows import LegacyRows
from barnabas.pipeline.columns.record_walk import RecordWalker
from barnabas.pipeline.columns.runs import BatchProgress, RunTable
from barnabas.pipeline.columns.schema import arrow_schema
from barnabas.pipeline.columns.varints import BadRecord
from barnabas.pipeline.columns.visibility import Visibility
from barnabas.protocol.batch import (
    CURRENT_MAGIC,
    BatchHeader,
    Buffer,
    Codec,
    CorruptBatch,
    InvalidRecord,
    TruncatedBatch,
)
from barnabas.protocol.compression import DecompressionBomb, inflate, largest_record_bytes
from barnabas.protocol.entries import iterate_entries, iterate_entry_records, verify_entry
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.records import record_bytes

_LARGEST_CHUNK_BYTES: Final = 512 * 1024 * 1024
_PIECE_BYTES: Final = 1024 * 1024
_MOST_BASE_OFFSET: Final = (1 << 63) - (1 << 31)
"""From here on the offsets of a batch need not be 64-bit numbers."""


class CorruptRecords(Exception):
    """A batch that cannot be read; `offset` is its first, or that where it was to begin if its header does not say."""

    def __init__(self, topic_partition: TopicPartition, offset: int, reason: str) -> None:
        super().__init__(topic_partition, offset, reason)
        self.topic_partition = topic_partition
        self.offset = offset
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.topic_partition}: the batch at offset {self.offset} cannot be read: {self.reason}"


@dataclass(slots=True, frozen=True)
class DecodeOptions:
    """How large what is given may be, and what is borne.

    A record batch has at most `max_rows` rows and, but for a single larger record, about `max_bytes` bytes. A
    compressed batch may hold `max_inflated_bytes`. With `torn_tail_allowed` bytes may end within a batch, which is
    then not there: so do answers to a fetch, and logs after a crash.
    """

    max_rows: int = 10_000
    max_bytes: int = 8 * 1024 * 1024
    max_inflated_bytes: int = 256 * 1024 * 1024
    torn_tail_allowed: bool = True

    def __post_init__(self) -> None:
        if self.max_rows < 1:
            raise ValueError(f"max_rows is {self.max_rows}; a record batch needs room for a row")
        if not 1 <= self.max_bytes <= _LARGEST_CHUNK_BYTES:
            raise ValueError(f"max_bytes is {self.max_bytes}, not 1 to {_LARGEST_CHUNK_BYTES}")
        if not 1 <= self.max_inflated_bytes < 1 << 30:
            raise ValueError(f"max_inflated_bytes is {self.max_inflated_bytes}, not 1 to {(1 << 30) - 1}")


@dataclass(slots=True)
class _Range:
    start: int
    end: int | None

    def holds_all(self, header: BatchHeader) -> bool:
        return header.base_offset >= self.start and (self.end is None or header.last_offset < self.end)


class ColumnDecoder:
    """Decodes the batches of one partition."""

    def __init__(
        self, topic_partition: TopicPartition, columns: Sequence[str], options: DecodeOptions | None = None
    ) -> None:
        """`columns` are names of `schema.COLUMN_NAMES` in the order in which they are given. Raises ValueError."""
        self.topic_partition = topic_partition
        self.schema = arrow_schema(columns)
        self.options = options or DecodeOptions()
        self._constants = ConstantColumns(*topic_partition)
        self._walker = RecordWalker()
        self.next_offset = 0
        """The offset after the last batch that was looked at, when an iteration has ended."""

    def decode(
        self, record_set: Buffer, *, start: int, end: int | None = None, aborted: Iterable[AbortedRange] = ()
    ) -> Iterator[pa.RecordBatch]:
        """The records of one answer to a fetch from offset `start` on, before `end` where there is one.

        `aborted` is what the answer says of aborted transactions (read_committed). Raises CorruptRecords.
        """
        return self.decode_all([record_set], start=start, end=end, visibility=Visibility(aborted))

    def decode_all(
        self, record_sets: Iterable[Buffer], *, start: int, end: int | None = None, visibility: Visibility
    ) -> Iterator[pa.RecordBatch]:
        """The same of record sets that follow each other in the log; only the last one may have a torn tail.

        A record set must not change before the iteration has ended.
        """
        wanted = _Range(start, end)
        chunk = Chunk(self.options.max_bytes, self.options.max_rows, self._walker)
        legacy = LegacyRows(self.schema, self._constants, self.options.max_rows, self.options.max_bytes)
        entries = _Entries(self.topic_partition, record_sets, self.options.torn_tail_allowed)
        for buf, pos, header in entries:
            try:
                if not visibility.shows(buf, pos, header) or header.last_offset < start:
                    continue
                if header.magic != CURRENT_MAGIC:
                    yield from self._flush(chunk, wanted)
                    records = iterate_entry_records(buf, pos, header, self.options.max_inflated_bytes)
                    yield from legacy.add(header, records, start=start, end=end)
                    continue
                if end is not None and header.base_offset >= end:
                    break
                yield from legacy.flush()
                yield from self._add(chunk, buf, pos, header, wanted)
            except CorruptBatch as error:
                entries.failure = self._failure(header, error)
                break
        yield from legacy.flush()
        yield from self._flush(chunk, wanted)
        self.next_offset = entries.next_offset
        if entries.failure is not None:
            raise entries.failure

    def _failure(self, header: BatchHeader, error: CorruptBatch) -> CorruptRecords:
        return CorruptRecords(self.topic_partition, header.base_offset, str(error))

    def _add(
        self, chunk: Chunk, buf: Buffer, pos: int, header: BatchHeader, wanted: _Range
    ) -> Iterator[pa.RecordBatch]:
        """Put a batch into the chunk piece by piece; give what is decoded meanwhile."""
        payload = record_bytes(buf, pos, header)
        allowed = self.options.max_inflated_bytes if header.codec is not Codec.NONE else len(payload)
        largest = largest_record_bytes(payload)
        chunk.begin(BatchProgress(header, header.record_count))
        for piece in _pieces(header.codec, payload, allowed):
            allowed -= len(piece)
            chunk.add(piece)
            if chunk.is_full:
                yield from self._flush(chunk, wanted)
            if chunk.missing_bytes > min(allowed, largest):
                raise DecompressionBomb(
                    f"a record lacks {chunk.missing_bytes} bytes, {min(allowed, largest)} are allowed"
                )
        chunk.complete()
        if chunk.is_full:
            yield from self._flush(chunk, wanted)

    def _flush(self, chunk: Chunk, wanted: _Range) -> Iterator[pa.RecordBatch]:
        """Decode what the chunk holds of whole records; it keeps the rest of a batch that is not complete."""
        walked = chunk.take()
        given: list[pa.RecordBatch] = []
        while walked.runs:
            try:
                given = self._columns(walked, wanted)
                break
            except BadRecord as error:
                runs = RunTable(walked.runs)
                bad = runs.run_of(error.index)
                walked.failure = InvalidBatchContent(walked.runs[bad].batch, f"a record: {error.reason}")
                walked.truncate_to(bad)
        yield from given
        if walked.failure is not None:
            header = walked.failure.batch.header
            raise CorruptRecords(self.topic_partition, header.base_offset, walked.failure.reason)

    def _columns(self, walked: WalkedChunk, wanted: _Range) -> list[pa.RecordBatch]:
        runs = RunTable(walked.runs)
        fields = read_fields(walked.array, walked.starts, runs, self.schema.names)
        last_deltas = fields.offsets - runs.base_offsets
        batches = self._gather(walked, fields, wanted)
        for run in walked.runs:
            run.batch.records_left -= run.end - run.first
            run.batch.last_delta = int(last_deltas[run.end - 1])
        return batches

    def _gather(self, walked: WalkedChunk, fields: RecordFields, wanted: _Range) -> list[pa.RecordBatch]:
        """Record batches of those records that lie in the range."""
        places = None
        if not all(wanted.holds_all(run.batch.header) for run in walked.runs):
            inside = fields.offsets >= wanted.start
            if wanted.end is not None:
                inside &= fields.offsets < wanted.end
            fields, places = fields.select(inside), np.flatnonzero(inside)
        batches: list[pa.RecordBatch] = []
        for first in range(0, len(fields.offsets), self.options.max_rows):
            rows = fields.select(slice(first, first + self.options.max_rows))
            try:
                batches.append(gather(walked.content, walked.array, rows, self.schema, self._constants))
            except BadRecord as error:
                index = first + error.index
                raise BadRecord(index if places is None else int(places[index]), error.reason) from None
        return batches


def _pieces(codec: Codec, payload: memoryview, max_bytes: int) -> Iterator[Buffer]:
    if codec is not Codec.NONE:
        yield from inflate(codec, payload, max_bytes)
        return
    for begin in range(0, len(payload), _PIECE_BYTES):
        yield payload[begin : begin + _PIECE_BYTES]


class _Entries:
    """The entries of record sets, each verified; iteration ends at the first that is not good, with a `failure`."""

    def __init__(self, topic_partition: TopicPartition, record_sets: Iterable[Buffer], torn_tail_allowed: bool) -> None:
        self._topic_partition = topic_partition
        self._record_sets = record_sets
        self._torn_tail_allowed = torn_tail_allowed
        self.failure: CorruptRecords | None = None
        self.next_offset = 0

    def __iter__(self) -> Iterator[tuple[Buffer, int, BatchHeader]]:
        for record_set in self._record_sets:
            offset = self.next_offset
            try:
                for pos, header in iterate_entries(record_set):
                    offset = header.base_offset
                    verify_entry(record_set, pos, header)
                    if (
                        header.magic == CURRENT_MAGIC
                        and not self.next_offset <= header.base_offset <= _MOST_BASE_OFFSET
                    ):
                        raise InvalidRecord(f"offset {self.next_offset} or a later one was to follow")
                    self.next_offset = offset = header.next_offset
                    yield record_set, pos, header
            except TruncatedBatch as error:
                if not self._torn_tail_allowed:
                    self.failure = CorruptRecords(self._topic_partition, offset, str(error))
                return
            except CorruptBatch as error:
                self.failure = CorruptRecords(self._topic_partition, offset, str(error))
                return
