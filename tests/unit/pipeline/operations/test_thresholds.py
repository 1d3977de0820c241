"""What is raised and cleared: once each, after its time, with hysteresis."""

import random

import msgspec

from barnabas.pipeline.operations.figures import Figure, Sample, Series
from barnabas.pipeline.operations.thresholds import CLEARED, RAISED, Event, Threshold, Thresholds

HOT = Threshold("hot", "cpu", is_upper=True, limit=0.9, clear=0.8, for_ms=3000, clear_for_ms=2000)
LOW = Threshold("low", "free", is_upper=False, limit=10, clear=10, for_ms=0, clear_for_ms=0)


def cpu(value: float, *, metric: str = "cpu", host: str = "h", **labels: str) -> list[Sample]:
    return [Sample(0, host, None, [Figure(metric, value, labels)])]


def played(thresholds: Thresholds, values: list[float], **more: str) -> list[tuple[int, str]]:
    """The seconds in which something happened when one value comes each second."""
    return [
        (second, event.event)
        for second, value in enumerate(values)
        for event in thresholds.judge(cpu(value, **more), second * 1000)
    ]


def test_it_is_raised_when_the_time_is_over_and_once() -> None:
    assert played(Thresholds([HOT], silence_ms=60_000), [0.95] * 10) == [(3, RAISED)]


def test_a_break_begins_the_time_anew() -> None:
    values = [0.95, 0.95, 0.95, 0.9, 0.95, 0.95, 0.95, 0.95]
    assert played(Thresholds([HOT], silence_ms=60_000), values) == [(7, RAISED)], "0.9 is not above 0.9"


def test_it_clears_below_the_lower_limit_and_after_its_time() -> None:
    values = [0.95] * 4 + [0.85] * 5 + [0.8, 0.8, 0.85, 0.8, 0.8, 0.8, 0.8] + [0.95] * 4
    assert played(Thresholds([HOT], silence_ms=60_000), values) == [(3, RAISED), (14, CLEARED), (19, RAISED)]


def test_a_limit_from_below() -> None:
    values = [11.0, 10.0, 9.0, 9.0, 10.0, 9.0]
    assert played(Thresholds([LOW], silence_ms=60_000), values, metric="free") == [
        (2, RAISED),
        (4, CLEARED),
        (5, RAISED),
    ]


def test_each_series_is_judged_for_itself() -> None:
    thresholds = Thresholds([LOW], silence_ms=60_000)
    events = thresholds.judge(cpu(1, metric="free", disk="/a") + cpu(99, metric="free", disk="/b"), 0)
    assert [event.labels for event in events] == [{"disk": "/a"}]
    assert thresholds.raised() == [("low", Series("h", None, "free", (("disk", "/a"),)))]
    events = thresholds.judge(cpu(99, metric="free", disk="/a") + cpu(1, metric="free", disk="/b"), 1000)
    assert [(event.event, event.labels["disk"]) for event in events] == [(CLEARED, "/a"), (RAISED, "/b")]


def test_labels_say_which_series_count() -> None:
    of_a = Threshold("a", "free", False, 10, 10, 0, 0, labels=(("disk", "/a"),))
    thresholds = Thresholds([of_a], silence_ms=60_000)
    assert thresholds.judge(cpu(1, metric="free", disk="/b") + cpu(1, metric="free"), 0) == []
    assert len(thresholds.judge(cpu(1, metric="free", disk="/a", host="x"), 0)) == 1


def test_a_series_that_falls_silent_is_cleared() -> None:
    thresholds = Thresholds([LOW], silence_ms=5000)
    thresholds.judge(cpu(1, metric="free"), 1000)
    assert thresholds.judge([], 6000) == []
    (event,) = thresholds.judge([], 6001)
    assert (event.event, event.value, event.since, event.reason) == (CLEARED, None, 1000, "no figures for 5 s")
    assert thresholds.judge([], 20_000) == []
    assert thresholds.raised() == []


def test_who_begins_anew_knows_what_was_raised() -> None:
    before = Thresholds([LOW, HOT], silence_ms=60_000)
    events = before.judge(cpu(1, metric="free"), 0) + before.judge(cpu(1, metric="free", disk="/b"), 0)
    events += before.judge(cpu(99, metric="free", disk="/b"), 1000)
    written = [msgspec.json.decode(msgspec.json.encode(event), type=Event) for event in events]
    assert written == events
    after = Thresholds([LOW], silence_ms=60_000)
    after.restore(written, 5000)
    assert after.raised() == [("low", Series("h", None, "free"))]
    assert after.judge(cpu(1, metric="free"), 6000) == [], "not raised a second time"
    assert [event.event for event in after.judge(cpu(99, metric="free"), 7000)] == [CLEARED]
    other = Thresholds([HOT], silence_ms=60_000)
    other.restore(written, 5000)
    assert other.raised() == []


def test_raised_and_cleared_take_turns_whatever_comes(seed: int) -> None:
    draw = random.Random(seed)
    thresholds = Thresholds([HOT, LOW], silence_ms=10_000)
    last: dict[tuple[str, Series], str] = {}
    for second in range(3000):
        samples = [
            each
            for metric, values in (("cpu", [0.5, 0.8, 0.85, 0.95]), ("free", [5.0, 10.0, 15.0]))
            for host in ("a", "b")
            if draw.random() < 0.95
            for each in cpu(draw.choice(values), metric=metric, host=host)
        ]
        for event in thresholds.judge([] if 1000 < second < 1020 else samples, second * 1000):
            key = event.threshold, event.series
            assert last.get(key, CLEARED) != event.event
            last[key] = event.event
    assert set(last) == {("hot", Series(h, None, "cpu")) for h in "ab"} | {
        ("low", Series(h, None, "free")) for h in "ab"
    }


def test_an_event_tells_itself() -> None:
    (event,) = Thresholds([LOW], silence_ms=1).judge([Sample(0, "h", 3, [Figure("free", 2.5, {"disk": "/"})])], 0)
    assert str(event) == "RAISED low: free{disk=/} of broker 3 on h is 2.5 (free < 10)"
