"""Looking at single batches: the one that holds an offset, the next one, none."""

import pytest

from barnabas.client.batch_probe import headers_at
from barnabas.client.cluster import Cluster
from barnabas.client.errors import KafkaError, ProtocolViolation
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey, TopicPartition
from barnabas.protocol.messages.fetch import FetchablePartitionResponse, FetchableTopicResponse, FetchResponse
from barnabas.protocol.records import Record, build_batch
from tests.unit.client.small_cluster import Asked, SmallCluster

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def fill(small: SmallCluster, part: TopicPartition, batches: int) -> None:
    for number in range(batches):
        small.logs[part].append(build_batch([Record(0, 0, None, b"%d" % number)] * 3))


async def test_the_batch_that_holds_an_offset_is_found(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t", 2)
    fill(small, T0, 3)
    fill(small, T1, 1)
    found = await headers_at(cluster, {T0: 5, T1: 0})
    assert (found[T0].base_offset, found[T0].last_offset) == (3, 5)
    assert found[T1].crc != found[T0].crc


async def test_the_next_batch_is_found_where_one_was_removed(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t")
    fill(small, T0, 3)
    del small.logs[T0].batches[1]
    assert (await headers_at(cluster, {T0: 4}))[T0].base_offset == 6


async def test_an_offset_that_the_log_does_not_have_is_left_out(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t", 2)
    fill(small, T0, 1)
    assert await headers_at(cluster, {T0: 3, T1: 7}) == {}


async def test_a_new_leader_is_asked(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t")
    fill(small, T0, 1)
    await headers_at(cluster, {T0: 0})
    small.logs[T0].leader = 2
    assert T0 in await headers_at(cluster, {T0: 0})


@pytest.mark.parametrize("answer", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, None])
async def test_what_cannot_be_read_is_told(small: SmallCluster, cluster: Cluster, answer: ErrorCode | None) -> None:
    small.add_topic("t")
    told = FetchablePartitionResponse(0, answer or 0, 3, record_set=b"" if answer else b"\xff" * 61)

    def refuse(asked: Asked) -> FetchResponse | None:
        return FetchResponse(responses=[FetchableTopicResponse("t", [told])]) if asked.key is ApiKey.FETCH else None

    small.on_request = refuse
    with pytest.raises((KafkaError, ProtocolViolation), match="t-0"):
        await headers_at(cluster, {T0: 0})
