"""What a task of the audit reads of a topic: its records, and where the log has none that should be there.

Batches of a log follow each other without a gap: markers of transactions and aborted records are batches too. Only
compaction takes whole ones out. So offsets between two batches of a topic that is not compacted are a hole: a part of
the log is gone. The headers of what is fetched anyway tell it.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from barnabas.pipeline.columns.decoder import ColumnDecoder, DecodeOptions
from barnabas.pipeline.source.options import SourceOptions
from barnabas.pipeline.source.range_task import PlannedRange, fetch_range, next_answer
from barnabas.protocol.batch import Buffer
from barnabas.protocol.entries import iterate_entries
from barnabas.protocol.ids import TopicPartition

COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "key", "value")


@dataclass(frozen=True, order=True)
class Hole:
    """Offsets that no batch of a log holds, both ends included."""

    topic_partition: TopicPartition
    first: int
    last: int

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first} to {self.last}"


@dataclass
class TopicRead:
    """Reads one range; `holes` are complete when the iteration has ended."""

    planned: PlannedRange
    options: SourceOptions
    columns: Sequence[str] = COLUMNS
    holes: list[Hole] = field(default_factory=list)
    _position: int = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The records. Raises ClientError, CorruptRecords, DataLost, ReadStalled."""
        wanted, fetching = self.planned.range, self.options.fetching
        sizes = DecodeOptions(max_rows=fetching.rows_per_batch, max_inflated_bytes=fetching.batch_bytes)
        decoder = ColumnDecoder(wanted.topic_partition, self.columns, sizes)
        self._position = wanted.start
        with asyncio.Runner() as runner:
            answers = fetch_range(self.planned, self.options)
            try:
                while (answer := runner.run(next_answer(answers, self.planned, fetching))) is not None:
                    yield from decoder.decode(
                        answer.record_set, start=answer.start, end=answer.end, aborted=answer.aborted
                    )
                    # What is no batch has been refused by now, with its offset.
                    self._look(answer.record_set)
            finally:
                runner.run(answers.aclose())

    def _look(self, record_set: Buffer) -> None:
        for _, header in iterate_entries(record_set):
            self._cover(header.base_offset, header.next_offset)

    def _cover(self, start: int, end: int) -> None:
        """Offsets from `start` to `end` (exclusive) are there, or are not asked for."""
        start = min(start, self.planned.range.end)
        if start > self._position:
            self.holes.append(Hole(self.planned.range.topic_partition, self._position, start - 1))
        self._position = max(self._position, end)


def join_holes(holes: Iterable[Hole]) -> list[Hole]:
    """Those that touch, as tasks find them on both sides of where they meet, as one."""
    joined: list[Hole] = []
    for each in sorted(holes):
        last = joined[-1] if joined else None
        if last is not None and last.topic_partition == each.topic_partition and last.last + 1 >= each.first:
            joined[-1] = Hole(each.topic_partition, last.first, max(last.last, each.last))
        else:
            joined.append(each)
    return joined
