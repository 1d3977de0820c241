"""Curves of the rows of growth as PNG, both axes logarithmic, so that a power law is a straight line."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from matplotlib.figure import Figure as Picture

from bench.side_by_side.figures import Result, exponent


def draw(results: Iterable[Result], stem: Path) -> list[Path]:
    """One picture for each row and figure that has points; the files, whose names begin as `stem` does."""
    curves: defaultdict[tuple[str, str, str], list[Result]] = defaultdict(list)
    for result in results:
        if result.at is not None:
            curves[result.row, result.figure, result.unit].append(result)
    return [_draw(row, f"{figure} ({unit})", points, stem) for (row, figure, unit), points in curves.items()]


def _draw(row: str, figure: str, points: list[Result], stem: Path) -> Path:
    picture = Picture(figsize=(6, 4), layout="constrained")
    axes = picture.subplots()
    for version, values in _by_version(points).items():
        told = f", exponent {exponent(values):.2f}" if len(values) > 1 else ""
        axes.loglog(list(values), list(values.values()), marker="o", label=f"{version}{told}")
    axes.set_title(row)
    axes.set_xlabel(row.removeprefix("growth, "))
    axes.set_ylabel(figure)
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.legend()
    name = "".join(each if each.isalnum() else "-" for each in f"{row} {figure}".lower())
    path = stem.with_name(f"{stem.name}-{name}.png")
    picture.savefig(path, dpi=120)
    return path


def _by_version(points: Iterable[Result]) -> dict[str, Mapping[float, float]]:
    found: defaultdict[str, dict[float, float]] = defaultdict(dict)
    for point in points:
        assert point.at is not None
        found["Barnabas"][point.at] = point.barnabas.median
        for version, spread in point.others.items():
            found[f"Kafka {version}"][point.at] = spread.median
    return dict(found)
