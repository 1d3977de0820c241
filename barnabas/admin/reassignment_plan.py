"""Which replicas go where, so that brokers carry alike and little moves; plans as files of Kafka's own format.

A replica stays where it is while its broker may have it and carries no more than its share. What has to go elsewhere
goes to the broker that carries least, if possible in a rack that the partition is not in yet. Of a partition one
replica at most moves for the sake of balance, and none where that would cost a rack. The preferred leader stays the
first of the list while its broker has no more than its share of those.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from barnabas.protocol.ids import TopicPartition

Replicas = tuple[int, ...]
Plan = dict[TopicPartition, Replicas]


class InvalidPlan(Exception):
    """What was given is no plan, or no plan can be made."""


@dataclass(frozen=True, slots=True)
class Move:
    """One partition of a plan."""

    partition: TopicPartition
    present: Replicas
    target: Replicas

    @property
    def adding(self) -> Replicas:
        return tuple(broker for broker in self.target if broker not in self.present)


def decide_plan(
    present: Mapping[TopicPartition, Replicas],
    racks: Mapping[int, str | None],
    *,
    replication_factor: int | None = None,
) -> Plan:
    """Targets of all of `present` on the brokers of `racks`; the number of replicas stays unless it is given.

    Raises:
        InvalidPlan: more replicas than brokers.
    """
    sizes = {at: replication_factor or len(replicas) for at, replicas in present.items()}
    if sizes and max(sizes.values()) > len(racks):
        raise InvalidPlan(f"{max(sizes.values())} replicas do not fit on {len(racks)} brokers")
    kept = {at: [broker for broker in replicas if broker in racks] for at, replicas in sorted(present.items())}
    carried = Counter(broker for replicas in kept.values() for broker in replicas)
    for at, chosen in kept.items():
        while len(chosen) > sizes[at]:
            # The preferred leader is the last to go, and a rack that no other replica is in the last but one.
            in_rack = Counter(racks[broker] for broker in chosen)
            leaves = max(chosen[1:], key=lambda broker: (in_rack[racks[broker]] > 1, carried[broker]))
            chosen.remove(leaves)
            carried[leaves] -= 1
        while len(chosen) < sizes[at]:
            broker = _lightest(chosen, carried, racks)
            chosen.append(broker)
            carried[broker] += 1
    _level(kept, carried, racks)
    return _spread_leaders(kept, len(racks))


def _level(kept: Mapping[TopicPartition, list[int]], carried: Counter[int], racks: Mapping[int, str | None]) -> None:
    """Take from brokers that carry more than their share, one replica of a partition at most."""
    share = -(-carried.total() // max(len(racks), 1))
    for chosen in kept.values():
        heaviest = max(chosen, key=lambda broker: carried[broker], default=-1)
        if carried[heaviest] <= share or len(chosen) == len(racks):
            continue
        rest = [broker for broker in chosen if broker != heaviest]
        lightest = _lightest([*rest, heaviest], carried, racks, around=rest)
        costs_a_rack = racks[lightest] in {racks[broker] for broker in rest} and racks[heaviest] not in {
            None,
            *(racks[broker] for broker in rest),
        }
        if carried[lightest] < share and not costs_a_rack:
            chosen[chosen.index(heaviest)] = lightest
            carried[heaviest] -= 1
            carried[lightest] += 1


def _lightest(
    chosen: Sequence[int],
    carried: Mapping[int, int],
    racks: Mapping[int, str | None],
    *,
    around: Sequence[int] | None = None,
) -> int:
    """The broker beside those chosen that carries least, first of all in a rack without a replica of `around`."""
    taken = {racks[broker] for broker in (chosen if around is None else around)}
    free = [broker for broker in sorted(racks) if broker not in chosen]
    return min(free, key=lambda broker: (racks[broker] is not None and racks[broker] in taken, carried[broker]))


def _spread_leaders(kept: Mapping[TopicPartition, Sequence[int]], brokers: int) -> Plan:
    share = -(-len(kept) // max(brokers, 1))
    leading: Counter[int] = Counter()
    plan: Plan = {}
    for at, replicas in kept.items():
        first = replicas[0]
        if leading[first] >= share:
            first = min(replicas, key=lambda broker: leading[broker])
        leading[first] += 1
        plan[at] = (first, *(broker for broker in replicas if broker != first))
    return plan


def moves_of(plan: Plan, present: Mapping[TopicPartition, Replicas]) -> list[Move]:
    """What of a plan is not so yet. Raises InvalidPlan for a partition that there is not."""
    missing = [str(at) for at in plan if at not in present]
    if missing:
        raise InvalidPlan(f"there is no {', '.join(missing)}")
    return [Move(at, present[at], target) for at, target in plan.items() if present[at] != target]


def document_of(plan: Plan) -> dict[str, Any]:
    """A plan as kafka-reassign-partitions reads and writes it."""
    rows = [{"topic": at.topic, "partition": at.partition, "replicas": list(ids)} for at, ids in plan.items()]
    return {"version": 1, "partitions": rows}


def read_plan(text: str) -> Plan:
    """A plan from its file. Raises InvalidPlan."""
    try:
        document = json.loads(text)
        rows = document["partitions"]
        plan = {
            TopicPartition(_text(row["topic"]), _number(row["partition"])): tuple(map(_number, row["replicas"]))
            for row in rows
        }
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidPlan(f"not a reassignment plan: {error}") from error
    if len(plan) != len(rows):
        raise InvalidPlan("a partition stands in the plan twice")
    return plan


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is no number")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value
