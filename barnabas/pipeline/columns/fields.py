"""Where the fields of many records stand in one buffer: the numbers are read, the bytes only found. Pure.

Fields are read in the order in which they stand, and only as far as a column that is asked for makes it necessary:
what nobody asked for is not looked at, and so not refused either. Whatever is read is checked to lie within its record.
A record's offset is always read: it tells the records to leave out and whether they are in order.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from barnabas.pipeline.columns.runs import RunTable
from barnabas.pipeline.columns.schema import MOST_TIMESTAMP_MS
from barnabas.pipeline.columns.varints import Bytes, Positions, read_varints, refuse, skip_varints


@dataclass(slots=True)
class Spans:
    """Bytes of each record: where they begin and how many; `absent` says of which there are none."""

    starts: Positions
    sizes: NDArray[np.int64]
    absent: NDArray[np.bool_]

    def select(self, chosen: "slice | NDArray[np.bool_]") -> "Spans":
        return Spans(self.starts[chosen], self.sizes[chosen], self.absent[chosen])


@dataclass(slots=True)
class HeaderSpans:
    """The headers of each record: how many, and where the first one's key length stands."""

    counts: NDArray[np.int64]
    starts: Positions
    ends: Positions

    def select(self, chosen: "slice | NDArray[np.bool_]") -> "HeaderSpans":
        return HeaderSpans(self.counts[chosen], self.starts[chosen], self.ends[chosen])


@dataclass(slots=True)
class RecordFields:
    """The fields of records side by side; what was not asked for is None. Timestamps are in microseconds."""

    offsets: NDArray[np.int64]
    timestamps: NDArray[np.int64] | None = None
    timestamp_types: NDArray[np.int64] | None = None
    keys: Spans | None = None
    values: Spans | None = None
    headers: HeaderSpans | None = None

    def select(self, chosen: "slice | NDArray[np.bool_]") -> "RecordFields":
        """The same of some of the records."""
        return RecordFields(
            self.offsets[chosen],
            None if self.timestamps is None else self.timestamps[chosen],
            None if self.timestamp_types is None else self.timestamp_types[chosen],
            None if self.keys is None else self.keys.select(chosen),
            None if self.values is None else self.values.select(chosen),
            None if self.headers is None else self.headers.select(chosen),
        )


def read_fields(data: Bytes, starts: Positions, runs: RunTable, wanted: Collection[str]) -> RecordFields:
    """The fields of the records that begin at `starts`, for the columns `wanted`. Raises BadRecord.

    The record after the last one begins where `data` has its padding, or later.
    """
    lengths, at = read_varints(data, starts, 32)
    refuse(lengths < 0, "its length is below 0")
    ends = at + lengths
    at = at + 1  # attributes, unused
    ages = None
    if "timestamp" in wanted:
        ages, at = read_varints(data, at, 64)
    else:
        at = skip_varints(data, at, 64)
    deltas, at = read_varints(data, at, 32)
    refuse(at > ends, "it ends within its offset")
    _check_order(deltas, runs)
    fields = RecordFields(runs.base_offsets + deltas)
    if ages is not None:
        fields.timestamps = _timestamps_us(ages, runs)
    if "timestampType" in wanted:
        fields.timestamp_types = runs.append_time
    depth = _depth(wanted)
    if depth >= _KEY:
        fields.keys, at = _read_spans(data, at, ends, "key")
    if depth >= _VALUE:
        fields.values, at = _read_spans(data, at, ends, "value")
        fields.headers = _find_headers(data, at, ends)
    return fields


_NO_BYTES: Final = 0
_KEY: Final = 1
_VALUE: Final = 2


def _depth(wanted: Collection[str]) -> int:
    """How far into a record the columns lie."""
    if "value" in wanted or "headers" in wanted:
        return _VALUE
    return _KEY if "key" in wanted else _NO_BYTES


def _check_order(deltas: NDArray[np.int64], runs: RunTable) -> None:
    """Offset deltas rise within a batch, up to the last that its header says."""
    before = np.empty_like(deltas)
    before[1:] = deltas[:-1]
    before[runs.firsts] = runs.deltas_before
    refuse((deltas <= before) | (deltas > runs.last_deltas), "its offset delta is out of order")


def _timestamps_us(ages: NDArray[np.int64], runs: RunTable) -> NDArray[np.int64]:
    """The time of each record: its age over the batch's first, or the time at which the broker took the batch."""
    base = runs.first_timestamps
    times = base + ages
    wrapped = ((base ^ times) & (ages ^ times)) < 0
    if runs.any_append_time:
        by_broker = runs.append_time == 1
        times = np.where(by_broker, runs.max_timestamps, times)
        wrapped &= ~by_broker
    refuse(
        wrapped | (times > MOST_TIMESTAMP_MS) | (times < -MOST_TIMESTAMP_MS),
        "its timestamp is no 64-bit number of microseconds; ask for other columns than timestamp",
    )
    times *= 1000
    return times


def _read_spans(data: Bytes, at: Positions, ends: Positions, name: str) -> tuple[Spans, Positions]:
    """A key or value of each record, and where what follows begins."""
    sizes, at = read_varints(data, at, 32)
    absent = sizes < 0
    sizes = np.maximum(sizes, 0)
    after = at + sizes
    refuse(after > ends, f"its {name} is longer than the record")
    return Spans(at, sizes, absent), after


def _find_headers(data: Bytes, at: Positions, ends: Positions) -> HeaderSpans:
    """How many headers each record has; a record without any ends there."""
    counts, after = read_varints(data, at, 32)
    # Each takes at least two bytes, so a count is judged before anything is made of it.
    refuse((counts < 0) | (2 * counts > ends - after), "its headers do not fit it")
    refuse((counts == 0) & (after != ends), "it is longer than its fields")
    return HeaderSpans(counts, after, ends)
