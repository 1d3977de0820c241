"""Where segments begin, as leaders tell it."""

import pytest

from barnabas.client.cluster import Cluster
from barnabas.client.errors import KafkaError
from barnabas.client.segment_starts import segment_starts
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey, TopicPartition
from barnabas.protocol.messages.list_offsets import (
    ListOffsetPartitionResponse,
    ListOffsetResponse,
    ListOffsetTopicResponse,
)
from tests.unit.client.small_cluster import Asked, SmallCluster
from tests.unit.client.test_batch_probe import fill

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


async def test_starts_rise(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t", 2)
    fill(small, T0, 3)
    fill(small, T1, 1)
    assert await segment_starts(cluster, iter([T0, T1])) == {T0: [0, 3, 6, 9], T1: [0, 3]}


async def test_another_leader_is_asked(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t")
    fill(small, T0, 1)
    await segment_starts(cluster, [T0])
    small.logs[T0].leader = 2
    assert await segment_starts(cluster, [T0]) == {T0: [0, 3]}


async def test_a_leader_is_asked_once_about_all_its_partitions(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t", 3)
    small.add_topic("u")
    here, there = [T0, T1, TopicPartition("u", 0)], TopicPartition("t", 2)
    for each in here:
        small.logs[each].leader = 1
    small.logs[there].leader = 2
    for at, each in enumerate([*here, there]):
        fill(small, each, at)
    assert await segment_starts(cluster, [there, *here]) == {
        T0: [0],
        T1: [0, 3],
        here[2]: [0, 3, 6],
        there: [0, 3, 6, 9],
    }
    assert small.keys_asked().count(ApiKey.LIST_OFFSETS) == 2


async def test_what_was_told_is_not_asked_again(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t", 2)
    small.logs[T0].leader = small.logs[T1].leader = 1
    moved = [ListOffsetPartitionResponse(0, old_style_offsets=[7]), ListOffsetPartitionResponse(1, NOT_LEADER)]

    def move(asked: Asked) -> ListOffsetResponse | None:
        if asked.key is not ApiKey.LIST_OFFSETS:
            return None
        small.on_request = lambda _: None
        return ListOffsetResponse(topics=[ListOffsetTopicResponse("t", moved)])

    small.on_request = move
    assert await segment_starts(cluster, [T0, T1]) == {T0: [7], T1: [0]}
    asked = [each.request.topics[0].partitions for each in small.asked if each.key is ApiKey.LIST_OFFSETS]
    assert [[part.partition_index for part in each] for each in asked] == [[0, 1], [1]]


async def test_what_a_leader_refuses_is_told(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t")
    refused = ListOffsetPartitionResponse(0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    def refuse(asked: Asked) -> ListOffsetResponse | None:
        if asked.key is not ApiKey.LIST_OFFSETS:
            return None
        return ListOffsetResponse(topics=[ListOffsetTopicResponse("t", [refused])])

    small.on_request = refuse
    with pytest.raises(KafkaError, match="t-0"):
        await segment_starts(cluster, [T0])


async def test_a_broker_without_the_version_tells_nothing(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t")
    small.oldest[ApiKey.LIST_OFFSETS] = 1
    assert await segment_starts(cluster, [T0]) == {T0: []}
