"""Percentiles of what was measured, the same everywhere."""

from collections.abc import Sequence


def percentile(values: Sequence[float], share: float) -> float:
    """The value that so large a share of them is less than, and with a share of 1 the greatest; of at least one."""
    found = sorted(values)
    return found[min(len(found) - 1, int(len(found) * share))]
