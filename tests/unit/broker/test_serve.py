"""The life of a whole broker: what a start does, what a failed one leaves behind (nothing), and what a stop keeps."""

import asyncio
import errno
import socket
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerId, TopicPartition
from barnabas.runtime.disk import SystemDisk
from barnabas.runtime.files import Buffer, File
from barnabas.runtime.network import Network
from barnabas.runtime.offload import Offload
from barnabas.runtime.tasks import Supervisor
from broker import membership
from broker.config import BrokerConfig
from broker.config_keys.key import ConfigError
from broker.serve import Broker, StartFailed
from replication.partition import PartitionRefused
from tests.support.api_client import ApiConnection
from tests.support.file_around import FileAround
from tests.unit.broker.whole_broker import BrokerHost, listening_ports, make_topic, until
from tests.unit.storage.logs import batch, read_bytes
from zk_schema import paths
from zk_schema.cluster_id import create_path
from zk_schema.memory import MemorySession
from zk_schema.ops import Create
from zk_schema.payloads import BrokerRegistration, ControllerRegistration, Endpoint

T0 = TopicPartition("t", 0)


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[BrokerHost]:
    host = BrokerHost(tmp_path)
    yield host
    await host.close()


@pytest.fixture
async def tool(host: BrokerHost) -> AsyncIterator[MemorySession]:
    """Another session on the same ZooKeeper."""
    session = MemorySession(host.zookeeper)
    await session.open()
    yield session
    await session.close()


def port_of(broker: Broker) -> int:
    endpoint = broker.services.metadata.brokers[broker.broker_id].endpoints[0]
    return endpoint.port


async def talk(broker: Broker, *values: bytes) -> bytes:
    """Produce through a socket and fetch it back."""

    def blocking() -> bytes:
        with ApiConnection("127.0.0.1", port_of(broker)) as connection:
            for value in values:
                assert connection.produce(T0, value).error_code == ErrorCode.NONE
            return connection.fetch_bytes(T0, 0)

    return await asyncio.to_thread(blocking)


# A life.


async def test_a_broker_serves_what_it_was_sent_and_after_a_stop_again(host: BrokerHost) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    broker = await host.start(barnabas_metrics_port=str(port))
    assert port in listening_ports()
    (partition,) = await make_topic(broker)
    sent = await talk(broker, b"a", b"b")
    assert sent == read_bytes(partition.log, 0)
    await broker.stop()
    await host.until_nothing_remains()
    assert (host.directory / "a" / ".kafka_cleanshutdown").exists()
    again = await host.start()
    await until(lambda: again.services.replicas.partition(T0) is not None)
    assert (await talk(again, b"c")).startswith(sent)
    await again.stop()
    await host.until_nothing_remains()


async def test_a_broker_is_told_of_itself_before_it_serves(host: BrokerHost) -> None:
    broker = await host.start()
    assert list(broker.services.metadata.brokers) == [1]
    assert broker.services.controller.is_active
    assert port_of(broker) in listening_ports()
    assert (host.directory / "a" / "meta.properties").read_text().count("broker.id=1") == 1
    await broker.stop()


async def test_who_is_being_served_when_the_broker_stops_is_cut_off(host: BrokerHost) -> None:
    broker = await host.start()
    (partition,) = await make_topic(broker)
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(broker))
    await broker.stop()
    assert await reader.read() == b""
    writer.close()
    with pytest.raises(PartitionRefused):
        partition.try_append(batch(b"late"), acks=1)
    await host.until_nothing_remains()


async def test_nothing_that_was_acknowledged_is_lost_by_a_stop_under_load(host: BrokerHost) -> None:
    broker = await host.start()
    partitions = await make_topic(broker, partitions=4)
    acknowledged = [0] * 4

    def produce(number: int) -> None:
        try:
            with ApiConnection("127.0.0.1", port) as connection:
                while True:
                    answer = connection.produce(TopicPartition("t", number), b"v" * 100)
                    assert answer.error_code == ErrorCode.NONE
                    acknowledged[number] = answer.base_offset + 1
        except (ConnectionError, OSError):
            return
        except Exception as error:
            if type(error).__name__ != "ConnectionClosed":
                raise

    port = port_of(broker)
    producing = [asyncio.get_running_loop().run_in_executor(None, produce, number) for number in range(4)]
    await until(lambda: min(acknowledged) >= 20)
    partitions[0].directory.pace.slowest_us = 1_000_000
    partitions[1].directory.pace.slowest_us = 1_000_000
    await broker.stop()
    await asyncio.gather(*producing)
    await host.until_nothing_remains()
    again = await host.start()
    await until(lambda: len(again.services.replicas.partitions()) == 4)
    logs = {log.topic_partition.partition: log for log in again.services.log_directories.logs()}
    ends = [logs[number].log_end_offset for number in range(4)]
    assert all(end >= known for end, known in zip(ends, acknowledged, strict=True))
    await again.stop()


class GatedDisk(SystemDisk):
    """A disk that writes records only while its gate is open."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.waits = threading.Event()

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        file = super().open(path, create=create, writable=writable)
        return GatedFile(self, file) if path.endswith(".log") else file


class GatedFile(FileAround):
    __slots__ = ("_disk",)

    def __init__(self, disk: GatedDisk, file: File) -> None:
        super().__init__(file)
        self._disk = disk

    def pwrite(self, data: Buffer, position: int) -> None:
        if not self._disk.gate.is_set():
            self._disk.waits.set()
            assert self._disk.gate.wait(10)
        super().pwrite(data, position)


async def test_a_stop_waits_for_the_record_that_is_being_written(host: BrokerHost) -> None:
    host.disk = disk = GatedDisk()
    broker = await host.start()
    (partition,) = await make_topic(broker)
    partition.directory.pace.slowest_us = 1_000_000
    partition.directory.writes_inline = False
    disk.gate.clear()
    appending = asyncio.get_running_loop().create_task(partition.append(batch(b"a"), acks=1))
    assert await asyncio.to_thread(disk.waits.wait, 10)
    stopping = asyncio.get_running_loop().create_task(broker.stop())
    await asyncio.sleep(0.1)
    assert not stopping.done()
    disk.gate.set()
    assert (await appending).first_offset == 0
    await stopping
    again = await host.start()
    assert [log.log_end_offset for log in again.services.log_directories.logs()] == [1]
    await again.stop()


async def test_a_directory_that_fails_takes_its_partitions_and_the_last_one_the_broker(host: BrokerHost) -> None:
    broker = await host.start()
    first, second = await make_topic(broker, partitions=2)
    first.directory.fail(OSError(errno.EIO, "gone"))
    assert (first.is_offline, second.is_offline) == (True, False)
    assert host.failures == []
    second.directory.fail(OSError(errno.EIO, "gone"))
    assert len(host.failures) == 1
    assert host.failures[0].startswith("the last log directory")
    host.failures.clear()
    await broker.stop()
    await host.until_nothing_remains()


async def test_a_session_that_expires_is_followed_by_another_registration_and_the_broker_serves_on(
    host: BrokerHost,
) -> None:
    broker = await host.start()
    await make_topic(broker)
    before = broker._membership.broker_epoch
    host.zookeeper.expire(host.sessions[0])
    await until(lambda: broker._membership.broker_epoch > before)
    await until(lambda: broker.services.controller.is_active)
    await until(lambda: (found := broker.services.replicas.partition(T0)) is not None and found.is_leader)
    assert await talk(broker, b"a") != b""
    assert host.failures == []
    await broker.stop()
    await host.until_nothing_remains()


# Starts that fail. Each leaves nothing behind, and the next start with the cause removed succeeds.


async def fails(host: BrokerHost, match: str, **keys: str) -> None:
    with pytest.raises(StartFailed, match=match):
        await host.start(**keys)
    await host.until_nothing_remains()


async def succeeds(host: BrokerHost, **keys: str) -> None:
    broker = await host.start(**keys)
    await broker.stop()
    await host.until_nothing_remains()


async def test_zookeeper_that_is_away_stops_the_start(host: BrokerHost) -> None:
    host.zookeeper.stop()
    await fails(host, r"zookeeper\.connect=memory")
    host.zookeeper.start()
    await succeeds(host)


async def test_a_cluster_id_that_cannot_be_read_stops_the_start(host: BrokerHost) -> None:
    tool = MemorySession(host.zookeeper)
    await tool.open()
    await create_path(tool, paths.CLUSTER_ID, b"nonsense")
    await tool.close()
    await fails(host, "/cluster/id")


@pytest.mark.parametrize("taken", ["a", "b"])
async def test_a_directory_in_use_stops_the_start(host: BrokerHost, taken: str) -> None:
    (host.directory / taken).mkdir()
    lock = host.disk.lock(str(host.directory / taken / ".lock"))
    with pytest.raises(StartFailed, match="in use"):
        await host.start()
    assert host.remains() == [f"lock {taken}"]
    lock.release()
    await succeeds(host)


async def test_directories_of_another_broker_stop_the_start(host: BrokerHost) -> None:
    await succeeds(host)
    await fails(host, r"broker\.id=2", broker_id="2")


async def test_directories_of_another_cluster_stop_the_start(host: BrokerHost) -> None:
    await succeeds(host)
    path = host.directory / "b" / "meta.properties"
    path.write_text("version=0\nbroker.id=1\ncluster.id=elsewhere\n")
    await fails(host, "elsewhere")


async def test_a_partition_that_is_there_twice_stops_the_start(host: BrokerHost) -> None:
    for name in ("a", "b"):
        (host.directory / name / "t-0").mkdir(parents=True)
    await fails(host, "t-0 is in")
    (host.directory / "b" / "t-0" / "00000000000000000000.log").unlink()
    for file in (host.directory / "b" / "t-0").iterdir():
        file.unlink()
    (host.directory / "b" / "t-0").rmdir()
    await succeeds(host)


async def test_a_network_that_cannot_be_set_up_stops_the_start(host: BrokerHost) -> None:
    good = host.open_network

    def broken(config: BrokerConfig, offload: Offload, supervisor: Supervisor) -> Network:
        raise ConfigError("max.connections.per.ip.overrides", "nowhere", "a host that can be found")

    host.open_network = broken
    await fails(host, "nowhere")
    host.open_network = good
    await succeeds(host)


async def test_a_listener_that_cannot_be_bound_stops_the_start_and_the_ones_before_it(host: BrokerHost) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        host._ports_before.add(port)
        await fails(
            host,
            "listeners=",
            listeners=f"A://127.0.0.1:0,B://127.0.0.1:{port}",
            listener_security_protocol_map="A:PLAINTEXT,B:PLAINTEXT",
            inter_broker_listener_name="A",
        )
        await fails(host, "listeners=", listeners="PLAINTEXT://no..host:0")
        await fails(host, r"barnabas\.control\.listener", barnabas_control_listener=f"127.0.0.1:{port}")
        await fails(host, r"barnabas\.metrics\.port", barnabas_metrics_port=str(port))
    await succeeds(host)


async def test_an_id_that_another_broker_holds_stops_the_start(
    host: BrokerHost, tool: MemorySession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(membership, "_EXPIRY_GRACE_MS", 0)
    await create_path(tool, paths.BROKER_IDS)
    held = BrokerRegistration((Endpoint("PLAINTEXT", "elsewhere", 1, "PLAINTEXT"),), 0).encode()
    await tool.write(Create(paths.broker(1), held, ephemeral=True))
    with pytest.raises(StartFailed, match="elsewhere"):
        await host.start(zookeeper_session_timeout_ms="100")
    await until(lambda: len(host.remains()) == 1)
    assert host.remains() == [f"session {tool.session_id:#x}"]


async def test_all_directories_that_fail_stop_the_start(host: BrokerHost) -> None:
    for name in ("a", "b"):
        (host.directory / name).write_text("a file")
    with pytest.raises(StartFailed, match="no log directory can be used"):
        await host.start()
    assert host.remains() == []
    # They have failed one after the other, and after the last of them the process would have ended.
    host.failures.clear()


async def test_a_start_that_is_given_up_while_it_waits_for_a_controller_leaves_nothing(
    host: BrokerHost, tool: MemorySession
) -> None:
    elsewhere = ControllerRegistration(BrokerId(9), 0).encode()
    await tool.write(Create(paths.CONTROLLER, elsewhere, ephemeral=True))
    starting = asyncio.get_running_loop().create_task(host.start())
    await until(lambda: any(task.get_name() == "finalized features" for task in host.supervisor._tasks))
    await asyncio.sleep(0.05)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await until(lambda: len(host.remains()) == 1)
    assert host.remains() == [f"session {tool.session_id:#x}"]


@pytest.mark.parametrize("step", [0, 15, 30, 60, 90, 130, 180, 240])
async def test_a_start_that_is_given_up_at_any_moment_leaves_nothing(host: BrokerHost, step: int) -> None:
    starting = asyncio.get_running_loop().create_task(host.start())
    for _ in range(step):
        await asyncio.sleep(0)
    if starting.done():
        await (await starting).stop()
    else:
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
    await host.until_nothing_remains()
