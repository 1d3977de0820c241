"""Transactions over three whole brokers: a coordinator, the partitions and who asks are on different ones."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from barnabas.client import Producer, ProducerOptions, open_cluster
from barnabas.coordinator.transactions import requests
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from broker.internal_topics import TRANSACTION_STATE
from tests.unit.broker.test_replicated_brokers import Cluster
from tests.unit.broker.whole_broker import BrokerHost, until

T0 = TopicPartition("t", 0)
IDS = [f"id {number}" for number in range(6)]


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    keys = {"transaction_state_log_num_partitions": "6"}
    cluster = Cluster(BrokerHost(tmp_path), keys=dict.fromkeys((1, 2, 3), keys))
    await cluster.start()
    yield cluster
    for broker in cluster.brokers:
        await broker.stop()
    await cluster.host.close()
    assert not cluster.host.failures


async def coordinator_of(cluster: Cluster, transactional_id: str) -> int:
    services = cluster.leader.services
    number = await services.coordination.partition_of(TRANSACTION_STATE, transactional_id)
    assert number is not None
    known = services.metadata.partition(TopicPartition(TRANSACTION_STATE, number))
    assert known is not None
    return known.leader


async def test_transactions_are_ended_whoever_coordinates_them(cluster: Cluster) -> None:
    services = cluster.leader.services
    endpoint = services.metadata.brokers_on("PLAINTEXT")[services.broker_id]
    identities = {}
    async with open_cluster(f"{endpoint.host}:{endpoint.port}") as client:
        for number, transactional_id in enumerate(IDS):
            options = ProducerOptions(transactional_id=transactional_id)
            async with Producer(client, options=options) as producer:
                for turn in range(4):
                    producer.begin_transaction()
                    await producer.send_and_wait("t", b"key", b"value")
                    await (producer.commit_transaction() if (number + turn) % 2 else producer.abort_transaction())
                assert producer._transactions is not None
                identities[transactional_id] = producer._transactions.identity
    coordinators = {await coordinator_of(cluster, each) for each in IDS}
    assert coordinators - {services.broker_id}, "none of them is coordinated by another broker"
    log = cluster.partition(cluster.leader).log
    await until(lambda: log.producers.first_unstable_offset is None and log.high_watermark == log.log_end_offset)
    # A record and a marker for each.
    assert log.log_end_offset == 2 * 4 * len(IDS)
    for transactional_id, (producer_id, epoch) in identities.items():
        late = requests.Producer(transactional_id, producer_id, epoch)
        assert await services.coordination.verify(late, T0, marked_epoch=-1) is ErrorCode.INVALID_TXN_STATE
