"""README's tables: the results of several runs, a line for each row.

`python -m bench.side_by_side.pivots FILE.json ... >tables.md`. Of a row that several files have, the last one counts. A
ratio that does not reach its aim is bold, one that is not judged in brackets. Records/s are left out, which are MB/s by
the size of a record. In front of them stands how many rows meet the aims of each kind, and how many miss them by what
the kernel takes alone, behind them what was measured when, and with which commit.
"""

import json
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bench.side_by_side.__main__ import all_rows
from bench.side_by_side.figures import OURS, Spread, exponent, short
from bench.side_by_side.report import limited_by, table, with_unit
from bench.side_by_side.row import CPU_S_GB, CPU_US, KERNEL_S_GB, MB_S, MOST_CPU, REQUESTS_S
from bench.side_by_side.rows.volume import PHYSICAL

Rows = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""By row and figure: what stands in the JSON. Points of curves are named with where they are."""

_PRODUCE: Final = "produce, "
_CONSUME: Final = "consume, "
_COPIES: Final = "consume, copies"
_REQUESTS: Final = "one record a request, "
_LATENCY: Final = "latency at "
_GROWTH: Final = "growth, "
_KINDS: Final[Sequence[tuple[str, str, str]]] = (
    ("MB/s, produce", _PRODUCE, MB_S),
    ("MB/s, consume", _CONSUME, MB_S),
    ("broker CPU s/GB, produce", _PRODUCE, CPU_S_GB),
    ("broker CPU s/GB, consume", _CONSUME, CPU_S_GB),
    ("consume, of a bare sendfile loop's rate", _CONSUME, PHYSICAL),
    ("one record a request", _REQUESTS, ""),
    ("p99 at 10,000 records/s", _LATENCY, ""),
    ("time without writes at a failover", "failover, ", ""),
    ("from exec to the first acknowledged record", "from exec", ""),
    ("memory at rest", "at rest", ""),
    ("memory under load", "memory", ""),
)
"""Of aims: a name, how the rows begin, and the figure where not all count."""
_PERCENTILES: Final = ("p50", "p99", "p99.9", "max")
_ENDS: Final = ("acknowledged", "end to end")


def rows_of(files: Iterable[Path]) -> Rows:
    """Of the results of `bench.side_by_side`, in the order in which it lists them."""
    rows: dict[str, dict[str, Mapping[str, Any]]] = {}
    places = {row.name: place for place, row in enumerate(all_rows())}
    for file in files:
        found: dict[str, dict[str, Mapping[str, Any]]] = {}
        for told in json.loads(file.read_text())["rows"]:
            at = "" if told["at"] is None else f" at {told['at']:g}"
            found.setdefault(told["row"], {})[told["figure"] + at] = told | {"file": str(file)}
        rows |= found
    return {name: rows[name] for name in sorted(rows, key=lambda name: places.get(name, len(places)))}


def aims(rows: Rows) -> list[str]:
    """By kind and aim: how many of those that are judged meet it, and the ratios of all; of curves nothing."""
    lines = []
    for kind, begin, figure in _KINDS:
        aimed = [
            told
            for name, figures in rows.items()
            if name.startswith(begin)
            for told in figures.values()
            if told["target"] is not None and figure in {"", told["figure"]}
        ]
        by_target: dict[str, list[Mapping[str, Any]]] = {}
        for told in aimed:
            if told["met"] is not None:
                by_target.setdefault(told["target"], []).append(told)
        for target, judged in by_target.items():
            # A share of what is possible is ours alone.
            ratios = Spread.of([told["barnabas"]["median"] if figure == PHYSICAL else told["ratio"] for told in judged])
            met = sum(told["met"] for told in judged)
            lines.append([kind, target, f"{met} of {len(judged)}", f"{ratios} x"])
    return table(["", "aim", "met", "ratio: median (least to greatest)"], lines)


def kernel_alone(rows: Rows) -> list[str]:
    """Of the costs that miss their aim: for how many the kernel's part of ours is beyond it already, as it is now.

    Those whose parts nobody has counted are left out. Parts are told as medians of all that miss.
    """
    lines = []
    for kind in (_PRODUCE, _CONSUME):
        costs = [
            (figures[CPU_S_GB], *kernels)
            for name, figures in rows.items()
            if name.startswith(kind) and (kernels := _kernels(figures)) and figures[CPU_S_GB]["met"] is False
        ]
        if costs:
            beyond = sum(ours > MOST_CPU * cost["kafka"]["median"] for cost, ours, _ in costs)
            own = statistics.median(ours / cost["barnabas"]["median"] for cost, ours, _ in costs)
            kafkas = statistics.median(theirs / cost["kafka"]["median"] for cost, _, theirs in costs)
            lines.append([kind.rstrip(", "), str(len(costs)), str(beyond), f"{own:.0%}", f"{kafkas:.0%}"])
    return table(
        ["", "costs that miss their aim", "the kernel alone is beyond it", "kernel's part of ours", "of Kafka's"], lines
    )


def _kernels(figures: Mapping[str, Mapping[str, Any]]) -> tuple[float, float] | None:
    """What the kernel took of our cost, and of that of the better Kafka; None where one of these was not counted."""
    told, cost = figures.get(KERNEL_S_GB), figures.get(CPU_S_GB)
    theirs = None if told is None or cost is None else told["others"].get(cost["kafka_version"])
    return None if told is None or theirs is None else (told["barnabas"]["median"], theirs["median"])


def sources(files: Iterable[Path], rows: Rows) -> list[str]:
    """Of each file how many of its rows count, and of what they are."""
    lines = []
    for file in files:
        about = json.loads(file.read_text())["about"]
        firsts = [next(iter(figures.values())) for figures in rows.values()]
        if counted := [told for told in firsts if told["file"] == str(file)]:
            what = f"{about['barnabas']}, {about['way_of_records']}"
            # A run that has ended early has fewer of some than it was asked for.
            rounds = sorted({told["rounds"][OURS] for told in counted})
            spelled = f"{rounds[0]}" if len(rounds) == 1 else f"{rounds[0]} to {rounds[-1]}"
            lines.append([about["date"], what, about["tcp_congestion_control"], spelled, str(len(counted))])
    return table(["measured", "Barnabas", "TCP", "rounds", "rows"], lines)


def volumes(rows: Rows, kind: str) -> list[str]:
    """Rates and costs of bytes; the kernel's part of these, and of drains the share of a bare loop, ours / Kafka's."""
    is_read = kind == _CONSUME
    lines = []
    for name, figures in rows.items():
        if name.startswith(kind) and not name.startswith(_COPIES):
            rate = figures[MB_S]
            cells = [name.removeprefix(kind), *_beside(rate), *_beside(figures[CPU_S_GB])]
            cells.append(" / ".join(map(short, _kernels(figures) or ())))
            lines.append([*cells, *([_share(figures.get(PHYSICAL))] if is_read else []), limited_by(rate["limiter"])])
    shares = ["of a bare loop"] if is_read else []
    return table(
        ["", MB_S, "Kafka", "ratio", "CPU s/GB", "Kafka", "ratio", "of it the kernel's", *shares, "limited by"], lines
    )


def requests(rows: Rows) -> list[str]:
    lines = []
    for name, figures in rows.items():
        if name.startswith(_REQUESTS):
            rate = figures[REQUESTS_S]
            lines.append(
                [name.removeprefix(_REQUESTS), *_beside(rate), *_beside(figures[CPU_US]), limited_by(rate["limiter"])]
            )
    return table(["", REQUESTS_S, "Kafka", "ratio", "CPU us", "Kafka", "ratio", "limited by"], lines)


def latencies(rows: Rows) -> list[str]:
    """In milliseconds, ours / the better Kafka's."""
    lines = [
        [
            f"{name.removeprefix(_LATENCY)}, {end}",
            *(_pair(figures[f"{percentile} {end}"]) for percentile in _PERCENTILES),
        ]
        for name, figures in rows.items()
        if name.startswith(_LATENCY)
        for end in _ENDS
    ]
    return table(["", *_PERCENTILES], lines)


def others(rows: Rows) -> list[str]:
    """A line for each figure of what is in no other table."""
    elsewhere = (_PRODUCE, _CONSUME, _REQUESTS, _LATENCY, _GROWTH)
    lines = [
        [
            f"{name}: {with_unit(figure, told['unit'])}",
            *_beside(told),
            told["target"] or "",
            limited_by(told["limiter"]),
        ]
        for name, figures in rows.items()
        if name.startswith(_COPIES) or not name.startswith(elsewhere)
        for figure, told in figures.items()
    ]
    return table(["", "Barnabas", "Kafka", "ratio", "aim", "limited by"], lines)


def curves(rows: Rows) -> list[str]:
    """The points of each, ours and at each size those of the better Kafka, and the exponents of both series."""
    lines = []
    for name, figures in rows.items():
        for figure in dict.fromkeys(told["figure"] for told in figures.values() if told["at"] is not None):
            points = [told for told in figures.values() if told["figure"] == figure and told["at"] is not None]
            what = f"{name.removeprefix(_GROWTH)}: {with_unit(figure, points[0]['unit'])}"
            ours, kafkas = (
                ", ".join("" if told[whose] is None else short(told[whose]["median"]) for told in points)
                for whose in ("barnabas", "kafka")
            )
            sizes = ", ".join(f"{told['at']:g}" for told in points)
            lines.append([what, sizes, ours, kafkas, _exponent(points, "barnabas"), _exponent(points, "kafka")])
    return table(["", "at", "Barnabas", "Kafka", "exponent", "Kafka's"], lines)


def _beside(told: Mapping[str, Any]) -> list[str]:
    """Ours, the better Kafka's with its version, and the ratio."""
    kafka = "" if told["kafka"] is None else f"{_spread(told['kafka'])}, {told['kafka_version']}"
    return [_spread(told["barnabas"]), kafka, _ratio(told)]


def _ratio(told: Mapping[str, Any]) -> str:
    if told["ratio"] is None:
        return ""
    return _judged(told, f"{told['ratio']:.2f} x")


def _judged(told: Mapping[str, Any], text: str) -> str:
    if told["target"] is None or told["met"]:
        return text
    return f"({text})" if told["met"] is None else f"**{text}**"


def _share(told: Mapping[str, Any] | None) -> str:
    if told is None:
        return ""
    return _judged(told, short(told["barnabas"]["median"])) + _and_kafkas(told)


def _pair(told: Mapping[str, Any]) -> str:
    ratio = f", {_ratio(told)}" if told["target"] is not None else ""
    return short(told["barnabas"]["median"]) + _and_kafkas(told) + ratio


def _and_kafkas(told: Mapping[str, Any]) -> str:
    return "" if told["kafka"] is None else f" / {short(told['kafka']['median'])}"


def _exponent(points: Sequence[Mapping[str, Any]], whose: str) -> str:
    medians = {told["at"]: told[whose]["median"] for told in points if told[whose] is not None}
    return f"{exponent(medians):.2f}" if len(medians) > 1 else ""


def _spread(told: Mapping[str, float]) -> str:
    return str(Spread(told["median"], told["min"], told["max"]))


TABLES: Final[Mapping[str, Callable[[Rows], list[str]]]] = {
    "Aims": aims,
    "The kernel alone": kernel_alone,
    "Produce": lambda rows: volumes(rows, _PRODUCE),
    "Consume": lambda rows: volumes(rows, _CONSUME),
    "One record a request": requests,
    "Latency in ms, Barnabas / Kafka": latencies,
    "Life, memory, failover, coordinators": others,
    "Growth": curves,
}


def as_tables(files: Sequence[Path]) -> str:
    """All, each below its name."""
    rows = rows_of(files)
    tables = {name: lines_of(rows) for name, lines_of in TABLES.items()} | {"Runs": sources(files, rows)}
    told = [[f"{name}:", "", *lines, ""] for name, lines in tables.items() if lines]
    return "\n".join(line for lines in told for line in lines)


if __name__ == "__main__":
    sys.stdout.write(as_tables([Path(name) for name in sys.argv[1:]]))
