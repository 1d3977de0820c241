"""Proof that nobody else led a partition when its leader was asked, for answers that must not be of the past.

A leader may have been replaced without knowing: its process stood still, or it is cut off. Then one of its in-sync
followers was elected, and no follower fetches from the old leader any more. So when all others of the maximal in-sync
set have asked for more since, none of them led before they did (a read index, as Raft has it, over the in-sync set).

Followers at rest would ask only when their wait is over. Those of a partition that is to be proven are answered at
once; what each asks for next is its proof. Such an answer is as available as acks=all: it waits for the same replicas.
"""

import asyncio
from typing import TYPE_CHECKING

from barnabas.protocol.ids import BrokerId
from replication.acknowledgements import Waiters, complete, wait_for
from replication.ports import ReplicationPorts

if TYPE_CHECKING:
    from replication.partition import Partition


class LeadershipProof:
    """Of one partition; `proven` are the answers that wait for it, by the moment in which they were asked for.

    Moments are of `ReplicationPorts.order`: a clock would not tell what came first within one tick.
    """

    __slots__ = ("_asked_at", "_order", "_partition", "_proven")

    def __init__(self, partition: "Partition", proven: Waiters, ports: ReplicationPorts) -> None:
        self._partition = partition
        self._proven = proven
        self._order = ports.order
        self._asked_at = 0

    def begin(self) -> "asyncio.Future[None] | None":
        """What to wait for; None where there is nobody else to lead. This replica must lead, as far as it knows.

        The future fails with PartitionRefused when it learns that it does not.
        """
        partition = self._partition
        assert partition.leadership is not None
        if not partition.leadership.others_in_sync():
            return None
        self._asked_at = next(self._order)
        future = wait_for(self._proven, self._asked_at)
        partition.notify_followers()
        return future

    def lacks(self, replica_id: BrokerId, *, leader_epoch: int) -> bool:
        """Whether a follower, asking in that epoch, should be answered at once: what it asks next is waited for."""
        leadership = self._partition.leadership
        if not len(self._proven) or leadership is None or not leadership.counts(leader_epoch):
            return False
        return any(
            each is leadership.remotes[replica_id] and each.heard_at < self._asked_at
            for each in leadership.others_in_sync()
        )

    def let_go(self) -> None:
        """A follower has asked, or the in-sync set is another: let go of those for whom all have asked since."""
        leadership = self._partition.leadership
        if leadership is not None and len(self._proven):
            complete(self._proven, min((each.heard_at for each in leadership.others_in_sync()), default=self._asked_at))
