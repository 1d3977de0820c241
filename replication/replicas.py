"""The replicas that this broker holds, and the changes that its controller orders.

Owned by the event loop; the changes come one at a time from the control service. A replica is fetched for exactly while
it follows a leader: fetching ends before its role changes or it is stopped, and begins when it follows.
"""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import (
    LEADER_EPOCH_DURING_DELETE,
    NO_LEADER,
    NO_LEADER_EPOCH,
    BrokerId,
    LeaderEpoch,
    TopicPartition,
)
from barnabas.storage.log import LogOffline
from replication.fetcher_ports import FetchFigures
from replication.log_moves import LogMoves
from replication.partition import Partition
from replication.ports import ReplicationPorts
from replication.quota import names_replica
from replication.replica import Replica
from replication.settings import TopicSettings

log = logging.getLogger(__name__)

_AT_ONCE: Final = 200
"""Partitions that are looked at before others have their turn."""


@dataclass(slots=True)
class ReplicaAssignment:
    """What one partition's replica on this broker must be, as the controller decided it."""

    topic_partition: TopicPartition
    leader_id: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    replicas: tuple[BrokerId, ...]
    zk_version: int
    is_new: bool
    settings: TopicSettings
    adding: tuple[BrokerId, ...] = ()
    """Those of `replicas` that a reassignment adds."""


class Fetching(Protocol):
    """Who fetches for replicas that follow: `replication.fetchers`."""

    def follow(self, replica: Replica) -> None: ...

    def unfollow(self, topic_partition: TopicPartition) -> None: ...

    def change_count(self, fetchers_per_leader: int, replicas: Iterable[Replica]) -> None: ...

    def stop_idle(self) -> None: ...

    def figures(self) -> FetchFigures: ...

    async def stop(self) -> None: ...


class RoleWatcher(Protocol):
    """Who wants to know what this broker leads; told before anything else happens to the partition."""

    def leads(self, partition: Partition) -> None:
        """It leads from now on, or leads on in another epoch."""

    def leads_no_more(self, topic_partition: TopicPartition) -> None:
        """It does not lead, whether it did or not."""


class Replicas:
    """Partition by topic and number."""

    def __init__(self, ports: ReplicationPorts, fetchers: Fetching, moves: LogMoves) -> None:
        self.ports = ports
        self.moves = moves
        self.counts = ports.counts
        self.quotas = ports.quotas
        self._fetchers = fetchers
        self.broker_id = ports.broker_id
        self.log_directories = ports.log_directories
        self._partitions: dict[tuple[str, int], Partition] = {}
        self.role_watchers: list[RoleWatcher] = []
        self.configured = 0
        """How often topics have changed their settings."""

    def partition(self, topic_partition: tuple[str, int]) -> Partition | None:
        """The replica here, of any role; None where this broker holds none. A plain pair finds it too."""
        return self._partitions.get(topic_partition)

    def fetch_figures(self) -> FetchFigures:
        """How fetching goes."""
        return self._fetchers.figures()

    def partitions(self) -> list[Partition]:
        return list(self._partitions.values())

    async def assign(self, assignment: ReplicaAssignment) -> ErrorCode:
        """Become what the controller says; the answer is the one of LeaderAndIsr for this partition.

        An epoch that is not newer changes nothing (STALE_CONTROLLER_EPOCH, as Kafka 2.7 says it).
        """
        topic_partition = assignment.topic_partition
        partition = self._partitions.get(topic_partition)
        if partition is not None and partition.is_offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if partition is not None and assignment.leader_epoch <= partition.leader_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if self.broker_id not in assignment.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if partition is None:
            try:
                partition = self._open(assignment)
            except LogOffline as error:
                log.error("%s: its log cannot be made: %s", topic_partition, error)
                return ErrorCode.KAFKA_STORAGE_ERROR
        self._apply(assignment.settings, partition)
        self._fetchers.unfollow(topic_partition)
        if assignment.leader_id == self.broker_id:
            await partition.become_leader(
                leader_epoch=assignment.leader_epoch,
                isr=assignment.isr,
                replicas=assignment.replicas,
                zk_version=assignment.zk_version,
                min_in_sync_replicas=assignment.settings.min_insync_replicas,
                adding=assignment.adding,
            )
            self._leads(partition)
        else:
            await partition.become_follower(
                leader_id=assignment.leader_id, leader_epoch=assignment.leader_epoch, replicas=assignment.replicas
            )
            self._leads_no_more(topic_partition)
            log.info("%s: broker %d leads in epoch %d", topic_partition, assignment.leader_id, assignment.leader_epoch)
            if assignment.leader_id != NO_LEADER and not partition.is_offline:
                self._fetchers.follow(partition)
        if partition.is_offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        self.moves.resume(partition)
        return ErrorCode.NONE

    def _leads(self, partition: Partition) -> None:
        if partition.is_offline:
            # Its directory failed while the change of role waited for an append: the watchers were told.
            return
        log.info(
            "%s: leader in epoch %d from offset %d",
            partition.topic_partition,
            partition.leader_epoch,
            partition.log.log_end_offset,
        )
        for watcher in self.role_watchers:
            watcher.leads(partition)

    def _leads_no_more(self, topic_partition: TopicPartition) -> None:
        for watcher in self.role_watchers:
            watcher.leads_no_more(topic_partition)

    def settle(self) -> None:
        """All changes of a command are made: end the fetchers that have nothing left to do."""
        self._fetchers.stop_idle()

    def change_fetchers(self, fetchers_per_leader: int) -> None:
        """Let so many fetchers fetch from each leader from now on."""
        self._fetchers.change_count(fetchers_per_leader, self.partitions())

    def configure(self, topic: str, settings: TopicSettings) -> int:
        """The settings of a topic are others from now on; how many replicas here that is for."""
        self.configured += 1
        changed = [partition for partition in self.partitions() if partition.topic_partition.topic == topic]
        for partition in changed:
            self._apply(settings, partition)
            partition.set_min_in_sync_replicas(settings.min_insync_replicas)
            partition.flush_if_asked()
        return len(changed)

    def _apply(self, settings: TopicSettings, partition: Partition) -> None:
        number = partition.topic_partition.partition
        partition.log.config = settings.log
        partition.throttled_as_leader = names_replica(
            settings.leader_throttled_replicas, partition=number, broker_id=self.broker_id
        )
        partition.throttled_as_follower = names_replica(
            settings.follower_throttled_replicas, partition=number, broker_id=self.broker_id
        )

    def move(self, topic_partition: TopicPartition, path: str, *, is_known: bool) -> ErrorCode:
        """Have a replica moved to another log directory; the answer is the one of AlterReplicaLogDirs."""
        return self.moves.order(topic_partition, self._partitions.get(topic_partition), path, is_known=is_known)

    def _open(self, assignment: ReplicaAssignment) -> Partition:
        topic_partition = assignment.topic_partition
        if assignment.is_new and self.log_directories.log(topic_partition) is not None:
            # Of an earlier topic of this name, or of a replica that moved away while this broker was down: nobody knows
            # the records in it, and its leader epochs mean nothing here.
            log.warning("%s: the replica is new, so the log that is here is stale and goes", topic_partition)
            self.log_directories.delete_log(topic_partition)
        log_ = self.log_directories.create_log(topic_partition, assignment.settings.log, is_new=assignment.is_new)
        directory = self.log_directories.directory_of(topic_partition)
        assert directory is not None, f"{topic_partition}: its log is in no directory"
        partition = Partition(topic_partition, log_, directory, self.ports)
        self._partitions[topic_partition] = partition
        return partition

    async def stop(self, topic_partition: TopicPartition, *, leader_epoch: LeaderEpoch, delete: bool) -> ErrorCode:
        """Stop serving a replica and, with `delete`, remove its log; the answer is the one of StopReplica."""
        partition = self._partitions.get(topic_partition)
        if partition is not None:
            if partition.is_offline:
                return ErrorCode.KAFKA_STORAGE_ERROR
            unconditional = leader_epoch in (NO_LEADER_EPOCH, LEADER_EPOCH_DURING_DELETE)
            if not unconditional and leader_epoch <= partition.leader_epoch:
                return ErrorCode.FENCED_LEADER_EPOCH
            del self._partitions[topic_partition]
            self._fetchers.unfollow(topic_partition)
            self.moves.interrupt(topic_partition)
            await partition.resign(leader_id=NO_LEADER, leader_epoch=partition.leader_epoch)
            self._leads_no_more(topic_partition)
        if delete:
            try:
                if not self.log_directories.delete_log(topic_partition) and self.log_directories.offline_directories():
                    # It may lie in one of them, and would be there again when that is well.
                    log.error("%s: its log is in no directory that is online", topic_partition)
                    return ErrorCode.KAFKA_STORAGE_ERROR
            except LogOffline as error:
                log.error("%s: its log cannot be removed: %s", topic_partition, error)
                return ErrorCode.KAFKA_STORAGE_ERROR
        log.info("%s: stopped%s", topic_partition, ", log deleted" if delete else "")
        return ErrorCode.NONE

    async def check_lags(self) -> None:
        """Have followers that lag left out of in-sync sets, for ever: one timer for all partitions that lead."""
        while True:
            await asyncio.sleep(self.ports.replica_lag_time_max_ms / 2000)
            for number, partition in enumerate(self.partitions(), 1):
                partition.check_lag()
                if number % _AT_ONCE == 0:
                    await asyncio.sleep(0)

    def on_brokers_gone(self) -> None:
        """A broker is alive no more: deletions wait for it no longer.

        No fetch may come that would say so: those of idle followers name no partition.
        """
        for partition in self.partitions():
            partition.deletion.let_go()

    async def close(self) -> None:
        """Fetch and serve no more. Returns when no append is under way, so that the logs can be closed."""
        await self._fetchers.stop()
        await self.moves.stop()
        for partition in self.partitions():
            await partition.resign(leader_id=NO_LEADER, leader_epoch=partition.leader_epoch)
            self._leads_no_more(partition.topic_partition)

    def on_directory_failure(self, path: str) -> None:
        """A log directory has failed: its replicas serve nothing any more."""
        (failed,) = (each for each in self.log_directories.directories if each.path == path)
        for partition in self.partitions():
            at = partition.topic_partition
            # One that was just moving there has left where the partition knows its log.
            has_moved = partition.log.offline and (at in failed.futures or at in failed.logs)
            if partition.directory is failed or has_moved:
                self._fetchers.unfollow(partition.topic_partition)
                partition.go_offline()
                self._leads_no_more(partition.topic_partition)
