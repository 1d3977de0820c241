"""A load's batches on the driver: each is planned by Spark, written by tasks, and committed here.

The driver holds reports, never records. Spark calls `process` for one batch after the other, in a thread of its own;
what goes wrong there is kept in `failure`, because Spark tells it as a text among its own.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from barnabas.pipeline.lake.table import CompactionPlan, TableConflict
from barnabas.pipeline.load.ledger import LedgerRow, row_of
from barnabas.pipeline.load.publishing import BatchRecord, LoadTables
from barnabas.pipeline.load.range_load import RangeLoad, RangeReport, RangeRow
from barnabas.pipeline.load.steps import (
    Span,
    merge,
    must_load,
    require_few_dead_letters,
    require_no_overlap,
    require_same_ranges,
    watermark_of,
)
from barnabas.protocol.ids import TopicPartition
from barnabas.runtime.clock import Clock, SystemClock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Limits:
    """How many of a batch's records may be unreadable, and whether other queries' records may be loaded again."""

    dead_letters: int | None
    dead_letter_fraction: float
    overlap: bool


@dataclass(frozen=True)
class Compacting:
    """How files are merged, after each `every` batches; 0 for never."""

    every: int
    plan: CompactionPlan


class BatchLoader:
    """Loads the batches of one query. `new_load` gives the work of a batch by its number and watermark."""

    def __init__(
        self,
        tables: LoadTables,
        new_load: Callable[[int, int | None], RangeLoad],
        *,
        limits: Limits,
        compacting: Compacting,
        late_after_us: int,
        checkpoint: Callable[[], str | None],
        told: Callable[[dict[str, Any]], None],
        clock: Clock | None = None,
    ) -> None:
        self._tables = tables
        self._new_load = new_load
        self._limits = limits
        self._compacting = compacting
        self._late_after_us = late_after_us
        self._checkpoint = checkpoint
        self._told = told
        self._clock = clock or SystemClock()
        self._most_event_us: dict[TopicPartition, int] = {}
        self._others: dict[str, list[Span]] = {}
        """What other queries had put into the table when this one began, or began its first batch."""
        self.failure: Exception | None = None

    def prepare(self) -> str | None:
        """Complete what a crash left, and learn where the query stands; the checkpoint it had, None for none.

        Raises LakeError.
        """
        self._tables.recover()
        rows = self._tables.known_rows()
        self._others = self._of_others(rows)
        mine = rows.filter(pc.equal(rows["query"], self._tables.query))
        times = mine.select(["topic", "partition", "max_event_time"])
        times = times.set_column(2, "time", times["max_event_time"].cast(pa.int64()))
        for each in times.group_by(["topic", "partition"]).aggregate([("time", "max")]).to_pylist():
            if each["time_max"] is not None:
                self._most_event_us[TopicPartition(each["topic"], each["partition"])] = each["time_max"]
        last = mine.filter(pc.equal(mine["batch"], pc.max(mine["batch"]))) if mine.num_rows else mine
        return next((each for each in last["checkpoint"].to_pylist() if each is not None), None)

    def require_free(self, planned: Sequence[Span]) -> None:
        """Raise LoadRefused where another query had loaded what is planned, unless that is allowed."""
        if not self._limits.overlap:
            require_no_overlap(self._tables.query, planned=planned, others=self._others)

    def process(self, frame: "DataFrame", batch: int) -> None:
        """What Spark calls for a batch: `frame` has a row for each range."""
        try:
            self._process(frame, batch)
        except Exception as error:
            self.failure = error
            raise

    def _process(self, frame: "DataFrame", batch: int) -> None:
        tables = self._tables
        last = tables.last_batch()
        if not must_load(tables.query, batch, last, tables.data.location):
            self._skip(frame, batch)
            return
        log.info("query %s: batch %d planned", tables.query, batch)
        began_ms = self._clock.monotonic_ms()
        if last is None:
            # Spark took its time to come here. Later batches are held against what is known: a ledger has many files.
            self._others = self._of_others(tables.known_rows())
        if self._others and not self._limits.overlap:
            self.require_free(_planned(frame))
        watermark = watermark_of(self._most_event_us)
        late_before = None if watermark is None else watermark - self._late_after_us
        load = self._new_load(batch, late_before)
        # Not mapInArrow: Spark wants pandas for it, and there is a row for each task.
        packed = frame.rdd.mapPartitions(load).collect()
        reports = [msgspec.msgpack.decode(each, type=RangeReport) for each in packed]
        reports.sort(key=lambda each: (each.topic, each.partition, each.start))
        self._check(batch, reports)
        files = [file for each in reports for file in each.files]
        rows = sum(each.tally.rows for each in reports)
        log.info("query %s: batch %d written, %d rows in %d files", tables.query, batch, rows, len(files))
        record = BatchRecord(
            run=load.run,
            checkpoint=self._checkpoint(),
            ranges=[row_of(each) for each in reports],
            dead_letter_files=[file for each in reports for file in each.dead_letter_files],
        )
        tables.commit(batch, files, record)
        self._learn(reports)
        self._tell(
            batch, record.ranges, files=len(files), bytes_=sum(each.size_bytes for each in files), since=began_ms
        )
        if self._compacting.every and (batch + 1) % self._compacting.every == 0:
            self._compact()

    def _skip(self, frame: "DataFrame", batch: int) -> None:
        """Leave out a batch that the table has, if it is the same one."""
        rows = self._tables.known_rows()
        chosen = pc.and_(pc.equal(rows["query"], self._tables.query), pc.equal(rows["batch"], batch))
        require_same_ranges(self._tables.query, batch, planned=_planned(frame), committed=_spans(rows.filter(chosen)))
        log.info("query %s: batch %d is in the table already", self._tables.query, batch)
        self._told({"batch": batch, "skipped": True})

    def _of_others(self, rows: pa.Table) -> dict[str, list[Span]]:
        names = [name for name in pc.unique(rows["query"]).to_pylist() if name != self._tables.query]
        return {name: merge(_spans(rows.filter(pc.equal(rows["query"], name)))) for name in names}

    def _check(self, batch: int, reports: list[RangeReport]) -> None:
        lost = sum(each.tally.dead_letters for each in reports)
        example = next((each for each in reports if each.tally.dead_letters), None)
        require_few_dead_letters(
            batch,
            rows=sum(each.tally.rows for each in reports),
            dead_letters=lost,
            most=self._limits.dead_letters,
            most_fraction=self._limits.dead_letter_fraction,
            example="" if example is None or example.error is None else f"The first: {example.error}. ",
        )

    def _learn(self, reports: list[RangeReport]) -> None:
        for each in reports:
            at, found = TopicPartition(each.topic, each.partition), each.tally.most_event_us
            if found is not None:
                self._most_event_us[at] = max(found, self._most_event_us.get(at, found))

    def _tell(self, batch: int, ranges: list[LedgerRow], *, files: int, bytes_: int, since: int) -> None:
        watermark = watermark_of(self._most_event_us)
        self._told(
            {
                "batch": batch,
                "ranges": len(ranges),
                "offsets": sum(each.end_offset - each.start_offset for each in ranges),
                "rows": sum(each.rows for each in ranges),
                "dead_letters": sum(each.dead_letters for each in ranges),
                "gaps": sum(each.gaps for each in ranges),
                "late": sum(each.late for each in ranges),
                "files": files,
                "bytes": bytes_,
                "complete_up_to_us": watermark,
                "duration_ms": self._clock.monotonic_ms() - since,
            }
        )

    def _compact(self) -> None:
        """Merge files; that another process does so too is no reason to end."""
        for table in (self._tables.data, self._tables.ledger):
            try:
                done = table.compact(self._compacting.plan)
            except TableConflict as error:
                log.warning("%s", error)
            else:
                log.info("%s: %d files became %d", table.location, done.removed, done.added)


def _planned(frame: "DataFrame") -> list[Span]:
    rows = [msgspec.msgpack.decode(bytes(each.range), type=RangeRow) for each in frame.collect()]
    return [Span(TopicPartition(each.topic, each.partition), each.start, each.end) for each in rows]


def _spans(rows: pa.Table) -> list[Span]:
    columns = rows.select(["topic", "partition", "start_offset", "end_offset"]).to_pylist()
    return [
        Span(TopicPartition(each["topic"], each["partition"]), each["start_offset"], each["end_offset"])
        for each in columns
    ]
