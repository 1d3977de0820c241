"""What operators and tools do to a simulated cluster while it works: topics come and go, replicas move, leaders change.

An errand is one request, or a few, by a client of its own; whether it succeeds in a storm is nobody's promise, that it
leaves the cluster whole is. Topics of the load are moved and led by others but never lose records; all that destroys is
done to scratch topics (`s<number>`), whose deletion must be complete at the end.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from barnabas.client.admin import EARLIEST, LATEST, Admin, NewTopic
from barnabas.client.errors import ClientError
from barnabas.client.range_reader import OffsetRange, RangeReader, RangeReaderOptions
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.messages import (
    alter_partition_reassignments,
    alter_replica_log_dirs,
    delete_records,
    describe_cluster,
    describe_log_dirs,
    elect_leaders,
    incremental_alter_configs,
    list_partition_reassignments,
    offset_for_leader_epoch,
    update_features,
)
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from barnabas.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from barnabas.protocol.messages.describe_cluster import DescribeClusterRequest
from barnabas.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from barnabas.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from barnabas.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from barnabas.simulation.coordinator_load import INTERNAL_TOPICS
from barnabas.simulation.history import History
from barnabas.simulation.load import ClientProcess, LoadCount, ProducerProcess
from barnabas.simulation.moments import Moment
from barnabas.simulation.settings_tool import SettingsTool
from barnabas.simulation.strangers import Stranger
from barnabas.simulation.world import World
from zk_schema.ops import ZooKeeperError

_TIMEOUT_MS: Final = 3_000
_PREFERRED: Final = 0
_UNCLEAN: Final = 1
_SCRATCH_SETTINGS: Final[tuple[Mapping[str, str], ...]] = (
    {},
    {"retention.ms": "5000", "segment.bytes": "500"},
    {"retention.bytes": "2000", "segment.bytes": "500", "file.delete.delay.ms": "500"},
    {"unclean.leader.election.enable": "true"},
    {"message.timestamp.type": "LogAppendTime", "segment.ms": "3000"},
    {"flush.ms": "1000", "flush.messages": "3"},
    {"min.insync.replicas": "2", "max.message.bytes": "2000"},
    {"message.format.version": "0.9.0"},
    {"message.format.version": "0.10.2", "compression.type": "gzip"},
    {"compression.type": "lz4"},
    {"compression.type": "uncompressed"},
    {"cleanup.policy": "compact,delete", "segment.bytes": "500", "min.cleanable.dirty.ratio": "0.01"},
)
_SETTINGS: Final[tuple[Mapping[str, str], ...]] = (
    {"segment.bytes": "500"},
    {"segment.bytes": "5000"},
    {"segment.ms": "4000"},
    {"flush.ms": "2000"},
    {"retention.ms": "604800000"},
    {"index.interval.bytes": "100"},
    {"max.message.bytes": "100000"},
    {"file.delete.delay.ms": "1000"},
    {"message.timestamp.type": "LogAppendTime"},
    {"message.timestamp.type": "CreateTime"},
    {"unclean.leader.election.enable": "false"},
)
"""What keeps every promise."""

_BATCH_OF_A_GROUP: Final = 1_000
"""The record of a group of three is no larger; a segment takes no batch that is larger than itself."""

_TOPIC: Final = 2
_SET: Final = 0


class Errands(ClientProcess):
    """A client that runs errands until the load is over."""

    prefix = "s"
    """Of its scratch topics' names."""

    def __init__(self, world: World, name: str, errands: Iterable[Moment], *, least_in_sync: int) -> None:
        super().__init__(world.stage, name)
        self._world = world
        self._least_in_sync = least_in_sync
        """`min.insync.replicas` of the load's topics may be no smaller: what was promised depends on it."""

        self._tool = SettingsTool(world)
        self._admin = Admin(self.cluster)
        self._errands = errands
        self.kinds = KINDS
        self._scratch: list[str] = []
        self._made = 0
        self.cluster.options.timeout_ms = 8_000

    async def run(self) -> None:
        """One errand after the other, each at its moment or when the one before it is done."""
        began_s = self.stage.loop.now_s
        for at_s, kind, chance in self._errands:
            await asyncio.sleep(max(0.0, began_s + at_s - self.stage.loop.now_s))
            if self.stage.is_over:
                return
            self.chance = random.Random(chance)
            self._world.tell(f"errand: {kind}")
            try:
                async with asyncio.timeout(15):
                    await self.kinds[kind](self)
            except (ClientError, ZooKeeperError, TimeoutError) as error:
                self._world.tell(f"errand {kind}: {type(error).__name__}")

    # Who and what.

    @property
    def _watched(self) -> list[TopicPartition]:
        return list(self._world.invariants.watched)

    def _a_partition(self) -> TopicPartition:
        return self.chance.choice(self._watched)

    def _a_broker(self) -> int:
        return self.chance.choice(list(self._world.machines))

    def _some_brokers(self, count: int) -> list[int]:
        brokers = list(self._world.machines)
        return self.chance.sample(brokers, min(count, len(brokers)))

    async def _ask(self, api: Any, request: object, *, node: int | None = None, least: int = 0) -> Any:
        if node is None:
            return await self.cluster.ask_controller(api, request, least=least)
        return await self.cluster.ask(node, api, request, least=least)

    # Topics.

    async def create_topic(self) -> None:
        name = f"{self.prefix}{self._made}"
        self._made += 1
        settings = self.chance.choice(_SCRATCH_SETTINGS)
        partitions, factor = self.chance.randint(1, 3), self.chance.randint(1, min(3, len(self._world.machines)))
        new = NewTopic(name, partitions, factor, settings)
        if self.chance.random() < 0.3:
            assignments = {number: self._some_brokers(factor) for number in range(partitions)}
            new = NewTopic(name, configs=settings, assignments=assignments)
        await self._admin.create_topics([new], validate_only=self.chance.random() < 0.1)
        self._scratch.append(name)

    async def write_scratch(self) -> None:
        """A few batches without a promise."""
        if self._scratch:
            at = TopicPartition(self.chance.choice(self._scratch), 0)
            # What becomes of these records nobody judges.
            stage = replace(self.stage, history=History(), count=LoadCount())
            writer = ProducerProcess(stage, self._world.client_name(), [at], acks=self.chance.choice([1, 0, -1]))
            for _ in range(self.chance.randint(1, 12)):
                if not await writer.start(writer.produce(at)):
                    return

    async def delete_topic(self) -> None:
        if self._scratch:
            name = self._scratch.pop(self.chance.randrange(len(self._scratch)))
            await self._admin.delete_topics([name])
            if self.chance.random() < 0.4:
                # The same name again, while the old logs may still be going.
                self._scratch.append(name)
                await self._admin.create_topics([NewTopic(name, 1, min(2, len(self._world.machines)))])

    async def create_partitions(self) -> None:
        if self._scratch:
            await self._admin.create_partitions({self.chance.choice(self._scratch): self.chance.randint(2, 6)})

    async def delete_records(self) -> None:
        if self._scratch:
            at = TopicPartition(self.chance.choice(self._scratch), 0)
            leader = await self.cluster.leader(at)
            wanted = DeleteRecordsTopic(at.topic, [DeleteRecordsPartition(0, self.chance.choice([-1, 1, 5]))])
            request = DeleteRecordsRequest([wanted], _TIMEOUT_MS)
            await self._ask(delete_records.API, request, node=leader.node_id)

    # Leaders and replicas.

    async def move_replicas(self) -> None:
        """Give a partition other replicas, as many as it has; sometimes think again."""
        at = self._a_partition()
        assignment = self._world.invariants.assignment(at.topic)
        if assignment is not None:
            count = len(assignment.partitions[at.partition])
            if assignment.adding_replicas.get(at.partition) or assignment.removing_replicas.get(at.partition):
                count = 0
            await self._reassign(at, self._some_brokers(count) if count else None)
            if count and self.chance.random() < 0.3:
                await asyncio.sleep(self.chance.uniform(0, 2))
                await self._reassign(at, None)

    async def _reassign(self, at: TopicPartition, replicas: list[int] | None) -> None:
        self._world.tell(f"errand: {at} to {replicas}")
        topic = ReassignableTopic(at.topic, [ReassignablePartition(at.partition, replicas)])
        request = AlterPartitionReassignmentsRequest(_TIMEOUT_MS, [topic])
        await self._ask(alter_partition_reassignments.API, request)

    async def list_moves(self) -> None:
        await self._ask(list_partition_reassignments.API, ListPartitionReassignmentsRequest(_TIMEOUT_MS))

    async def prefer_leaders(self) -> None:
        await self._ask(elect_leaders.API, ElectLeadersRequest(_PREFERRED, None, _TIMEOUT_MS))

    async def lead_in_turn(self) -> None:
        """Have a partition's replicas lead one after the other, as soon as each can: all stay in sync.

        So epochs come about without records, and leaders whose high watermark is still a follower's.
        """
        at = self._a_partition()
        assignment = self._world.invariants.assignment(at.topic)
        if assignment is None or assignment.adding_replicas.get(at.partition):
            return
        replicas: list[int] = [*assignment.partitions[at.partition]]
        for _ in range(self.chance.randint(2, 6)):
            replicas = [*replicas[1:], replicas[0]]
            await self._reassign(at, replicas)
            await self._ask(
                elect_leaders.API,
                ElectLeadersRequest(_PREFERRED, [TopicPartitions(at.topic, [at.partition])], _TIMEOUT_MS),
            )
            await asyncio.sleep(self.chance.choice([0.0, 0.5, 1.0]))

    async def elect_unclean(self) -> None:
        """Only where nothing was promised."""
        if self._scratch:
            wanted = [TopicPartitions(self.chance.choice(self._scratch), [0])]
            await self._ask(elect_leaders.API, ElectLeadersRequest(_UNCLEAN, wanted, _TIMEOUT_MS), least=1)

    async def move_log(self) -> None:
        """Let a broker move a replica to its other log directory."""
        at, number = self._a_partition(), self._a_broker()
        path = self.chance.choice(self._world.machines[number].settings["log.dirs"].split(","))
        wanted = AlterReplicaLogDir(path, [AlterReplicaLogDirTopic(at.topic, [at.partition])])
        await self._ask(alter_replica_log_dirs.API, AlterReplicaLogDirsRequest([wanted]), node=number)

    # Settings.

    async def change_settings(self) -> None:
        """Of a topic of the load, within what it promises, or of one where all is allowed."""
        if self._scratch and self.chance.random() < 0.3:
            topic, settings = self.chance.choice(self._scratch), self.chance.choice(_SCRATCH_SETTINGS)
        else:
            at = self._a_partition()
            assignment = self._world.invariants.assignment(at.topic)
            replicas = 1 if assignment is None else len(assignment.partitions[at.partition])
            least = self.chance.randint(self._least_in_sync, max(self._least_in_sync, min(3, replicas)))
            topic = at.topic
            settings = self.chance.choice([*_SETTINGS, {"min.insync.replicas": str(least)}])
            if topic in INTERNAL_TOPICS and int(settings.get("segment.bytes", _BATCH_OF_A_GROUP)) < _BATCH_OF_A_GROUP:
                settings = {"segment.bytes": str(_BATCH_OF_A_GROUP)}
        key, value = self.chance.choice(list(settings.items()) or [("segment.bytes", "700")])
        self._world.tell(f"errand: {key}={value} of {topic}")
        if self.chance.random() < 0.5:
            await self._tool.change_topic(topic, {key: value})
        else:
            wanted = AlterConfigsResource(_TOPIC, topic, [AlterableConfig(key, _SET, value)])
            request = IncrementalAlterConfigsRequest([wanted], validate_only=self.chance.random() < 0.1)
            await self._ask(incremental_alter_configs.API, request, node=self._a_broker())

    async def throttle(self) -> None:
        """Replication of the load's topics is held back for a while."""
        topics = list(dict.fromkeys(at.topic for at in self._watched))
        await self._tool.throttle(topics, bytes_per_s=self.chance.choice([200, 2_000, 20_000]))
        await asyncio.sleep(self.chance.uniform(1, 8))
        await self._tool.throttle(topics, bytes_per_s=None)

    # Looking.

    async def look_at_logs(self) -> None:
        at = self._a_partition()
        wanted = self.chance.choice([None, [DescribableLogDirTopic(at.topic, [at.partition])]])
        await self._ask(describe_log_dirs.API, DescribeLogDirsRequest(wanted), node=self._a_broker())

    async def look_at_settings(self) -> None:
        await self._admin.describe_topic_configs(self._a_partition().topic)
        await self._admin.describe_broker_configs(self._a_broker())
        if self._scratch:
            await self._admin.describe_topic_configs(self.chance.choice(self._scratch))

    async def look_at_topics(self) -> None:
        await self.cluster.metadata(None)

    async def look_at_offsets(self) -> None:
        at = self._a_partition()
        moment = 1_600_000_000_000 + int(self.stage.loop.now_s * 1000 * self.chance.random())
        await self._admin.list_offsets({at: self.chance.choice([EARLIEST, LATEST, moment])})

    async def look_at_epochs(self) -> None:
        at = self._a_partition()
        leader = await self.cluster.leader(at)
        asked = OffsetForLeaderPartition(partition_index=at.partition, leader_epoch=self.chance.randrange(6))
        request = OffsetForLeaderEpochRequest(replica_id=-1, topics=[OffsetForLeaderTopic(at.topic, [asked])])
        await self._ask(offset_for_leader_epoch.API, request, node=leader.node_id)

    async def visit_as_stranger(self) -> None:
        """Several requests that a good client would not send."""
        now_ms = 1_600_000_000_000 + int(self.stage.loop.now_s * 1000)
        stranger = Stranger(self.cluster, self.chance, lambda: now_ms)
        for _ in range(5):
            scratch = TopicPartition(self.chance.choice(self._scratch), 0) if self._scratch else None
            try:
                await stranger.visit(self._a_partition(), scratch)
            except ClientError:
                continue

    async def look_at_metrics(self) -> None:
        """What a scraper would be told; and where the cluster stands."""
        broker = self._world.machines[self._a_broker()].broker
        if broker is not None:
            broker.services.metrics.exposition()
        await self._ask(describe_cluster.API, DescribeClusterRequest(), node=self._a_broker())

    async def change_features(self) -> None:
        wanted = [FeatureUpdateKey(self.chance.choice(["", "unknown"]), self.chance.randint(-1, 2), False)]
        await self._ask(update_features.API, UpdateFeaturesRequest(_TIMEOUT_MS, wanted))

    async def read_many(self) -> None:
        """Read every partition of the load a little, as the shipped consumer does."""
        ranges = {at: OffsetRange(0, 12) for at in self._watched}
        consumer = RangeReader(
            self.cluster, ranges, options=RangeReaderOptions(max_wait_ms=200, partition_max_bytes=300)
        )
        fetched = consumer.fetched()
        try:
            async with asyncio.timeout(4):
                async for _ in fetched:
                    pass
        finally:
            await fetched.aclose()


ON_SCRATCH: Final = ("write", "delete topic", "create partitions", "delete records", "elect unclean")
KINDS: Final[Mapping[str, Callable[[Errands], Awaitable[None]]]] = {
    "create topic": Errands.create_topic,
    "write": Errands.write_scratch,
    "delete topic": Errands.delete_topic,
    "create partitions": Errands.create_partitions,
    "delete records": Errands.delete_records,
    "move replicas": Errands.move_replicas,
    "list moves": Errands.list_moves,
    "prefer leaders": Errands.prefer_leaders,
    "lead in turn": Errands.lead_in_turn,
    "elect unclean": Errands.elect_unclean,
    "move log": Errands.move_log,
    "change settings": Errands.change_settings,
    "throttle": Errands.throttle,
    "look at logs": Errands.look_at_logs,
    "look at settings": Errands.look_at_settings,
    "look at topics": Errands.look_at_topics,
    "look at offsets": Errands.look_at_offsets,
    "look at epochs": Errands.look_at_epochs,
    "read many": Errands.read_many,
    "stranger": Errands.visit_as_stranger,
    "look at metrics": Errands.look_at_metrics,
    "change features": Errands.change_features,
}
