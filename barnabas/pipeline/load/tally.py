"""What became of the records of a range: counts, times, and a sum of checksums, by the hour of their timestamps.

The sums do not depend on the order of records and add up over ranges, modulo 2**64. They are of the records as they
came, also of those that went to the dead letters.
"""

from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from barnabas.pipeline.load.event_time import HOUR_US

_MODULUS: Final = 1 << 64
_MOST_HOURS: Final = 10_000
"""More than a year of them in one range are a producer's wrong clock: what comes then is counted for no hour."""


class HourTally(msgspec.Struct):
    """An hour by the records' timestamps: rows in the table, dead letters, the checksum of both."""

    rows: int = 0
    dead_letters: int = 0
    checksum: int = 0


class Tally(msgspec.Struct, kw_only=True):
    """See the module. `hours` are microseconds at which hours begin, None for what is counted for none."""

    rows: int = 0
    dead_letters: int = 0
    late: int = 0
    checksum: int = 0
    least_event_us: int | None = None
    most_event_us: int | None = None
    hours: dict[int | None, HourTally] = msgspec.field(default_factory=dict)

    def add(self, timestamps: pa.Array, checksums: pa.Array, dead: pa.Array | None) -> None:
        """Count records: `checksums` are unsigned, `dead` says which went to the dead letters, None for none."""
        count = len(timestamps)
        if not count:
            return
        numbers = timestamps.cast(pa.int64())
        ends = pc.min_max(numbers)
        first, last = ends["min"].as_py() // HOUR_US, ends["max"].as_py() // HOUR_US
        if first == last and dead is None:
            self._count(first * HOUR_US, count, 0, pc.sum(checksums).as_py())
            return
        table = pa.table(
            {
                "hour": pc.floor_temporal(timestamps, unit="hour").cast(pa.int64()),
                "dead": pa.nulls(count, pa.int64()) if dead is None else dead.cast(pa.int64()),
                "checksum": checksums,
            }
        )
        groups = table.group_by("hour").aggregate([("dead", "sum"), ("checksum", "sum"), ("hour", "count")])
        for each in groups.to_pylist():
            lost = each["dead_sum"] or 0
            self._count(each["hour"], each["hour_count"] - lost, lost, each["checksum_sum"])

    def add_times(self, times: pa.Array, late_before_us: int | None) -> None:
        """Count the event times of rows; what is before the watermark is late."""
        numbers = times.cast(pa.int64())
        ends = pc.min_max(numbers)
        least, most = ends["min"].as_py(), ends["max"].as_py()
        if least is None:
            return
        self.least_event_us = least if self.least_event_us is None else min(self.least_event_us, least)
        self.most_event_us = most if self.most_event_us is None else max(self.most_event_us, most)
        if late_before_us is not None and least < late_before_us:
            self.late += pc.sum(pc.less(numbers, late_before_us)).as_py() or 0

    def _count(self, hour: int, rows: int, dead_letters: int, checksum: int) -> None:
        key = hour if hour in self.hours or len(self.hours) < _MOST_HOURS else None
        of_hour = self.hours.setdefault(key, HourTally())
        of_hour.rows += rows
        of_hour.dead_letters += dead_letters
        of_hour.checksum = (of_hour.checksum + checksum) % _MODULUS
        self.rows += rows
        self.dead_letters += dead_letters
        self.checksum = (self.checksum + checksum) % _MODULUS
