"""The table that people read and the JSON that programs read, with the machine and everything that was set. [P]"""

from collections.abc import Mapping, Sequence
from typing import Any

from bench.side_by_side.comparison import Comparison
from bench.side_by_side.figures import Result


def as_json(comparison: Comparison, about: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "about": dict(about),
        "rows": [result.as_json() for result in comparison.results],
        "left_out": comparison.left_out,
        "row_properties": comparison.properties,
        "commands": comparison.commands,
    }


def as_markdown(comparison: Comparison, about: Mapping[str, Any]) -> str:
    """Medians with the least and the greatest; the ratio is ours to the better Kafka's."""
    machine = f"{about['machine']}, {about['cpus']} cores, {about['memory_gb']} GB; {about['java']}"
    lines = [
        f"{about['date']}, {machine}; {about['rounds']} rounds in turn; `{about['command']}`",
        "",
        "| row | figure | Barnabas | Kafka | version | ratio | aim | met | limiter |",
        "|---|---|---|---|---|---|---|---|---|",
        *(_line(result) for result in comparison.results),
    ]
    judged = [result for result in comparison.results if result.met is not None]
    lines += ["", f"{sum(result.met is True for result in judged)} of {len(judged)} aims met."]
    lines += [f"Left out: {row}: {reason}" for row, reason in comparison.left_out.items()]
    return "\n".join(lines) + "\n"


def _line(result: Result) -> str:
    ratio = "" if result.ratio is None else f"{result.ratio:.2f} x"
    met = {True: "yes", False: "NO", None: ""}[result.met]
    if result.target is not None and result.missing:
        met = f"not judged without {' and '.join(result.missing)}"
    cells: Sequence[str] = [
        result.row,
        _figure(result),
        str(result.barnabas),
        "" if result.rival is None else str(result.rival),
        result.rival_version or "",
        ratio,
        "" if result.target is None else str(result.target),
        met,
        result.limiter,
    ]
    return "| " + " | ".join(cells) + " |"


def _figure(result: Result) -> str:
    named = result.figure if result.unit in result.figure or not result.unit else f"{result.figure} ({result.unit})"
    return named if result.at is None else f"{named} at {result.at:,g}"
