"""When something happened, by which rows are put into folders, and which rows come late.

Times are whole microseconds since 1970 in UTC. A time that no folder has (see `EventTime`) is null here and its row
goes to the folder of null: otherwise one wrong clock could make a folder for each day of many thousand years.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from barnabas.pipeline.lake.partition_writer import Values

TIME: Final = pa.timestamp("us", tz="UTC")
HOUR_US: Final = 3_600_000_000
DAY_US: Final = 24 * HOUR_US
_UNIT_US: Final = {"s": 1_000_000, "ms": 1000, "us": 1}


@dataclass(frozen=True)
class EventTime:
    """Whose time counts: the record's, or that of a field of the payload; between bounds (from, before)."""

    by: Literal["day", "hour", "none"]
    earliest_us: int
    latest_us: int
    field: str | None = None
    unit: str = "ms"

    def partitions(self) -> pa.Schema:
        """The partition columns."""
        columns = {
            "none": [],
            "day": [pa.field("event_date", pa.date32())],
            "hour": [pa.field("event_date", pa.date32()), pa.field("event_hour", pa.int32())],
        }
        return pa.schema(columns[self.by])

    def of(self, timestamps: pa.Array, values: pa.Array) -> pa.Array:
        """The event time of each row, null where there is none or it is out of bounds."""
        times = timestamps if self.field is None else self._of_field(pc.struct_field(values, self.field))
        numbers = times.cast(pa.int64())
        ends = pc.min_max(numbers)
        least, most = ends["min"].as_py(), ends["max"].as_py()
        if least is not None and (least < self.earliest_us or most >= self.latest_us):
            inside = pc.and_(pc.greater_equal(numbers, self.earliest_us), pc.less(numbers, self.latest_us))
            times = pc.if_else(inside, times, pa.scalar(None, TIME))
        return times

    def _of_field(self, found: pa.Array) -> pa.Array:
        if pa.types.is_date(found.type):
            return found.cast(pa.timestamp("us")).cast(TIME)
        if pa.types.is_timestamp(found.type):
            return found
        numbers = found.cast(pa.int64())
        factor = _UNIT_US[self.unit]
        # Whatever is out of bounds is null anyway, and must not overflow.
        inside = pc.and_(
            pc.greater_equal(numbers, self.earliest_us // factor), pc.less_equal(numbers, self.latest_us // factor)
        )
        return pc.multiply(pc.if_else(inside, numbers, pa.scalar(None, pa.int64())), factor).cast(TIME)


def split(
    rows: pa.RecordBatch, times: pa.Array, by: Literal["day", "hour", "none"]
) -> Iterator[tuple[Values, pa.RecordBatch]]:
    """Rows by their folder. Mostly all belong to one, which costs no copy."""
    if by == "none":
        yield (), rows
        return
    width = DAY_US if by == "day" else HOUR_US
    numbers = times.cast(pa.int64())
    ends = pc.min_max(numbers)
    least, most = ends["min"].as_py(), ends["max"].as_py()
    if times.null_count == len(times):
        yield _values(None, by), rows
        return
    if not times.null_count and least // width == most // width:
        yield _values(least // width, by), rows
        return
    # Bounds are not before 1970 unless they were set so: division rounds towards 0 there.
    buckets = pc.floor_temporal(times, unit="day" if by == "day" else "hour").cast(pa.int64())
    for bucket in pc.unique(buckets).to_pylist():
        mask = pc.is_null(buckets) if bucket is None else pc.fill_null(pc.equal(buckets, bucket), fill_value=False)
        yield _values(None if bucket is None else bucket // width, by), rows.filter(mask)


def _values(bucket: int | None, by: Literal["day", "hour", "none"]) -> Values:
    if by == "day":
        return (("event_date", None if bucket is None else _date(bucket)),)
    if bucket is None:
        return (("event_date", None), ("event_hour", None))
    return (("event_date", _date(bucket // 24)), ("event_hour", str(bucket % 24)))


def _date(day: int) -> str:
    return str(pa.scalar(day, pa.date32()).as_py())
