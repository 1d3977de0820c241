"""What the column decoder gives is what the reader of single records gives."""

import struct
import tracemalloc
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.client.fetched_records import AbortedRange, decode_records, find_whole_entries
from barnabas.pipeline.columns.decoder import ColumnDecoder, CorruptRecords, DecodeOptions
from barnabas.pipeline.columns.schema import COLUMN_NAMES, COLUMN_TYPES, MOST_TIMESTAMP_MS
from barnabas.pipeline.columns.visibility import Visibility
from barnabas.protocol.batch import Codec, CorruptBatch, frame, read_header, seal
from barnabas.protocol.compression import compress
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.records import (
    ControlRecordType,
    EndTxnMarker,
    Record,
    build_batch,
    build_end_txn_marker,
    iterate_records,
)
from tests.unit.pipeline.columns.logs import BYTES, HEADERS, TIMES, DrawnLog, batch_of, logs

PARTITION = TopicPartition("pages", 7)
AMPLE = 1 << 28
OPTIONS = st.builds(
    DecodeOptions,
    max_rows=st.integers(1, 12) | st.just(10_000),
    max_bytes=st.sampled_from([1, 100, 1000, 1 << 20]),
    max_inflated_bytes=st.just(AMPLE),
)
Row = dict[str, Any]


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[Row]:
    rows: list[Row] = []
    for batch in batches:
        batch.validate(full=True)
        rows += (
            batch.set_column(*_plain_time(batch)).to_pylist()
            if "timestamp" in batch.schema.names
            else batch.to_pylist()
        )
    return rows


def _plain_time(batch: pa.RecordBatch) -> tuple[int, str, pa.Array]:
    # The years of some drawn times are none of Python's.
    at = batch.schema.get_field_index("timestamp")
    return at, "timestamp", batch.column(at).view(pa.int64())


def row_of(record: Record, timestamp_type: int) -> Row:
    headers = [
        {"key": key.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), "value": value}
        for key, value in record.headers
    ]
    return {
        "key": record.key,
        "value": record.value,
        "topic": PARTITION.topic,
        "partition": PARTITION.partition,
        "offset": record.offset,
        "timestamp": record.timestamp * 1000,
        "timestampType": timestamp_type,
        "headers": headers or None,
    }


def expected(log: DrawnLog, data: bytes, start: int, end: int | None, aborted: Sequence[AbortedRange]) -> list[Row]:
    records = decode_records(data, start=start, end=end, aborted=aborted, max_decompressed_bytes=AMPLE)
    magic_0 = {offset for offset, kind in log.types.items() if kind == -1}
    for record in records:
        if record.offset in magic_0:
            record.timestamp = -1
    return [row_of(record, log.types[record.offset]) for record in records]


def only(rows: list[Row], columns: Sequence[str]) -> list[Row]:
    return [{name: row[name] for name in columns} for row in rows]


@settings(max_examples=60)
@given(logs(), OPTIONS, st.permutations(COLUMN_NAMES), st.integers(1, len(COLUMN_NAMES)), st.data())
def test_columns_hold_what_the_reader_of_records_gives(
    log: DrawnLog, options: DecodeOptions, names: list[str], count: int, data: st.DataObject
) -> None:
    columns = names[:count]
    offsets = st.integers(0, 20) | st.integers(max(0, log.next_offset - 300), log.next_offset + 2)
    start, end = data.draw(offsets), data.draw(st.none() | offsets)
    aborted = data.draw(st.sampled_from([(), tuple(log.aborted)]))
    batches = list(ColumnDecoder(PARTITION, columns, options).decode(log.data, start=start, end=end, aborted=aborted))
    assert rows_of(batches) == only(expected(log, log.data, start, end, aborted), columns)
    assert all(0 < batch.num_rows <= options.max_rows for batch in batches)
    assert all(batch.schema.equals(pa.schema([(name, COLUMN_TYPES[name]) for name in columns])) for batch in batches)


def test_an_abort_voids_what_a_producer_wrote_in_that_transaction_and_nothing_else() -> None:
    def written(offset: int, *, transactional: bool = True, producer_id: int = 4) -> bytes:
        records = [Record(offset, 5, None, b"v")]
        return batch_of(records, producer_id=producer_id, transactional=transactional)

    abort = build_end_txn_marker(
        EndTxnMarker(ControlRecordType.ABORT, 0), producer_id=4, producer_epoch=0, timestamp=5, base_offset=4
    )
    log = [written(0), written(1, producer_id=5), written(2, transactional=False), written(3), abort, written(5)]
    aborted = [AbortedRange(4, 0)]
    rows = rows_of(ColumnDecoder(PARTITION, ["offset"]).decode(b"".join(log), start=0, aborted=aborted))
    assert [row["offset"] for row in rows] == [1, 2, 5]
    rows = rows_of(ColumnDecoder(PARTITION, ["offset"]).decode(b"".join(log), start=0))
    assert [row["offset"] for row in rows] == [0, 1, 2, 3, 5]


@settings(max_examples=60)
@given(logs(), OPTIONS, st.data())
def test_of_a_log_that_ends_within_a_batch_the_whole_ones_are_given(
    log: DrawnLog, options: DecodeOptions, data: st.DataObject
) -> None:
    cut = log.data[: data.draw(st.integers(0, len(log.data)))]
    whole = find_whole_entries(cut, 0)
    assert rows_of(ColumnDecoder(PARTITION, COLUMN_NAMES, options).decode(cut, start=0)) == expected(
        log, cut[: whole.size_bytes], 0, None, ()
    )


@settings(max_examples=60)
@given(logs(), st.data())
def test_where_no_torn_tail_is_allowed_it_is_refused_with_its_place(log: DrawnLog, data: st.DataObject) -> None:
    cut = log.data[: data.draw(st.integers(0, len(log.data)))]
    whole = find_whole_entries(cut, 0)
    decoder = ColumnDecoder(PARTITION, COLUMN_NAMES, DecodeOptions(torn_tail_allowed=False))
    if whole.size_bytes == len(cut):
        assert len(rows_of(decoder.decode(cut, start=0))) == len(expected(log, cut, 0, None, ()))
        return
    with pytest.raises(CorruptRecords) as caught:
        list(decoder.decode(cut, start=0))
    assert caught.value.offset == whole.next_offset


@settings(max_examples=60)
@given(logs(), st.integers(1, 4))
def test_record_sets_that_follow_each_other_are_read_as_one(log: DrawnLog, size: int) -> None:
    sets = [b"".join(log.entries[at : at + size]) for at in range(0, len(log.entries), size)]
    decoder = ColumnDecoder(PARTITION, COLUMN_NAMES)
    rows = rows_of(decoder.decode_all(sets, start=0, visibility=Visibility(log.aborted)))
    assert rows == expected(log, log.data, 0, None, log.aborted)


@given(
    st.lists(st.builds(Record, st.just(0), TIMES, BYTES, BYTES, HEADERS.map(tuple)), min_size=1, max_size=30),
    st.sampled_from(Codec),
    OPTIONS,
    st.data(),
)
def test_mangled_records_are_read_or_refused_as_the_reader_does(
    records: list[Record], codec: Codec, options: DecodeOptions, data: st.DataObject
) -> None:
    batch = bytearray(build_batch(records))
    for _ in range(data.draw(st.integers(1, 3))):
        batch[data.draw(st.integers(61, len(batch) - 1))] = data.draw(st.integers(0, 255))
    header = read_header(batch)
    header.attributes |= codec
    mangled = frame(header, compress(codec, batch[61:]))
    decoder = ColumnDecoder(PARTITION, COLUMN_NAMES, options)
    try:
        read = list(iterate_records(mangled, 0, read_header(mangled), AMPLE))
    except CorruptBatch:
        read = None
    if read is None or any(abs(record.timestamp) > MOST_TIMESTAMP_MS for record in read):
        with pytest.raises(CorruptRecords, match="pages-7: the batch at offset 0 cannot be read"):
            list(decoder.decode(mangled, start=0))
    else:
        assert rows_of(decoder.decode(mangled, start=0)) == [row_of(record, 0) for record in read]


@given(st.binary(max_size=200), st.integers(1, 40), OPTIONS)
def test_random_bytes_are_records_or_corrupt(payload: bytes, count: int, options: DecodeOptions) -> None:
    header = read_header(build_batch([Record(0, 0, None, None)] * count))
    batch = frame(header, payload)
    try:
        read = list(iterate_records(batch, 0, read_header(batch), AMPLE))
    except CorruptBatch:
        with pytest.raises(CorruptRecords):
            list(ColumnDecoder(PARTITION, COLUMN_NAMES, options).decode(batch, start=0))
    else:
        assert len(rows_of(ColumnDecoder(PARTITION, COLUMN_NAMES, options).decode(batch, start=0))) == len(read)


@given(st.data())
def test_what_stands_before_a_corrupt_batch_is_given_first(data: st.DataObject) -> None:
    sound = [batch_of([Record(5 * at + i, 5, None, b"%d" % i) for i in range(5)]) for at in range(3)]
    bad = bytearray(batch_of([Record(15, 5, b"k", b"v")]))
    bad[data.draw(st.integers(21, len(bad) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    batches = ColumnDecoder(PARTITION, ["offset"]).decode(b"".join([*sound, bytes(bad)]), start=0)
    assert [row["offset"] for row in next(batches).to_pylist()] == list(range(15))
    with pytest.raises(CorruptRecords) as caught:
        next(batches)
    assert (caught.value.topic_partition, caught.value.offset) == (PARTITION, 15)


def test_offsets_that_go_back_are_refused() -> None:
    batches = [batch_of([Record(offset, 5, None, b"v")]) for offset in (4, 5, 5)]
    with pytest.raises(CorruptRecords, match="offset 6 or a later one was to follow"):
        list(ColumnDecoder(PARTITION, ["offset"]).decode(b"".join(batches), start=0))


# Larger values are decoded one by one: the order is kept in mind from chunk to chunk.
@pytest.mark.parametrize("value_bytes", [1, 1_500_000])
@pytest.mark.parametrize(("offsets", "spare"), [((0, 2, 2), 0), ((0, 3, 2), 5), ((0, 9), -3), ((0, 4, 9), -1)])
def test_offsets_that_do_not_rise_within_a_batch_are_refused(
    offsets: tuple[int, ...], spare: int, value_bytes: int
) -> None:
    batch = batch_of([Record(offset, 5, None, bytes(value_bytes)) for offset in offsets], spare_offsets=spare)
    with pytest.raises(CorruptRecords, match="its offset delta is out of order"):
        list(ColumnDecoder(PARTITION, ["offset"], DecodeOptions(max_bytes=1000)).decode(batch, start=0))


@pytest.mark.parametrize("codec", Codec)
def test_records_larger_than_a_chunk_come_whole(codec: Codec) -> None:
    values = [b"a" * size for size in (0, 70_000, 1, 3_000_000, 500_000, *([9] * 3000))]
    batch = batch_of([Record(at, 5, None, value) for at, value in enumerate(values)], codec=codec)
    options = DecodeOptions(max_bytes=100_000, max_rows=1000)
    batches = list(ColumnDecoder(PARTITION, ["value", "offset"], options).decode(batch, start=0))
    assert [row["value"] for row in rows_of(batches)] == values
    assert len(batches) > 3


def counts_that_lie() -> list[tuple[str, bytes]]:
    sound = bytearray(build_batch([Record(0, 0, None, b"v")] * 4))
    many = bytearray(sound)
    many[23:27] = struct.pack(">i", 2**31 - 1)
    many[57:61] = struct.pack(">i", 2**31 - 1)
    few = bytearray(sound)
    few[57:61] = struct.pack(">i", 3)
    long_record = bytearray(sound)
    long_record[61:66] = b"\xfe\xff\xff\xff\x0f"
    of_one = read_header(build_batch([Record(0, 0, None, None)]))
    headers = bytearray(frame(of_one, b"\x18\0\0\0\x01\x02v\xfe\xff\xff\xff\x0f\0"))
    for batch in (many, few, long_record, headers):
        seal(batch, 0)
    return [
        ("more records", bytes(many)),
        ("fewer records", bytes(few)),
        ("a long record", bytes(long_record)),
        ("headers", bytes(headers)),
    ]


@pytest.mark.parametrize("batch", [pytest.param(batch, id=name) for name, batch in counts_that_lie()])
def test_what_a_batch_claims_is_not_allocated(batch: bytes) -> None:
    decoder = ColumnDecoder(PARTITION, COLUMN_NAMES)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptRecords):
            list(decoder.decode(batch, start=0))
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 1_000_000


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (b"\x10\0\0\0\x01\x02v\0x", "it is longer than its fields"),
        (b"\x14\0\0\0\x01\x02v\x02\0\x01x", "it is longer than its headers"),
        (b"\x0e\0\0\0\x01\x06v\0", "its value is longer than the record"),
        (b"\x0e\0\0\0\x04k\x01\0", "its headers do not fit it"),
        (b"\x06\0\0\0", "its key is longer than the record"),
        (b"\x04\0\0", "it ends within its offset"),
        (b"\x01", "its length is below 0"),
    ],
)
def test_a_record_whose_length_is_not_that_of_its_fields_is_refused(record: bytes, message: str) -> None:
    batch = frame(read_header(build_batch([Record(0, 0, None, None)])), record)
    with pytest.raises(CorruptRecords, match=message):
        list(ColumnDecoder(PARTITION, COLUMN_NAMES).decode(batch, start=0))


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_a_batch_that_inflates_to_more_than_is_allowed_is_refused(codec: Codec) -> None:
    batch = batch_of([Record(at, 5, None, bytes(100_000)) for at in range(30)], codec=codec)
    options = DecodeOptions(max_inflated_bytes=1_000_000)
    with pytest.raises(CorruptRecords, match=r"hold more than|announce|are allowed"):
        list(ColumnDecoder(PARTITION, ["value"], options).decode(batch, start=0))


def test_a_time_that_no_column_can_hold_is_refused_only_where_it_is_asked_for() -> None:
    batch = batch_of([Record(0, 2**62, None, b"v")])
    with pytest.raises(CorruptRecords, match="its timestamp is no 64-bit number of microseconds"):
        list(ColumnDecoder(PARTITION, COLUMN_NAMES).decode(batch, start=0))
    assert rows_of(ColumnDecoder(PARTITION, ["value"]).decode(batch, start=0)) == [{"value": b"v"}]


@pytest.mark.parametrize(
    ("columns", "message"), [(["valu"], "'valu' is not known"), (["key", "key"], "asked for twice")]
)
def test_columns_that_cannot_be_given_are_refused_by_name(columns: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ColumnDecoder(PARTITION, columns)


@pytest.mark.parametrize("options", [{"max_rows": 0}, {"max_bytes": 0}, {"max_inflated_bytes": 1 << 30}])
def test_sizes_that_cannot_be_held_are_refused_by_name(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        DecodeOptions(**options)
