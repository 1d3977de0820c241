"""Bounds of a Parquet file's columns from its own metadata, as a table's log has them. Pure."""

import datetime as dt
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from barnabas.pipeline.lake.table import Bound

_LONGEST_TEXT: Final = 64
"""A bound that would be longer is left out: what is cut off is no bound any more."""

Bounds = tuple[dict[str, Bound], dict[str, Bound], dict[str, int]]


def bounds_of(metadata: pq.FileMetaData) -> Bounds:
    """Least, most and number of nulls of each column of the first level that has them in all row groups."""
    least: dict[str, Bound] = {}
    most: dict[str, Bound] = {}
    nulls: dict[str, int] = {}
    arrow = metadata.schema.to_arrow_schema()
    for at in range(metadata.num_columns):
        name = metadata.schema.column(at).path
        if name not in arrow.names or not _is_bounded(arrow.field(name).type):
            continue
        found = [metadata.row_group(group).column(at).statistics for group in range(metadata.num_row_groups)]
        if not found or any(each is None or not each.has_null_count for each in found):
            continue
        nulls[name] = sum(each.null_count for each in found)
        ranges = [each for each in found if each.num_values > 0]
        if ranges and all(each.has_min_max for each in ranges):
            is_time = pa.types.is_timestamp(arrow.field(name).type)
            ends = [((each.min_raw, each.max_raw) if is_time else (each.min, each.max)) for each in ranges]
            low, high = _as_json(min(low for low, _ in ends), is_time), _as_json(max(high for _, high in ends), is_time)
            if low is not None and high is not None:
                least[name], most[name] = low, high
    return least, most, nulls


def _is_bounded(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_timestamp(kind))


def _as_json(value: object, is_time: bool) -> Bound | None:
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_TEXT else None
    if not isinstance(value, int):
        return None
    if not is_time:
        return value
    return iso_time(value)


def iso_time(at_us: int) -> str | None:
    """Microseconds since 1970 in ISO 8601 and UTC; None for years that it does not write with four digits."""
    try:
        return (_EPOCH + dt.timedelta(microseconds=at_us)).strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")
    except OverflowError:
        return None


_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
