"""The coordinators of this broker: one shard for each partition of an internal topic that it leads.

A shard lives as long as a leadership in one epoch: it is opened when the controller makes this broker the leader and
closed when that ends, whatever ended it. Which partition has a group or a transactional id depends on how many there
are. That is asked of ZooKeeper once and not taken from what the controller has told: it tells of large clusters in
parts, and by a part of the partitions every group would be somewhere else.
"""

import logging
import random
import uuid
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final, Literal, Protocol, TypeVar

from barnabas.coordinator.effect import Effect
from barnabas.coordinator.group_coordinator import GroupCoordinator
from barnabas.coordinator.outcome import Machine
from barnabas.coordinator.partitioning import coordinator_partition
from barnabas.coordinator.shard import Shard
from barnabas.coordinator.shard_settings import ShardSettings
from barnabas.coordinator.transactions.requests import Producer
from barnabas.coordinator.transactions.transaction_coordinator import TransactionCoordinator
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.runtime.clock import Clock
from barnabas.runtime.offload import Offload
from broker.config_coordinators import CoordinatorSettings
from broker.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from broker.metadata_view import MetadataView
from broker.partition_log import PartitionLog
from replication.partition import ALL_REPLICAS, Partition
from replication.replicas import Replicas
from zk_schema import paths
from zk_schema.payloads import TopicAssignment
from zk_schema.port import ZooKeeper

log = logging.getLogger(__name__)

_UUID_BITS: Final = 128
_NAMES_KEPT: Final = 10_000
_LONGEST_KEPT_NAME: Final = 255

M = TypeVar("M", bound=Machine)

CarryOut = Callable[[Shard[Any], Effect], None]


class Verify(Protocol):
    """Whether a partition is part of a producer's open transaction; see `broker.transaction_verification`."""

    def __call__(self, producer: Producer, partition: TopicPartition, *, marked_epoch: int) -> Awaitable[ErrorCode]: ...


class Coordination:
    """See the module. `carry_out` begins what coordinators want done in the cluster, `verify` asks all of them."""

    def __init__(
        self,
        replicas: Replicas,
        *,
        settings: CoordinatorSettings,
        metadata: MetadataView,
        zk: ZooKeeper,
        clock: Clock,
        offload: Offload,
        rng: random.Random,
        spawn: Callable[..., Any],
    ) -> None:
        self.groups: dict[int, Shard[GroupCoordinator]] = {}
        self.transactions: dict[int, Shard[TransactionCoordinator]] = {}
        self.carry_out: CarryOut = _nothing_to_do
        self.verify: Verify = _nobody_to_ask
        self._settings = settings
        self._metadata = metadata
        self._zk = zk
        self._clock = clock
        self._offload = offload
        self._rng = rng
        self._spawn = spawn
        self._partition_counts: dict[str, int] = {}
        self._group_partitions: dict[tuple[str, int], int] = {}
        """By group id and number of partitions: the hash takes longer than all else of a heartbeat."""
        replicas.role_watchers.append(self)

    # Finding coordinators.

    async def partition_of(self, topic: str, name: str) -> int | None:
        """The partition of an internal topic that has a group or a transactional id; None where there is no topic.

        Raises:
            ZooKeeperError: it cannot be asked how many there are.
        """
        if not self._metadata.has_topic(topic):
            self._partition_counts.pop(topic, None)
            return None
        count = self._partition_counts.get(topic)
        if count is None:
            found = await self._zk.get(paths.topic(topic))
            if found is None:
                return None
            count = self._partition_counts[topic] = len(TopicAssignment.decode(found.data).partitions)
        return coordinator_partition(name, count) if count else None

    def find_group_shard(self, group_id: str) -> "Shard[GroupCoordinator] | Literal[False] | None":
        """As `group_shard`, without waiting; False where ZooKeeper has to be asked."""
        count = self._partition_counts.get(CONSUMER_OFFSETS)
        if not count or not self._metadata.has_topic(CONSUMER_OFFSETS):
            return False
        partition = self._group_partitions.get((group_id, count))
        if partition is None:
            partition = coordinator_partition(group_id, count)
            if len(group_id) <= _LONGEST_KEPT_NAME:
                if len(self._group_partitions) >= _NAMES_KEPT:
                    self._group_partitions.clear()
                self._group_partitions[group_id, count] = partition
        return self.groups.get(partition)

    async def group_shard(self, group_id: str) -> Shard[GroupCoordinator] | None:
        """Who coordinates a group, if that is this broker. Raises ZooKeeperError."""
        partition = await self.partition_of(CONSUMER_OFFSETS, group_id)
        return None if partition is None else self.groups.get(partition)

    async def transaction_shard(self, transactional_id: str) -> Shard[TransactionCoordinator] | None:
        """Who coordinates a transactional id, if that is this broker. Raises ZooKeeperError."""
        partition = await self.partition_of(TRANSACTION_STATE, transactional_id)
        return None if partition is None else self.transactions.get(partition)

    # What the controller decides.

    def leads(self, partition: Partition) -> None:
        """See `RoleWatcher`."""
        topic, number = partition.topic_partition
        settings = self._settings
        if topic == CONSUMER_OFFSETS:
            self.leads_no_more(partition.topic_partition)
            self.groups[number] = self._open(
                partition, self._make_groups, settings.offsets_shard, acks=settings.offsets_commit_required_acks
            )
        elif topic == TRANSACTION_STATE:
            self.leads_no_more(partition.topic_partition)
            self.transactions[number] = self._open(partition, self._make_transactions, settings.transactions_shard)

    def leads_no_more(self, topic_partition: TopicPartition) -> None:
        """See `RoleWatcher`."""
        topic, number = topic_partition
        shard: Shard[Any] | None = None
        if topic == CONSUMER_OFFSETS:
            shard = self.groups.pop(number, None)
        elif topic == TRANSACTION_STATE:
            shard = self.transactions.pop(number, None)
        if shard is not None:
            log.info("%s: its coordinator of epoch %d ends", topic_partition, shard.coordinator_epoch)
            shard.close()

    def on_partitions_deleted(self, partitions: Collection[TopicPartition]) -> None:
        """These were deleted with their topics: nobody needs offsets of them any more."""
        for shard in self.groups.values():
            shard.tell(
                lambda machine, now_ms, wall_ms: machine.on_partitions_deleted(
                    partitions, now_ms=now_ms, wall_ms=wall_ms
                )
            )

    def _open(
        self, partition: Partition, make_machine: Callable[[], M], settings: ShardSettings, *, acks: int = ALL_REPLICAS
    ) -> Shard[M]:
        shard = Shard(
            PartitionLog(partition, self._offload, acks=acks),
            make_machine,
            coordinator_epoch=partition.leader_epoch,
            clock=self._clock,
            spawn=self._spawn,
            carry_out=self._begin,
            settings=settings,
        )
        shard.open()
        return shard

    def _begin(self, shard: Shard[Any], effect: Effect) -> None:
        self.carry_out(shard, effect)

    def _make_groups(self) -> GroupCoordinator:
        return GroupCoordinator(self._settings.groups, self._settings.offsets, new_uuid=self._new_uuid)

    def _make_transactions(self) -> TransactionCoordinator:
        return TransactionCoordinator(self._settings.transactions)

    def _new_uuid(self) -> str:
        return str(uuid.UUID(int=self._rng.getrandbits(_UUID_BITS), version=4))


def _nothing_to_do(shard: Shard[Any], effect: Effect) -> None:
    raise AssertionError(f"{shard.log.name}: nobody carries out {effect!r}")


async def _nobody_to_ask(
    producer: Producer,
    partition: TopicPartition,
    *,
    marked_epoch: int,  # noqa: ARG001 - the signature is `Verify`'s
) -> ErrorCode:
    raise AssertionError(f"nobody can be asked whether {partition} is part of the transaction of {producer}")
