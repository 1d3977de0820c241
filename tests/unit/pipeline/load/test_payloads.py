"""Values as columns, and what cannot be read, told for each."""

import datetime as dt
import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from barnabas.pipeline.jobs.config import ConfigError
from barnabas.pipeline.load.config import PayloadConfig
from barnabas.pipeline.load.payloads.avro_payload import AvroPayload
from barnabas.pipeline.load.payloads.columns import from_spark
from barnabas.pipeline.load.payloads.json_payload import JsonPayload
from barnabas.pipeline.load.payloads.spec import new_decoder, read_spec

TIME = pa.timestamp("us", tz="UTC")


def json_payload(**fields: pa.DataType) -> JsonPayload:
    return JsonPayload(pa.struct(list(fields.items())))


def decoded(decoder: JsonPayload | AvroPayload, *values: bytes | None) -> tuple[list[Any], dict[int, str]]:
    found = decoder.decode(pa.array(values, pa.binary()))
    assert found.column.type.equals(decoder.kind)
    return found.column.to_pylist(), found.errors


def test_json_fields_become_columns() -> None:
    payload = json_payload(
        user=pa.string(),
        age=pa.int8(),
        score=pa.float64(),
        ok=pa.bool_(),
        at=TIME,
        day=pa.date32(),
        price=pa.decimal128(6, 2),
        raw=pa.binary(),
        tags=pa.list_(pa.field("element", pa.string())),
        more=pa.map_(pa.string(), pa.int64()),
        inner=pa.struct([("a b", pa.int64())]),
    )
    text = (
        b'{"user":"J\\u00f6rg","age":-128,"score":1,"ok":true,"at":"2024-05-01T02:00:00+02:00","day":"2024-05-01",'
        b'"price":"12.5","raw":"AAE=","tags":["x",null],"more":{"k":1},"inner":{"a b":3},"unknown":[{}]}'
    )
    rows, errors = decoded(payload, text, None, b"{}", b' {"user":null}\n')
    assert errors == {}
    assert rows[0] == {
        "user": "Jörg",
        "age": -128,
        "score": 1.0,
        "ok": True,
        "at": dt.datetime(2024, 5, 1, tzinfo=dt.UTC),
        "day": dt.date(2024, 5, 1),
        "price": Decimal("12.50"),
        "raw": b"\x00\x01",
        "tags": ["x", None],
        "more": [("k", 1)],
        "inner": {"a b": 3},
    }
    assert rows[1] is None
    assert set(rows[2].values()) == {None}


def test_json_that_is_not_of_the_schema_is_told_and_its_neighbours_are_read() -> None:
    payload = json_payload(age=pa.int8(), at=TIME, price=pa.decimal128(4, 2), f=pa.float32())
    bad = {
        b'{"age":128}': "Expected `int` <= 127",
        b'{"age":"1"}': "Expected `int | null`, got `str`",
        b'{"age":1.5}': "Expected `int | null`, got `float`",
        b'{"at":"2024-05-01T00:00:00"}': "timezone",
        b'{"at":"yesterday"}': "Invalid RFC3339",
        b'{"price":"123.45"}': "cannot hold it",
        b'{"price":"1.234"}': "cannot hold it",
        b"[]": "Expected `object`, got `array`",
        b"": "truncated",
        b'{"age":1} {"age":2}': "trailing",
        b"\xff\xfe": "malformed",
        b'{"age":' + b"[" * 100_000: "",
    }
    values: list[bytes | None] = [b'{"age":1}']
    for each in bad:
        values += [each, b'{"age":2}']
    rows, errors = decoded(payload, *values)
    assert sorted(errors) == list(range(1, len(values), 2))
    for at, expected in enumerate(bad.values()):
        assert expected in errors[2 * at + 1]
    assert [row["age"] for row in rows[::2]] == [1] + [2] * len(bad)
    assert [row for row in rows[1::2] if row is not None] == []


AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Event",
    "namespace": "shop",
    "fields": [
        {"name": "user", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "age", "type": ["null", "int"], "default": None},
        {"name": "home", "type": {"type": "record", "name": "Place", "fields": [{"name": "x", "type": "double"}]}},
        {"name": "work", "type": ["null", "Place"], "default": None},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "more", "type": {"type": "map", "values": "long"}},
    ],
}
EVENT: dict[str, Any] = {
    "user": "anna",
    "at": dt.datetime(2024, 5, 1, tzinfo=dt.UTC),
    "age": 7,
    "home": {"x": 1.5},
    "work": None,
    "price": Decimal("12.50"),
    "kind": "B",
    "tags": ["x"],
    "more": {"k": 1},
}


def avro(schema: Any, value: Any) -> bytes:
    content = io.BytesIO()
    fastavro.schemaless_writer(content, fastavro.parse_schema(schema, named_schemas={}), value)
    return content.getvalue()


def test_avro_records_become_columns() -> None:
    whole = avro(AVRO, EVENT)
    rows, errors = decoded(AvroPayload(AVRO), whole, None, whole[:-1], whole + b"x", b"")
    assert rows == [{**EVENT, "more": [("k", 1)]}, None, None, None, None]
    assert sorted(errors) == [2, 3, 4]
    assert "1 bytes follow the record" in errors[3]
    assert "it is no record of the schema" in errors[2]


def test_framed_avro_is_read_by_the_schema_of_its_id() -> None:
    old = {"type": "record", "name": "E", "fields": [{"name": "n", "type": "int"}, {"name": "gone", "type": "string"}]}
    new = {
        "type": "record",
        "name": "E",
        "fields": [{"name": "n", "type": "long"}, {"name": "more", "type": "string", "default": "none"}],
    }
    payload = AvroPayload(new, {1: old, 258: new})
    first = b"\x00\x00\x00\x00\x01" + avro(old, {"n": 5, "gone": "x"})
    second = b"\x00\x00\x00\x01\x02" + avro(new, {"n": 6, "more": "y"})
    unknown = b"\x00\x00\x00\x00\x09" + avro(new, {"n": 6, "more": "y"})
    rows, errors = decoded(payload, first, second, unknown, b"\x01" + first[1:], b"\x00\x00")
    assert rows == [{"n": 5, "more": "none"}, {"n": 6, "more": "y"}, None, None, None]
    assert "there is no schema 9: put 9.avsc into payload.schemas" in errors[2]
    assert "it does not begin with 0 and an id of four bytes: 0100000001" in errors[3]
    assert sorted(errors) == [2, 3, 4]


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("string", "values must be records, not string"),
        ({"type": "record", "name": "A", "fields": [{"name": "x", "type": ["int", "string"]}]}, "union of 2 types"),
        (
            {"type": "record", "name": "A", "fields": [{"name": "x", "type": ["null", "A"]}]},
            "A is no type of a payload, or one that contains itself",
        ),
        (
            {
                "type": "record",
                "name": "A",
                "fields": [{"name": "x", "type": {"type": "int", "logicalType": "time-millis"}}],
            },
            "a table has no type for time-millis",
        ),
        ({"type": "recrod", "name": "A", "fields": []}, "is no Avro schema"),
        ({"type": "record", "name": "A", "fields": []}, "a record without fields"),
    ],
)
def test_avro_schemas_that_no_table_has_are_refused(schema: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        AvroPayload(schema)


def test_types_of_spark_become_those_of_the_table() -> None:
    schema = {
        "type": "struct",
        "fields": [
            {"name": "a", "type": "integer", "nullable": True, "metadata": {}},
            {"name": "b", "type": "decimal(10,2)"},
            {"name": "c", "type": {"type": "array", "elementType": "timestamp", "containsNull": True}},
            {"name": "d", "type": {"type": "map", "keyType": "string", "valueType": "double"}},
        ],
    }
    assert from_spark(schema) == pa.struct(
        [
            ("a", pa.int32()),
            ("b", pa.decimal128(10, 2)),
            ("c", pa.list_(pa.field("element", TIME))),
            ("d", pa.map_(pa.string(), pa.float64())),
        ]
    )
    for bad, why in (
        ("timestamp_ntz", "timestamp_ntz is no type of a payload"),
        (
            {"type": "map", "keyType": "integer", "valueType": "long"},
            "the keys of a map in JSON are texts, not integer",
        ),
        ({"type": "struct", "fields": []}, "a struct needs fields"),
        (
            {"type": "struct", "fields": [{"name": "a", "type": "long"}, {"name": "A", "type": "long"}]},
            "different names",
        ),
    ):
        with pytest.raises(ConfigError, match=why):
            from_spark(bad)


def never(ddl: str) -> str:
    raise AssertionError(ddl)


def test_a_spec_is_read_from_files(tmp_path: Path) -> None:
    (tmp_path / "event.json").write_text('{"type":"struct","fields":[{"name":"a","type":"long"}]}')
    (tmp_path / "event.avsc").write_text(json.dumps(AVRO))
    spec = read_spec(PayloadConfig(kind="json", schema_file=str(tmp_path / "event.json")), never)
    assert new_decoder(spec).kind == pa.struct([("a", pa.int64())])
    ddl = read_spec(
        PayloadConfig(kind="json", schema="b string"),
        lambda _: '{"type":"struct","fields":[{"name":"b","type":"string"}]}',
    )
    assert new_decoder(ddl).kind == pa.struct([("b", pa.string())])
    plain = read_spec(PayloadConfig(kind="avro", schema_file=str(tmp_path / "event.avsc")), never)
    assert pa.types.is_struct(new_decoder(plain).kind)
    framed = PayloadConfig(
        kind="confluent-avro", schema_file=str(tmp_path / "event.avsc"), schemas=str(tmp_path / "by_id")
    )
    with pytest.raises(ConfigError, match=r"payload.schemas = .* cannot be read"):
        read_spec(framed, never)
    (tmp_path / "by_id").mkdir()
    with pytest.raises(ConfigError, match=r"has no schemas; put them there as 17.avsc"):
        read_spec(framed, never)
    (tmp_path / "by_id" / "17.avsc").write_text(json.dumps(AVRO))
    assert read_spec(framed, never).writers == {17: AVRO}
    (tmp_path / "by_id" / "latest.avsc").write_text("{}")
    with pytest.raises(ConfigError, match=r"has latest.avsc; files are named by the schema's id"):
        read_spec(framed, never)
    with pytest.raises(ConfigError, match=r"payload.schema_file = .*nowhere.* cannot be read"):
        read_spec(PayloadConfig(kind="avro", schema_file=str(tmp_path / "nowhere")), never)
    with pytest.raises(ConfigError, match=r"payload.schema is no JSON"):
        read_spec(PayloadConfig(kind="json", schema="{"), never)
