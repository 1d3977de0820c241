"""Proof that nobody else led a partition when its leader was asked, for answers that must not be of the past.

A leader may have been replaced without knowing: its process stood still, or it is cut off. Then one of its in-sync
followers was elected, and no follower fetches from the old leader any more. So when all others of the maximal in-sync
set have asked for more since, none of them led before they did (a read index, as Raft has it, over the in-sync set).
Where elections may be unclean somebody else may lead, and this proves nothing of that.

Followers at rest would ask only when their wait is over. Those of a partition that is to be proven are answered at
once; what each asks for next is its proof. Such an answer is as available as acks=all: it waits for the same replicas,
and who says nothing for replica.lag.time.max.ms leaves the in-sync set.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerId
from replication.acknowledgements import refuse
from replication.ports import ReplicationPorts

if TYPE_CHECKING:
    from replication.partition import Partition


class LeadershipProof:
    """Of one partition. Moments are of `ReplicationPorts.order`: a clock would not tell what came first in one tick."""

    __slots__ = ("_partition", "_ports", "waiting")

    def __init__(self, partition: "Partition", ports: ReplicationPorts) -> None:
        self._partition = partition
        self._ports = ports
        self.waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        """Who waits, by the moment in which it asked."""

    def begin(self) -> "asyncio.Future[None] | None":
        """What to wait for; None where there is nobody else to lead. This replica must lead, as far as it knows.

        The future fails with PartitionRefused when the leadership ends, also by another epoch.
        """
        partition, waiting = self._partition, self.waiting
        assert partition.leadership is not None
        others = partition.leadership.others_in_sync()
        if not others:
            return None
        now_ms = self._ports.clock.monotonic_ms()
        for each in others:
            each.owe(now_ms)
        while waiting and waiting[0][1].done():
            # Nobody waits there any more.
            waiting.popleft()
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.append((next(self._ports.order), future))
        partition.notify_followers()
        return future

    def lacks(self, replica_id: BrokerId, *, leader_epoch: int) -> bool:
        """Whether a follower, asking in that epoch, should be answered at once: what it asks next is waited for."""
        leadership = self._partition.leadership
        if not self.waiting or leadership is None or not leadership.counts(leader_epoch):
            return False
        return replica_id in leadership.isr.maximal and leadership.remotes[replica_id].heard_at < self.waiting[-1][0]

    def let_go(self) -> None:
        """A follower has asked, or the in-sync set is another: let go of those for whom all have asked since."""
        leadership, waiting = self._partition.leadership, self.waiting
        if leadership is None or not waiting:
            return
        proven = min((each.heard_at for each in leadership.others_in_sync()), default=waiting[-1][0])
        while waiting and waiting[0][0] <= proven:
            _, future = waiting.popleft()
            if not future.done():
                future.set_result(None)

    def end(self, error: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER) -> None:
        """The leadership has ended."""
        while self.waiting:
            _, future = self.waiting.popleft()
            if not future.done():
                refuse(future, error)
