"""Who was fenced writes nothing more, and what comes after a transaction's end stays outside: also with new leaders."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import pytest

from barnabas.client import (
    Cluster,
    ClusterOptions,
    Producer,
    ProducerFenced,
    ProducerOptions,
    TopicPartition,
    open_cluster,
)
from barnabas.client.admin import Admin, NewTopic
from barnabas.client.errors import KafkaError
from barnabas.client.transaction_admin import TransactionAdmin
from barnabas.launcher.cluster import LocalCluster
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages import produce
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.records import Record, build_batch
from tests.failover.bank import read_by_librdkafka
from tests.failover.world.view import ClusterView
from tests.support.api_client import ApiConnection
from tests.support.cluster import new_cluster

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

T = TypeVar("T")

TOPIC = "fenced"
PLACE = TopicPartition(TOPIC, 0)
TRANSACTIONAL_ID = "one-of-two"
OPTIONS = ClusterOptions(request_timeout_ms=20_000, timeout_ms=60_000)
TOPICS = (TOPIC, "__transaction_state")
RETRIED = frozenset({ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    properties = {"transaction.state.log.num.partitions": "3", "min.insync.replicas": "2"}
    made = new_cluster(tmp_path_factory.mktemp("zombies"), brokers=3, properties=properties)
    made.start()
    yield made
    made.stop()


def run(cluster: LocalCluster, work: Callable[[Cluster], Awaitable[T]]) -> T:
    async def with_cluster() -> T:
        async with open_cluster(cluster.bootstrap_servers, options=OPTIONS) as client:
            return await work(client)

    return asyncio.run(with_cluster())


@pytest.fixture(scope="module", autouse=True)
def topic(cluster: LocalCluster) -> None:
    run(cluster, lambda client: Admin(client).create_topics([NewTopic(TOPIC, partitions=1, replication_factor=3)]))


def producer(client: Cluster) -> Producer[bytes, bytes]:
    return Producer(client, options=ProducerOptions(transactional_id=TRANSACTIONAL_ID))


def coordinator(cluster: LocalCluster) -> int:
    with ApiConnection(cluster.host, cluster.port(1)) as connection:
        found = connection.call(ApiKey.FIND_COORDINATOR, 1, FindCoordinatorRequest(TRANSACTIONAL_ID, 1))
    assert found.error_code == ErrorCode.NONE
    return int(found.node_id)


def replace_broker(cluster: LocalCluster, broker: int) -> None:
    """Kill it, and start it again when others lead what it led; returns when it has all of it."""
    view = ClusterView(cluster.connect_string)
    try:
        cluster.kill(broker)
        view.wait_until(lambda: not view.led_by(broker, TOPICS), f"others for broker {broker}", seconds=60)
        cluster.start_broker(broker)
        view.await_full_isr(TOPICS, 3, seconds=60)
    finally:
        view.close()


def test_a_zombie_is_fenced_by_a_coordinator_that_has_only_read_of_it(cluster: LocalCluster) -> None:
    async def work(client: Cluster) -> None:
        async with producer(client) as zombie:
            zombie.begin_transaction()
            await zombie.send_and_wait(TOPIC, None, b"zombie", partition=0)
            async with producer(client) as living:
                await asyncio.to_thread(replace_broker, cluster, coordinator(cluster))
                with pytest.raises(ProducerFenced):
                    await zombie.commit_transaction()
                async with living.transaction():
                    await living.send(TOPIC, None, b"living", partition=0)
            with pytest.raises(ProducerFenced):
                zombie.begin_transaction()

    run(cluster, work)
    values = read_by_librdkafka(cluster.bootstrap_servers, TOPIC, 1)[0]
    assert b"zombie" not in values
    assert b"living" in values


async def completed(client: Cluster) -> None:
    """Its markers are written, which the producer's last call did not wait for."""
    async with asyncio.timeout(60):
        while not (await TransactionAdmin(client).describe(TRANSACTIONAL_ID)).state.startswith("Complete"):  # noqa: ASYNC110 - what changes is in a broker
            await asyncio.sleep(0.02)


async def write_late(client: Cluster, identity: tuple[int, int], *, sequence: int) -> ErrorCode:
    """A produce request of that producer as the network may have kept it; what the leader says, when it can tell."""
    batch = build_batch(
        [Record(0, 1000, None, b"late")],
        producer_id=identity[0],
        producer_epoch=identity[1],
        base_sequence=sequence,
        transactional=True,
    )
    data = [TopicProduceData(TOPIC, [PartitionProduceData(0, batch)])]
    request = ProduceRequest(TRANSACTIONAL_ID, -1, 10_000, data)

    async def attempt() -> ErrorCode:
        response = await client.ask((await client.leader(PLACE)).node_id, produce.API, request)
        code = ErrorCode(response.responses[0].partitions[0].error_code)
        if code in RETRIED:
            client.forget(TOPIC)
            raise KafkaError(code)
        return code

    return await client.patiently(attempt)


@pytest.mark.parametrize("replaced", ["nobody", "leader", "coordinator"])
def test_what_comes_after_the_end_of_its_transaction_does_not_enter_the_log(
    cluster: LocalCluster, replaced: str
) -> None:
    async def work(client: Cluster) -> tuple[ErrorCode, int, int]:
        async with producer(client) as mine:
            for wanted in (True, False):
                mine.begin_transaction()
                await mine.send_and_wait(TOPIC, None, b"%d" % wanted, partition=0)
                await (mine.commit_transaction() if wanted else mine.abort_transaction())
            assert mine._transactions is not None
            identity = mine._transactions.identity
        await completed(client)
        if replaced != "nobody":
            leader = (await client.leader(PLACE)).node_id
            await asyncio.to_thread(replace_broker, cluster, leader if replaced == "leader" else coordinator(cluster))
        before = (await Admin(client).list_offsets({PLACE: -1}))[PLACE].offset
        code = await write_late(client, identity, sequence=2)
        return code, before, (await Admin(client).list_offsets({PLACE: -1}))[PLACE].offset

    code, before, after = run(cluster, work)
    assert code == ErrorCode.INVALID_TXN_STATE
    assert after == before
    assert run(cluster, write_behind) == after
    assert read_by_librdkafka(cluster.bootstrap_servers, TOPIC, 1)[0][-1] == b"behind"


async def write_behind(client: Cluster) -> int:
    """Without a transaction; its offset. Readers of committed records get there when no transaction is open."""
    async with Producer(client) as plain:
        return (await plain.send_and_wait(TOPIC, None, b"behind", partition=0)).offset
