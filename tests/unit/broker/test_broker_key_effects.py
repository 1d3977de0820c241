"""What the remaining keys of a broker do, on whole brokers in this process with an in-memory ZooKeeper."""

import asyncio
import random
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import LeaderEpoch, TopicPartition
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from barnabas.runtime.clock import SystemClock
from barnabas.runtime.disk import SystemDisk
from barnabas.runtime.offload import SystemOffload
from barnabas.runtime.tasks import Supervisor
from broker.config import BrokerConfig, resolve_broker_config
from broker.handlers import create_topics, fetch, init_producer_id, metadata
from broker.request_context import RequestContext
from broker.serve import Broker, Ports, StartFailed, serve
from broker.system_ports import open_control_plane, open_network
from replication.partition import ALL_REPLICAS, Partition, PartitionRefused
from tests.unit.storage.logs import batch
from zk_schema import paths
from zk_schema.memory import MemorySession, MemoryZooKeeper
from zk_schema.payloads import BrokerRegistration

Start = Callable[..., Awaitable[Broker]]


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.005)


@pytest.fixture
async def zookeeper() -> MemoryZooKeeper:
    return MemoryZooKeeper()


@pytest.fixture
async def start(zookeeper: MemoryZooKeeper, tmp_path: Path, seed: int) -> AsyncIterator[Start]:
    """Starts brokers; what they say of a failure fails the test."""
    offload, failures = SystemOffload(), []
    supervisor = Supervisor(lambda what, error: failures.append(f"{what}: {error!r}"))
    brokers: list[Broker] = []

    async def open_zookeeper(config: BrokerConfig) -> MemorySession:
        session = MemorySession(zookeeper, session_timeout_ms=config.zookeeper_session_timeout_ms)
        await session.open()
        return session

    async def started(**keys: str) -> Broker:
        given = {
            "zookeeper.connect": "memory",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dir": str(tmp_path / "logs"),
        }
        given |= {name.replace("_", "."): text for name, text in keys.items()}
        ports = Ports(
            clock=SystemClock(),
            disk=SystemDisk(),
            offload=offload,
            supervisor=supervisor,
            random=random.Random(seed),
            open_network=open_network,
            open_zookeeper=open_zookeeper,
            open_control_plane=open_control_plane,
        )
        broker = await serve(ports, resolve_broker_config(given))
        brokers.append(broker)
        return broker

    yield started
    for broker in brokers:
        await broker.stop()
    await supervisor.stop()
    offload.close()
    assert failures == []


def context(broker: Broker, version: int) -> RequestContext:
    return RequestContext(
        broker.services,
        version=version,
        correlation_id=1,
        client_id="t",
        client_host="127.0.0.1",
        listener_name="PLAINTEXT",
    )


async def make_topic(broker: Broker, name: str = "t", *, timeout_ms: int = 10_000) -> ErrorCode:
    request = CreateTopicsRequest([CreatableTopic(name, -1, -1)], timeout_ms)
    (result,) = (await create_topics.handle(request, context(broker, 6))).topics
    return ErrorCode(result.error_code)


async def partition_of(broker: Broker, name: str = "t", number: int = 0) -> Partition:
    assert await make_topic(broker, name) is ErrorCode.NONE
    partition = broker.services.replicas.partition(TopicPartition(name, number))
    assert partition is not None
    return partition


def registration(zookeeper: MemoryZooKeeper, broker: Broker) -> BrokerRegistration:
    znode = zookeeper.tree.get(paths.broker(broker.broker_id))
    assert znode is not None
    return BrokerRegistration.decode(znode.data)


async def test_a_broker_without_an_id_gets_one_above_the_reserved(start: Start) -> None:
    assert (await start(reserved_broker_max_id="2000")).broker_id == 2001


async def test_a_broker_has_the_id_that_it_was_given(start: Start) -> None:
    assert (await start(broker_id="7", broker_id_generation_enable="false")).broker_id == 7


async def test_what_others_are_told_is_registered(start: Start, zookeeper: MemoryZooKeeper) -> None:
    broker = await start(
        broker_id="1",
        broker_rack="r1",
        listeners="A://127.0.0.1:0,B://127.0.0.1:0",
        advertised_listeners="A://a.example:1,B://b.example:2",
        listener_security_protocol_map="A:PLAINTEXT,B:PLAINTEXT",
        inter_broker_listener_name="A",
    )
    told = registration(zookeeper, broker)
    assert [str(each) for each in told.endpoints] == ["A://a.example:1", "B://b.example:2"]
    assert told.rack == "r1"
    assert broker.services.metadata.brokers[broker.broker_id].rack == "r1"


async def test_the_controller_is_heard_where_it_was_told(start: Start, zookeeper: MemoryZooKeeper) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    broker = await start(barnabas_control_listener=f"127.0.0.1:{port}")
    assert registration(zookeeper, broker).control_endpoint == f"127.0.0.1:{port}"


async def test_metrics_are_shown_where_it_was_told(start: Start) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    await start(barnabas_metrics_port=str(port))
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
    assert b"kafka_controller_kafkacontroller_activecontrollercount 1.0" in await reader.read()
    writer.close()


async def test_logs_lie_in_the_directories_that_were_told(start: Start, tmp_path: Path) -> None:
    directories = [tmp_path / "one", tmp_path / "two"]
    broker = await start(log_dirs=",".join(map(str, directories)), num_partitions="2")
    assert await make_topic(broker) is ErrorCode.NONE
    assert sorted(path.name for each in directories for path in each.glob("t-*")) == ["t-0", "t-1"]
    assert all(list(each.glob("t-*")) for each in directories)


async def test_a_single_directory_can_be_told(start: Start, tmp_path: Path) -> None:
    broker = await start(log_dir=str(tmp_path / "one"))
    await partition_of(broker)
    assert (tmp_path / "one" / "t-0").is_dir()


@pytest.mark.parametrize(
    ("key", "file"),
    [
        ("log_flush_offset_checkpoint_interval_ms", "recovery-point-offset-checkpoint"),
        ("log_flush_start_offset_checkpoint_interval_ms", "log-start-offset-checkpoint"),
        ("replica_high_watermark_checkpoint_interval_ms", "replication-offset-checkpoint"),
    ],
)
async def test_a_checkpoint_is_written_at_its_interval(start: Start, tmp_path: Path, key: str, file: str) -> None:
    broker = await start(**{key: "20"})
    partition = await partition_of(broker)
    partition.try_append(batch(b"a", b"b"), acks=ALL_REPLICAS)
    partition.log.flush()
    partition.log.advance_log_start_offset(1)
    path = tmp_path / "logs" / file
    await until(lambda: path.exists() and "\nt 0 " in path.read_text())


async def test_old_segments_are_searched_for_at_an_interval(start: Start) -> None:
    broker = await start(log_retention_check_interval_ms="20", log_retention_ms="1")
    partition = await partition_of(broker)
    partition.try_append(batch(b"a", timestamp=1), acks=ALL_REPLICAS)
    await until(lambda: partition.log.log_start_offset == 1)


async def test_an_idle_producer_is_forgotten_after_its_time(start: Start) -> None:
    broker = await start(log_retention_check_interval_ms="20", transactional_id_expiration_ms="1")
    partition = await partition_of(broker)
    partition.try_append(batch(b"a", producer=(5, 0, 0)), acks=ALL_REPLICAS)
    await until(lambda: partition.log.producers.get(5) is None)


async def test_a_topic_made_without_numbers_takes_the_brokers(start: Start) -> None:
    broker = await start(num_partitions="3")
    assert await make_topic(broker) is ErrorCode.NONE
    assert len(broker.services.metadata.partitions("t")) == 3


@pytest.mark.parametrize(
    ("enabled", "error"),
    [("true", ErrorCode.LEADER_NOT_AVAILABLE), ("false", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)],
)
async def test_a_topic_that_is_asked_for_is_made_only_where_enabled(
    start: Start, enabled: str, error: ErrorCode
) -> None:
    broker = await start(auto_create_topics_enable=enabled)
    result = metadata.handle(MetadataRequest([MetadataRequestTopic("new")]), context(broker, 4))
    assert not isinstance(result, MetadataResponse)
    assert (await result).topics[0].error_code == error


async def test_too_few_replicas_in_sync_refuse_acks_of_all(start: Start) -> None:
    partition = await partition_of(await start(min_insync_replicas="2"))
    with pytest.raises(PartitionRefused) as refused:
        partition.try_append(batch(b"a"), acks=ALL_REPLICAS)
    assert refused.value.error is ErrorCode.NOT_ENOUGH_REPLICAS
    assert partition.try_append(batch(b"a"), acks=1) is not None
    assert partition.leader_epoch == LeaderEpoch(0)


@pytest.mark.parametrize(("keys", "batches"), [({}, 3), ({"fetch_max_bytes": "1500"}, 1)])
async def test_a_fetch_is_answered_with_no_more_bytes_than_told(
    start: Start, keys: dict[str, str], batches: int
) -> None:
    broker = await start(**keys)
    partition = await partition_of(broker)
    infos = [partition.try_append(batch(b"v" * 900), acks=ALL_REPLICAS) for _ in range(3)]
    assert infos[0] is not None
    wanted = FetchTopic("t", [FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)])
    request = FetchRequest(replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=[wanted])
    response = fetch.handle(request, context(broker, 4))
    (answered,) = response.responses[0].partition_responses
    whole, _ = divmod(len(answered.record_set), infos[0].size_bytes)
    assert whole == batches
    assert len(answered.record_set) <= broker.services.config.fetch_max_bytes
    answered.record_set.release()


async def test_a_transaction_may_not_ask_for_more_time_than_allowed(start: Start) -> None:
    broker = await start(transaction_max_timeout_ms="5000")
    for timeout_ms, error in (
        (5000, ErrorCode.NOT_COORDINATOR),
        (5001, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
    ):
        request = InitProducerIdRequest("t", timeout_ms)
        assert (await init_producer_id.handle(request, context(broker, 4))).error_code == error


async def test_no_more_fetch_sessions_are_kept_than_there_are_slots(start: Start) -> None:
    broker = await start(max_incremental_fetch_session_cache_slots="2")
    await partition_of(broker)
    topic = FetchTopic("t", [FetchPartition(0, fetch_offset=0, partition_max_bytes=100)])
    sessions = []
    for _ in range(3):
        request = FetchRequest(replica_id=-1, max_wait_ms=0, session_id=0, session_epoch=0, topics=[topic])
        response = fetch.handle(request, context(broker, 11))
        assert isinstance(response, FetchResponse)
        sessions.append(response.session_id)
    assert [session > 0 for session in sessions] == [True, True, False]


@pytest.mark.parametrize("threads", ["1", "4"])
async def test_logs_are_loaded_by_any_number_of_threads(start: Start, tmp_path: Path, threads: str) -> None:
    broker = await start(broker_id="1", num_partitions="5")
    assert await make_topic(broker) is ErrorCode.NONE
    await broker.stop()
    again = await start(broker_id="1", num_recovery_threads_per_data_dir=threads)
    await until(lambda: len(again.services.replicas.partitions()) == 5)


async def test_an_address_in_use_stops_the_start_and_names_the_listener(start: Start) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(StartFailed, match="listeners="):
            await start(listeners=f"PLAINTEXT://127.0.0.1:{taken.getsockname()[1]}")


async def test_the_controller_balances_as_it_was_told(start: Start) -> None:
    """What the controller does with these is shown in tests/unit/controller/test_leader_requests.py."""
    keys = {
        "auto.leader.rebalance.enable": "false",
        "leader.imbalance.per.broker.percentage": "25",
        "leader.imbalance.check.interval.seconds": "7",
    }
    settings = (await start(**keys)).services.controller._settings
    assert settings.auto_leader_rebalance_enable is False
    assert settings.leader_imbalance_per_broker_percentage == 25
    assert settings.leader_imbalance_check_interval_ms == 7_000
