"""The picture of the demo: events over time as the table has them, and as the job activity counted them."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

_MONTH = timedelta(days=30.4375)
_SHOWN = 6


def draw(times: Iterable[datetime], results: Iterable[Mapping[str, Any]], path: Path) -> None:
    """Entries a month by the table's rows above, the packages with most entries by windows of 30 days below."""
    picture = Figure(figsize=(11, 8), layout="constrained")
    above, below = picture.subplots(2, 1, sharex=True)
    when = _days(times)
    bins = np.arange(when.min(), when.max() + _MONTH.days, _MONTH / timedelta(days=1))
    above.hist(when, bins=bins, color="tab:blue")
    above.set_title(f"{len(when)} entries of Debian's changelogs, as the table has them")
    above.set_ylabel("entries a month")
    for names, windows in _most_active(results)[:_SHOWN]:
        starts = _days(datetime.fromisoformat(start) for start, _ in windows)
        others = f" and {len(names) - 1} of the same source" if len(names) > 1 else ""
        sums = np.cumsum([events for _, events in windows])
        below.plot(starts, sums, label=f"{min(names, key=len)}{others}", drawstyle="steps-post")
    below.set_title("packages with the most entries, as the activity job counted them")
    below.set_ylabel("entries so far")
    below.legend(fontsize="small")
    for axes in (above, below):
        axes.xaxis_date()
        axes.grid(visible=True, alpha=0.3)
    picture.savefig(path, dpi=120)


def _most_active(results: Iterable[Mapping[str, Any]]) -> list[tuple[list[str], list[tuple[str, int]]]]:
    """Packages with their windows, those with most entries first; packages with the same changelog together."""
    windows: dict[str, list[tuple[str, int]]] = {}
    for each in results:
        if each["name"] == "packages":
            windows.setdefault(each["key"]["page"], []).append((each["start"], each["events"]))
    together: dict[tuple[tuple[str, int], ...], list[str]] = {}
    for package, counts in windows.items():
        together.setdefault(tuple(sorted(counts)), []).append(package)
    ordered = sorted(together.items(), key=lambda item: -sum(events for _, events in item[0]))
    return [(names, list(counts)) for counts, names in ordered]


def _days(times: Iterable[datetime]) -> NDArray[np.float64]:
    """As matplotlib counts: days since 1970."""
    return np.array([each.astimezone(UTC).timestamp() / 86_400 for each in times])
