"""Finding brokers, leaders and the controller, and trying again when what was known proved stale."""

import asyncio
import random

import pytest

from barnabas.client.admin import EARLIEST, LATEST, Admin, ConfigSource, NewTopic
from barnabas.client.cluster import Cluster, ClusterOptions, open_cluster
from barnabas.client.connection import Address
from barnabas.client.errors import (
    ClusterUnreachable,
    ConnectionFailed,
    KafkaError,
    RequestTimedOut,
    UnsupportedByBroker,
)
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey, TopicPartition
from barnabas.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from barnabas.protocol.records import Record, build_batch
from tests.unit.client.conftest import OpenCluster
from tests.unit.client.small_cluster import Asked, Hangup, SmallCluster


async def test_metadata_tells_brokers_topics_and_leaders(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t", 3)
    small.add_topic("other")
    everything = await cluster.metadata(None)
    assert (everything.cluster_id, everything.controller_id, sorted(everything.nodes)) == ("small", 1, [1, 2])
    assert sorted(everything.topics) == ["other", "t"]
    assert [part.leader for part in everything.topics["t"].partitions.values()] == [1, 2, 1]
    assert (await cluster.metadata()).topics == {}
    assert list((await cluster.metadata(["t", "t"])).topics) == ["t"]
    assert (await cluster.leader(TopicPartition("t", 1))).address.port == small.ports[2]


async def test_a_known_topic_is_not_asked_for_again_until_it_is_forgotten(
    small: SmallCluster, cluster: Cluster
) -> None:
    small.add_topic("t")
    for _ in range(3):
        await cluster.leader(TopicPartition("t", 0))
    assert small.keys_asked().count(ApiKey.METADATA) == 1
    cluster.forget("t")
    await cluster.leader(TopicPartition("t", 0))
    assert small.keys_asked().count(ApiKey.METADATA) == 2


async def test_a_missing_topic_is_told_at_once(small: SmallCluster, cluster: Cluster) -> None:
    with pytest.raises(KafkaError) as caught:
        await cluster.topic("missing")
    assert caught.value.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert small.keys_asked().count(ApiKey.METADATA) == 1


async def test_a_topic_that_is_being_created_is_waited_for(small: SmallCluster, cluster: Cluster) -> None:
    def create_at_second(asked: Asked) -> MetadataResponse | None:
        if asked.key is not ApiKey.METADATA:
            return None
        assert asked.request.allow_auto_topic_creation
        if small.keys_asked().count(ApiKey.METADATA) < 3:
            return MetadataResponse(topics=[MetadataResponseTopic(ErrorCode.LEADER_NOT_AVAILABLE, "new")])
        small.add_topic("new")
        return None

    small.on_request = create_at_second
    assert len((await cluster.topic("new", auto_create=True)).partitions) == 1


async def test_a_partition_that_does_not_exist_is_named(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t", 2)
    with pytest.raises(KafkaError, match="partitions 0 to 1"):
        await cluster.leader(TopicPartition("t", 2))


async def test_nothing_reachable_is_told_at_once() -> None:
    cluster = Cluster([Address("127.0.0.1", 1), Address("localhost", 1)], random=random.Random(1))
    with pytest.raises(ClusterUnreachable, match=r"127\.0\.0\.1:1.*localhost:1"):
        await cluster.metadata()
    await cluster.close()


async def test_one_of_the_first_addresses_is_enough(small: SmallCluster) -> None:
    addresses = [Address("127.0.0.1", 1), Address("127.0.0.1", small.ports[2])]
    async with Cluster(addresses, random=random.Random(1)) as cluster:
        assert (await cluster.metadata()).cluster_id == "small"


async def test_when_a_broker_is_lost_another_is_asked(small: SmallCluster, cluster: Cluster) -> None:
    def first_hangs_up(asked: Asked) -> None:
        if asked.node_id == 1:
            raise Hangup

    await cluster.metadata()
    small.on_request = first_hangs_up
    assert (await cluster.metadata()).cluster_id == "small"
    assert small.asked[-1].node_id == 2


async def test_what_does_not_mend_is_given_up_in_time(small: SmallCluster) -> None:
    address = Address("127.0.0.1", small.ports[1])
    async with Cluster([address], random=random.Random(1), options=ClusterOptions(timeout_ms=150)) as cluster:
        calls = 0

        async def fail() -> None:
            nonlocal calls
            calls += 1
            raise ConnectionFailed("lost")

        with pytest.raises(RequestTimedOut, match="gave up after 150 ms: lost"):
            await cluster.patiently(fail)
        assert calls >= 2


async def test_what_trying_again_cannot_mend_is_told_at_once(cluster: Cluster) -> None:
    calls = 0

    async def fail() -> None:
        nonlocal calls
        calls += 1
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)

    with pytest.raises(KafkaError):
        await cluster.patiently(fail)
    assert calls == 1


async def test_callers_share_one_connection(small: SmallCluster, cluster: Cluster) -> None:
    await asyncio.gather(*(cluster.metadata() for _ in range(5)))
    assert small.keys_asked().count(ApiKey.API_VERSIONS) == 1


async def test_a_broker_that_is_too_old_is_told(open_cluster: OpenCluster) -> None:
    async with SmallCluster(newest={ApiKey.METADATA: 1}) as old:
        with pytest.raises(UnsupportedByBroker, match="METADATA"):
            await open_cluster(old).metadata()


async def test_topics_are_created_described_extended_and_deleted(small: SmallCluster, cluster: Cluster) -> None:
    admin = Admin(cluster)
    created = await admin.create_topics(
        [NewTopic("a", 2, 1, {"retention.ms": "5"}), NewTopic("b", 1, 9), NewTopic("c")]
    )
    assert (created["a"], created["c"]) == (None, None)
    assert created["b"] is not None
    assert created["b"].error is ErrorCode.INVALID_REPLICATION_FACTOR
    assert str(created["b"]) == "topic b: too many (INVALID_REPLICATION_FACTOR)"
    entries = {entry.name: entry for entry in await admin.describe_topic_configs("a")}
    assert (entries["retention.ms"].value, entries["retention.ms"].source) == ("5", ConfigSource.TOPIC)
    assert entries["cleanup.policy"].source is ConfigSource.DEFAULT
    assert (await admin.create_partitions({"a": 4})) == {"a": None}
    assert len((await cluster.topic("a")).partitions) == 4
    refused = (await admin.create_partitions({"a": 1}))["a"]
    assert refused is not None
    assert refused.error is ErrorCode.INVALID_PARTITIONS
    deleted = await admin.delete_topics(["a", "missing"])
    assert deleted["a"] is None
    assert "a" not in small.configs
    assert deleted["missing"] is not None


async def test_trying_changes_nothing(small: SmallCluster, cluster: Cluster) -> None:
    assert await Admin(cluster).create_topics([NewTopic("a", 1, 1)], validate_only=True) == {"a": None}
    assert small.configs == {}


async def test_assignments_are_sent_in_place_of_numbers(small: SmallCluster, cluster: Cluster) -> None:
    await Admin(cluster).create_topics([NewTopic("a", assignments={0: [2, 1], 1: [1, 2]})])
    (topic,) = small.asked[-1].request.topics
    assert (topic.num_partitions, topic.replication_factor) == (-1, -1)
    assert [(each.partition_index, each.broker_ids) for each in topic.assignments] == [(0, [2, 1]), (1, [1, 2])]


async def test_the_controller_is_looked_for_again_when_it_moved(small: SmallCluster, cluster: Cluster) -> None:
    stale_answers = 2

    def stale(asked: Asked) -> MetadataResponse | None:
        nonlocal stale_answers
        if asked.key is not ApiKey.METADATA or not stale_answers:
            return None
        stale_answers -= 1
        answer = small._metadata(asked)
        answer.controller_id = -1 if stale_answers else 1
        return answer

    small.controller, small.on_request = 2, stale
    assert await Admin(cluster).create_topics([NewTopic("a", 1, 1), NewTopic("b", 1, 1)]) == {"a": None, "b": None}
    creations = [asked.node_id for asked in small.asked if asked.key is ApiKey.CREATE_TOPICS]
    assert creations == [1, 2]


async def test_offsets_are_found_at_every_leader(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t", 2)
    parts = [TopicPartition("t", 0), TopicPartition("t", 1)]
    for _ in range(2):
        small.logs[parts[1]].append(build_batch([Record(0, 1000, None, b""), Record(0, 2000, None, b"")]))
    admin = Admin(cluster)
    assert [each.offset for each in (await admin.list_offsets(dict.fromkeys(parts, LATEST))).values()] == [0, 4]
    assert [each.offset for each in (await admin.list_offsets(dict.fromkeys(parts, EARLIEST))).values()] == [0, 0]
    found = await admin.list_offsets({parts[0]: 1500, parts[1]: 1500})
    assert [(each.offset, each.timestamp) for each in found.values()] == [(-1, -1), (1, 2000)]


async def test_offsets_are_asked_for_at_the_new_leader(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t")
    await cluster.topic("t")
    small.logs[TopicPartition("t", 0)].leader = 2
    found = await Admin(cluster).list_offsets({TopicPartition("t", 0): LATEST})
    assert found[TopicPartition("t", 0)].offset == 0


async def test_offsets_are_asked_for_elsewhere_when_a_leader_is_not_there(
    small: SmallCluster, cluster: Cluster
) -> None:
    small.add_topic("t")
    await cluster.topic("t")

    def hang_up(asked: Asked) -> None:
        if asked.key is ApiKey.LIST_OFFSETS and asked.node_id == 1:
            small.logs[TopicPartition("t", 0)].leader = 2
            raise Hangup

    small.on_request = hang_up
    found = await Admin(cluster).list_offsets({TopicPartition("t", 0): LATEST})
    assert found[TopicPartition("t", 0)].offset == 0


async def test_what_the_controller_has_answered_is_not_asked_for_again(small: SmallCluster, cluster: Cluster) -> None:
    """It would hear that its topic exists already."""

    def throttle_second(asked: Asked) -> CreateTopicsResponse | None:
        if asked.key is not ApiKey.CREATE_TOPICS:
            return None
        small.on_request = lambda _: None
        response = small._create_topics(Asked(1, asked.header, CreateTopicsRequest(asked.request.topics[:1])))
        throttled = CreatableTopicResult("b", error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        return CreateTopicsResponse(topics=[*response.topics, throttled])

    small.on_request = throttle_second
    assert await Admin(cluster).create_topics([NewTopic("a", 1, 1), NewTopic("b", 1, 1)]) == {"a": None, "b": None}
    asked = [each.request for each in small.asked if each.key is ApiKey.CREATE_TOPICS]
    assert [[topic.name for topic in each.topics] for each in asked] == [["a", "b"], ["b"]]


async def test_topics_that_were_changed_are_not_remembered_as_they_were(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("grows", 1)
    small.add_topic("goes", 1)
    for name in ("grows", "goes"):
        await cluster.topic(name)
    assert await Admin(cluster).create_partitions({"grows": 3}) == {"grows": None}
    assert len((await cluster.topic("grows")).partitions) == 3
    assert await Admin(cluster).delete_topics(["goes"]) == {"goes": None}
    assert cluster.known("goes") is None


async def test_a_topic_of_which_replicas_are_named_has_no_numbers(small: SmallCluster, cluster: Cluster) -> None:
    """Brokers refuse both together."""
    await Admin(cluster).create_topics([NewTopic("t", 2, 1, assignments={0: [1], 1: [2]})])
    (asked,) = (each.request.topics for each in small.asked if each.key is ApiKey.CREATE_TOPICS)
    assert [(each.num_partitions, each.replication_factor) for each in asked] == [(-1, -1)]
    assert [(each.partition_index, each.broker_ids) for each in asked[0].assignments] == [(0, [1]), (1, [2])]


def test_a_cluster_is_opened_by_the_addresses_of_some_brokers() -> None:
    opened = open_cluster("one:9092, [::1]:9093")
    assert opened._bootstrap == [Address("one", 9092), Address("::1", 9093)]


@pytest.mark.parametrize("text", ["", "host", "host:", ":9092", "host:0", "host:65536", "host:x", "a:1,"])
def test_what_is_no_address_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="is not host:port"):
        open_cluster(text)
