"""Who looks after transactions, in virtual time: leaders that are not there any more."""

from typing import Any

from barnabas.client.transaction_admin import TransactionAdmin
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey, TopicPartition
from barnabas.protocol.messages.describe_producers import (
    DescribeProducersPartitionResponse,
    DescribeProducersResponse,
    DescribeProducersTopicResponse,
)
from barnabas.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from tests.support.virtual_time import virtual_time
from tests.unit.client.memory_wire import MemoryWire
from tests.unit.client.small_cluster import Asked, Hangup, SmallCluster

T0 = TopicPartition("t", 0)


def led_by_the_second() -> SmallCluster:
    """Broker 1 leads the partition until it is asked; then it is gone and broker 2 does."""
    small = SmallCluster(brokers=2)
    small.add_topic("t")

    def answer(asked: Asked) -> Any:
        if asked.key not in (ApiKey.DESCRIBE_PRODUCERS, ApiKey.WRITE_TXN_MARKERS):
            return None
        if asked.node_id == 1:
            small.logs[T0].leader = 2
            raise Hangup
        if asked.key is ApiKey.DESCRIBE_PRODUCERS:
            partition = DescribeProducersPartitionResponse(0)
            return DescribeProducersResponse(topics=[DescribeProducersTopicResponse("t", [partition])])
        topics = [WritableTxnMarkerTopicResult("t", [WritableTxnMarkerPartitionResult(0, ErrorCode.NONE)])]
        return WriteTxnMarkersResponse([WritableTxnMarkerResult(7, topics)])

    small.on_request = answer
    return small


def asked_of(small: SmallCluster, key: ApiKey) -> list[int]:
    return [each.node_id for each in small.asked if each.key is key]


@virtual_time
async def test_producers_are_asked_for_elsewhere_when_a_leader_is_not_there() -> None:
    small = led_by_the_second()
    async with MemoryWire(small).cluster() as cluster:
        await cluster.topic("t")
        assert await TransactionAdmin(cluster).producers([T0]) == {T0: []}
    assert asked_of(small, ApiKey.DESCRIBE_PRODUCERS) == [1, 2]


@virtual_time
async def test_an_abort_is_written_elsewhere_when_a_leader_is_not_there() -> None:
    small = led_by_the_second()
    async with MemoryWire(small).cluster() as cluster:
        await cluster.topic("t")
        await TransactionAdmin(cluster).abort(T0, producer_id=7, producer_epoch=1, coordinator_epoch=3)
    assert asked_of(small, ApiKey.WRITE_TXN_MARKERS) == [1, 2]
