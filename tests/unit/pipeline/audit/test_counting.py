"""Tallies of columns are those of the records one by one, however they are cut into batches."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.pipeline.audit import counting
from barnabas.pipeline.audit.counting import HIGH, LOW, PARTIAL, PICKED, Scope, count_records, pick_records, tally_of
from barnabas.pipeline.audit.tallies import HOUR_MS, Cell, Tally, add_up, hour_of
from barnabas.pipeline.columns.checksums import as_signed, content_checksums_of, place_checksums


class Row(NamedTuple):
    topic: str
    partition: int
    offset: int
    time_ms: int
    key: bytes | None
    value: bytes | None


ROWS = st.lists(
    st.builds(
        Row,
        st.sampled_from(["t", "u", "other"]),
        st.integers(0, 2),
        st.integers(0, 50),
        st.integers(-2 * HOUR_MS, 3 * HOUR_MS),
        st.none() | st.binary(max_size=5),
        st.none() | st.binary(max_size=20),
    ),
    max_size=40,
)
SCOPES = st.builds(
    Scope,
    st.just(frozenset({"t", "u"})),
    st.dictionaries(st.tuples(st.sampled_from(["t", "u"]), st.integers(0, 1)), st.integers(0, 50)),
    st.integers(0, 30),
    st.none() | st.just(0),
    st.none() | st.just(2 * HOUR_MS),
)


def batch_of(rows: Sequence[Row], *, stored: bool) -> pa.RecordBatch:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    columns = {
        "topic": pa.array([each.topic for each in rows], pa.string()),
        "partition": pa.array([each.partition for each in rows], pa.int32()),
        "offset": pa.array([each.offset for each in rows], pa.int64()),
        "timestamp": pa.array(
            [epoch + timedelta(milliseconds=each.time_ms) for each in rows], pa.timestamp("us", tz="UTC")
        ),
    }
    if stored:
        sums = content_checksums_of([each.key for each in rows], [each.value for each in rows])
        columns["checksum"] = pa.array(as_signed(sums))
    else:
        columns["key"] = pa.array([each.key for each in rows], pa.binary())
        columns["value"] = pa.array([each.value for each in rows], pa.binary())
    return pa.RecordBatch.from_pydict(columns)


def batches_of(rows: Sequence[Row], size: int, *, stored: bool = False) -> list[pa.RecordBatch]:
    return [batch_of(rows[at : at + size], stored=stored) for at in range(0, len(rows), size)]


def part_of(row: Row, scope: Scope) -> int:
    return LOW if row.offset < scope.boundaries.get((row.topic, row.partition), scope.boundary) else HIGH


def counts_in(row: Row, scope: Scope) -> bool:
    since = -(2**62) if scope.since_ms is None else scope.since_ms
    until = 2**62 if scope.until_ms is None else scope.until_ms
    return row.topic in scope.topics and since <= row.time_ms < until


def plain(row: Row) -> tuple[Cell, Tally]:
    content = int(content_checksums_of([row.key], [row.value])[0])
    places = int(place_checksums(np.array([row.offset]), np.array([row.time_ms]))[0])
    return Cell(row.topic, row.partition, hour_of(row.time_ms)), Tally(1, content, places, row.offset, row.offset)


def tallies(found: list[pa.RecordBatch], part: int) -> dict[Cell, Tally]:
    rows = [row for batch in found for row in batch.to_pylist() if row["part"] == part]
    assert len({(row["topic"], row["partition"], row["hour"]) for row in rows}) == len(rows)
    return {Cell(row["topic"], row["partition"], row["hour"]): tally_of(row) for row in rows}


@given(ROWS, SCOPES, st.integers(1, 20), st.booleans(), st.integers(1, 30))
def test_tallies_are_those_of_the_records(
    rows: list[Row], scope: Scope, size: int, stored: bool, partial_rows: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "_PARTIAL_ROWS", partial_rows)
        found = list(count_records(batches_of(rows, size, stored=stored), scope))
    for part in (LOW, HIGH):
        wanted = add_up(plain(row) for row in rows if counts_in(row, scope) and part_of(row, scope) == part)
        assert tallies(found, part) == wanted
    assert all(batch.schema.equals(PARTIAL) for batch in found)


@given(ROWS, SCOPES, st.integers(1, 20), st.data())
def test_the_records_of_cells_are_picked(rows: list[Row], scope: Scope, size: int, data: st.DataObject) -> None:
    cells = {plain(row)[0] for row in rows}
    cells = data.draw(st.sets(st.sampled_from(sorted(cells)))) if cells else set()
    found = list(pick_records(batches_of(rows, size), scope, HIGH, frozenset(cells)))
    picked = [row for batch in found for row in batch.to_pylist()]
    wanted = []
    for row in rows:
        cell, tally = plain(row)
        if counts_in(row, scope) and part_of(row, scope) == HIGH and cell in cells:
            sums = as_signed(np.array([tally.content, tally.places], dtype=np.uint64)).tolist()
            wanted.append(dict(zip(PICKED.names, [*cell[:2], row.offset, cell.hour_ms, *sums], strict=True)))
    assert picked == wanted
    assert all(batch.schema.equals(PICKED) for batch in found)


def test_records_without_a_time_are_of_the_hour_before_1970() -> None:
    batch = batch_of([Row("t", 0, 0, 0, None, None)], stored=False)
    times = pa.nulls(1, pa.timestamp("us", tz="UTC"))
    batch = batch.set_column(batch.schema.get_field_index("timestamp"), "timestamp", times)
    (found,) = count_records([batch], Scope(frozenset({"t"})))
    assert found.to_pylist()[0]["hour"] == -HOUR_MS


def test_a_row_without_an_offset_is_refused() -> None:
    batch = batch_of([Row("t", 0, 0, 0, None, None)], stored=False)
    batch = batch.set_column(batch.schema.get_field_index("offset"), "offset", pa.nulls(1, pa.int64()))
    with pytest.raises(ValueError, match="a row has no topic, partition, offset or checksum"):
        list(count_records([batch], Scope(frozenset({"t"}))))


def test_low_halves_that_add_up_beyond_their_bits_carry_over() -> None:
    sums = {
        "records": 3,
        "content_high": 1,
        "content_low": 3 << 32 | 5,
        "places_high": (1 << 32) - 1,
        "least": 0,
        "most": 2,
    }
    assert tally_of(sums | {"places_low": 1 << 32 | 7}) == Tally(3, 4 << 32 | 5, 7, 0, 2)
