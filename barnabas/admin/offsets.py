"""The grammar of `--offset`: where in each partition to begin and, perhaps, to end.

    start end          the first and the next offset           (also oldest, newest)
    N +N -N            offset N; N after the start; N before the end
    FROM:TO            from FROM up to TO, which is not read; either may be left out
    @T @T1:T2          from the first record at or after a time, up to a later one

A time is Unix milliseconds (11 digits and more) or seconds, a day (2026-11-21), an ISO 8601 time, or how long ago
(-90s, -2h30m, -7d). Days and times without a zone are UTC. What lies before a partition's start means its start, what
lies behind its end its end.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, auto
from typing import Final

_UNITS_MS: Final[Mapping[str, int]] = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 7 * 86_400_000,
}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_NUMBER: Final = re.compile(r"\d+", re.ASCII)
_MILLISECONDS_DIGITS: Final = 11
_MOST_DIGITS: Final = 18  # what 64 bits hold in any case


class OffsetSyntax(ValueError):
    """The text is not of the grammar."""


class Anchor(Enum):
    """What a bound counts from."""

    START = auto()
    END = auto()
    ZERO = auto()
    TIME = auto()


@dataclass(slots=True, frozen=True)
class Bound:
    """A place in every partition: `value` offsets from an anchor, or a time in milliseconds since the epoch."""

    anchor: Anchor
    value: int = 0

    @property
    def time_ms(self) -> int | None:
        return self.value if self.anchor is Anchor.TIME else None

    def resolve(self, *, start: int, end: int, at_time: int | None = None) -> int:
        """The offset in a partition with offsets from `start` to `end` (exclusive).

        `at_time` is the first offset at or after the time, None or -1 where no record is that late.
        """
        if self.anchor is Anchor.TIME:
            return end if at_time is None or at_time < 0 else at_time
        base = {Anchor.START: start, Anchor.END: end, Anchor.ZERO: 0}[self.anchor]
        return min(max(base + self.value, start), end)


@dataclass(slots=True, frozen=True)
class OffsetSpec:
    """From where to where; without `until` reading goes on with what is written."""

    since: Bound
    until: Bound | None = None


def parse_offset_spec(text: str, *, now_ms: int) -> OffsetSpec:
    """Read an `--offset`. Raises OffsetSyntax, also for a range that ends before it begins wherever that is."""
    spec = _parse_spec(text, now_ms)
    since, until = spec.since, spec.until
    if until is not None and since.anchor is until.anchor and since.value > until.value:
        raise OffsetSyntax(f"{text!r} ends before it begins")
    return spec


def _parse_spec(text: str, now_ms: int) -> OffsetSpec:
    if text.startswith("@"):
        return _parse_times(text[1:], now_ms)
    since, colon, until = text.partition(":")
    if not colon:
        return OffsetSpec(_parse_bound(since, text))
    if not since and not until:
        raise _wrong(text)
    return OffsetSpec(
        _parse_bound(since, text) if since else Bound(Anchor.START),
        _parse_bound(until, text) if until else None,
    )


def _parse_bound(text: str, whole: str) -> Bound:
    if text in {"start", "oldest"}:
        return Bound(Anchor.START)
    if text in {"end", "newest"}:
        return Bound(Anchor.END)
    sign, digits = (text[0], text[1:]) if text[:1] in {"+", "-"} else ("", text)
    if not _NUMBER.fullmatch(digits) or len(digits) > _MOST_DIGITS:
        raise _wrong(whole)
    if sign == "+":
        return Bound(Anchor.START, int(digits))
    return Bound(Anchor.END, -int(digits)) if sign else Bound(Anchor.ZERO, int(digits))


def _parse_times(text: str, now_ms: int) -> OffsetSpec:
    since = _parse_time(text, now_ms)
    if since is not None:
        return OffsetSpec(Bound(Anchor.TIME, since))
    # Times hold colons too: the one that separates has a time, or nothing, on either side.
    for place in (match.start() for match in re.finditer(":", text)):
        before, after = text[:place], text[place + 1 :].removeprefix("@")
        since, until = _parse_time(before, now_ms), _parse_time(after, now_ms)
        if since is not None and until is not None:
            return OffsetSpec(Bound(Anchor.TIME, since), Bound(Anchor.TIME, until))
        if since is not None and after in {"end", "newest", ""}:
            return OffsetSpec(Bound(Anchor.TIME, since), Bound(Anchor.END) if after else None)
        if not before and until is not None:
            return OffsetSpec(Bound(Anchor.START), Bound(Anchor.TIME, until))
    raise _wrong("@" + text)


def parse_time(text: str, *, now_ms: int) -> int:
    """Read one time of the grammar, as milliseconds since the epoch. Raises OffsetSyntax."""
    time_ms = _parse_time(text.removeprefix("@"), now_ms)
    if time_ms is None:
        raise OffsetSyntax(f"{text!r} is no time: a Unix time, 2026-11-21, 2026-11-21T08:00:00Z, now or -2h30m")
    return time_ms


def _parse_time(text: str, now_ms: int) -> int | None:
    if _NUMBER.fullmatch(text) and len(text) <= _MOST_DIGITS:
        return int(text) if len(text) >= _MILLISECONDS_DIGITS else int(text) * 1000
    if text == "now":
        return now_ms
    if text.startswith("-"):
        return _parse_ago(text[1:], now_ms)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if len(text) < len("2026-11-21"):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    # Negative times have other meanings in ListOffsets.
    return max(0, int(moment.timestamp() * 1000))


def _parse_ago(text: str, now_ms: int) -> int | None:
    ago_ms = 0.0
    at = 0
    for part in _DURATION.finditer(text):
        if part.start() != at:
            return None
        ago_ms += float(part[1]) * _UNITS_MS[part[2]]
        at = part.end()
    return max(0, now_ms - int(ago_ms)) if at and at == len(text) else None


def _wrong(text: str) -> OffsetSyntax:
    return OffsetSyntax(f"{text!r} is not start, end, N, +N, -N, @TIME or a range FROM:TO of them")
