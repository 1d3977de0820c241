"""Columns into the bytes of records, as they stand in a batch of the current format. Pure.

A record is (KIP-98) its length, attributes, the deltas of its timestamp and offset, key, value and headers, with
varints before each. The varints of all rows are written by numpy, and Arrow joins them with keys and values, so that
nothing is done for a single record in Python.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from barnabas.pipeline.columns.varint_writing import (
    Numbers,
    binaries,
    bounds_of,
    lengths_of,
    varint_sizes,
    write_varints,
    zigzag,
)

MOST_OVERHEAD_BYTES: Final = 5 + 1 + 10 + 5 + 5 + 5 + 5
"""What a record takes beside key, value and headers: length, attributes, two deltas, two lengths, a count."""


class BadHeader(ValueError):
    """Headers that a record cannot have."""


@dataclass(frozen=True, slots=True)
class EncodedHeaders:
    """The headers of each row, their number and their bytes."""

    counts: Numbers
    contents: pa.BinaryArray

    def take(self, order: NDArray[np.int64]) -> "EncodedHeaders":
        return EncodedHeaders(self.counts[order], self.contents.take(pa.array(order)))


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """What records hold, in arrays of one length; `keys` and `headers` None where no row has any."""

    keys: pa.BinaryArray | None
    values: pa.BinaryArray
    headers: EncodedHeaders | None
    timestamps_ms: Numbers

    def take(self, order: NDArray[np.int64]) -> "RecordColumns":
        """The same rows in another order."""
        indices = pa.array(order)
        return RecordColumns(
            None if self.keys is None else self.keys.take(indices),
            self.values.take(indices),
            None if self.headers is None else self.headers.take(order),
            self.timestamps_ms[order],
        )

    def most_bytes(self) -> Numbers:
        """What each record takes at most."""
        sizes = np.maximum(lengths_of(self.values), 0) + MOST_OVERHEAD_BYTES
        if self.keys is not None:
            sizes += np.maximum(lengths_of(self.keys), 0)
        if self.headers is not None:
            sizes += lengths_of(self.headers.contents)
        return sizes


def encode_headers(lists: pa.ListArray) -> EncodedHeaders:
    """Lists of (name, value). Raises BadHeader for one without a name."""
    counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    entries = pc.list_flatten(lists)
    if entries.null_count:
        raise BadHeader("a header is null; a header has a key and, or not, a value")
    names, values = (part.cast(pa.binary()) for part in entries.flatten())
    if names.null_count:
        raise BadHeader("the key of a header is null")
    of_names, of_values = (write_varints([zigzag(lengths_of(each))]) for each in (names, values))
    joined = pc.binary_join_element_wise(of_names, names, of_values, values, b"", **_NULLS_ARE_NOTHING)
    first = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=first[1:])
    if not len(joined):
        return EncodedHeaders(counts, binaries(np.zeros(0, dtype=np.uint8), first))
    return EncodedHeaders(counts, binaries(joined.buffers()[2], bounds_of(joined)[first]))


def encode_records(rows: RecordColumns, *, offset_deltas: Numbers, timestamp_deltas: Numbers) -> pa.BinaryArray:
    """Each row as a record, one behind the other in the array's data."""
    count = len(rows.values)
    key_lengths = np.full(count, -1, dtype=np.int64) if rows.keys is None else lengths_of(rows.keys)
    value_lengths = lengths_of(rows.values)
    zero = np.zeros(count, dtype=np.uint64)
    head = [zero, zigzag(timestamp_deltas), zigzag(offset_deltas), zigzag(key_lengths)]
    middle = zigzag(value_lengths)
    header_counts = zero if rows.headers is None else zigzag(rows.headers.counts)
    sizes = sum(map(varint_sizes, [*head, middle, header_counts]), np.zeros(count, dtype=np.int64))
    sizes += np.maximum(key_lengths, 0) + np.maximum(value_lengths, 0)
    if rows.headers is not None:
        sizes += lengths_of(rows.headers.contents)
    if rows.keys is None:
        parts = [write_varints([zigzag(sizes), *head, middle]), rows.values]
    else:
        parts = [write_varints([zigzag(sizes), *head]), rows.keys, write_varints([middle]), rows.values]
    if rows.headers is None:
        parts.append(pa.scalar(b"\x00"))
    else:
        parts += [write_varints([header_counts]), rows.headers.contents]
    return pc.binary_join_element_wise(*parts, b"", **_NULLS_ARE_NOTHING)


_NULLS_ARE_NOTHING: Final = {"null_handling": "replace", "null_replacement": ""}
