"""The hunt for a mutant in drawn seeds: seeds from a start on, until one fails that holds without the mutant.

Seeds are as anybody's, but for a bias: each bug has the faults that it needs more often than others, short sessions and
a short load. A seed that fails without the mutant too says nothing of it and is passed over.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from barnabas.simulation.coordinator_load import CoordinatorLoad
from barnabas.simulation.draws import Draws
from barnabas.simulation.trial import run_seed
from barnabas.simulation.wires import WireWeather
from tests.simulation.mutants.catalogue import HUNTED, OUTCOMES
from tests.simulation.mutants.mutant import planted

_COORDINATORS: Final = CoordinatorLoad(
    members=2, transactors=2, copiers=2, transaction_timeout_ms=4_000, mean_gap_s=10.0
)
_COORDINATOR_SETTINGS: Final = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "min.insync.replicas": "2",
    "group.initial.rebalance.delay.ms": "500",
}


@dataclass(frozen=True, slots=True)
class Bias:
    """What a hunt changes of a seed's draws. `is_slow`: links on which a leader is ahead of its followers."""

    faults: Mapping[str, float]
    mean_length_s: float = 2.0
    mean_gap_s: float = 2.0
    is_slow: bool = False
    think_s: float = 0.1
    compacted: int = 0
    errands: tuple[str, ...] = ()
    has_coordinators: bool = False
    """Groups, transactors and copiers instead of the other clients."""

    def change(self, draws: Draws) -> None:
        draws.brokers = draws.replication_factor = 3
        draws.topics, draws.partitions, draws.lasts_s = 1, 2, 45.0
        draws.errands, draws.errand_gap_s = self.errands, 1.0
        draws.lull_s = (0.0, 0.0)
        draws.producers = max(3, draws.producers)
        draws.min_in_sync = min(2, draws.min_in_sync)
        draws.topic_settings["min.insync.replicas"] = str(draws.min_in_sync)
        draws.settings |= {
            "zookeeper.session.timeout.ms": "3000",
            "replica.lag.time.max.ms": "2000",
            "leader.imbalance.per.broker.percentage": "0",
            "leader.imbalance.check.interval.seconds": "1" if self.is_slow else "5",
        }
        draws.mean_length_s, draws.mean_gap_s, draws.max_at_once = self.mean_length_s, self.mean_gap_s, 3
        draws.weights = dict(self.faults)
        draws.compacted = self.compacted
        if self.compacted:
            draws.partitions, draws.load.value_bytes, draws.load.think_s = 1, 60, 0.3
            draws.compacted_settings |= {"segment.bytes": "400", "min.compaction.lag.ms": "0"}
        draws.coordinators = CoordinatorLoad()
        if self.has_coordinators:
            draws.coordinators = replace(_COORDINATORS)
            draws.settings |= _COORDINATOR_SETTINGS
            draws.producers = draws.readers = 1
            draws.consumers = draws.old_producers = draws.old_readers = 0
            draws.format_errands = ()
        if self.is_slow:
            draws.weather, draws.shuffle, draws.drift = WireWeather(latency_s=(0.1, 0.4)), 0.0, {}
            draws.load.think_s, draws.load.max_records, draws.producers = self.think_s, 1, 4
            # A fetch gets no more than one segment has.
            draws.topic_settings.pop("segment.bytes", None)


_TURNS: Final = Bias({"slow links": 1}, 2.0, 5.0, is_slow=True, think_s=0.5, errands=("lead in turn",))
"""Leaders that change while all stay in sync, with few records between two of them, or none."""

_LOST_ANSWERS: Final = Bias({"reset": 8, "one way": 4, "cut off": 2}, 3.0, 1.0, is_slow=True, think_s=0.5)

_BUSY: Final = Bias({"crash": 4, "expire": 4, "isolate": 2, "chase": 2}, has_coordinators=True)
_CRASHING: Final = Bias({"crash": 6, "chase": 6, "isolate": 2}, 2.0, 1.0, has_coordinators=True)

BIASES: Final[Mapping[int | str, Bias]] = {
    1: Bias({"crash": 8, "expire": 4}, 3.0, 1.5),
    3: _TURNS,
    4: Bias({"expire": 4, "crash": 2, "pause": 2}),
    5: Bias({"expire": 4, "crash": 2, "pause": 2}),
    7: Bias({"expire": 4, "crash": 2, "isolate": 2}),
    8: _TURNS,
    9: _TURNS,
    19: Bias({"cut off": 4, "pause": 4, "crash": 2, "power": 6}, 7.0, 1.5),
    21: Bias({"zookeeper cut": 8, "expire": 1}, 9.0, 5.0),
    22: _LOST_ANSWERS,
    27: Bias({"pause": 8, "zookeeper cut": 4, "one way": 2}, 8.0, 3.0),
    32: Bias({"expire": 4, "crash": 2}),
    53: _CRASHING,
    55: _BUSY,
    "open": _BUSY,
    "pending": _BUSY,
    "uncommitted": Bias({"expire": 5, "crash": 3, "cut off": 3}, 4.0, 1.5, compacted=2),
    "last value": Bias({"expire": 1, "crash": 1}, compacted=2),
    **dict.fromkeys(OUTCOMES, Bias({"write": 6, "expire": 2}, 2.0, 1.5)),
}


@dataclass(slots=True)
class Hunt:
    """What a hunt came to: the seed that shows the mutant, None if there was none; and those that show nothing."""

    killer: str | None = None
    violation: str = ""
    tried: int = 0
    passed_over: list[str] = field(default_factory=list)
    calls: dict[str, int] = field(default_factory=dict)


def hunt(
    name: int | str, start: str, *, most: int, first: int = 0, tell: Callable[[str], object] = lambda text: None
) -> Hunt:
    """Run seeds `start`.0, `start`.1, ... with the mutant, from the `first` on; at most so many."""
    result, change = Hunt(), BIASES[name].change
    for at in range(first, first + most):
        seed = f"{start}.{at}"
        result.tried = at - first + 1
        with planted(HUNTED[name]) as calls:
            tally = run_seed(seed, change=change)
        for function, count in calls.items():
            result.calls[function] = result.calls.get(function, 0) + count
        if tally.passed:
            continue
        if not run_seed(seed, change=change).passed:
            result.passed_over.append(seed)
            continue
        result.killer, result.violation = seed, tally.violations[0]
        tell(f"mutant {name}: seed {seed}, the {result.tried}th: {result.violation}")
        return result
    return result
