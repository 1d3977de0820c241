"""Who leads a partition.  [P]

An election looks at the assignment, at what stands in the state znode, and at which replicas live; it returns what
should stand there, or None when nothing needs to change. Whatever changes gets a new leader epoch. The in-sync set
never becomes empty: when its last member dies it stays in it and the leader is -1, so that it, and nobody who missed
records, leads when it returns.
"""

from collections.abc import Collection, Sequence

from barnabas.protocol.ids import NO_LEADER, BrokerId, ControllerEpoch, LeaderEpoch
from controller.state import Leadership


def elect_first(replicas: Sequence[BrokerId], live: Collection[BrokerId], epoch: ControllerEpoch) -> Leadership | None:
    """The first leadership of a new partition: all live replicas are in sync, as none holds a record."""
    isr = tuple(broker for broker in replicas if broker in live)
    if not isr:
        return None
    return Leadership(leader=isr[0], leader_epoch=LeaderEpoch(0), isr=isr, controller_epoch=epoch)


def elect(
    replicas: Sequence[BrokerId],
    present: Leadership,
    live: Collection[BrokerId],
    epoch: ControllerEpoch,
    *,
    unclean: bool = False,
) -> Leadership | None:
    """The leadership after brokers came or went, by Kafka's rule for partitions whose leader is offline.

    A live leader stays and dead members leave the in-sync set. Otherwise the first assigned replica that lives and is
    in sync leads; with `unclean` and none such, the first that lives, alone in sync, and records may be lost. With no
    candidate the leader is -1.
    """
    in_sync = tuple(broker for broker in present.isr if broker in live)
    if present.leader in live:
        leader, isr = present.leader, in_sync or present.isr
    else:
        leader = next((broker for broker in replicas if broker in in_sync), NO_LEADER)
        isr = in_sync or _last_of(present)
        if leader == NO_LEADER and unclean:
            leader = next((broker for broker in replicas if broker in live), NO_LEADER)
            isr = isr if leader == NO_LEADER else (leader,)
    if (leader, isr) == (present.leader, present.isr):
        return None
    next_epoch = LeaderEpoch(present.leader_epoch + 1)
    return Leadership(leader=leader, leader_epoch=next_epoch, isr=isr, controller_epoch=epoch)


def elect_preferred(replicas: Sequence[BrokerId], present: Leadership, epoch: ControllerEpoch) -> Leadership | None:
    """The first replica leads, which the caller knows to live and to be in sync; None where it leads already."""
    if present.leader == replicas[0]:
        return None
    return Leadership(
        leader=replicas[0],
        leader_epoch=LeaderEpoch(present.leader_epoch + 1),
        isr=present.isr,
        controller_epoch=epoch,
    )


def elect_for_shutdown(
    replicas: Sequence[BrokerId],
    present: Leadership,
    *,
    live: Collection[BrokerId],
    staying: Collection[BrokerId],
    epoch: ControllerEpoch,
) -> Leadership | None:
    """The leadership without the brokers that are about to stop; None when there is nobody else in sync to lead.

    `staying` are the live replicas that are not about to stop.
    """
    in_sync = tuple(broker for broker in present.isr if broker in staying)
    leader = next((broker for broker in replicas if broker in in_sync), NO_LEADER)
    if present.leader in staying:
        leader = present.leader
    if leader == NO_LEADER or (leader, in_sync) == (present.leader, present.isr) or present.leader not in live:
        return None
    next_epoch = LeaderEpoch(present.leader_epoch + 1)
    return Leadership(leader=leader, leader_epoch=next_epoch, isr=in_sync, controller_epoch=epoch)


def _last_of(present: Leadership) -> tuple[BrokerId, ...]:
    """Whom to wait for when the whole in-sync set is gone: its leader, which has every record that another has."""
    return (present.leader,) if present.leader in present.isr else present.isr
