"""Percentiles of what was measured, the same everywhere."""

from collections.abc import Sequence


def percentiles(values: Sequence[float], *shares: float) -> list[float]:
    """For each share the value that so large a share of them is less than, and for 1 the greatest; of at least one."""
    found = sorted(values)
    return [found[min(len(found) - 1, int(len(found) * share))] for share in shares]


def percentile(values: Sequence[float], share: float) -> float:
    """The same for one share."""
    return percentiles(values, share)[0]
