"""Whole brokers in this process: real sockets, threads and files, and a ZooKeeper in memory."""

import asyncio
import os
import random
from collections.abc import Callable
from pathlib import Path

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateableTopicConfig, CreateTopicsRequest
from barnabas.runtime.clock import Clock, SystemClock
from barnabas.runtime.disk import SystemDisk
from barnabas.runtime.offload import SystemOffload
from barnabas.runtime.tasks import Supervisor
from broker.config import BrokerConfig, resolve_broker_config
from broker.handlers import create_topics
from broker.request_context import RequestContext
from broker.serve import Broker, OpenNetwork, Ports, serve
from broker.system_ports import open_control_plane, open_network
from replication.partition import Partition
from zk_schema.memory import MemorySession, MemoryZooKeeper


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.005)


def listening_ports() -> set[int]:
    """The TCP ports at which this process listens."""
    inodes = set()
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{descriptor}")
        except FileNotFoundError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    ports = set()
    for table in ("/proc/self/net/tcp", "/proc/self/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                ports.add(int(fields[1].rpartition(":")[2], 16))
    return ports


class BrokerHost:
    """A machine on which brokers start; `failures` has what would have ended their process."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.zookeeper = MemoryZooKeeper()
        self.offload = SystemOffload()
        self.failures: list[str] = []
        self.supervisor = Supervisor(lambda what, error: self.failures.append(f"{what}: {error!r}"))
        self.clock: Clock = SystemClock()
        self.disk = SystemDisk()
        self.open_network: OpenNetwork = open_network
        self.boot_id = "boot-1"
        self.sessions: list[MemorySession] = []
        self._ports_before = listening_ports()

    def config(self, **keys: str) -> BrokerConfig:
        given = {
            "broker.id": "1",
            "zookeeper.connect": "memory",
            "zookeeper.session.timeout.ms": "3000",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": f"{self.directory}/a,{self.directory}/b",
        }
        return resolve_broker_config(given | {name.replace("_", "."): text for name, text in keys.items()})

    async def _open_zookeeper(self, config: BrokerConfig) -> MemorySession:
        session = MemorySession(self.zookeeper, session_timeout_ms=config.zookeeper_session_timeout_ms)
        await session.open(timeout_ms=50)
        self.sessions.append(session)
        return session

    async def start(self, **keys: str) -> Broker:
        ports = Ports(
            clock=self.clock,
            disk=self.disk,
            offload=self.offload,
            supervisor=self.supervisor,
            random=random.Random(1),
            open_network=self.open_network,
            open_zookeeper=self._open_zookeeper,
            open_control_plane=open_control_plane,
            boot_id=self.boot_id,
        )
        return await serve(ports, self.config(**keys))

    async def close(self) -> None:
        await self.supervisor.stop()
        self.offload.close()
        assert self.failures == []

    # What a broker leaves behind.

    def remains(self) -> list[str]:
        """What of a broker that is gone is still there; nothing should be."""
        found = [f"port {port}" for port in listening_ports() - self._ports_before]
        found += [f"session {session_id:#x}" for session_id in self.zookeeper._sessions]
        found += [f"task {task.get_name()}" for task in self.supervisor._tasks if not task.done()]
        for config_path in self.directory.glob("*/.lock"):
            try:
                self.disk.lock(str(config_path)).release()
            except BlockingIOError:
                found.append(f"lock {config_path.parent.name}")
        return found

    async def until_nothing_remains(self) -> None:
        """Fails with the list of what stays."""
        for _ in range(2000):
            if not self.remains():
                return
            await asyncio.sleep(0.005)
        assert self.remains() == []


async def make_topic(broker: Broker, name: str = "t", *, partitions: int = 1, **config: str) -> list[Partition]:
    """Create a topic and wait until the broker leads it."""
    topic = CreatableTopic(name, partitions, 1)
    topic.configs = [CreateableTopicConfig(key.replace("_", "."), value) for key, value in config.items()]
    context = RequestContext(
        broker.services,
        version=5,
        correlation_id=1,
        client_id="t",
        client_host="127.0.0.1",
        listener_name="PLAINTEXT",
    )
    response = await create_topics.handle(CreateTopicsRequest([topic], 10_000), context)
    assert response.topics[0].error_code == ErrorCode.NONE, response.topics[0]
    found = [broker.services.replicas.partition(TopicPartition(name, number)) for number in range(partitions)]
    assert None not in found
    return [partition for partition in found if partition is not None]
