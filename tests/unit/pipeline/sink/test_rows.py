"""Record batches of Spark's become rows; what cannot be a record is refused."""

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from barnabas.pipeline.sink.rows import RowRefused, Rows, read_rows

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TIME = dt.datetime(2023, 11, 14, 22, 13, 20, 123_999, tzinfo=dt.UTC)


def rows_of(where: str | None = "t", /, **columns: Any) -> Rows:
    return read_rows(pa.record_batch(columns), topic=where)


def test_columns_that_are_not_there_say_nothing() -> None:
    rows = rows_of(value=pa.array([b"a", None]))
    assert (rows.topics, rows.topic_codes.tolist(), len(rows)) == (("t",), [0, 0], 2)
    assert (rows.keys, rows.headers, rows.partitions, rows.given_times_ms) == (None, None, None, None)
    records = rows.records(5)
    assert records.timestamps_ms.tolist() == [5, 5]
    assert records.values.to_pylist() == [b"a", None]


def test_texts_and_large_types_are_taken_as_bytes() -> None:
    for kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()):
        rows = rows_of(key=pa.array([b"k", None], kind), value=pa.array([b"\xc3\xbc", b""], kind))
        assert rows.keys is not None
        assert rows.keys.to_pylist() == [b"k", None]
        assert rows.values.to_pylist() == [b"\xc3\xbc", b""]


def test_what_a_row_does_not_say_is_not_given() -> None:
    rows = rows_of(
        None,
        value=pa.array([b"", b"", b""]),
        topic=pa.array(["b", "a", "b"]),
        partition=pa.array([None, 2, None], pa.int32()),
        timestamp=pa.array([TIME, None, None], pa.timestamp("us", tz="UTC")),
        headers=pa.array([None, [("h", b"1")], []], HEADERS),
    )
    assert (rows.topics, rows.topic_codes.tolist()) == (("b", "a"), [0, 1, 0])
    assert rows.partitions is not None
    assert rows.partitions.tolist() == [-1, 2, -1]
    assert rows.records(9).timestamps_ms.tolist() == [1_700_000_000_123, 9, 9]
    assert rows.headers is not None
    assert rows.headers.counts.tolist() == [0, 1, 0]


def test_the_option_goes_before_the_column() -> None:
    assert rows_of("t", value=pa.array([b"", b""]), topic=pa.array(["a", None])).topics == ("t",)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"topic": pa.array(["a", None])}, "column topic is null in a row"),
        ({"topic": pa.array(["a", "b c"])}, "column topic has 'b c', which is no name of a topic"),
        ({"partition": pa.array([0, -1], pa.int32())}, "column partition has -1"),
        ({"timestamp": pa.array([-1, 0], pa.timestamp("us", tz="UTC"))}, "column timestamp is before 1970"),
        ({"headers": pa.array([[("a", b"")], [(None, b"")]], HEADERS)}, "column headers: the key of a header is null"),
    ],
)
def test_what_cannot_be_a_record_is_refused(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(RowRefused, match=message):
        rows_of(None if "topic" in columns else "t", value=pa.array([b"", b""]), **columns)


def a_table() -> pa.RecordBatch:
    return pa.record_batch(
        {
            "key": pa.array([b"k", None, b"", b"k", b"x"]),
            "value": pa.array([b"v", b"v", None, b"v", b"y"]),
            "topic": pa.array(["a", "a", "b", "b", "a"]),
            "partition": pa.array([0, None, 1, 1, None], pa.int32()),
            "timestamp": pa.array([TIME, None, None, TIME, None], pa.timestamp("us", tz="UTC")),
            "headers": pa.array([None, None, [("h", None)], [], None], HEADERS),
        }
    )


def test_the_checksum_does_not_depend_on_order_or_portions() -> None:
    table = a_table()
    whole = read_rows(table, topic=None).checksum()
    assert read_rows(table.take(pa.array([4, 2, 0, 1, 3])), topic=None).checksum() == whole
    portions = sum(read_rows(table.slice(at, 1), topic=None).checksum() for at in range(5))
    assert portions % 2**64 == whole
    assert read_rows(table.slice(0, 3), topic=None).checksum() != whole


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("key", [b"k", b"", b"", b"k", b"x"], pa.binary()),
        ("value", [b"v", b"v", b"", b"v", b"y"], pa.binary()),
        ("topic", ["a", "a", "b", "b", "b"], pa.string()),
        ("partition", [0, None, 1, 0, None], pa.int32()),
        ("timestamp", [TIME, TIME, None, TIME, None], pa.timestamp("us", tz="UTC")),
        ("headers", [None, None, [("h", b"")], [], None], HEADERS),
        # What rows have between them is the same, and not what each has.
        ("key", [None, b"k", b"", b"k", b"x"], pa.binary()),
        ("headers", [None, [("h", None)], None, [], None], HEADERS),
    ],
)
def test_the_checksum_is_of_all_that_rows_say(name: str, values: list[Any], kind: pa.DataType) -> None:
    table = a_table()
    at = table.schema.get_field_index(name)
    other = table.set_column(at, name, pa.array(values, kind))
    assert read_rows(other, topic=None).checksum() != read_rows(table, topic=None).checksum()
