"""What an audit found, as a table for a terminal and as JSON for the report. Pure."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from barnabas.pipeline.audit.reconciliation import Tiers, Verdict
from barnabas.pipeline.audit.tallies import NOTHING, Cell, Tallies, hour_text

MOST_SHOWN: Final = 20
MOST_CELLS: Final = 100_000
"""In a report; unbalanced ones come first."""

_HEADINGS: Final = ("topic", "partition", "hours", "producers", "topic has", "table", "dead letters", "differing")


def show(tiers: Tiers, verdicts: Sequence[Verdict]) -> str:
    """A row for each partition, then what differs, the first cells by name."""
    rows = [_HEADINGS]
    for (topic, partition), of_partition in _by_partition(verdicts).items():
        cells = [each.cell for each in of_partition]
        differing = sum(not each.balances for each in of_partition)
        rows.append(
            (
                topic,
                str(partition),
                str(len(cells)),
                "-" if tiers.producers is None else str(_sum(tiers.producers, cells)),
                str(sum(tiers.sent(cell).records for cell in cells)),
                str(_sum(tiers.table, cells) + _sum(tiers.expired, cells)),
                str(_sum(tiers.dead_letters, cells)),
                str(differing) if differing else "-",
            )
        )
    lines = _aligned(rows)
    unbalanced = [each for each in verdicts if not each.balances]
    for each in unbalanced[:MOST_SHOWN]:
        lines.append(f"{each.cell}: {'; '.join(each.differences)}")
    if len(unbalanced) > MOST_SHOWN:
        lines.append(f"and {len(unbalanced) - MOST_SHOWN} hours more; the report has them")
    return "\n".join(lines)


def cells_as_json(tiers: Tiers, verdicts: Iterable[Verdict]) -> list[dict[str, Any]]:
    """A document for each cell, those that do not balance first; at most MOST_CELLS."""
    ordered = sorted(verdicts, key=lambda each: (each.balances, each.cell))
    return [_cell(tiers, each) for each in ordered[:MOST_CELLS]]


def _cell(tiers: Tiers, verdict: Verdict) -> dict[str, Any]:
    cell = verdict.cell
    told: dict[str, Any] = {
        "topic": cell.topic,
        "partition": cell.partition,
        "hour": hour_text(cell.hour_ms),
        "balances": verdict.balances,
        "topic_records": tiers.topic.get(cell, NOTHING).records,
        "table_rows": tiers.table.get(cell, NOTHING).records,
    }
    if tiers.producers is not None:
        told["producer_records"] = tiers.producers.get(cell, NOTHING).records
    for name, tallies in (
        ("dead_letters", tiers.dead_letters),
        ("expired_rows", tiers.expired),
        ("records_beyond", tiers.beyond),
    ):
        if cell in tallies:
            told[name] = tallies[cell].records
    if verdict.notes:
        told["notes"] = list(verdict.notes)
    if not verdict.balances:
        told["differences"] = list(verdict.differences)
        told["offsets"] = [
            {"kind": each.kind.value, "first": each.first, "last": each.last, "surplus_rows": each.surplus}
            for each in verdict.ranges
        ]
        sides = {"producers": tiers.producers or {}, "topic": tiers.topic, "table": tiers.table}
        told["checksums"] = {name: f"{side.get(cell, NOTHING).content:016x}" for name, side in sides.items()}
    return told


def _by_partition(verdicts: Iterable[Verdict]) -> dict[tuple[str, int], list[Verdict]]:
    partitions: dict[tuple[str, int], list[Verdict]] = {}
    for each in verdicts:
        partitions.setdefault(each.cell[:2], []).append(each)
    return partitions


def _sum(tallies: Tallies, cells: Iterable[Cell]) -> int:
    return sum(tallies[cell].records for cell in cells if cell in tallies)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns of equal width; the first one is of names, the others of numbers."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            text.ljust(width) if at == 0 else text.rjust(width)
            for at, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
