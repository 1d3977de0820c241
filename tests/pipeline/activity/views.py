"""Events of members who view pages, and what windows and sessions of them hold, counted in plain Python."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, NamedTuple

from tests.pipeline.source.events import Event

START_MS = 1_700_000_000_000 // 3_600_000 * 3_600_000
MINUTE_MS = 60_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class View(NamedTuple):
    """A member viewed a page."""

    time_ms: int
    member: str
    page: str


Result = tuple[str, str, str, str, int]
"""Name of the count, start and end, key and number of events."""


def draw_views(count: int, dice: Random) -> list[View]:
    """Views some seconds after each other, at times out of order by up to a minute."""
    views, at_ms = [], START_MS
    for _ in range(count):
        at_ms += dice.choice((0, 1, 500, 5_000, 20_000, 70_000))
        late_ms = dice.choice((0, 0, 0, MINUTE_MS))
        views.append(View(at_ms - late_ms, f"m{dice.randrange(6)}", f"p{dice.randrange(4)}"))
    return views


def records(views: Iterable[View]) -> list[Event]:
    """Events in two partitions, in turn."""
    return [Event(at % 2, -1, each.member.encode(), value_of(each), each.time_ms) for at, each in enumerate(views)]


def value_of(view: View) -> bytes:
    return json.dumps({"at": view.time_ms, "member": view.member, "page": {"id": view.page}, "more": [1]}).encode()


def windows(views: Sequence[View], name: str, window_ms: int, slide_ms: int) -> Counter[Result]:
    """Views for each page and window."""
    counts: Counter[tuple[int, str]] = Counter()
    for each in views:
        start_ms = each.time_ms // slide_ms * slide_ms
        while start_ms > each.time_ms - window_ms:
            counts[start_ms, each.page] += 1
            start_ms -= slide_ms
    return Counter(
        (name, text(start_ms), text(start_ms + window_ms), json.dumps({"page.id": page}), number)
        for (start_ms, page), number in counts.items()
    )


def sessions(views: Sequence[View], name: str, gap_ms: int) -> Counter[Result]:
    """Views of each member between which never lies as much as `gap_ms`."""
    found: Counter[Result] = Counter()
    for member in sorted({each.member for each in views}):
        times = sorted(each.time_ms for each in views if each.member == member)
        first = 0
        for at in range(1, len(times) + 1):
            if at == len(times) or times[at] - times[at - 1] > gap_ms:
                key = json.dumps({"member": member})
                found[name, text(times[first]), text(times[at - 1] + gap_ms), key, at - first] += 1
                first = at
    return found


def closed(results: Counter[Result], watermark_ms: int) -> Counter[Result]:
    """Those whose end the watermark has reached."""
    return Counter({each: number for each, number in results.items() if each[2] <= text(watermark_ms)})


def results_of(values: Iterable[Mapping[str, Any]]) -> Counter[Result]:
    """What stands in the topic; twice where it stands there twice."""
    return Counter(
        (each["name"], each["start"], each["end"], json.dumps(each["key"]), each["events"]) for each in values
    )


def text(at_ms: int) -> str:
    return (_EPOCH + timedelta(milliseconds=at_ms)).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
