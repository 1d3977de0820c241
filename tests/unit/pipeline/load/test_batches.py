"""The driver's part of a load: which batches it commits, with Spark's frame and the tasks made up."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import Row

from barnabas.pipeline.lake.table import CompactionPlan
from barnabas.pipeline.load.batches import BatchLoader, Compacting, Limits
from barnabas.pipeline.load.ledger import row_of
from barnabas.pipeline.load.publishing import LoadTables
from barnabas.pipeline.load.range_load import RangeReport, RangeRow
from barnabas.pipeline.load.steps import LoadRefused
from barnabas.pipeline.load.tally import Tally
from tests.unit.pipeline.load.test_publishing import new_tables

LATE_AFTER_US = 100


class Frame:
    """A batch as Spark hands it over: a row for each range; an `rdd` that runs its tasks here."""

    def __init__(self, *ranges: RangeRow) -> None:
        self._rows = [Row(range=bytearray(msgspec.msgpack.encode(each))) for each in ranges]
        self._work: Callable[[Iterable[Row]], Iterable[Any]] = iter

    @property
    def rdd(self) -> "Frame":
        return self

    def mapPartitions(self, work: Callable[[Iterable[Row]], Iterable[Any]]) -> "Frame":  # noqa: N802 - Spark's name
        self._work = work
        return self

    def collect(self) -> list[Any]:
        return list(self._work(iter(self._rows)))


class Tasks:
    """The work of a batch, of whose ranges' records so many are dead letters; the last event time by partition."""

    run = "0" * 16

    def __init__(self, dead_letters: int, most_event_us: Mapping[int, int]) -> None:
        self._dead_letters = dead_letters
        self._most_event_us = most_event_us

    def __call__(self, rows: Iterable[Row]) -> Iterator[bytes]:
        for each in rows:
            row = msgspec.msgpack.decode(bytes(each.range), type=RangeRow)
            dead = self._dead_letters
            yield msgspec.msgpack.encode(
                RangeReport(
                    topic=row.topic,
                    partition=row.partition,
                    start=row.start,
                    end=row.end,
                    tally=Tally(
                        rows=row.end - row.start - dead,
                        dead_letters=dead,
                        most_event_us=self._most_event_us.get(row.partition),
                    ),
                    files=[],
                    dead_letter_files=[],
                    error=f"{row.topic}-{row.partition} at offset {row.start}: bad" if dead else None,
                )
            )


class Query:
    """One query's loads into the tables of a folder."""

    def __init__(self, folder: Path, name: str, *, overlap: bool = False) -> None:
        self.tables: LoadTables = new_tables(folder, "parquet", name)
        self.told: list[dict[str, Any]] = []
        self.late_before_us: list[int | None] = []
        """What each batch was told."""
        self.most_event_us: dict[int, int] = {}
        self._overlap = overlap
        self.loader = self.again()

    def again(self) -> BatchLoader:
        """The same as its next process has it."""
        self.dead_letters = 0
        self.loader = BatchLoader(
            self.tables,
            self._tasks,  # type: ignore[arg-type]
            limits=Limits(None, 0.25, self._overlap),
            compacting=Compacting(0, CompactionPlan()),
            late_after_us=LATE_AFTER_US,
            checkpoint=lambda: "c",
            told=self.told.append,
        )
        self.loader.prepare()
        return self.loader

    def load(self, batch: int, start: int, end: int, partition: int = 0) -> None:
        self.loader.process(Frame(RangeRow("t", partition, start, end)), batch)  # type: ignore[arg-type]

    def _tasks(self, _batch: int, late_before_us: int | None) -> Tasks:
        self.late_before_us.append(late_before_us)
        return Tasks(self.dead_letters, self.most_event_us)


@pytest.fixture
def stream(tmp_path: Path) -> Query:
    return Query(tmp_path, "stream")


def test_a_batch_that_the_table_has_is_left_out_if_it_is_the_same(stream: Query) -> None:
    stream.load(0, 0, 10)
    stream.again()
    stream.load(0, 0, 10)
    assert [each.get("skipped", False) for each in stream.told] == [False, True]
    with pytest.raises(LoadRefused, match="the checkpoint plans it with t-0 0 to 11"):
        stream.load(0, 0, 11)
    stream.load(1, 10, 20)
    assert stream.tables.last_batch() == 1


def test_a_batch_with_too_many_dead_letters_is_not_committed(stream: Query) -> None:
    stream.load(0, 0, 8)
    stream.dead_letters = 3
    with pytest.raises(LoadRefused, match=r"3 of 8 records of batch 1 cannot be read.* at offset 8: bad"):
        stream.load(1, 8, 16)
    assert isinstance(stream.loader.failure, LoadRefused), "Spark makes a text of what is raised"
    assert stream.tables.last_batch() == 0
    stream.dead_letters = 2
    stream.load(1, 8, 16)
    assert stream.tables.last_batch() == 1


def test_what_another_query_has_loaded_is_refused_in_later_batches_too(stream: Query, tmp_path: Path) -> None:
    Query(tmp_path, "backfill").load(0, 20, 30)
    stream.load(0, 0, 10)
    stream.load(1, 10, 20)
    with pytest.raises(LoadRefused, match="to load t-0 20 to 30, and query backfill has put t-0 20 to 30"):
        stream.load(2, 20, 30)
    assert stream.tables.last_batch() == 1
    meant = Query(tmp_path, "stream", overlap=True)
    meant.load(2, 20, 30)
    assert meant.tables.last_batch() == 2


def test_a_backfill_ahead_of_a_stream_is_seen_by_the_streams_next_run(stream: Query, tmp_path: Path) -> None:
    stream.load(0, 0, 10)
    Query(tmp_path, "backfill").load(0, 10, 15)
    stream.again()
    with pytest.raises(LoadRefused, match="query backfill has put t-0 10 to 15"):
        stream.load(1, 10, 20)


def test_offsets_that_became_neither_rows_nor_dead_letters_are_gaps(stream: Query) -> None:
    stream.dead_letters = 2
    stream.load(0, 0, 10)
    tally = Tally(rows=4, dead_letters=1)
    row = row_of(RangeReport(topic="t", partition=0, start=5, end=15, tally=tally, files=[], dead_letter_files=[]))
    assert (row.rows, row.dead_letters, row.gaps) == (4, 1, 5)
    assert [stream.told[0][name] for name in ("rows", "dead_letters", "gaps", "offsets")] == [8, 2, 0, 10]


def test_rows_are_late_behind_the_slowest_partition_and_a_pause_also_in_the_next_run(stream: Query) -> None:
    stream.most_event_us = {0: 5000, 1: 3000}
    stream.load(0, 0, 10)
    stream.load(1, 0, 10, partition=1)
    stream.most_event_us = {0: 4000, 1: 3500}
    stream.load(2, 10, 20)
    stream.again()
    stream.load(3, 10, 20, partition=1)
    stream.load(4, 20, 30)
    expected = [None, 5000, 3000, 3000, 3500]
    assert stream.late_before_us == [None if each is None else each - LATE_AFTER_US for each in expected]
