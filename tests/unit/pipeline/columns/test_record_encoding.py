"""Columns become the bytes that are written for one record after the other."""

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from barnabas.client.partitioner import murmur2, partition_of_key
from barnabas.pipeline.columns.key_hashes import murmur2_of_keys, partitions_of_keys
from barnabas.pipeline.columns.record_encoding import BadHeader, RecordColumns, encode_headers, encode_records
from barnabas.pipeline.columns.varint_writing import varint_sizes, write_varints, zigzag
from barnabas.protocol.records import encode_fields

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SIZES = (0, 1, 2, 3, 4, 5, 7, 8, 62, 63, 64, 65, 8191, 8192, 9000)
NUMBERS = (0, 1, -1, 63, 64, -64, -65, 8191, 8192, -8193, 2**31 - 1, 10**12, -(10**12), 2**62)


def drawn(draw: random.Random, count: int) -> list[bytes | None]:
    return [None if draw.random() < 0.2 else draw.randbytes(draw.choice(SIZES)) for _ in range(count)]


def drawn_headers(draw: random.Random) -> list[tuple[str, bytes | None]] | None:
    if draw.random() < 0.3:
        return None
    return [(draw.choice(["", "a", "ü" * 50]), drawn(draw, 1)[0]) for _ in range(draw.randrange(4))]


def test_varints_take_as_many_bytes_as_they_need() -> None:
    numbers = np.array([*NUMBERS, 2**63 - 1, -(2**63)], dtype=np.int64)
    encoded = zigzag(numbers)
    written = write_varints([encoded]).to_pylist()
    sizes = varint_sizes(encoded).tolist()
    assert sizes == [len(each) for each in written]
    assert sizes == [max(1, -(-int(each).bit_length() // 7)) for each in encoded]
    assert written[:5] == [b"\x00", b"\x02", b"\x01", b"\x7e", b"\x80\x01"]


@pytest.mark.parametrize("skipped", [0, 7])
@pytest.mark.parametrize("has_keys", [True, False])
@pytest.mark.parametrize("has_headers", [True, False])
def test_records_are_those_that_are_encoded_one_by_one(
    seed: int, *, skipped: int, has_keys: bool, has_headers: bool
) -> None:
    draw, count = random.Random(seed), 500
    keys: list[Any] = drawn(draw, count) if has_keys else [None] * count
    values = drawn(draw, count)
    headers = [drawn_headers(draw) if has_headers else None for _ in range(count)]
    offsets = np.array([draw.choice([0, 1, 63, 64, 8191, 8192, 2**31 - 1]) for _ in range(count)])
    times = np.array([draw.choice(NUMBERS) for _ in range(count)])
    # Arrays that begin within others, as slices do.
    rows = RecordColumns(
        pa.array([b"before"] * skipped + keys, pa.binary())[skipped:] if has_keys else None,
        pa.array([b"before"] * skipped + values, pa.binary())[skipped:],
        encode_headers(pa.array([[("before", None)]] * skipped + headers, HEADERS)[skipped:]) if has_headers else None,
        times,
    )
    encoded = encode_records(rows, offset_deltas=offsets, timestamp_deltas=times)
    expected = [
        encode_fields(key, value, header or (), int(time), int(offset))
        for key, value, header, time, offset in zip(keys, values, headers, times, offsets, strict=True)
    ]
    assert encoded.to_pylist() == expected
    assert all(most >= len(each) for most, each in zip(rows.most_bytes(), expected, strict=True))
    order = np.array(draw.sample(range(count), count))
    again = encode_records(rows.take(order), offset_deltas=offsets[order], timestamp_deltas=times[order])
    assert again.to_pylist() == [expected[at] for at in order]


def test_no_rows_are_no_records() -> None:
    none = np.zeros(0, dtype=np.int64)
    nothing = pa.array([], pa.binary())
    rows = RecordColumns(nothing, nothing, encode_headers(pa.array([], HEADERS)), none)
    assert encode_records(rows, offset_deltas=none, timestamp_deltas=none).to_pylist() == []
    assert murmur2_of_keys(pa.array([], pa.binary())).tolist() == []


@pytest.mark.parametrize(
    ("headers", "message"),
    [([[None]], "a header is null"), ([[("a", None), (None, b"v")]], "the key of a header is null")],
)
def test_headers_without_a_name_are_refused(headers: list[Any], message: str) -> None:
    with pytest.raises(BadHeader, match=message):
        encode_headers(pa.array(headers, HEADERS))


@pytest.mark.parametrize("skipped", [0, 5])
def test_keys_are_hashed_as_kafkas_clients_do(seed: int, skipped: int) -> None:
    draw = random.Random(seed)
    keys = [each for each in drawn(draw, 500) if each is not None]
    array = pa.array([b"other"] * skipped + keys, pa.binary())[skipped:]
    assert murmur2_of_keys(array).tolist() == [murmur2(key) for key in keys]
    assert partitions_of_keys(array, 7).tolist() == [partition_of_key(key, 7) for key in keys]
