"""Three whole brokers in this process, and a topic with three replicas."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateableTopicConfig, CreateTopicsRequest
from barnabas.protocol.messages.fetch import FetchablePartitionResponse, FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.handlers import create_topics, fetch, produce
from broker.request_context import RequestContext
from broker.serve import Broker
from replication.partition import Partition
from tests.unit.broker.data_broker import answer_of
from tests.unit.broker.whole_broker import BrokerHost, until
from tests.unit.storage.logs import batch

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
T0 = ("t", 0)


def context(broker: Broker, version: int) -> RequestContext:
    return RequestContext(
        broker.services,
        version=version,
        correlation_id=1,
        client_id="t",
        client_host="127.0.0.1",
        listener_name="PLAINTEXT",
    )


class Cluster:
    """Brokers 1 to 3, each in a rack of its own, and partition 0 of topic `t`; `keys` has what else they are told."""

    def __init__(
        self,
        host: BrokerHost,
        *,
        topic: Mapping[str, str] | None = None,
        keys: Mapping[int, Mapping[str, str]] | None = None,
    ) -> None:
        self.host = host
        self.brokers: list[Broker] = []
        self._topic = {"min.insync.replicas": "2", **(topic or {})}
        self._keys = keys or {}

    async def start_broker(self, number: int) -> Broker:
        broker = await self.host.start(
            broker_id=str(number),
            log_dirs=f"{self.host.directory}/{number}",
            broker_rack=f"rack{number}",
            replica_selector_class=RACK_AWARE,
            controlled_shutdown_enable="false",
            **self._keys.get(number, {}),
        )
        self.brokers.append(broker)
        return broker

    async def start(self) -> None:
        for number in (1, 2, 3):
            await self.start_broker(number)
        configs = [CreateableTopicConfig(name, text) for name, text in self._topic.items()]
        topic = CreatableTopic("t", 1, 3, configs=configs)
        request = CreateTopicsRequest([topic], 30_000)
        (result,) = (await create_topics.handle(request, context(self.brokers[0], 5))).topics
        assert result.error_code == ErrorCode.NONE, result
        await until(lambda: any(self.leads(broker) for broker in self.brokers))
        await until(lambda: all(broker.services.replicas.partition(T0) is not None for broker in self.brokers))
        await until(lambda: all(self.partition(broker).leader_id >= 0 for broker in self.brokers))

    def partition(self, broker: Broker) -> Partition:
        partition = broker.services.replicas.partition(T0)
        assert partition is not None
        return partition

    def leads(self, broker: Broker) -> bool:
        partition = broker.services.replicas.partition(T0)
        return partition is not None and partition.is_leader

    @property
    def leader(self) -> Broker:
        (leader,) = filter(self.leads, self.brokers)
        return leader

    @property
    def followers(self) -> list[Broker]:
        return [broker for broker in self.brokers if not self.leads(broker)]

    async def produce(self, value: bytes, *, key: bytes = b"k") -> int:
        data = TopicProduceData("t", [PartitionProduceData(0, batch(value, key=key))])
        response = await answer_of(produce.handle(ProduceRequest(None, -1, 10_000, [data]), context(self.leader, 8)))
        (answer,) = response.responses[0].partitions
        assert answer.error_code == ErrorCode.NONE, answer
        offset: int = answer.base_offset
        return offset

    async def fetch(self, broker: Broker, offset: int, *, rack: str = "") -> tuple[FetchablePartitionResponse, bytes]:
        wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(replica_id=-1, max_wait_ms=0, topics=[FetchTopic("t", [wanted])], rack_id=rack)
        response = await answer_of(fetch.handle(request, context(broker, 12)))
        (answer,) = response.responses[0].partition_responses
        data = b""
        if answer.record_set:
            data = answer.record_set.read()
            answer.record_set.release()
        return answer, data


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    cluster = Cluster(BrokerHost(tmp_path))
    await cluster.start()
    yield cluster
    for broker in cluster.brokers:
        await broker.stop()
    await cluster.host.close()


async def test_what_is_acknowledged_is_on_every_replica_in_sync_and_is_read_in_each_rack(cluster: Cluster) -> None:
    assert [await cluster.produce(b"%d" % number) for number in range(3)] == [0, 1, 2]
    leader = cluster.leader
    assert cluster.partition(leader).log.high_watermark == 3
    _, written = await cluster.fetch(leader, 0)
    assert written
    for follower in cluster.followers:
        assert cluster.partition(follower).log.log_end_offset == 3
        # The leader wakes a follower for it, as consumers may read there.
        await until(lambda follower=follower: cluster.partition(follower).log.high_watermark == 3)
        rack = follower.services.config.broker_rack
        assert rack is not None
        answer, data = await cluster.fetch(leader, 0, rack=rack)
        assert (answer.preferred_read_replica, data) == (follower.broker_id, b"")
        answer, data = await cluster.fetch(follower, 0, rack=rack)
        assert (answer.error_code, data) == (ErrorCode.NONE, written)


async def test_a_follower_that_stops_is_left_out_and_taken_in_again_when_it_is_back(cluster: Cluster) -> None:
    await cluster.produce(b"a")
    leader, gone = cluster.leader, cluster.followers[0]
    await gone.stop()
    cluster.brokers.remove(gone)
    await until(lambda: len(cluster.partition(leader).isr) == 2)
    await cluster.produce(b"b")
    number = gone.broker_id
    back = await cluster.host.start(
        broker_id=str(number), log_dirs=f"{cluster.host.directory}/{number}", controlled_shutdown_enable="false"
    )
    cluster.brokers.append(back)
    await until(lambda: len(cluster.partition(leader).isr) == 3)
    assert cluster.partition(back).log.log_end_offset == 2
    await cluster.produce(b"c")
    assert cluster.partition(back).log.log_end_offset == 3
