"""What Spark hands over as rows: columns of the types that records are made of. Pure.

Types come as Spark's Arrow conversion gives them, large ones too where that is configured.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from barnabas.pipeline.columns.checksums import content_checksums
from barnabas.pipeline.columns.record_encoding import BadHeader, EncodedHeaders, RecordColumns, encode_headers
from barnabas.pipeline.columns.varint_writing import Numbers
from barnabas.pipeline.sink.options import is_topic

NOT_GIVEN: Final = -1
"""No partition is given, or no timestamp."""

_US_PER_MS: Final = 1000


class RowRefused(ValueError):
    """Rows that cannot be records; the text says what is wrong with one of them."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows as columns of one length. `topic_codes` point into `topics`.

    `partitions` and `given_times_ms` are NOT_GIVEN where the row does not say, and None where none of them does.
    """

    topics: tuple[str, ...]
    topic_codes: NDArray[np.int64]
    keys: pa.BinaryArray | None
    values: pa.BinaryArray
    headers: EncodedHeaders | None
    partitions: Numbers | None
    given_times_ms: Numbers | None

    def __len__(self) -> int:
        return len(self.values)

    def records(self, now_ms: int) -> RecordColumns:
        """The same as records; those without a time get `now_ms`."""
        times = np.full(len(self), now_ms, dtype=np.int64)
        if self.given_times_ms is not None:
            times = np.where(self.given_times_ms == NOT_GIVEN, times, self.given_times_ms)
        return RecordColumns(self.keys, self.values, self.headers, times)

    def checksum(self) -> int:
        """The sum over the rows, modulo 2**64, of a checksum of all that they say; their order does not count."""
        count = len(self)
        nothing = pa.nulls(count, pa.binary())
        numbers = np.full((count, 2), NOT_GIVEN, dtype=np.int64)
        for column, given in enumerate((self.partitions, self.given_times_ms)):
            if given is not None:
                numbers[:, column] = given
        places = pa.array([name.encode() for name in self.topics], pa.binary()).take(pa.array(self.topic_codes))
        rest = pa.Array.from_buffers(pa.binary(numbers.itemsize * 2), count, [None, pa.py_buffer(numbers)])
        headers = nothing
        if self.headers is not None:
            # Rows without headers say the same whether others of their batch have some or not.
            headers = pc.if_else(pa.array(self.headers.counts > 0), self.headers.contents, None)
        content = content_checksums(nothing if self.keys is None else self.keys, self.values)
        content = content * _FACTOR + content_checksums(places, rest.cast(pa.binary()))
        content = content * _FACTOR + content_checksums(headers, nothing)
        # A sum of products would let rows exchange parts, so each is mixed before it is added.
        mixed = pa.Array.from_buffers(pa.binary(8), count, [None, pa.py_buffer(content)]).cast(pa.binary())
        return int(content_checksums(nothing, mixed).sum(dtype=np.uint64))


def read_rows(batch: pa.RecordBatch, *, topic: str | None) -> Rows:
    """A record batch of Spark's as rows. `topic` is where all go, else a column says it. Raises RowRefused."""
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    topics, codes = _topics(columns.get("topic"), topic, batch.num_rows)
    keys = columns.get("key")
    return Rows(
        topics=topics,
        topic_codes=codes,
        keys=None if keys is None or keys.null_count == len(keys) else _binary(keys),
        values=_binary(columns["value"]),
        headers=_headers(columns.get("headers")),
        partitions=_partitions(columns.get("partition")),
        given_times_ms=_times(columns.get("timestamp")),
    )


def _binary(column: pa.Array) -> pa.BinaryArray:
    return column.cast(pa.binary())


def _topics(column: pa.Array | None, topic: str | None, count: int) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    if topic is not None or column is None:
        assert topic is not None, "columns were looked at before"
        return (topic,), np.zeros(count, dtype=np.int64)
    if column.null_count:
        raise RowRefused("column topic is null in a row; name a topic in each, or give the option topic")
    encoded = column.cast(pa.string()).dictionary_encode()
    names = tuple(encoded.dictionary.to_pylist())
    for name in names:
        if not is_topic(name):
            raise RowRefused(f"column topic has {name!r}, which is no name of a topic")
    return names, encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _headers(column: pa.Array | None) -> EncodedHeaders | None:
    if column is None or column.null_count == len(column):
        return None
    try:
        return encode_headers(column)
    except BadHeader as error:
        raise RowRefused(f"column headers: {error}") from None


def _partitions(column: pa.Array | None) -> Numbers | None:
    if column is None or column.null_count == len(column):
        return None
    lowest = pc.min(column).as_py()
    if lowest < 0:
        raise RowRefused(f"column partition has {lowest}; partitions are numbered from 0 on")
    numbers: Numbers = pc.fill_null(column, NOT_GIVEN).to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


def _times(column: pa.Array | None) -> Numbers | None:
    if column is None or column.null_count == len(column):
        return None
    microseconds = column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
    if pc.min(microseconds).as_py() < 0:
        raise RowRefused("column timestamp is before 1970 in a row; Kafka has no such times")
    times: Numbers = pc.fill_null(microseconds, NOT_GIVEN).to_numpy(zero_copy_only=False).astype(np.int64)
    return np.where(times == NOT_GIVEN, NOT_GIVEN, times // _US_PER_MS)


_FACTOR: Final = np.uint64(0x9FB21C651E98DF25)
