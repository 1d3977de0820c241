"""The systems that are compared, each as a cluster of processes on this machine: Barnabas and releases of Kafka.

All get the same ZooKeeper in a process of its own, the same `server.properties` as Kafka ships it, and the same topics.
Kafka's brokers run in a JVM of 1 GB with the options of Kafka's own scripts, but for those that cost it something and
serve nothing here: no log of the garbage collector is written, and JMX is closed.
"""

import asyncio
import contextlib
import os
import random
import shlex
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Self

import psutil

from barnabas.client.admin import Admin, NewTopic
from barnabas.client.cluster import Cluster
from barnabas.client.connection import Address
from barnabas.client.errors import ClientError, KafkaError
from barnabas.client.metadata import ClusterMetadata
from barnabas.launcher.broker_process import answers_api_versions, start_broker
from barnabas.launcher.compiled import packages_root
from barnabas.launcher.processes import LocalProcess
from barnabas.launcher.sockets import free_port
from barnabas.launcher.zookeeper import LocalZooKeeper
from barnabas.protocol.error_code import ErrorCode
from bench.kafka_releases import KafkaRelease
from bench.raw_line import write_first
from bench.side_by_side.figures import OURS
from bench.side_by_side.usage import usable_cpus
from bench.systems import System
from tests.support.kafka import LOG4J
from tests.support.kafka_jars import java_command
from zk_schema import paths
from zk_schema.session import KazooSession

HOST: Final = "127.0.0.1"
SHIPPED: Final = {
    "num.network.threads": "3",
    "num.io.threads": "8",
    "socket.send.buffer.bytes": "102400",
    "socket.receive.buffer.bytes": "102400",
    "socket.request.max.bytes": "104857600",
    "num.partitions": "1",
    "num.recovery.threads.per.data.dir": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "log.retention.hours": "168",
    "log.segment.bytes": "1073741824",
    "log.retention.check.interval.ms": "300000",
    "zookeeper.connection.timeout.ms": "18000",
    "group.initial.rebalance.delay.ms": "0",
}
"""What the `server.properties` of both releases says, less addresses and directories."""

SETTINGS: Final = {**SHIPPED, "log.segment.delete.delay.ms": "1000"}
"""Of every broker: what one run wrote is gone before the disk is full. Kafka's topics have no say in their deletion."""

_JVM: Final = (
    *("-server", "-Xms1G", "-Xmx1G", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true"),
    "-XX:MaxInlineLevel=15",
)
_START_S: Final = 60.0
_STOP_S: Final = 60.0
_POLL_S: Final = 0.02
_LOOK_S: Final = 0.005
_ANSWER_S: Final = 10.0
Launch = Callable[[Path, int, Mapping[str, str]], LocalProcess]


@dataclass(frozen=True, slots=True)
class Contestant:
    """A system under a name and a version; `launch` starts one broker with its properties."""

    name: str
    version: str
    launch: Launch

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


def barnabas() -> Contestant:
    """Run from bytecode, as pip and the Dockerfile install it: what the first start compiles is kept for the others.

    Whether from the compiled copy is decided here, once for all starts.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    return Contestant("Barnabas", OURS, partial(start_broker, root=packages_root()))


def kafka(release: KafkaRelease) -> Contestant:
    """Raises JarsNotAvailable."""
    jars, java = release.class_path(), java_command()

    def launch(directory: Path, broker_id: int, properties: Mapping[str, str]) -> LocalProcess:
        home = directory / f"broker-{broker_id}"
        home.mkdir(parents=True, exist_ok=True)
        config, log4j = home / "server.properties", home / "log4j.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        log4j.write_text(LOG4J)
        return LocalProcess(kafka_command(java, jars, log4j, config), log_file=home / "broker.log")

    return Contestant("Kafka", release.version, launch)


def kafka_command(java: str, jars: str, log4j: Path, config: Path) -> list[str]:
    """How a broker of Kafka is started."""
    return [java, *_JVM, f"-Dlog4j.configuration=file:{log4j}", "-cp", jars, "kafka.Kafka", str(config)]


class RunningCluster:
    """Brokers 1 to `brokers` of a contestant, started by `with` and ended after it; everything is below `directory`."""

    def __init__(
        self, contestant: Contestant, directory: Path, *, brokers: int, properties: Mapping[str, str] | None = None
    ) -> None:
        self.contestant = contestant
        self.directory = directory
        self.ports = {broker_id: free_port(HOST) for broker_id in range(1, brokers + 1)}
        self._row_properties = dict(properties or {})
        self._zookeeper = LocalZooKeeper(directory / "zookeeper")
        self._processes: dict[int, LocalProcess] = {}
        self._topics = 0
        self._commands: list[str] = []

    def __str__(self) -> str:
        return str(self.contestant)

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as undone:
            undone.callback(self._stop)
            self._zookeeper.start()
            for broker_id in self.ports:
                self.launch(broker_id)
            for broker_id in self.ports:
                self.wait_for(broker_id)
            undone.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _stop(self) -> None:
        for process in self._processes.values():
            if process.return_code is None:
                process.send_signal(signal.SIGTERM)
        for process in self._processes.values():
            process.stop(grace_s=_STOP_S)
        self._zookeeper.stop()

    # Where it is, and what it costs.

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self.ports.values())

    def address(self, broker_id: int) -> Address:
        return Address(HOST, self.ports[broker_id])

    def pid(self, broker_id: int) -> int:
        return self._processes[broker_id].pid

    def system(self, broker_id: int) -> System:
        """One broker with its children."""
        return System(f"{self} {broker_id}", self.ports[broker_id], (self.pid(broker_id),))

    def pids(self) -> list[int]:
        """The brokers and ZooKeeper, without their children."""
        return [self._zookeeper.process.pid, *(process.pid for process in self._processes.values())]

    def systems(self) -> list[System]:
        return [self.system(broker_id) for broker_id in self.ports]

    def pin(self, cpus: Sequence[int] | None) -> None:
        """Let every thread of every broker run on these CPUs only; None for all that there are."""
        chosen = set(usable_cpus() if cpus is None else cpus)
        for system in self.systems():
            system.pin(chosen)

    def note(self, commands: Sequence[Sequence[str]]) -> None:
        self._commands += [shlex.join(command) for command in commands]

    def forget_commands(self) -> None:
        self._commands = []

    def take_commands(self, purpose: str) -> dict[str, str]:
        """How the brokers were started, and what ran against them since the last time, if anything did."""
        kind = ", ".join([f"{self}, {len(self.ports)} brokers", *map("=".join, self._row_properties.items())])
        noted, self._commands = list(dict.fromkeys(self._commands)), []
        told = {f"{kind}: the first": shlex.join(psutil.Process(self.pid(1)).cmdline())}
        return told | ({f"{kind}: {purpose}": "\n".join(noted)} if noted else {})

    # Processes.

    def is_whole(self) -> bool:
        """Whether every broker runs and serves."""
        return all(
            process.return_code is None and answers_api_versions(HOST, self.ports[broker_id], timeout_s=_ANSWER_S)
            for broker_id, process in self._processes.items()
        )

    def launch(self, broker_id: int) -> None:
        """Start a broker and wait for nothing."""
        directory = self.directory / f"broker-{broker_id}"
        properties = {
            "broker.id": str(broker_id),
            "listeners": f"PLAINTEXT://{HOST}:{self.ports[broker_id]}",
            "log.dirs": str(directory / "logs"),
            "zookeeper.connect": f"{HOST}:{self._zookeeper.port}",
            **SETTINGS,
            **self._row_properties,
        }
        self._processes[broker_id] = self.contestant.launch(self.directory, broker_id, properties)

    def wait_for(self, broker_id: int) -> None:
        """Return when the broker serves. Raises TimeoutError, and RuntimeError if it ended."""
        process, ends_s = self._processes[broker_id], time.monotonic() + _START_S
        while not answers_api_versions(HOST, self.ports[broker_id]):
            if process.return_code is not None:
                raise RuntimeError(f"{self}: broker {broker_id} ended:\n{process.log_tail()}")
            if time.monotonic() > ends_s:
                raise TimeoutError(f"{self}: broker {broker_id} does not serve after {_START_S:g} s")
            time.sleep(_POLL_S)

    def kill(self, broker_id: int) -> None:
        self._processes[broker_id].kill()

    def terminate(self, broker_id: int) -> None:
        """SIGTERM, and wait for nothing."""
        self._processes[broker_id].send_signal(signal.SIGTERM)

    def wait_for_end(self, broker_id: int) -> None:
        self._processes[broker_id].stop(grace_s=_STOP_S)

    # Topics.

    @contextlib.contextmanager
    def topic(
        self,
        *,
        partitions: int,
        replication_factor: int = 1,
        settings: Mapping[str, str] | None = None,
        first_leader: int = 1,
    ) -> Iterator[str]:
        """A new topic, deleted in the end. Its partitions are led by the brokers in turn and have one record each."""
        self._topics += 1
        name = f"bench-{self._topics}"
        assignments = led_in_turn(len(self.ports), partitions, replication_factor, first_leader=first_leader)
        asyncio.run(self._create(NewTopic(name, assignments=assignments, configs=dict(settings or {}))))
        try:
            yield name
        finally:
            asyncio.run(self._delete(name))

    def leader(self, topic: str, partition: int = 0) -> int:
        """Who leads now."""
        return asyncio.run(self._metadata([topic])).topics[topic].partitions[partition].leader

    def controller(self) -> int:
        """Who holds the office now."""
        return asyncio.run(self._metadata([])).controller_id

    def wait_until_in_sync(self, topic: str) -> None:
        """Return when every replica of a topic is. Raises TimeoutError."""
        asyncio.run(self._wait_until_in_sync(topic))

    @contextlib.contextmanager
    def watching_registration(self, broker_id: int) -> Iterator["Registration"]:
        """Look at a broker's ephemeral znode from now on, in a thread of its own."""
        registration = Registration(f"{HOST}:{self._zookeeper.port}", broker_id)
        registration.start()
        try:
            yield registration
        finally:
            registration.stop()

    def wait_until_unregistered(self, broker_id: int) -> None:
        """Return when the session of a broker that was killed has ended. Raises TimeoutError."""
        with self.watching_registration(broker_id) as registration:
            registration.join(_START_S)
        if registration.ended_s is None:
            raise TimeoutError(f"{self}: broker {broker_id} is registered {_START_S:g} s after it was killed")

    def client(self) -> Cluster:
        return Cluster([self.address(broker_id) for broker_id in self.ports], random=random.Random(1))

    async def _create(self, topic: NewTopic) -> None:
        async with self.client() as client:
            outcomes = await Admin(client).create_topics([topic])
            error = outcomes[topic.name]
            # A creation that took longer goes on, and whether the topic is whole is looked at in any case.
            if error and not _is_under_way(error):
                raise error
            async with asyncio.timeout(_START_S):
                while not await _is_whole(client, topic):  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(_POLL_S)
            led: defaultdict[int, list[int]] = defaultdict(list)
            for number, replicas in topic.assignments.items():
                led[replicas[0]].append(number)
            writes = (write_first(self.address(leader), topic.name, *numbers) for leader, numbers in led.items())
            await asyncio.gather(*writes)

    async def _delete(self, name: str) -> None:
        async with self.client() as client:
            try:
                error: ClientError | None = (await Admin(client).delete_topics([name]))[name]
            except ClientError as failed:
                error = failed
        # A deletion that took longer goes on.
        if error is not None and not _is_under_way(error):
            # Its files stay then, and take memory from what is measured next.
            sys.stderr.write(f"{self}: topic {name} is not deleted: {error}\n")

    async def _metadata(self, topics: list[str]) -> ClusterMetadata:
        async with self.client() as client:
            return await client.metadata(topics)

    async def _wait_until_in_sync(self, topic: str) -> None:
        async with self.client() as client, asyncio.timeout(_START_S):
            while not await _is_in_sync(client, topic):  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(_POLL_S)


def _is_under_way(error: ClientError) -> bool:
    """Whether what was asked for goes on."""
    return isinstance(error, KafkaError) and error.error is ErrorCode.REQUEST_TIMED_OUT


def led_in_turn(
    brokers: int, partitions: int, replication_factor: int, *, first_leader: int = 1
) -> dict[int, list[int]]:
    """The replicas of each partition, its leader first, on brokers 1 to `brokers`."""
    return {
        number: [(first_leader - 1 + number + offset) % brokers + 1 for offset in range(replication_factor)]
        for number in range(partitions)
    }


class Registration(threading.Thread):
    """Knows when a broker's ephemeral znode went, which is when its session had ended; then the thread ends."""

    def __init__(self, zookeeper: str, broker_id: int) -> None:
        super().__init__(name=f"registration of broker {broker_id}")
        self.ended_s: float | None = None
        """The performance counter's time, once it has."""
        self._zookeeper = zookeeper
        self._path = paths.broker(broker_id)
        self._is_over = threading.Event()

    def run(self) -> None:
        asyncio.run(self._watch())

    def stop(self) -> None:
        self._is_over.set()
        self.join()

    async def _watch(self) -> None:
        session = KazooSession(self._zookeeper, session_timeout_ms=int(_START_S * 1000))
        await session.open(timeout_ms=int(_START_S * 1000))
        while self.ended_s is None and not self._is_over.is_set():
            if await session.exists(self._path) is None:
                self.ended_s = time.perf_counter()
            await asyncio.sleep(_LOOK_S)
        await session.close()


async def _is_in_sync(client: Cluster, topic: str) -> bool:
    try:
        told = (await client.metadata([topic])).topics.get(topic)
    except ClientError:
        return False
    return told is not None and all(set(each.isr) == set(each.replicas) for each in told.partitions.values())


async def _is_whole(client: Cluster, topic: NewTopic) -> bool:
    try:
        metadata = await client.metadata([topic.name])
    except ClientError:
        return False
    told = metadata.topics.get(topic.name)
    if told is None or len(told.partitions) != len(topic.assignments):
        return False
    return all(
        told.partitions[number].leader == replicas[0] and set(told.partitions[number].isr) == set(replicas)
        for number, replicas in topic.assignments.items()
        if number in told.partitions
    )
