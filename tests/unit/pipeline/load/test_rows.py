"""Rows of records: their time, their folder, what is counted of them."""

import datetime as dt
from typing import Any, Literal

import pyarrow as pa
import pytest

from barnabas.pipeline.columns.checksums import content_checksums_of, total
from barnabas.pipeline.columns.schema import arrow_schema
from barnabas.pipeline.load.event_time import DAY_US, HOUR_US, TIME, EventTime, split
from barnabas.pipeline.load.payloads.decoding import RawPayload
from barnabas.pipeline.load.payloads.json_payload import JsonPayload
from barnabas.pipeline.load.rows import RowMaker, columns_read
from barnabas.pipeline.load.tally import HourTally, Tally

START_US = 1_714_521_600_000_000  # 2024-05-01
LATEST_US = 200 * 365 * DAY_US


def times(*values: int | None) -> pa.Array:
    return pa.array(values, pa.int64()).cast(TIME)


def event_time(**changes: Any) -> EventTime:
    return EventTime(**{"by": "day", "earliest_us": 0, "latest_us": LATEST_US, **changes})


def folders(by: Literal["day", "hour", "none"], *values: int | None) -> dict[Any, list[int]]:
    rows = pa.RecordBatch.from_arrays([pa.array(range(len(values)))], names=["at"])
    return {key: part.column("at").to_pylist() for key, part in split(rows, times(*values), by)}


def test_rows_are_split_by_day_and_hour() -> None:
    day, next_day = START_US + 23 * HOUR_US, START_US + DAY_US
    assert folders("day", day, next_day, day + 1, None) == {
        (("event_date", "2024-05-01"),): [0, 2],
        (("event_date", "2024-05-02"),): [1],
        (("event_date", None),): [3],
    }
    assert folders("hour", day, next_day, day + 1, None) == {
        (("event_date", "2024-05-01"), ("event_hour", "23")): [0, 2],
        (("event_date", "2024-05-02"), ("event_hour", "0")): [1],
        (("event_date", None), ("event_hour", None)): [3],
    }
    assert folders("none", day, None) == {(): [0, 1]}
    assert folders("day", day, day + 5) == {(("event_date", "2024-05-01"),): [0, 1]}
    assert folders("day", None, None) == {(("event_date", None),): [0, 1]}
    assert folders("hour", -1) == {(("event_date", "1969-12-31"), ("event_hour", "23")): [0]}
    assert folders("day", -1, 1) == {(("event_date", "1969-12-31"),): [0], (("event_date", "1970-01-01"),): [1]}


def test_times_out_of_bounds_have_no_folder() -> None:
    given = times(START_US, -1000, None, LATEST_US, LATEST_US - 1, 2**63 - 1, -(2**63))
    found = event_time().of(given, pa.nulls(7))
    assert found.cast(pa.int64()).to_pylist() == [START_US, None, None, None, LATEST_US - 1, None, None]
    assert event_time().of(given.slice(0, 1), pa.nulls(1)).equals(given.slice(0, 1))


@pytest.mark.parametrize(
    ("kind", "unit", "value"),
    [
        (pa.int64(), "ms", START_US // 1000),
        (pa.int32(), "s", START_US // 1_000_000),
        (pa.int64(), "us", START_US),
        (TIME, "ms", dt.datetime(2024, 5, 1, tzinfo=dt.UTC)),
        (pa.date32(), "ms", dt.date(2024, 5, 1)),
    ],
)
def test_event_time_may_be_a_field(kind: pa.DataType, unit: str, value: Any) -> None:
    values = pa.array([{"when": value}, {"when": None}, None], pa.struct([("when", kind)]))
    found = event_time(field="when", unit=unit).of(times(1, 2, 3), values)
    assert found.cast(pa.int64()).to_pylist() == [START_US, None, None]


def test_a_number_that_would_overflow_is_no_time() -> None:
    values = pa.array([{"when": 2**62}, {"when": -(2**62)}], pa.struct([("when", pa.int64())]))
    assert event_time(field="when", unit="s").of(times(1, 2), values).null_count == 2


def records(*values: bytes | None) -> pa.RecordBatch:
    count = len(values)
    columns: dict[str, Any] = {
        "topic": ["t"] * count,
        "partition": [0] * count,
        "offset": list(range(10, 10 + count)),
        "timestamp": times(*range(START_US, START_US + count)),
        "key": [b"k"] * count,
        "value": list(values),
        "headers": [[("h", b"1")]] * count,
    }
    return pa.RecordBatch.from_pydict(columns, schema=arrow_schema(columns_read(headers=True)))


def test_raw_rows_are_the_records() -> None:
    given = records(b"a", None, b"")
    made = RowMaker(RawPayload(), headers=True).rows(given)
    assert made.rows.schema.names == ["topic", "partition", "offset", "timestamp", "key", "headers", "value"]
    assert made.rows.select(list(columns_read(headers=True))).equals(given)
    assert (made.dead, made.dead_letters) == (None, None)
    assert made.checksums.to_pylist() == content_checksums_of([b"k"] * 3, [b"a", None, b""]).tolist()


def test_what_cannot_be_read_goes_to_the_dead_letters_as_it_came() -> None:
    maker = RowMaker(JsonPayload(pa.struct([("a", pa.int64())])), headers=True)
    made = maker.rows(records(b'{"a":1}', b"bad", None, b"worse"))
    assert made.rows.column("offset").to_pylist() == [10, 12]
    assert made.rows.column("value").to_pylist() == [{"a": 1}, None]
    assert made.values.to_pylist() == [{"a": 1}, None]
    expected = content_checksums_of([b"k"] * 2, [b'{"a":1}', None])
    assert [each % 2**64 for each in made.rows.column("checksum").to_pylist()] == expected.tolist()
    assert made.dead_letters is not None
    letters = made.dead_letters.to_pylist()
    assert [(each["offset"], each["value"], each["key"]) for each in letters] == [
        (11, b"bad", b"k"),
        (13, b"worse", b"k"),
    ]
    assert all("malformed" in each["error"] for each in letters)
    assert made.dead is not None
    assert made.dead.to_pylist() == [False, True, False, True]


def test_a_tally_counts_by_the_hour_and_adds_checksums() -> None:
    whole = [START_US, START_US + 1, START_US + HOUR_US, START_US + 1]
    sums = [2**64 - 1, 5, 7, 11]
    tally = Tally()
    tally.add(times(*whole[:2]), pa.array(sums[:2], pa.uint64()), None)
    tally.add(times(*whole[2:]), pa.array(sums[2:], pa.uint64()), pa.array([True, False]))
    tally.add(times(), pa.array([], pa.uint64()), None)
    assert (tally.rows, tally.dead_letters, tally.checksum) == (3, 1, sum(sums) % 2**64)
    assert tally.hours == {START_US: HourTally(3, 0, 15), START_US + HOUR_US: HourTally(0, 1, 7)}


def test_the_sum_does_not_depend_on_how_records_come() -> None:
    values = [b"%d" % at for at in range(1000)]
    checksums = content_checksums_of([None] * 1000, values)
    whole = times(*(START_US + at * HOUR_US // 300 for at in range(1000)))
    one, many = Tally(), Tally()
    one.add(whole, pa.array(checksums), None)
    for at in range(0, 1000, 37):
        many.add(whole[at : at + 37], pa.array(checksums[at : at + 37]), None)
    assert one == many
    assert (one.checksum, one.rows) == (total(checksums), 1000)


def test_hours_of_a_wrong_clock_are_bounded() -> None:
    tally = Tally()
    count = 12_000
    tally.add(times(*range(0, count * HOUR_US, HOUR_US)), pa.array([1] * count, pa.uint64()), None)
    assert len(tally.hours) == 10_001
    assert (tally.hours[None].rows, tally.rows, tally.checksum) == (2000, count, count)


def test_late_rows_are_those_before_the_watermark() -> None:
    tally = Tally()
    tally.add_times(times(10, 20, None, 30), 20)
    tally.add_times(times(None, None), 20)
    assert (tally.late, tally.least_event_us, tally.most_event_us) == (1, 10, 30)
    tally.add_times(times(5), None)
    assert (tally.late, tally.least_event_us) == (1, 5)
