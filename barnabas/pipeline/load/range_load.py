"""What a task does: it reads a range of offsets and writes its rows into files, which it reports.

The records go from the broker's answer to the file within this process. Spark sees a row that names the range, and a
row with the report; the driver sees reports. Nothing that is written here counts before the driver commits it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Row

from barnabas.pipeline.lake.names import batch_file
from barnabas.pipeline.lake.partition_writer import PartitionWriter, WriterOptions
from barnabas.pipeline.lake.table import DataFile
from barnabas.pipeline.load.event_time import EventTime, split
from barnabas.pipeline.load.payloads.spec import PayloadSpec, new_decoder
from barnabas.pipeline.load.rows import RowMaker, columns_read
from barnabas.pipeline.load.tally import Tally
from barnabas.pipeline.source.offsets import Stamp
from barnabas.pipeline.source.options import SourceOptions
from barnabas.pipeline.source.planning import TopicRange
from barnabas.pipeline.source.range_task import PlannedRange, read_range
from barnabas.protocol.ids import TopicPartition


class RangeRow(msgspec.Struct, frozen=True, array_like=True):
    """A planned range as it stands in Spark's row: the stamp of its last batch, see `source.offsets`."""

    topic: str
    partition: int
    start: int
    end: int
    stamp: tuple[int, int, int] | None = None

    def planned(self) -> PlannedRange:
        """As the source reads it."""
        place = TopicRange(TopicPartition(self.topic, self.partition), self.start, self.end)
        return PlannedRange(place, None if self.stamp is None else Stamp(*self.stamp))


class RangeReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a task did with a range."""

    topic: str
    partition: int
    start: int
    end: int
    tally: Tally
    files: list[DataFile]
    dead_letter_files: list[DataFile]
    error: str | None = None
    """Where the first value stands that could not be read, and why."""


@dataclass(frozen=True)
class RangeLoad:
    """What all tasks of a batch have in common; goes to them pickled."""

    query: str
    batch: int
    run: str
    location: str
    dead_letter_location: str
    source: SourceOptions
    payload: PayloadSpec
    event_time: EventTime
    writer: WriterOptions
    headers: bool
    late_before_us: int | None

    def __call__(self, rows: Iterable[Row]) -> Iterator[bytes]:
        """The work of a Spark task: rows with a `range` become reports."""
        context = TaskContext.get()
        attempt = 0 if context is None else context.taskAttemptId()
        numbers = count()
        for each in rows:
            row = msgspec.msgpack.decode(bytes(each.range), type=RangeRow)
            yield msgspec.msgpack.encode(self.load(row, attempt, numbers))

    def load(self, row: RangeRow, attempt: int, numbers: Iterator[int]) -> RangeReport:
        """Load one range; `numbers` are of the attempt's files. Raises what the source raises, and LakeError."""
        maker = RowMaker(new_decoder(self.payload), headers=self.headers)

        def name_of() -> str:
            return batch_file(self.query, self.batch, run=self.run, attempt=attempt, number=next(numbers))

        written = PartitionWriter(self.location, maker.schema, name_of, options=self.writer)
        lost = PartitionWriter(self.dead_letter_location, maker.dead_letter_schema, name_of, options=self.writer)
        tally = Tally()
        error: str | None = None
        try:
            for records in read_range(row.planned(), columns_read(headers=self.headers), self.source):
                made = maker.rows(records)
                times = self.event_time.of(made.rows.column("timestamp"), made.values)
                tally.add(records.column("timestamp"), made.checksums, made.dead)
                tally.add_times(times, self.late_before_us)
                for values, rows in split(made.rows, times, self.event_time.by):
                    written.write(rows, values)
                if made.dead_letters is not None:
                    lost.write(made.dead_letters)
                    error = error or _told(row, made.dead_letters)
            files, dead_letter_files = written.close(), lost.close()
        except BaseException:
            written.abandon()
            lost.abandon()
            raise
        return RangeReport(
            topic=row.topic,
            partition=row.partition,
            start=row.start,
            end=row.end,
            tally=tally,
            files=files,
            dead_letter_files=dead_letter_files,
            error=error,
        )


def _told(row: RangeRow, dead_letters: pa.RecordBatch) -> str:
    first = dead_letters.slice(0, 1).to_pylist()[0]
    return f"{row.topic}-{row.partition} at offset {first['offset']}: {first['error']}"
