"""From fields that were found in a buffer to Arrow arrays, without a Python object per record. Pure.

A column of bytes is gathered by Arrow: the whole buffer is declared to be an array of binaries that alternate between a
field and the gap after it, and every second one is taken.
"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from barnabas.pipeline.columns.fields import HeaderSpans, RecordFields, Spans
from barnabas.pipeline.columns.schema import COLUMN_TYPES
from barnabas.pipeline.columns.varints import BadRecord, Bytes, read_varints, refuse


class ConstantColumns:
    """The columns that are the same in each row of a partition: made once, given in the length that is needed."""

    __slots__ = ("_partition", "_partitions", "_topic", "_topics")

    def __init__(self, topic: str, partition: int) -> None:
        self._topic, self._partition = topic, partition
        self._topics = self._partitions = pa.nulls(0)

    def topics(self, rows: int) -> pa.Array:
        if len(self._topics) < rows:
            self._topics = pa.repeat(pa.scalar(self._topic, COLUMN_TYPES["topic"]), rows)
        return self._topics.slice(0, rows)

    def partitions(self, rows: int) -> pa.Array:
        if len(self._partitions) < rows:
            self._partitions = pa.repeat(pa.scalar(self._partition, COLUMN_TYPES["partition"]), rows)
        return self._partitions.slice(0, rows)


def gather(
    content: bytes, data: Bytes, fields: RecordFields, schema: pa.Schema, constants: ConstantColumns
) -> pa.RecordBatch:
    """The columns of the schema for records whose bytes stand in `content`, which is `data`. Raises BadRecord."""
    rows = len(fields.offsets)
    arrays: list[pa.Array] = []
    for name in schema.names:
        if name == "topic":
            array = constants.topics(rows)
        elif name == "partition":
            array = constants.partitions(rows)
        elif name == "offset":
            array = pa.array(fields.offsets)
        elif name == "timestamp":
            array = pa.array(fields.timestamps).view(COLUMN_TYPES[name])
        elif name == "timestampType":
            assert fields.timestamp_types is not None
            array = pa.array(fields.timestamp_types.astype(np.int32))
        elif name == "headers":
            assert fields.headers is not None
            array = _gather_headers(content, data, fields.headers)
        else:
            spans = fields.keys if name == "key" else fields.values
            assert spans is not None
            array = gather_bytes(content, spans)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def gather_bytes(content: bytes, spans: Spans) -> pa.Array:
    """The bytes of each span; the spans rise and do not overlap, and end before 2 GiB."""
    rows = len(spans.starts)
    if spans.absent.all():
        return pa.nulls(rows, pa.binary())
    bounds = np.empty(2 * rows + 1, dtype=np.int32)
    bounds[0:-1:2] = spans.starts
    bounds[1::2] = spans.starts + spans.sizes
    bounds[-1] = bounds[-2]
    whole = pa.Array.from_buffers(pa.binary(), 2 * rows, [None, pa.py_buffer(bounds), pa.py_buffer(content)])
    places = np.arange(0, 2 * rows, 2, dtype=np.int64)
    return whole.take(pa.array(places, mask=spans.absent if spans.absent.any() else None))


def _gather_headers(content: bytes, data: Bytes, headers: HeaderSpans) -> pa.Array:
    """The headers of each record, null where it has none. Raises BadRecord."""
    bounds = np.zeros(len(headers.counts) + 1, dtype=np.int32)
    np.cumsum(headers.counts, out=bounds[1:])
    total = int(bounds[-1])
    keys = Spans(np.zeros(total, np.int64), np.zeros(total, np.int64), np.zeros(total, np.bool_))
    values = Spans(np.zeros(total, np.int64), np.zeros(total, np.int64), np.zeros(total, np.bool_))
    _read_headers(data, headers, bounds[:-1], keys, values)
    pairs = pa.StructArray.from_arrays(
        [_as_text(gather_bytes(content, keys)), gather_bytes(content, values)],
        fields=list(COLUMN_TYPES["headers"].value_type),
    )
    return pa.ListArray.from_arrays(
        pa.array(bounds), pairs, type=COLUMN_TYPES["headers"], mask=pa.array(headers.counts == 0)
    )


def _read_headers(data: Bytes, headers: HeaderSpans, slots: NDArray[np.int32], keys: Spans, values: Spans) -> None:
    """Find the nth header of all records that have so many, for each n; where they stand goes into the slots.

    A mistake is of the record that `BadRecord` names, by its place among those that `headers` is about.
    """
    at = headers.starts.copy()
    records = np.flatnonzero(headers.counts)
    nth = 0
    while records.size:
        ends, into = headers.ends[records], slots[records] + nth
        for spans, is_key in ((keys, True), (values, False)):
            try:
                sizes, starts = read_varints(data, at[records], 32)
            except BadRecord as error:
                raise BadRecord(int(records[error.index]), error.reason) from None
            spans.absent[into] = sizes < 0
            sizes = np.maximum(sizes, 0)
            at[records] = starts + sizes
            bad = (starts + sizes > ends) | (is_key & spans.absent[into])
            refuse(_marked(records[bad], len(at)), "its headers do not fit it")
            spans.starts[into], spans.sizes[into] = starts, sizes
        nth += 1
        done = headers.counts[records] == nth
        left = records[done & (at[records] != ends)]
        refuse(_marked(left, len(at)), "it is longer than its headers")
        records = records[~done]


def _marked(records: NDArray[np.int64], count: int) -> NDArray[np.bool_]:
    marks = np.zeros(count, dtype=np.bool_)
    marks[records] = True
    return marks


def _as_text(keys: pa.Array) -> pa.Array:
    """Header keys as text; what is not UTF-8 in them is replaced, as Kafka's clients do."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [bytes(key).decode("utf-8", "replace") for key in keys.to_pylist()]
        return pa.array(texts, pa.string())
