"""Where the replicas of a topic go when nobody says.  [P]

Kafka's rule, so that a tool or an operator sees what they expect: brokers in order of their ids; partition p's first
replica goes to the broker at (p + start) mod n and the others follow at a distance that grows each time p comes round
to the first broker again, so that the followers of one broker's partitions are spread over all others. `start` and the
first distance are random. With racks the brokers are first interleaved by rack, and a replica skips a broker while its
rack holds one already and some rack holds none (KIP-36).
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from barnabas.protocol.ids import BrokerId


class Dice(Protocol):
    """The part of a `random.Random` that placement needs."""

    def randrange(self, stop: int, /) -> int: ...


@dataclass(frozen=True, slots=True)
class PlacementBroker:
    """A live broker that may be given replicas."""

    broker_id: BrokerId
    rack: str | None = None


class RackMode(Enum):
    """What to do with racks: `ENFORCED` refuses a mix of brokers with and without, `SAFE` then ignores racks."""

    ENFORCED = "enforced"
    SAFE = "safe"
    IGNORED = "ignored"


class RackMissing(Exception):
    """Some brokers have a rack and some have none."""


def place(
    brokers: Collection[PlacementBroker],
    *,
    partitions: int,
    replication_factor: int,
    random: Dice,
    rack_mode: RackMode = RackMode.ENFORCED,
) -> dict[int, tuple[BrokerId, ...]]:
    """Replicas of partitions 0 to `partitions` - 1 of a new topic.

    Raises:
        RackMissing: see `RackMode`.
    """
    arranged = _arrange(brokers, rack_mode)
    start = random.randrange(len(arranged))
    shift = random.randrange(len(arranged))
    return _place(arranged, range(partitions), replication_factor=replication_factor, start=start, shift=shift)


def place_more(
    brokers: Collection[PlacementBroker],
    *,
    present: int,
    added: int,
    first_replicas: Sequence[BrokerId],
    rack_mode: RackMode = RackMode.ENFORCED,
) -> dict[int, tuple[BrokerId, ...]]:
    """Replicas of partitions `present` to `present + added` - 1 of a topic whose partition 0 has `first_replicas`.

    The round goes on as if it had begun at the broker at or after partition 0's first replica.

    Raises:
        RackMissing: see `RackMode`.
    """
    arranged = _arrange(brokers, rack_mode)
    by_id = sorted(broker.broker_id for broker in brokers)
    start = next((index for index, broker_id in enumerate(by_id) if broker_id >= first_replicas[0]), 0)
    numbers = range(present, present + added)
    return _place(arranged, numbers, replication_factor=len(first_replicas), start=start, shift=start)


def _arrange(brokers: Collection[PlacementBroker], rack_mode: RackMode) -> list[PlacementBroker]:
    """The order in which the round goes over the brokers; without racks when these do not count."""
    by_id = sorted(brokers, key=lambda broker: broker.broker_id)
    with_rack = sum(broker.rack is not None for broker in by_id)
    if with_rack == len(by_id) and rack_mode is not RackMode.IGNORED:
        return list(_interleave(by_id))
    if with_rack and rack_mode is RackMode.ENFORCED:
        raise RackMissing("some brokers have a rack and some have none, so replicas cannot be spread over racks")
    return [PlacementBroker(broker.broker_id) for broker in by_id]


def _interleave(brokers: Sequence[PlacementBroker]) -> Iterator[PlacementBroker]:
    """One broker of each rack in turn, racks in the order of their names."""
    racks: dict[str, list[PlacementBroker]] = {}
    for broker in brokers:
        assert broker.rack is not None
        racks.setdefault(broker.rack, []).append(broker)
    columns = [racks[name] for name in sorted(racks)]
    for row in range(max(map(len, columns))):
        for column in columns:
            if row < len(column):
                yield column[row]


def _place(
    arranged: Sequence[PlacementBroker], numbers: range, *, replication_factor: int, start: int, shift: int
) -> dict[int, tuple[BrokerId, ...]]:
    assert 1 <= replication_factor <= len(arranged)
    racks = {broker.rack for broker in arranged}
    count = len(arranged)
    stride = len(racks) if None not in racks else 1
    # Partitions a whole round of rounds apart have the same replicas: 60 000 of them are not each chosen anew.
    chosen: dict[tuple[int, int], tuple[BrokerId, ...]] = {}
    assignment = {}
    for number in numbers:
        if number > 0 and number % count == 0:
            shift += 1
        place = ((number + start) % count, shift * stride % max(1, count - 1))
        replicas = chosen.get(place)
        if replicas is None:
            replicas = chosen[place] = _spread(arranged, *place, replication_factor, rack_count=len(racks))
        assignment[number] = replicas
    return assignment


def _spread(
    arranged: Sequence[PlacementBroker], first: int, distance: int, replication_factor: int, *, rack_count: int
) -> tuple[BrokerId, ...]:
    """The first replica and the ones after it, no broker twice, and no rack twice while another is unused."""
    count = len(arranged)
    chosen = [arranged[first]]
    used_racks = {arranged[first].rack}
    step = 0
    while len(chosen) < replication_factor:
        candidate = arranged[(first + 1 + (distance + step) % (count - 1)) % count]
        step += 1
        rack_is_free = candidate.rack not in used_racks or len(used_racks) == rack_count
        if rack_is_free and candidate not in chosen:
            chosen.append(candidate)
            used_racks.add(candidate.rack)
    return tuple(broker.broker_id for broker in chosen)
