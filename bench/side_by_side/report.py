"""The table that people read and the JSON that programs read, with the machine and everything that was set. [P]"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from bench.side_by_side.comparison import Comparison
from bench.side_by_side.figures import OURS, SMOKE, Result, Spread

NOISE_CORES: Final = 0.3
"""What else may use the machine without being named."""
_NAME: Final = "row and figure"
_LIMITERS: Final = "limited by (ours, Kafka)"
_COLUMNS: Final = (_NAME, "Barnabas", "Kafka", "ratio", "aim", "met", _LIMITERS)
_SPELT: Final = {"s": "seconds"}
_OF_AIMS: Final = frozenset({"aim", "met"})


def as_json(comparison: Comparison, about: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "about": dict(about),
        "rows": [result.as_json() for result in comparison.results],
        "left_out": comparison.left_out,
        "row_properties": comparison.properties,
        "commands": comparison.commands,
    }


def as_markdown(comparison: Comparison, about: Mapping[str, Any]) -> str:
    """Medians with the least and the greatest; the ratio is ours to the better Kafka's. First what has an aim."""
    machine = f"{about['machine']}, {about['cpus']} cores of {about['processor']}, {about['memory_gb']} GB"
    software = f"Python {about['python']}; {about['java']}; {about['kcat']}; ZooKeeper {about['zookeeper']}"
    network = f"TCP {about['tcp_congestion_control']}"
    barnabas = f"Barnabas {about['barnabas']}, {about['way_of_records']}"
    ran = f"{_rounds(about['rounds'])}; `{about['command']}`"
    lines = [
        f"{about['date']}, {machine}, {network}; {software}; {barnabas}; {ran}",
        "",
        *_table([each for each in comparison.results if each.target is not None], _COLUMNS),
    ]
    if others := [each for each in comparison.results if each.target is None]:
        lines += ["", "<details><summary>What has no aim</summary>", ""]
        lines += [*_table(others, [name for name in _COLUMNS if name not in _OF_AIMS]), "", "</details>"]
    judged = [result for result in comparison.results if result.met is not None]
    met = f"{sum(result.met is True for result in judged)} of {len(judged)} aims met."
    lines += ["", met if comparison.judges else "A smoke run, of tiny loads on cold systems: nothing is judged."]
    lines += [f"Something else used the machine: {told}" for told in _noise(comparison.results)]
    lines += _speed(comparison.results)
    lines += [f"Left out: {row}: {reason}" for row, reason in comparison.left_out.items()]
    return "\n".join(lines) + "\n"


def _rounds(count: int) -> str:
    return "1 round" if count == 1 else f"{count} rounds in turn"


def _noise(results: Iterable[Result]) -> list[str]:
    """By row, the runs in which it was more than a little: of what, nobody knows. The kernel's own work is in it."""
    noisy: dict[str, dict[str, None]] = {}
    for result in results:
        for version, rounds in result.elsewhere.items():
            for number, cores in enumerate(rounds, 1):
                if cores > NOISE_CORES:
                    name = "Barnabas" if version == OURS else f"Kafka {version}"
                    told = f"{cores:.2f} cores in round {number} of {name}"
                    noisy.setdefault(result.row, {})[told] = None
    return [f"{row}: {', '.join(told)}" for row, told in noisy.items()]


def _speed(results: Iterable[Result]) -> list[str]:
    """A line on how fast the CPUs were over all runs; none where nobody asked."""
    # All figures of a row are of the same runs.
    of_rows = {result.row: result.loop_ms for result in results}
    if not (runs_ms := [each for told in of_rows.values() for rounds in told.values() for each in rounds]):
        return []
    return [f"Beside the runs a loop of Python took {Spread.of(runs_ms)} ms: so fast the processors were."]


def _table(results: Iterable[Result], columns: Sequence[str]) -> list[str]:
    rows = [[cells[name] for name in columns] for cells in map(_cells, results)]
    return table(["" if name == _NAME else name for name in columns], rows)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of Markdown; none where there is no row."""
    return ["| " + " | ".join(cells) + " |" for cells in (heads, ["---"] * len(heads), *rows)] if rows else []


def _cells(result: Result) -> dict[str, str]:
    met = {True: "yes", False: "NO", None: ""}[result.met]
    # Beside such an aim the ratio would be taken for what is judged.
    is_absolute = result.target is not None and result.target.ratio is None
    if result.unjudged and result.unjudged != SMOKE:
        met = f"not judged ({result.unjudged})"
    return {
        _NAME: f"{result.row}, {_figure(result)}",
        "Barnabas": str(result.barnabas),
        "Kafka": "" if result.rival is None else f"{result.rival}, {result.rival_version}",
        "ratio": "" if result.ratio is None or is_absolute else f"{result.ratio:.2f} x",
        "aim": result.aim or "",
        "met": met,
        _LIMITERS: limited_by(result.limiter),
    }


def limited_by(limiter: str) -> str:
    """Of `Result.limiter`: ours and the rival's, without their names."""
    return ", ".join(each.partition(": ")[2] for each in limiter.split("; "))


def with_unit(figure: str, unit: str) -> str:
    """A figure's name, and its unit where the name does not say it."""
    words = re.escape(_SPELT.get(unit, unit))
    has_unit = re.search(rf"(?<!\w){words}(?!\w)", figure) is not None
    return figure if has_unit or not unit else f"{figure} ({unit})"


def _figure(result: Result) -> str:
    named = with_unit(result.figure, result.unit)
    return named if result.at is None else f"{named} at {result.at:,g}"
