"""Who leads a partition.  [P]

An election looks at the assignment, at what stands in the state znode, and at which replicas live; it returns what
should stand there, or None when nothing needs to change. Whatever changes gets a new leader epoch. The in-sync set
never becomes empty: when all its members die they stay in it and the leader is -1, so that one of them, and nobody who
missed records, leads when it returns.

A member that died, or whose broker started anew, is in sync no more while another member is; of a set that died as a
whole the first that comes back leads, alone in sync. If it may have lost what it had (its machine went down), the
election waits: see `last_replica`.
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
    stale: Collection[BrokerId] = (),
    doubtful: Collection[BrokerId] = (),
    leaving: Collection[BrokerId] = (),
    best: BrokerId | None = None,
) -> Leadership | None:
    """The leadership after brokers came or went, by Kafka's rule for partitions whose leader is offline.

    A live leader stays, and members that are dead or `stale` (back after a restart) leave the in-sync set. Otherwise
    the first assigned replica that lives and is in sync leads, one that is `leaving` only where there is no other. With
    none in sync, a member that is back leads, alone in sync, unless all that are back are `doubtful`; then `best` does,
    where that is known and lives. With `unclean` and none such, the first that lives leads, and records may be lost.
    With no candidate the leader is -1.
    """
    in_sync = tuple(broker for broker in present.isr if broker in live and broker not in stale)
    if present.leader in in_sync:
        leader, isr = present.leader, in_sync
    elif in_sync:
        by_preference = sorted(in_sync, key=lambda broker: (broker in leaving, _rank(replicas, broker)))
        leader, isr = by_preference[0], in_sync
    else:
        back = returning(replicas, present, live)
        # The best log may be of a replica whose disk has failed since it told.
        otherwise = best if best is not None and best in live else NO_LEADER
        leader = next((broker for broker in back if broker not in doubtful), otherwise)
        if leader == NO_LEADER and unclean:
            leader = next((broker for broker in (*back, *replicas) if broker in live), NO_LEADER)
        isr = present.isr if leader == NO_LEADER else (leader,)
    if (leader, isr) == (present.leader, present.isr) and leader not in stale:
        return None
    next_epoch = LeaderEpoch(present.leader_epoch + 1)
    return Leadership(leader=leader, leader_epoch=next_epoch, isr=isr, controller_epoch=epoch)


def returning(replicas: Sequence[BrokerId], present: Leadership, live: Collection[BrokerId]) -> list[BrokerId]:
    """The live members of an in-sync set that died as a whole, who is to lead first."""
    in_order = dict.fromkeys((present.leader, *replicas))
    return [broker for broker in in_order if broker in present.isr and broker in live]


def _rank(replicas: Sequence[BrokerId], broker: BrokerId) -> int:
    return replicas.index(broker) if broker in replicas else len(replicas)


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
