"""What a seed draws before its world is made: size, settings, weather, load, and how likely each fault is.

Swarm testing: most of what can happen is off in most seeds, and what is on differs in weight by orders of magnitude;
a walk with equal weights misses the rarer faults (reliability sheet, section 9). What a seed may lose follows from what
it promises: with one replica or with min.insync.replicas 1 no machine may forget, with every append synced all may.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from barnabas.simulation.errands import KINDS as ERRANDS
from barnabas.simulation.errands import ON_SCRATCH
from barnabas.simulation.faults import KINDS
from barnabas.simulation.load import LoadSettings
from barnabas.simulation.wires import WireWeather


@dataclass(slots=True)
class Draws:
    """One seed's choices. `lasts_s` is how long load and faults go on."""

    brokers: int
    replication_factor: int
    min_in_sync: int
    partitions: int
    topics: int
    lasts_s: float
    shuffle: float
    syncs_each_append: bool
    settings: dict[str, str]
    topic_settings: dict[str, str]
    weather: WireWeather
    load: LoadSettings
    producers: int
    readers: int
    weights: dict[str, float]
    mean_gap_s: float
    mean_length_s: float
    max_at_once: int
    errands: tuple[str, ...]
    errand_gap_s: float
    drift: dict[int, float] = field(default_factory=dict)

    @property
    def may_lose_one(self) -> bool:
        """Whether one machine at a time may forget what it did not sync."""
        return self.min_in_sync >= 2


def draw(seed: str, *, max_replication_factor: int = 3) -> Draws:
    """The choices of a seed."""
    chance = random.Random(f"{seed}/draws")
    brokers = chance.choice([3, 3, 3, 3, 4, 5])
    factor, in_sync = chance.choice([(3, 2), (3, 2), (3, 2), (3, 2), (3, 1), (2, 2), (3, 3)])
    if factor > max_replication_factor:
        factor, in_sync = 1, 1
    syncs = chance.random() < 0.25
    session_ms = chance.choice([3000, 6000, 6000, 10000])
    topic_settings = {"min.insync.replicas": str(in_sync)}
    if syncs:
        topic_settings["flush.messages"] = "1"
    if chance.random() < 0.5:
        topic_settings["segment.bytes"] = str(chance.choice([600, 2000, 10_000]))
    settings = {
        "zookeeper.session.timeout.ms": str(session_ms),
        "zookeeper.connection.timeout.ms": str(session_ms + 4000),
        "replica.lag.time.max.ms": str(chance.choice([2000, 4000, 10_000])),
        "replica.fetch.wait.max.ms": str(chance.choice([500, 1000, 1500])),
        "replica.high.watermark.checkpoint.interval.ms": str(chance.choice([500, 5000])),
        "log.flush.offset.checkpoint.interval.ms": str(chance.choice([2000, 20_000])),
        "num.replica.fetchers": str(chance.choice([1, 1, 2])),
    }
    return Draws(
        brokers=brokers,
        replication_factor=min(factor, brokers),
        min_in_sync=in_sync,
        partitions=chance.randint(1, 4),
        topics=chance.choice([1, 1, 2]),
        lasts_s=chance.uniform(105, 130),
        shuffle=chance.choice([0.0, 0.0, 0.05, 0.3]),
        syncs_each_append=syncs,
        settings=settings,
        topic_settings=topic_settings,
        weather=_weather(chance),
        load=LoadSettings(
            think_s=chance.choice([0.5, 0.8, 1.2]),
            max_records=chance.choice([1, 3, 6]),
            value_bytes=chance.choice([0, 60, 400, 900]),
            request_timeout_ms=chance.choice([2000, 4000, 8000]),
            give_up_s=chance.choice([8, 25, 60]),
        ),
        producers=chance.randint(2, 4),
        readers=chance.randint(1, 2),
        weights=_weights(chance),
        mean_gap_s=chance.choice([2.0, 4.0, 7.0]),
        mean_length_s=chance.choice([1.5, 4.0, 8.0]),
        max_at_once=chance.choice([1, 2, 2, 3]),
        errands=_errands(chance),
        errand_gap_s=chance.choice([2.0, 5.0]),
        drift={number: chance.uniform(-0.05, 0.05) for number in range(1, brokers + 1) if chance.random() < 0.3},
    )


def _weather(chance: random.Random) -> WireWeather:
    low = chance.choice([0.0001, 0.0005, 0.005])
    return WireWeather(
        latency_s=(low, low * chance.choice([2, 5, 20])),
        spike_chance=chance.choice([0.0, 0.0, 0.01, 0.05]),
        spike_s=chance.choice([0.05, 0.5, 2.0]),
        split_chance=chance.choice([0.0, 0.02, 0.3]),
        window_bytes=chance.choice([2_000, 64_000, 256_000]),
    )


def _weights(chance: random.Random) -> dict[str, float]:
    """A weight for each kind of fault that is on; at least two of them, and one that moves leaders."""
    weights = {kind: 10 ** chance.uniform(-1, 1) for kind in KINDS if chance.random() < 0.45}
    for kind in chance.sample(["crash", "power", "pause", "stop", "cut off", "zookeeper cut", "expire"], 2):
        weights[kind] = max(weights.get(kind, 0.0), 2.0)
    return weights


def _errands(chance: random.Random) -> tuple[str, ...]:
    """None in a third of the seeds; in the others what each of them is for, with what it needs."""
    if chance.random() < 0.33:
        return ()
    chosen = [kind for kind in ERRANDS if chance.random() < 0.5]
    return (*chosen, "create topic", "write") if any(kind in ON_SCRATCH for kind in chosen) else tuple(chosen)


def describe(draws: Draws) -> Mapping[str, object]:
    """The choices in a line for a report."""
    return {
        "brokers": draws.brokers,
        "rf": draws.replication_factor,
        "min_isr": draws.min_in_sync,
        "partitions": draws.partitions * draws.topics,
        "sync": draws.syncs_each_append,
        "kinds": sorted(draws.weights),
        "errands": draws.errands,
    }
