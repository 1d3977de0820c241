"""What many seeds came to: counts, distributions, what failed. Plain data for JSON, and a few lines for people."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from barnabas.simulation.trial import Tally

_QUANTILES: Final = (0.0, 0.1, 0.5, 0.9, 1.0)


def summarise(tallies: Sequence[Tally], *, elapsed_s: float, workers: int) -> dict[str, object]:
    """The report of a run."""
    acted: Counter[str] = Counter()
    for tally in tallies:
        acted.update(tally.acted)
    return {
        "seeds": len(tallies),
        "counted": sum(tally.counts for tally in tallies),
        "failed": [tally.seed for tally in tallies if not tally.passed],
        "elapsed_s": round(elapsed_s, 1),
        "workers": workers,
        "seeds_per_s": round(len(tallies) / elapsed_s, 3) if elapsed_s else 0.0,
        "brokers": dict(sorted(Counter(tally.brokers for tally in tallies).items())),
        "simulated_s": distribution(tally.simulated_s for tally in tallies),
        "operations": distribution(tally.operations for tally in tallies),
        "acknowledged": distribution(tally.acknowledged for tally in tallies),
        "faults_acted": distribution(sum(tally.acted.values()) for tally in tallies),
        "fault_classes": distribution(len(tally.acted) for tally in tallies),
        "leader_changes": distribution(tally.leader_changes for tally in tallies),
        "led_after_s": distribution(tally.led_after_s for tally in tallies if tally.led_after_s is not None),
        "in_sync_after_s": distribution(
            tally.in_sync_after_s for tally in tallies if tally.in_sync_after_s is not None
        ),
        "converged_after_s": distribution(tally.converged_after_s for tally in tallies if tally.converged),
        "compactions": distribution(tally.compactions for tally in tallies if tally.compactions),
        "blemishes": distribution(tally.blemishes for tally in tallies if tally.blemishes),
        "liveness_looked": distribution(tally.looked for tally in tallies),
        "steps": distribution(tally.steps for tally in tallies),
        "acted": dict(sorted(acted.items())),
        "violations": {tally.seed: tally.violations for tally in tallies if not tally.passed},
        "not_counted": {tally.seed: why_not_counted(tally) for tally in tallies if tally.passed and not tally.counts},
    }


def distribution(values: Iterable[float]) -> dict[str, float]:
    """Least, tenth, median, ninetieth and greatest of the values, and their sum."""
    ordered = sorted(values)
    if not ordered:
        return {}
    last = len(ordered) - 1
    found = {f"p{int(part * 100)}": round(ordered[round(part * last)], 3) for part in _QUANTILES}
    return found | {"sum": round(sum(ordered), 3)}


def why_not_counted(tally: Tally) -> str:
    """What a seed that passed was too small in."""
    return (
        f"{tally.simulated_s:.0f} s, {tally.operations} operations, {tally.acknowledged} acknowledged, "
        f"{sum(tally.acted.values())} faults of {len(tally.acted)} classes, {tally.leader_changes} leader changes"
    )


def line(tally: Tally) -> str:
    """One seed in a line, and its violations below it."""
    verdict = "FAILED" if not tally.passed else "counts" if tally.counts else "too small"
    head = (
        f"seed {tally.seed}: {verdict}; digest {tally.digest:016x}; "
        f"{tally.simulated_s:.0f} s, {tally.brokers} brokers, "
        f"{tally.operations} operations, {tally.acknowledged} acknowledged, {sum(tally.acted.values())} faults, "
        f"{tally.leader_changes} leader changes, whole after {tally.converged_after_s:.1f} s"
    )
    return "\n".join([head, *(f"    {violation}" for violation in tally.violations[:5])])
