"""What a row of the comparison is, what it must reach, and how the runs of all contestants become its result. [P]"""

import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

OURS: Final = "here"
"""The version of Barnabas among those of the contestants."""
NO_LIMITER: Final = "none"
"""Of what nothing makes faster, such as a size."""
SMOKE: Final = "a smoke run"
_ELSEWHERE: Final = frozenset({"client", "disk"})
"""Limiters of a run whose rate says little of the broker."""


@dataclass(frozen=True, slots=True)
class Target:
    """Bounds on our median: `ratio` to the better Kafka, `absolute` in the figure's unit. `at_least`, or at most.

    One that `stands_in` is of a cost, and counts where a client, or ours the disk, limited the row: its rates are not
    judged then.
    """

    at_least: bool
    ratio: float | None = None
    absolute: float | None = None
    stands_in: bool = False

    def is_met(self, value: float, ratio: float | None) -> bool:
        def holds(found: float, bound: float) -> bool:
            return found >= bound if self.at_least else found <= bound

        by_ratio = self.ratio is None or (ratio is not None and holds(ratio, self.ratio))
        return by_ratio and (self.absolute is None or holds(value, self.absolute))

    def __str__(self) -> str:
        bounds = [] if self.ratio is None else [f"{self.ratio:g} x"]
        bounds += [] if self.absolute is None else [f"{self.absolute:g}"]
        return ("at least " if self.at_least else "at most ") + " and ".join(bounds)


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of one run. `limiter` and `shares` as in `usage.Usage`; sizes have none.

    Of a figure that `is_rate` the greater is the better, and a busy client makes it say little. Of others the smaller
    is the better, unless their aim is a least one.
    """

    name: str
    value: float
    unit: str
    limiter: str = NO_LIMITER
    is_rate: bool = False
    at: float | None = None
    """Of a curve: where on it."""
    shares: str = ""
    unjudged: str = ""
    """Why this run says too little to be held against an aim."""
    elsewhere: float | None = None
    """Cores that were used meanwhile by what is no part of the comparison; None where nobody asked."""
    loop_ms: float | None = None
    """How fast the CPUs were: `usage.loop_ms`, the mean of right before and right after; None where nobody asked."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Of a figure over the rounds."""

    median: float
    least: float
    greatest: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        return cls(statistics.median(values), min(values), max(values))

    def as_json(self) -> dict[str, float]:
        return {"median": self.median, "min": self.least, "max": self.greatest}

    def __str__(self) -> str:
        median = short(self.median)
        return median if self.least == self.greatest else f"{median} ({short(self.least)} to {short(self.greatest)})"


@dataclass(frozen=True, slots=True)
class Result:
    """A figure of a row, ours beside that of the better rival, such as a Kafka; `others` has all by version."""

    row: str
    figure: str
    unit: str
    barnabas: Spread
    rival: Spread | None
    rival_version: str | None
    ratio: float | None
    target: Target | None
    met: bool | None
    limiter: str
    others: Mapping[str, Spread]
    rounds: Mapping[str, int]
    """How often each contestant was measured, by version. Where one never was nothing is judged."""
    shares: Mapping[str, Sequence[str]]
    """By version and round: who used how much of the CPU. Empty where nobody was asked."""
    at: float | None = None
    is_bound_elsewhere: bool = False
    """A rate that says little."""
    unjudged: str = ""
    """Why what has an aim is not held against it."""
    elsewhere: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """By version and round: cores that something else used. Empty where nobody asked."""
    loop_ms: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """By version and round: how fast the CPUs were. Empty where nobody asked."""
    runs: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """By version and round: what was measured."""

    @property
    def missing(self) -> list[str]:
        """Versions without a figure."""
        return [version for version, count in self.rounds.items() if not count]

    @property
    def aim(self) -> str | None:
        """Its target in words."""
        if self.target is None:
            return None
        has_unit = self.target.absolute is not None and self.unit != "x"
        return f"{self.target} {self.unit}" if has_unit else str(self.target)

    def as_json(self) -> dict[str, Any]:
        return {
            "row": self.row,
            "figure": self.figure,
            "unit": self.unit,
            "barnabas": self.barnabas.as_json(),
            "kafka": None if self.rival is None else self.rival.as_json(),
            "kafka_version": self.rival_version,
            "ratio": self.ratio,
            "target": self.aim,
            "met": self.met,
            "unjudged": self.unjudged or None,
            "limiter": self.limiter,
            "at": self.at,
            "rounds": dict(self.rounds),
            "shares": {version: list(told) for version, told in self.shares.items()},
            "elsewhere_cores": {version: list(told) for version, told in self.elsewhere.items()},
            "loop_ms": {version: list(told) for version, told in self.loop_ms.items()},
            "others": {version: spread.as_json() for version, spread in self.others.items()},
            "runs": {version: list(told) for version, told in self.runs.items()},
        }


Runs = Mapping[str, Sequence[Sequence[Figure]]]
"""By version of a contestant: the figures of each round; nothing of one that could not be measured."""


def results(
    row: str, runs: Runs, targets: Mapping[str, Target], *, rival: str = "Kafka", judges: bool = True
) -> list[Result]:
    """One for each figure of ours. A rate that a client limited, or ours the disk, is shown and not judged: its CPU is.

    Where the disk was Kafka's limit and not ours, ours could have been faster. Of a smoke, which does not `judge`,
    nothing is judged or compared.
    """
    figures = list({(each.name, each.at): each for figures in runs[OURS] for each in figures}.values())
    own = {name: target for name, target in targets.items() if not target.stands_in}
    found = [_result(row, figure, runs, own.get(figure.name), rival) for figure in figures]
    if len(own) != len(targets) and any(result.is_bound_elsewhere for result in found):
        found = [_result(row, figure, runs, targets.get(figure.name), rival) for figure in figures]
    return found if judges else [_not_judged(result) for result in found]


def exponent(points: Mapping[float, float]) -> float:
    """Of the power law that fits best: 1 where twice as much costs twice as much, 0 where it costs the same."""
    logs = [(math.log(at), math.log(max(value, sys.float_info.min))) for at, value in points.items()]
    return statistics.linear_regression([x for x, _ in logs], [y for _, y in logs]).slope


def _result(row: str, figure: Figure, runs: Runs, target: Target | None, rival: str) -> Result:
    found = {
        version: [each for figures in rounds for each in figures if (each.name, each.at) == (figure.name, figure.at)]
        for version, rounds in runs.items()
    }
    spreads = {version: Spread.of([each.value for each in figures]) for version, figures in found.items() if figures}
    limiters = {
        version: limiter_of([each.limiter for each in figures]) for version, figures in found.items() if figures
    }
    ours = spreads.pop(OURS)
    more_is_better = figure.is_rate or (target is not None and target.at_least)
    best = (max if more_is_better else min)(spreads, key=lambda version: spreads[version].median, default=None)
    theirs = None if best is None else spreads[best]
    # Exponents have no unit and no ratio.
    ratio = None if theirs is None or not theirs.median or not figure.unit else ours.median / theirs.median
    bound_by = _bound_by(limiters[OURS], limiters.get(best or "")) if figure.is_rate else frozenset()
    rounds = {version: len(figures) for version, figures in found.items()}
    unjudged = "" if target is None else _why_unjudged(target, found, ratio, rival)
    if target is not None and not unjudged and bound_by:
        unjudged = f"limited by {' and '.join(f'the {each}' for each in sorted(bound_by))}"
    limiter = f"Barnabas: {limiters[OURS]}" + ("" if best is None else f"; {rival}: {limiters[best]}")
    met = target.is_met(ours.median, ratio) if target is not None and not unjudged else None
    shares = {version: told for version, each in found.items() if any(told := [figure.shares for figure in each])}
    told = Result(
        row, figure.name, figure.unit, ours, theirs, best, ratio, target, met, limiter, spreads, rounds, shares
    )
    return replace(
        told,
        at=figure.at,
        is_bound_elsewhere=bool(bound_by),
        unjudged=unjudged,
        elsewhere=_told({version: [each.elsewhere for each in figures] for version, figures in found.items()}),
        loop_ms=_told({version: [each.loop_ms for each in figures] for version, figures in found.items()}),
        runs={version: [each.value for each in figures] for version, figures in found.items()},
    )


def _told(runs: Mapping[str, Sequence[float | None]]) -> dict[str, list[float]]:
    """Of the rounds in which it was asked for; of no version without one."""
    told = {version: [each for each in values if each is not None] for version, values in runs.items()}
    return {version: values for version, values in told.items() if values}


def _bound_by(ours: str, theirs: str | None) -> frozenset[str]:
    """What leaves a rate unjudged."""
    return _ELSEWHERE & {ours, theirs if theirs != "disk" else ""}


def limiter_of(rounds: Sequence[str]) -> str:
    """The most frequent one, of those that say little of a broker if half of the rounds have them, else of the others.

    The median of an even half is as much of a round that says little.
    """
    elsewhere = [each for each in rounds if each in _ELSEWHERE]
    counted = elsewhere if 2 * len(elsewhere) >= len(rounds) else [each for each in rounds if each not in _ELSEWHERE]
    # Of two as frequent ones not the one that came first: what is told hangs on no order.
    return max(sorted(set(counted)), key=counted.count)


def _not_judged(result: Result) -> Result:
    return replace(result, ratio=None, met=None, unjudged=SMOKE if result.target is not None else "")


def _why_unjudged(target: Target, found: Mapping[str, Sequence[Figure]], ratio: float | None, rival: str) -> str:
    """Who has no figure, or in half of the rounds one that says too little: its median would be one of those."""
    if missing := [version for version, figures in found.items() if not figures]:
        return f"without {' and '.join(missing)}"
    for version, figures in found.items():
        reasons = [each.unjudged for each in figures if each.unjudged]
        # Others have no say where none is compared with them.
        if (version == OURS or target.ratio is not None) and 2 * len(reasons) >= len(figures):
            return f"{'Barnabas' if version == OURS else f'{rival} {version}'}: {reasons[0]}"
    if target.ratio is None or ratio is not None:
        return ""
    return f"no {rival} to compare with" if len(found) == 1 else f"0 of {rival}"


def short(value: float) -> str:
    for least, digits in ((100, 0), (10, 1), (0.1, 2)):
        if abs(value) >= least:
            return f"{value:,.{digits}f}"
    return f"{value:.4f}"
