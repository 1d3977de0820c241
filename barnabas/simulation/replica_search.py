"""An exhaustive search of the small model: every order of its actions, each state once.

How often an action may happen is bounded, so that the states end. The model is copied before each action. Two states
are one when nothing that is still to come can tell them apart: times count as recent or old.
"""

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from barnabas.simulation.replica_model import ReplicaModel, Violation
from barnabas.simulation.replica_model_data import MAX_LAG_MS, Replica
from replication.follower import FollowedPartition
from replication.leader import LeaderState

Move = tuple[str, int, int]

# Action -> how often it may happen on a path; None where it changes nothing by itself after a while.
BUDGET: Final[Mapping[str, int | None]] = {
    "append": 2,
    "exchange": None,
    "hear": None,
    "learn": None,
    "look": None,
    "deliver": None,
    "check_lag": 1,
    "tick": 1,
    "crash": 1,
    "restart": 1,
    "expire": 1,
    "register": 1,
    "prefer": 1,
    "move": 0,
}
_FOR_ALL: Final = ("look", "tick", "move")


@dataclass(frozen=True, slots=True)
class Searched:
    """What a search came to. `path` leads to what is wrong, by as few actions as can be; None when all holds."""

    states: int
    depth: int
    is_complete: bool
    path: tuple[Move, ...] | None = None
    what: str = ""


def search(model: ReplicaModel, *, most_states: int, budget: Mapping[str, int | None] = BUDGET) -> Searched:
    """Breadth first, until a violation, the end of all states, or so many of them."""
    layer: list[tuple[ReplicaModel, tuple[Move, ...]]] = [(model, ())]
    seen = {(key(model), _spent((), budget))}
    depth = 0
    while layer:
        following: list[tuple[ReplicaModel, tuple[Move, ...]]] = []
        for present, path in layer:
            for move in _moves(present, path, budget):
                after = present.copy()
                try:
                    getattr(after, move[0])(*move[1:])
                    after.check()
                except Violation as violation:
                    return Searched(len(seen), depth + 1, False, (*path, move), str(violation))
                known = (key(after), _spent((*path, move), budget))
                if known not in seen:
                    seen.add(known)
                    following.append((after, (*path, move)))
                    if len(seen) >= most_states:
                        return Searched(len(seen), depth + 1, False)
        layer = following
        depth += bool(layer)
    return Searched(len(seen), depth, True)


def _spent(path: tuple[Move, ...], budget: Mapping[str, int | None]) -> tuple[int, ...]:
    names = [move[0] for move in path]
    return tuple(names.count(name) for name, bound in budget.items() if bound is not None)


def _moves(model: ReplicaModel, path: tuple[Move, ...], budget: Mapping[str, int | None]) -> Iterator[Move]:
    names = [move[0] for move in path]
    for name, bound in budget.items():
        if bound is not None and names.count(name) >= bound:
            continue
        if name == "deliver":
            yield from ((name, 0, number) for number in range(len(model.wire)))
        elif name in _FOR_ALL:
            yield name, 0, MAX_LAG_MS
        else:
            yield from ((name, broker, 0) for broker in model.ids)


def key(model: ReplicaModel) -> Hashable:
    """What tells a state from others."""
    state, partition = model.state, model.partition
    return (
        model.serial,
        tuple(sorted((broker, each.epoch) for broker, each in model.registered.items())),
        tuple(sorted((broker, each.epoch) for broker, each in state.brokers.items())),
        partition.leadership,
        partition.version,
        partition.stale,
        tuple(model.committed),
        tuple(model.wire),
        tuple(_replica(each, model.now_ms) for each in model.replicas),
    )


def _replica(replica: Replica, now_ms: int) -> Hashable:
    return (
        tuple(replica.log),
        replica.epochs.entries,
        replica.high_watermark,
        replica.checkpointed_high_watermark,
        replica.is_alive,
        replica.broker_epoch,
        replica.leader_id,
        replica.leader_epoch,
        replica.commands,
        tuple(sorted(replica.seen_brokers.items())),
        _leadership(replica.leadership, now_ms),
        _followed(replica.followed),
    )


def _leadership(leadership: LeaderState | None, now_ms: int) -> Hashable:
    if leadership is None:
        return None
    isr = leadership.isr
    remotes = tuple(
        (
            broker,
            remote.end_offset,
            _age(remote.caught_up_ms, now_ms),
            _age(remote.last_fetch_ms, now_ms),
            remote.last_fetch_leader_end,
        )
        for broker, remote in leadership.remotes.items()
    )
    return leadership.epoch_start_offset, isr.committed, isr.pending, isr.zk_version, remotes


def _age(then_ms: int | None, now_ms: int) -> bool | None:
    return None if then_ms is None else now_ms - then_ms > MAX_LAG_MS


def _followed(followed: FollowedPartition | None) -> Hashable:
    return None if followed is None else (followed.leader_epoch, followed.phase)
