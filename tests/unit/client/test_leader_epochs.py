"""Brokers that lag behind do not take a client back to an old leader, and topics that are made again are read anew."""

import asyncio
from typing import Any

from barnabas.client.consumer import Consumer
from barnabas.client.consumer_options import ConsumerOptions, OffsetReset
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey, TopicPartition
from barnabas.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from tests.support.virtual_time import virtual_time
from tests.unit.client.memory_wire import MemoryWire
from tests.unit.client.small_cluster import Asked, Log, SmallCluster
from tests.unit.client.test_consumer import fill, read

T0 = TopicPartition("t", 0)
EARLY = ConsumerOptions(offset_reset=OffsetReset.EARLIEST)
OLD, NEW, NEXT = 0, 3, 4
_OF_LOGS = {ApiKey.METADATA, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH}


def cluster_with_log(leader: int, leader_epoch: int) -> SmallCluster:
    small = SmallCluster(brokers=3)
    small.add_topic("t")
    small.logs[T0] = Log(leader, leader_epoch=leader_epoch)
    return small


def leave_behind(small: SmallCluster, *, broker: int = 1) -> SmallCluster:
    """A broker that still leads `t` in the first epoch, with nothing in its log, as far as it knows."""
    old = cluster_with_log(broker, OLD)
    old.ports = small.ports

    def answer(asked: Asked) -> Any:
        if asked.node_id == broker and asked.key in _OF_LOGS:
            return getattr(old, f"_{asked.key.name.lower()}")(asked)
        return None

    small.on_request = answer
    return old


def fetched_from(small: SmallCluster, broker: int) -> bool:
    return any(each.key is ApiKey.FETCH and each.node_id == broker for each in small.asked)


@virtual_time
async def test_a_consumer_is_not_taken_back_to_a_leader_of_an_older_epoch() -> None:
    small = cluster_with_log(2, NEW)
    fill(small, T0, 9)
    async with asyncio.timeout(60), MemoryWire(small).cluster() as cluster, Consumer(cluster, EARLY) as consumer:
        consumer.assign([T0])
        assert await read(consumer, 9) == {T0: list(range(9))}
        leave_behind(small)
        small.logs[T0].leader, small.logs[T0].leader_epoch = 3, NEXT
        fill(small, T0, 3)
        assert await read(consumer, 3) == {T0: [9, 10, 11]}
    assert not fetched_from(small, 1)


@virtual_time
async def test_what_a_group_committed_is_not_looked_for_at_a_leader_of_an_older_epoch() -> None:
    small = cluster_with_log(2, NEW)
    fill(small, T0, 9)
    options = ConsumerOptions(group_id="g", offset_reset=OffsetReset.EARLIEST)
    async with asyncio.timeout(60), MemoryWire(small).cluster() as cluster:
        async with Consumer(cluster, options) as consumer:
            consumer.assign([T0])
            await read(consumer, 9)
            await consumer.commit()
        leave_behind(small)
    # Nobody has told this client yet that there is a later epoch.
    async with asyncio.timeout(60), MemoryWire(small).cluster() as cluster, Consumer(cluster, options) as consumer:
        consumer.assign([T0])
        fill(small, T0, 3)
        assert await read(consumer, 3) == {T0: [9, 10, 11]}
    assert not fetched_from(small, 1)


@virtual_time
async def test_where_a_leader_has_no_such_offset_another_broker_is_asked_first_who_leads() -> None:
    small = cluster_with_log(2, NEW)
    fill(small, T0, 12)
    leave_behind(small)
    async with asyncio.timeout(60), MemoryWire(small).cluster() as cluster, Consumer(cluster, EARLY) as consumer:
        consumer.assign([T0])
        consumer.seek(T0, 9)
        assert await read(consumer, 3) == {T0: [9, 10, 11]}
    assert fetched_from(small, 1), "it was asked first, as it took itself for the leader"


@virtual_time
async def test_where_every_broker_names_that_leader_it_is_believed() -> None:
    small = cluster_with_log(1, NEW)
    fill(small, T0, 3)
    async with asyncio.timeout(60), MemoryWire(small).cluster() as cluster, Consumer(cluster, EARLY) as consumer:
        consumer.assign([T0])
        consumer.seek(T0, 9)
        assert await read(consumer, 3) == {T0: [0, 1, 2]}
    tellers = {each.node_id for each in small.asked if each.key is ApiKey.METADATA}
    assert len(tellers) > 1


@virtual_time
async def test_what_is_known_of_a_leader_stays_and_the_next_question_goes_to_another_broker() -> None:
    small = cluster_with_log(2, NEW)
    async with MemoryWire(small).cluster() as cluster:
        await cluster.metadata(["t"])
        assert small.asked[-1].node_id == 1
        leave_behind(small)
        told = await cluster.metadata(["t"])
        assert small.asked[-1].node_id == 1
        assert (told.topics["t"].partitions[0].leader, cluster.known_leader(T0)) == (1, 2)
        await cluster.metadata()
        assert small.asked[-1].node_id != 1


@virtual_time
async def test_brokers_that_lagged_behind_one_after_the_other_are_not_all_believed() -> None:
    small = cluster_with_log(2, NEW)
    async with MemoryWire(small).cluster() as cluster:
        await cluster.metadata(["t"])
        for _ in range(6):
            lagging = (await cluster.any_connection()).address.port
            leave_behind(small, broker=lagging)
            await cluster.metadata(["t"])
            assert small.asked[-1].node_id == lagging
            cluster.forget("t")
            assert (await cluster.leader(T0)).node_id == 2


@virtual_time
async def test_where_a_topic_was_made_again_all_brokers_say_so_and_it_is_read_anew() -> None:
    """Its epochs begin again: Kafka's clients would wait for ever (KAFKA-12257)."""
    small = cluster_with_log(2, NEW)
    fill(small, T0, 9)
    async with asyncio.timeout(60), MemoryWire(small).cluster() as cluster, Consumer(cluster, EARLY) as consumer:
        consumer.assign([T0])
        await read(consumer, 9)
        small.logs[T0] = Log(3)
        fill(small, T0, 2)
        assert await read(consumer, 2) == {T0: [0, 1]}


@virtual_time
async def test_a_topic_that_was_missing_begins_anew() -> None:
    small = cluster_with_log(2, NEW)

    def is_missing(asked: Asked) -> MetadataResponse | None:
        if asked.key is not ApiKey.METADATA:
            return None
        answer = small._metadata(asked)
        answer.topics = [MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "t")]
        return answer

    async with MemoryWire(small).cluster() as cluster:
        await cluster.metadata(["t"])
        small.on_request = is_missing
        await cluster.metadata(["t"])
        small.on_request = lambda _: None
        small.logs[T0] = Log(3)
        assert (await cluster.metadata(["t"])).topics["t"].partitions[0].leader == cluster.known_leader(T0) == 3
