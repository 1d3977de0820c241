"""A broker for handlers' tests: real configuration, view, logs and an in-memory ZooKeeper, without sockets."""

import asyncio
import random
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, Final

from barnabas.protocol.ids import (
    LEADER_DURING_DELETE,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    TopicPartition,
)
from barnabas.runtime.disk import SystemDisk
from barnabas.storage.creation import create_log
from barnabas.storage.directory import LogDirectory
from barnabas.storage.log import Log
from barnabas.storage.log_config import LogConfig
from broker.config import BrokerConfig, resolve_broker_config
from broker.dynamic_config import DynamicConfig
from broker.metadata_view import MetadataView
from broker.metrics import BrokerMetrics
from broker.producer_ids import ProducerIds
from broker.request_context import RequestContext
from controller.commands import Endpoint, LiveBroker, UpdateMetadata, UpdateMetadataPartition
from replication.partition import Partition
from replication.ports import ReplicationPorts
from tests.support.clock import ManualClock
from tests.support.inline_offload import InlineOffload
from tests.unit.replication.recording_isr_channel import RecordingIsrChannel
from tests.unit.storage.logs import make_ports
from zk_schema import paths
from zk_schema.memory import MemorySession, MemoryZooKeeper
from zk_schema.ops import Create, Delete, Op, OpResult
from zk_schema.payloads import TopicAssignment

ME: Final = BrokerId(1)
LISTENER: Final = "PLAINTEXT"


def make_config(given: Mapping[str, str] | None = None) -> BrokerConfig:
    """Kafka's defaults, but for what is given."""
    return resolve_broker_config({"zookeeper.connect": "memory"} | dict(given or {}))


def live_broker(broker_id: int, *, listener: str = LISTENER, rack: str | None = None) -> LiveBroker:
    endpoint = Endpoint(listener, f"host{broker_id}", 9090 + broker_id)
    return LiveBroker(BrokerId(broker_id), (endpoint,), rack)


class CutOnWrite:
    """A session whose connection goes during its next write, which was done or not, as `applied` says."""

    def __init__(self, broker: "SmallBroker", *, applied: bool) -> None:
        self._broker = broker
        self._applied = applied
        self.cut = False
        self.get, self.exists, self.children = broker.zk.get, broker.zk.exists, broker.zk.children

    async def write(self, *operations: Op) -> list[OpResult]:
        if self.cut:
            return await self._broker.zk.write(*operations)
        self.cut = True
        server, session = self._broker.server, self._broker.zk
        server.withhold(session, requests=not self._applied, answers=True)
        writing = asyncio.create_task(session.write(*operations))
        for _ in range(5):
            await asyncio.sleep(0)
        server.disconnect(session, apply_under_way=self._applied)
        return await writing


class AfterWrite:
    """A session that calls somebody when a write is done: a controller that is faster than the answer."""

    def __init__(self, broker: "SmallBroker", call: Callable[[], None]) -> None:
        self._zk = broker.zk
        self._call = call
        self.get, self.exists, self.children = broker.zk.get, broker.zk.exists, broker.zk.children

    async def write(self, *operations: Op) -> list[OpResult]:
        results = await self._zk.write(*operations)
        self._call()
        return results


class SmallBroker:
    """Broker 1. `services` goes into requests; the rest is what tests do to it."""

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        self.clock = ManualClock()
        self.server = MemoryZooKeeper()
        self.zk = MemorySession(self.server)
        self.view = MetadataView()
        self.partitions: dict[TopicPartition, Partition] = {}
        self.failed_directories: list[OSError] = []
        self.brokers: tuple[LiveBroker, ...] = (live_broker(1),)
        self.services: Any = SimpleNamespace(
            broker_id=ME,
            cluster_id="cluster",
            config=make_config(given),
            dynamic_config=DynamicConfig(make_config(given)),
            clock=self.clock,
            random=random.Random(7),
            offload=InlineOffload(),
            config_changes=SimpleNamespace(until_heard=self._heard),
            zk=self.zk,
            metadata=self.view,
            replicas=SimpleNamespace(partition=self.partitions.get),
            log_directories=SimpleNamespace(),
            controller=SimpleNamespace(is_active=True),
            producer_ids=ProducerIds(ME, self.zk),
            metrics=BrokerMetrics(self.clock),
        )

    async def _heard(self, notification: str, *, timeout_ms: int) -> bool:
        assert timeout_ms > 0
        return await self.zk.exists(notification) is not None

    async def open(self) -> "SmallBroker":
        await self.zk.open()
        for path in paths.PERSISTENT_PATHS:
            for parent in (*paths.parents(path), path):
                if await self.zk.exists(parent) is None:
                    await self.zk.write(Create(parent, None))
        self.update()
        return self

    async def close(self) -> None:
        await self.zk.close()

    def context(self, version: int, *, listener: str = LISTENER) -> RequestContext:
        return RequestContext(
            self.services,
            version=version,
            correlation_id=1,
            client_id="test",
            client_host="127.0.0.1",
            listener_name=listener,
        )

    # What a controller would do.

    def update(self, *partitions: UpdateMetadataPartition) -> None:
        command = UpdateMetadata(ME, ControllerEpoch(1), BrokerEpoch(1), list(partitions), self.brokers)
        self.view.apply(command)

    def announce(self, topic: str, count: int = 1, *, leader: int = ME) -> None:
        self.update(*(describe(topic, number, leader=leader) for number in range(count)))

    def forget(self, topic: str) -> None:
        numbers = list(self.view.partitions(topic))
        self.update(*(describe(topic, number, leader=LEADER_DURING_DELETE) for number in numbers))

    async def until(self, holds: Callable[[], object]) -> None:
        """Let the loop turn until it is so."""
        for _ in range(1000):
            if holds():
                return
            await asyncio.sleep(0)
        raise AssertionError("it never came to be")

    def assignment(self, topic: str) -> dict[int, tuple[int, ...]] | None:
        """What stands in ZooKeeper."""
        znode = self.server.tree.get(paths.topic(topic))
        return None if znode is None else dict(TopicAssignment.decode(znode.data).partitions)

    async def write_topic(self, topic: str, assignment: Mapping[int, tuple[int, ...]], **more: Any) -> None:
        replicas = {number: tuple(map(BrokerId, ids)) for number, ids in assignment.items()}
        await self.zk.write(Create(paths.topic(topic), TopicAssignment(replicas, **more).encode()))

    async def remove_topic(self, topic: str) -> None:
        await self.zk.write(Delete(paths.topic(topic)))

    # Partitions with logs.

    async def lead(self, directory: str, name: str = "t", *, epoch: int = 0, config: LogConfig | None = None) -> Log:
        """Make this broker leader of partition 0 of a topic, with a log on disk."""
        topic_partition = TopicPartition(name, 0)
        log = create_log(topic_partition, f"{directory}/{name}-0", config or LogConfig(), make_ports(clock=self.clock))
        partition = Partition(
            topic_partition,
            log,
            LogDirectory(
                directory,
                disk=SystemDisk(),
                clock=self.clock,
                offload=InlineOffload(),
                on_failure=lambda _, error: self.failed_directories.append(error),
            ),
            ReplicationPorts(
                broker_id=ME,
                clock=self.clock,
                spawn=lambda *_, **__: None,  # type: ignore[arg-type]
                log_directories=SimpleNamespace(),  # type: ignore[arg-type]
                isr_channel=RecordingIsrChannel(),
                broker_epoch_of=lambda _: None,
            ),
        )
        self.partitions[topic_partition] = partition
        await partition.become_leader(
            leader_epoch=LeaderEpoch(epoch), isr=(ME,), replicas=(ME,), zk_version=0, min_in_sync_replicas=1
        )
        self.announce(name)
        return log


def describe(
    topic: str,
    number: int,
    *,
    leader: int = ME,
    replicas: tuple[int, ...] = (ME,),
    isr: tuple[int, ...] | None = None,
    offline: tuple[int, ...] = (),
    epoch: int = 0,
) -> UpdateMetadataPartition:
    """One partition, as the controller tells of it."""
    return UpdateMetadataPartition(
        topic,
        number,
        ControllerEpoch(1),
        BrokerId(leader),
        LeaderEpoch(epoch),
        tuple(map(BrokerId, replicas if isr is None else isr)),
        0,
        tuple(map(BrokerId, replicas)),
        tuple(map(BrokerId, offline)),
    )
