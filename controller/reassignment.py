"""Moving a partition to other replicas: the rules of KIP-455 as values.  [P]

While a partition moves, its assignment is the target followed by what it had before; `adding` are those that come,
`removing` those that go. It is complete when every replica of the target lives and is in sync: then the others leave
the in-sync set in one step, and a leader of the target leads. A cancellation is a move back to what was before. A
replica in sync is never given up where no other member of the in-sync set stays: that would lose records. Nor is it
where fewer would stay than `min.insync.replicas`: so many have what was acknowledged, and Kafka 2.7 lets a cancellation
leave one copy of it.
"""

from collections.abc import Collection, Sequence

from barnabas.protocol.ids import NO_LEADER, BrokerId, ControllerEpoch, LeaderEpoch
from controller.state import Assignment, Leadership

Replicas = tuple[BrokerId, ...]


def target_of(assignment: Assignment) -> Replicas:
    """What the partition will have."""
    return tuple(broker for broker in assignment.replicas if broker not in assignment.removing)


def origin_of(assignment: Assignment) -> Replicas:
    """What the partition had, and has again after a cancellation."""
    return tuple(broker for broker in assignment.replicas if broker not in assignment.adding)


def toward(present: Assignment, target: Replicas) -> Assignment:
    """The assignment while the partition moves from what it had before to `target`, whatever it moves to now."""
    origin = origin_of(present)
    return Assignment(
        replicas=tuple(dict.fromkeys((*target, *origin))),
        adding=tuple(broker for broker in target if broker not in origin),
        removing=tuple(broker for broker in origin if broker not in target),
    )


def find_fault(present: Assignment, target: Replicas, live: Collection[BrokerId]) -> str | None:
    """Why no partition can move to `target`, in words; None where it can. `live` are the registered brokers."""
    if not target:
        return "The list of replicas is empty."
    if len(set(target)) != len(target):
        return f"The list of replicas names a broker twice: {list(target)}."
    if min(target) < 0:
        return f"The list of replicas names an invalid broker: {list(target)}."
    dead = [broker for broker in toward(present, target).adding if broker not in live]
    return f"The new replicas {dead} are not alive." if dead else None


def leaving(present: Assignment, wanted: Assignment) -> Replicas:
    """The replicas that have no place any more once `wanted` is the assignment."""
    return tuple(broker for broker in present.replicas if broker not in wanted.replicas)


def would_lose_records(leadership: Leadership | None, wanted: Assignment) -> bool:
    """Whether the whole in-sync set would have to leave."""
    return leadership is not None and not set(leadership.isr) & set(wanted.replicas)


def thins_out(leadership: Leadership | None, wanted: Assignment, min_in_sync: int) -> bool:
    """Whether fewer members of the in-sync set would stay than acknowledged records were promised to have copies."""
    if leadership is None:
        return False
    staying = sum(broker in wanted.replicas for broker in leadership.isr)
    return staying < min(min_in_sync, len(leadership.isr), len(wanted.replicas))


def is_complete(assignment: Assignment, leadership: Leadership | None, live: Collection[BrokerId]) -> bool:
    """Whether all of the target are in sync and live, and one leads: else the logs of those that go may be wanted."""
    return (
        leadership is not None
        and leadership.leader != NO_LEADER
        and all(broker in leadership.isr and broker in live for broker in target_of(assignment))
    )


def confine(
    present: Leadership, replicas: Sequence[BrokerId], live: Collection[BrokerId], epoch: ControllerEpoch
) -> Leadership:
    """The leadership when only `replicas` count: others leave the in-sync set, and a leader that is none of them too.

    The leader epoch is raised in any case, as every replica must hear of its new peers. The present leader stays if it
    may, else the first of `replicas` that is in sync and lives leads, else nobody. The in-sync set must have a member
    that stays (`would_lose_records`).
    """
    isr = tuple(broker for broker in present.isr if broker in replicas)
    assert isr, f"nobody of {list(replicas)} is in sync: {list(present.isr)}"
    leader = present.leader
    if leader not in isr or leader not in live:
        leader = next((broker for broker in replicas if broker in isr and broker in live), NO_LEADER)
    return Leadership(
        leader=leader, leader_epoch=LeaderEpoch(present.leader_epoch + 1), isr=isr, controller_epoch=epoch
    )
