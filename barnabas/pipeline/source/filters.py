"""Predicates of a batch query that the source takes over from Spark. Pure.

Those on topic and partition choose partitions, those on offset cut ranges: Spark need not look at them again. Lower
bounds of timestamp move the start to the first record that is late enough; as times may go back behind it, Spark looks
at them again. All others stay with Spark.
"""

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from barnabas.protocol.ids import TopicPartition

_COMPARED: Final[Mapping[type[Filter], Callable[[Any, Any], bool]]] = {
    EqualTo: lambda ours, value: bool(ours == value),
    EqualNullSafe: lambda ours, value: bool(ours == value),
    GreaterThan: lambda ours, value: bool(ours > value),
    GreaterThanOrEqual: lambda ours, value: bool(ours >= value),
    LessThan: lambda ours, value: bool(ours < value),
    LessThanOrEqual: lambda ours, value: bool(ours <= value),
    StringStartsWith: lambda ours, value: str(ours).startswith(value),
    StringEndsWith: lambda ours, value: str(ours).endswith(value),
    StringContains: lambda ours, value: value in str(ours),
}
_TYPES: Final[Mapping[str, type]] = {"topic": str, "partition": int, "offset": int}
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True)
class Pushed:
    """What was taken over: conditions on partitions, bounds of offsets (the end exclusive), a first time."""

    of_partitions: tuple[Filter, ...] = ()
    least_offset: int | None = None
    end_offset: int | None = None
    since_ms: int | None = None

    def wants(self, each: TopicPartition) -> bool:
        ours = {"topic": each.topic, "partition": each.partition}
        return all(_holds(condition, ours) for condition in self.of_partitions)


def push(filters: Iterable[Filter]) -> tuple[Pushed, list[Filter]]:
    """What the source takes over of `filters`, all of which must hold, and those that Spark looks at afterwards."""
    of_partitions: list[Filter] = []
    least, ends, times, left = [], [], [], []
    for each in filters:
        column = _column(each)
        if column in {"topic", "partition"} and _is_decidable(each):
            of_partitions.append(each)
        elif column == "offset" and (bounds := _offset_bounds(each)) is not None:
            least.append(bounds[0])
            ends.append(bounds[1])
        else:
            left.append(each)
            if column == "timestamp" and (since_ms := _since_ms(each)) is not None:
                times.append(since_ms)
    known_least = [each for each in least if each is not None]
    known_ends = [each for each in ends if each is not None]
    pushed = Pushed(
        of_partitions=tuple(of_partitions),
        least_offset=max(known_least, default=None),
        end_offset=min(known_ends, default=None),
        since_ms=max(times, default=None),
    )
    return pushed, left


def _column(each: Any) -> str | None:
    """The column that a filter is about, where it is one of ours and no field within one."""
    while isinstance(each, Not):
        each = each.child
    path: tuple[str, ...] = getattr(each, "attribute", ())
    return path[0] if len(path) == 1 else None


def _is_decidable(each: Any) -> bool:
    """Whether a filter on topic or partition has values that can be compared with ours; null never can."""
    if isinstance(each, Not):
        return _is_decidable(each.child)
    if isinstance(each, IsNull | IsNotNull):
        return True
    values = each.value if isinstance(each, In) else (each.value,) if type(each) in _COMPARED else (None,)
    wanted = _TYPES[each.attribute[0]]
    return all(isinstance(value, wanted) and not isinstance(value, bool) for value in values)


def _holds(each: Any, ours: Mapping[str, Any]) -> bool:
    if isinstance(each, Not):
        return not _holds(each.child, ours)
    if isinstance(each, IsNull):
        return False
    if isinstance(each, IsNotNull):
        return True
    mine = ours[each.attribute[0]]
    if isinstance(each, In):
        return mine in each.value
    return _COMPARED[type(each)](mine, each.value)


def _offset_bounds(each: Any) -> tuple[int | None, int | None] | None:
    """The offsets (from, up to but not including) at which a filter holds; None where they are not one range."""
    if isinstance(each, IsNotNull):
        return None, None
    value = getattr(each, "value", None)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    bounds: dict[type[Filter], tuple[int | None, int | None]] = {
        EqualTo: (value, value + 1),
        EqualNullSafe: (value, value + 1),
        GreaterThan: (value + 1, None),
        GreaterThanOrEqual: (value, None),
        LessThan: (None, value),
        LessThanOrEqual: (None, value + 1),
    }
    return bounds.get(type(each))


def _since_ms(each: Any) -> int | None:
    """The first millisecond at which a filter on timestamp can hold; None where it bounds nothing from below."""
    value = getattr(each, "value", None)
    if not isinstance(each, EqualTo | EqualNullSafe | GreaterThan | GreaterThanOrEqual):
        return None
    if not isinstance(value, dt.datetime) or value.tzinfo is None:
        return None
    since_ms = (value - _EPOCH) // dt.timedelta(milliseconds=1)
    # Records without a time count as one of before 1970, and no leader finds these by time.
    return since_ms if since_ms >= 0 else None
