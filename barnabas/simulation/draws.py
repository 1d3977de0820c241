"""What a seed draws before its world is made: size, settings, weather, load, faults and errands with their moments.

Swarm testing: most of what can happen is off in most seeds, and what is on differs in weight by orders of magnitude;
a walk with equal weights misses the rarer faults (reliability sheet, section 9). What a seed may lose follows from what
it promises: with min.insync.replicas 1 no machine may forget, with every append synced all may. Where a partition has
one replica every append is synced, and power fails for all often: nothing but the disk keeps what was acknowledged.

Each choice is drawn from a stream of chance of its own name, and each fault and errand has its own too: one more choice
moves none of the others. What was drawn is plain data; `script` writes it down, so that a cluster that failed once is
played again whatever later seeds draw. A field that comes later has a default that stands for how it was before.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from barnabas.simulation.coordinator_load import CoordinatorLoad
from barnabas.simulation.errands import KINDS as ERRANDS
from barnabas.simulation.errands import ON_SCRATCH
from barnabas.simulation.faults import KINDS
from barnabas.simulation.format_errands import KINDS as FORMAT_ERRANDS
from barnabas.simulation.history import ACKS_ALL
from barnabas.simulation.load import LoadSettings
from barnabas.simulation.members import ASSIGNORS
from barnabas.simulation.moments import Moment, draw_moments
from barnabas.simulation.wires import WireWeather

_LONG_GAPS: Final = 0.06
_LULL_S: Final = 45.0
_ROT: Final = 0.25
_OLD_CLIENTS: Final = 0.2
_FORMAT_ERRANDS: Final = 0.25
_FORMAT_GAP_S: Final = 3.0
_COORDINATORS: Final = 0.4
_LONE_REPLICAS: Final = 0.08
_LONE_POWER_CUTS: Final = 4.0


@dataclass(slots=True)
class Draws:
    """One seed's choices. `lasts_s` is how long load and faults go on.

    `strikes` (faults) and `errands_at` are drawn from the weights when the seed is run, unless they stand already.
    """

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
    acks: tuple[int, ...] = ()
    """Of the producers beyond the second; these two have acks=all."""
    lull_s: tuple[float, float] = (0.0, 0.0)
    """From when to when, after the load began, no fault begins."""
    compacted: int = 0
    """So many partitions has a further topic, which is compacted."""

    compacted_settings: dict[str, str] = field(default_factory=dict)
    racks: int = 0
    """In so many racks brokers and readers stand; with 0 nobody reads from followers."""

    rot_gap_s: float = 0.0
    """So long, in the mean, is between two attempts to let bytes of a replica rot; with 0 none does."""

    old_producers: int = 0
    old_readers: int = 0
    """Clients beside the others that know only the message formats before 2."""

    consumers: int = 0
    """Readers beside the others that use the public consumer."""

    coordinators: CoordinatorLoad = field(default_factory=CoordinatorLoad)
    """Groups, transactions, the shipped producer."""

    format_errands: tuple[str, ...] = ()
    strikes: list[Moment] | None = None
    errands_at: list[Moment] | None = None
    rots_at: list[Moment] | None = None
    format_errands_at: list[Moment] | None = None

    @property
    def may_lose_one(self) -> bool:
        """Whether one machine at a time may forget what it did not sync."""
        return self.min_in_sync >= 2

    def acks_of(self, producer: int) -> int:
        """What the so-manyeth producer asks for."""
        return ACKS_ALL if producer < 2 or not self.acks else self.acks[(producer - 2) % len(self.acks)]


class _Streams:
    """Chance by name."""

    def __init__(self, seed: str) -> None:
        self._seed = seed

    def __call__(self, name: str) -> random.Random:
        return random.Random(f"{self._seed}/draws/{name}")


def draw(seed: str) -> Draws:
    """The choices of a seed."""
    of = _Streams(seed)
    brokers = of("brokers").choice([3, 3, 3, 3, 4, 5])
    factor, in_sync = of("replicas").choice([(3, 2), (3, 2), (3, 2), (3, 2), (3, 1), (2, 2), (3, 3)])
    is_lone = of("lone replicas").random() < _LONE_REPLICAS
    if is_lone:
        factor, in_sync = 1, 1
    syncs = of("syncs").random() < 0.25 or is_lone
    topic_settings = {"min.insync.replicas": str(in_sync)}
    if syncs:
        topic_settings["flush.messages"] = "1"
    if of("segments").random() < 0.5:
        topic_settings["segment.bytes"] = str(of("segment bytes").choice([600, 2000, 10_000]))
    # A lone replica that rots can be mended by nobody.
    settings, rot_gap_s = _settings(of), 0.0 if is_lone else _rot_gap_s(of)
    coordinators = _coordinators(of)
    if coordinators.has_coordinators:
        settings |= _coordinator_settings(of, replication_factor=factor, min_in_sync=in_sync, syncs=syncs)
    if rot_gap_s:
        # Each pass reads all that there is: the dearest part of such a seed.
        settings["barnabas.scrub.interval.ms"] = str(of("scrub interval").choice([5000, 15000]))
        # What is open is not flushed by itself, and only what was flushed rots.
        topic_settings.setdefault("segment.bytes", "5000")
    lull = of("lull")
    lull_from_s = lull.uniform(10, 50) if lull.random() < 0.35 else 0.0
    return Draws(
        brokers=brokers,
        replication_factor=min(factor, brokers),
        min_in_sync=in_sync,
        partitions=of("partitions").randint(1, 4),
        topics=of("topics").choice([1, 1, 2]),
        lasts_s=of("length").uniform(105, 130),
        shuffle=of("shuffle").choice([0.0, 0.0, 0.05, 0.3]),
        syncs_each_append=syncs,
        settings=settings,
        topic_settings=topic_settings,
        weather=_weather(of("weather")),
        load=_load(of("load")),
        producers=of("producers").randint(2, 4),
        readers=of("readers").randint(1, 2),
        consumers=of("consumers").randint(0, 1),
        weights=_weights(of) | ({"power all": _LONE_POWER_CUTS} if is_lone else {}),
        mean_gap_s=of("gap").choice([2.0, 4.0, 7.0]),
        mean_length_s=of("fault length").choice([1.5, 4.0, 8.0]),
        max_at_once=of("at once").choice([1, 2, 2, 3]),
        errands=_errands(of),
        errand_gap_s=of("errand gap").choice([2.0, 5.0]),
        drift={
            number: chance.uniform(-0.05, 0.05)
            for number in range(1, brokers + 1)
            if (chance := of(f"drift/{number}")).random() < 0.3
        },
        acks=tuple(of(f"acks/{number}").choice([ACKS_ALL, 1, 0]) for number in range(2)),
        compacted=of("compacted").choice([0, 0, 1, 2]),
        compacted_settings=_compacted_settings(of, topic_settings),
        racks=of("racks").choice([0, 0, 2, 3]),
        lull_s=(lull_from_s, lull_from_s and lull_from_s + _LULL_S),
        rot_gap_s=rot_gap_s,
        coordinators=coordinators,
        **_of_old(of),
    )


def _compacted_settings(of: _Streams, topic_settings: Mapping[str, str]) -> dict[str, str]:
    return {
        **topic_settings,
        "cleanup.policy": "compact",
        "segment.bytes": str(of("compacted segments").choice([400, 1000, 3000])),
        "min.cleanable.dirty.ratio": of("dirty ratio").choice(["0.01", "0.3"]),
        "delete.retention.ms": of("delete retention").choice(["0", "3000", "86400000"]),
        "min.compaction.lag.ms": of("compaction lag").choice(["0", "0", "5000"]),
        "file.delete.delay.ms": of("delete delay").choice(["500", "60000"]),
    }


def _settings(of: _Streams) -> dict[str, str]:
    session_ms = of("session").choice([3000, 6000, 6000, 10000])
    return {
        "zookeeper.session.timeout.ms": str(session_ms),
        "zookeeper.connection.timeout.ms": str(session_ms + 4000),
        "replica.lag.time.max.ms": str(of("lag").choice([2000, 4000, 10_000])),
        "replica.fetch.wait.max.ms": str(of("fetch wait").choice([500, 1000, 1500])),
        "replica.high.watermark.checkpoint.interval.ms": str(of("checkpoint").choice([500, 5000])),
        "log.flush.offset.checkpoint.interval.ms": str(of("recovery point").choice([2000, 20_000])),
        "num.replica.fetchers": str(of("fetchers").choice([1, 1, 2])),
        "log.cleaner.backoff.ms": str(of("cleaner backoff").choice([500, 2000])),
        "log.cleaner.dedupe.buffer.size": "1048577",
    }


def _load(chance: random.Random) -> LoadSettings:
    return LoadSettings(
        think_s=chance.choice([0.5, 0.8, 1.2]),
        max_records=chance.choice([1, 3, 6]),
        value_bytes=chance.choice([0, 60, 400, 900]),
        request_timeout_ms=chance.choice([2000, 4000, 8000]),
        give_up_s=chance.choice([8, 25, 60]),
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


def _rot_gap_s(of: _Streams) -> float:
    return of("rot gap").choice([3.0, 10.0]) if of("rot").random() < _ROT else 0.0


def _of_old(of: _Streams) -> dict[str, Any]:
    """Clients of old formats in some seeds, and errands about formats in some."""
    old: dict[str, Any] = {}
    if of("old clients").random() < _OLD_CLIENTS:
        old |= {"old_producers": of("old producers").randint(1, 2), "old_readers": of("old readers").randint(0, 1)}
    if of("format errands").random() < _FORMAT_ERRANDS:
        chosen = [kind for kind in FORMAT_ERRANDS if of(f"format errand/{kind}").random() < 0.6]
        old["format_errands"] = (*chosen, "create topic", "write")
    return old


def _coordinators(of: _Streams) -> CoordinatorLoad:
    """In a share of the seeds some of all this, few of each."""
    if of("coordinators").random() >= _COORDINATORS:
        return CoordinatorLoad()
    return CoordinatorLoad(
        members=of("members").choice([0, 0, 2, 3]),
        transactors=of("transactors").choice([0, 1, 1, 2]),
        copiers=of("copiers").choice([0, 0, 1, 2]),
        idempotent=of("idempotent").choice([0, 1]),
        assignor=of("assignor").choice(list(ASSIGNORS)),
        copiers_assignor=of("copiers' assignor").choice(list(ASSIGNORS)),
        is_static=of("static members").random() < 0.3,
        copies=of("copies").randint(1, 2),
        transaction_timeout_ms=of("transaction timeout").choice([3_000, 8_000, 20_000]),
        mean_gap_s=of("client gap").choice([15.0, 30.0, 60.0]),
    )


def _coordinator_settings(of: _Streams, *, replication_factor: int, min_in_sync: int, syncs: bool) -> dict[str, str]:
    """The internal topics promise what the load's topics do."""
    segment_bytes = of("internal segments").choice(["2000", "104857600"])
    settings = {
        "offsets.topic.replication.factor": str(replication_factor),
        "offsets.topic.num.partitions": str(of("offsets partitions").choice([1, 1, 2, 3])),
        "offsets.topic.segment.bytes": segment_bytes,
        "transaction.state.log.replication.factor": str(replication_factor),
        "transaction.state.log.num.partitions": str(of("transactions partitions").choice([1, 1, 2])),
        "transaction.state.log.segment.bytes": segment_bytes,
        "transaction.state.log.min.isr": str(min_in_sync),
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": of("sweeps").choice(["500", "3000"]),
        "min.insync.replicas": str(min_in_sync),
        "group.initial.rebalance.delay.ms": of("rebalance delay").choice(["0", "500", "3000"]),
    }
    if syncs:
        settings["log.flush.interval.messages"] = "1"
    return settings


def _weights(of: _Streams) -> dict[str, float]:
    """A weight for each kind of fault that is on; at least two of them, and one that moves leaders."""
    chances = {kind: of(f"weight/{kind}") for kind in KINDS}
    weights = {kind: 10 ** chance.uniform(-1, 1) for kind, chance in chances.items() if chance.random() < 0.45}
    for kind in of("movers").sample(["crash", "power", "pause", "stop", "cut off", "zookeeper cut", "expire"], 2):
        weights[kind] = max(weights.get(kind, 0.0), 2.0)
    return weights


def _errands(of: _Streams) -> tuple[str, ...]:
    """None in a third of the seeds; in the others what each of them is for, with what it needs."""
    if of("errands").random() < 0.33:
        return ()
    chosen = [kind for kind in ERRANDS if of(f"errand/{kind}").random() < 0.5]
    return (*chosen, "create topic", "write") if any(kind in ON_SCRATCH for kind in chosen) else tuple(chosen)


def schedule(seed: str, draws: Draws) -> None:
    """Draw the moments of faults and errands, where they do not stand already."""
    of = _Streams(seed)
    if draws.strikes is None:
        strikes = draw_moments(
            of("strikes"), draws.weights, mean_gap_s=draws.mean_gap_s, until_s=draws.lasts_s, long_gaps=_LONG_GAPS
        )
        draws.strikes = [each for each in strikes if not draws.lull_s[0] <= each.at_s < draws.lull_s[1]]
    if draws.errands_at is None:
        wanted = dict.fromkeys(draws.errands, 1.0)
        draws.errands_at = draw_moments(
            of("errands at"), wanted, mean_gap_s=draws.errand_gap_s, until_s=draws.lasts_s + 5
        )
    if draws.rots_at is None:
        wanted = {"rot": 1.0} if draws.rot_gap_s else {}
        draws.rots_at = draw_moments(
            of("rots at"), wanted, mean_gap_s=draws.rot_gap_s or 1.0, until_s=draws.lasts_s if wanted else 0.0
        )
    if draws.format_errands_at is None:
        wanted = dict.fromkeys(draws.format_errands, 1.0)
        draws.format_errands_at = draw_moments(
            of("format errands at"), wanted, mean_gap_s=_FORMAT_GAP_S, until_s=draws.lasts_s if wanted else 0.0
        )
