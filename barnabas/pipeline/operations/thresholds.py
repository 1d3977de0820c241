"""When a figure is too much for too long: raised once, cleared once. Pure.

    QUIET -> PENDING -> RAISED -> CLEARING -> QUIET
    PENDING -> QUIET, CLEARING -> RAISED               the figure went back before the time was over

Each threshold follows each series for itself. The limit at which a raised one clears may lie lower (hysteresis), so
that a figure that trembles at the limit raises one event and not a hundred. A series that has no figures any more is
forgotten after a while, and cleared if it was raised.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

import msgspec

from barnabas.pipeline.operations.figures import Sample, Series

RAISED: Final = "raised"
CLEARED: Final = "cleared"


@dataclass(frozen=True, slots=True)
class Threshold:
    """A limit; see ThresholdConfig. Times in milliseconds."""

    name: str
    metric: str
    is_upper: bool
    limit: float
    clear: float
    for_ms: int
    clear_for_ms: int
    labels: tuple[tuple[str, str], ...] = ()

    def covers(self, series: Series) -> bool:
        return series.metric == self.metric and set(self.labels) <= set(series.labels)

    def is_beyond(self, value: float) -> bool:
        """Whether it is too much."""
        return value > self.limit if self.is_upper else value < self.limit

    def is_back(self, value: float) -> bool:
        """Whether it is good again."""
        return value <= self.clear if self.is_upper else value >= self.clear

    def __str__(self) -> str:
        return f"{self.metric} {'>' if self.is_upper else '<'} {self.limit:g}"


class Event(msgspec.Struct, frozen=True):
    """Something was raised or cleared. `since` is when the figure went over the limit, or came back."""

    event: str
    threshold: str
    time: int
    since: int
    host: str
    broker: int | None
    metric: str
    labels: dict[str, str]
    value: float | None
    limit: float
    reason: str

    @property
    def series(self) -> Series:
        return Series(self.host, self.broker, self.metric, tuple(sorted(self.labels.items())))

    @property
    def key(self) -> bytes:
        """Events of one threshold and series are in one partition, in order."""
        return msgspec.json.encode([self.threshold, *self.series])

    def __str__(self) -> str:
        value = "" if self.value is None else f" is {self.value:g}"
        return f"{self.event.upper()} {self.threshold}: {self.series}{value} ({self.reason})"


class _Stage(Enum):
    QUIET = auto()
    PENDING = auto()
    RAISED = auto()
    CLEARING = auto()


@dataclass(slots=True)
class _Watched:
    stage: _Stage = _Stage.QUIET
    since_ms: int = 0
    seen_ms: int = 0
    value: float | None = None


class Thresholds:
    """See the module. Owns what is raised."""

    def __init__(self, thresholds: Iterable[Threshold], *, silence_ms: int) -> None:
        self._thresholds = list(thresholds)
        self._silence_ms = silence_ms
        self._watched: dict[tuple[str, Series], _Watched] = {}

    def restore(self, events: Iterable[Event], now_ms: int) -> None:
        """Take over what an earlier process raised and did not clear. Events of other thresholds do not count."""
        known = {each.name: each for each in self._thresholds}
        for event in events:
            threshold = known.get(event.threshold)
            if threshold is None or not threshold.covers(event.series):
                continue
            key = event.threshold, event.series
            if event.event == RAISED:
                self._watched[key] = _Watched(_Stage.RAISED, event.since, now_ms, event.value)
            else:
                self._watched.pop(key, None)

    def raised(self) -> list[tuple[str, Series]]:
        """What is raised now."""
        return sorted(
            (key for key, watched in self._watched.items() if watched.stage in (_Stage.RAISED, _Stage.CLEARING)),
            key=str,
        )

    def judge(self, samples: Iterable[Sample], now_ms: int) -> list[Event]:
        """What these figures raise and clear."""
        events: list[Event] = []
        for sample in samples:
            for series, value in sample.series():
                for threshold in self._thresholds:
                    if threshold.covers(series):
                        events += self._judge_one(threshold, series, value, now_ms)
        return events + self._forget_silent(now_ms)

    def _judge_one(self, threshold: Threshold, series: Series, value: float, now_ms: int) -> list[Event]:
        watched = self._watched.setdefault((threshold.name, series), _Watched())
        watched.seen_ms, watched.value = now_ms, value
        if watched.stage in (_Stage.QUIET, _Stage.PENDING):
            if not threshold.is_beyond(value):
                watched.stage = _Stage.QUIET
                return []
            if watched.stage is _Stage.QUIET:
                watched.stage, watched.since_ms = _Stage.PENDING, now_ms
            if now_ms - watched.since_ms < threshold.for_ms:
                return []
            watched.stage = _Stage.RAISED
            reason = f"{threshold} {_lasted(threshold.for_ms)}".strip()
            return [_event(RAISED, threshold, series, watched, now_ms=now_ms, reason=reason)]
        if not threshold.is_back(value):
            watched.stage = _Stage.RAISED
            return []
        if watched.stage is _Stage.RAISED:
            watched.stage, watched.since_ms = _Stage.CLEARING, now_ms
        if now_ms - watched.since_ms < threshold.clear_for_ms:
            return []
        watched.stage = _Stage.QUIET
        sign = "<=" if threshold.is_upper else ">="
        reason = f"{threshold.metric} {sign} {threshold.clear:g} {_lasted(threshold.clear_for_ms)}".strip()
        return [_event(CLEARED, threshold, series, watched, now_ms=now_ms, reason=reason)]

    def _forget_silent(self, now_ms: int) -> list[Event]:
        events: list[Event] = []
        known = {each.name: each for each in self._thresholds}
        for key, watched in list(self._watched.items()):
            if now_ms - watched.seen_ms <= self._silence_ms:
                continue
            del self._watched[key]
            if watched.stage in (_Stage.RAISED, _Stage.CLEARING):
                watched.since_ms, watched.value = watched.seen_ms, None
                reason = f"no figures for {self._silence_ms / 1000:g} s"
                events.append(_event(CLEARED, known[key[0]], key[1], watched, now_ms=now_ms, reason=reason))
        return events


def _event(kind: str, threshold: Threshold, series: Series, watched: _Watched, *, now_ms: int, reason: str) -> Event:
    return Event(
        event=kind,
        threshold=threshold.name,
        time=now_ms,
        since=watched.since_ms,
        host=series.host,
        broker=series.broker,
        metric=series.metric,
        labels=dict(series.labels),
        value=watched.value,
        limit=threshold.limit if kind == RAISED else threshold.clear,
        reason=reason,
    )


def _lasted(duration_ms: int) -> str:
    return f"for {duration_ms / 1000:g} s" if duration_ms else ""
