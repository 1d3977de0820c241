"""Metadata: which topics, which errors, which versions."""

import inspect
from dataclasses import replace

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)
from broker.handlers.metadata import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS, handle
from tests.unit.broker.small_broker import SmallBroker, describe, live_broker, make_config
from zk_schema import paths


def asking(*names: str, **fields: bool) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name) for name in names], **fields)


async def answer(
    broker: SmallBroker, request: MetadataRequest, version: int = 9, *, listener: str = "PLAINTEXT"
) -> MetadataResponse:
    result = handle(request, broker.context(version, listener=listener))
    return await result if inspect.isawaitable(result) else result


def errors(response: MetadataResponse) -> dict[str, ErrorCode]:
    return {topic.name: ErrorCode(topic.error_code) for topic in response.topics}


async def partition_of(broker: SmallBroker, version: int, *, listener: str = "PLAINTEXT") -> MetadataResponsePartition:
    response = await answer(broker, asking("t"), version, listener=listener)
    return response.topics[0].partitions[0]


async def test_the_cluster_is_told(broker: SmallBroker) -> None:
    broker.brokers = (live_broker(2, rack="r"), live_broker(1))
    broker.update()
    response = await answer(broker, asking())
    assert [(each.node_id, each.host, each.port, each.rack) for each in response.brokers] == [
        (1, "host1", 9091, None),
        (2, "host2", 9092, "r"),
    ]
    assert response.cluster_id == "cluster"
    assert response.controller_id == 1
    assert response.topics == []


async def test_only_brokers_of_the_listener_are_told(broker: SmallBroker) -> None:
    broker.brokers = (live_broker(1), live_broker(2, listener="OTHER"))
    broker.update()
    assert [each.node_id for each in (await answer(broker, asking())).brokers] == [1]
    assert [each.node_id for each in (await answer(broker, asking(), listener="OTHER")).brokers] == [2]


@pytest.mark.parametrize(
    ("version", "topics", "told"),
    [(0, [], ["a", "b"]), (1, [], []), (1, None, ["a", "b"]), (9, None, ["a", "b"]), (9, [], [])],
)
async def test_all_topics_are_an_empty_list_in_version_0_and_null_later(
    broker: SmallBroker, version: int, topics: list[MetadataRequestTopic] | None, told: list[str]
) -> None:
    broker.announce("b")
    broker.announce("a")
    response = await answer(broker, MetadataRequest(topics=topics), version)
    assert [topic.name for topic in response.topics] == told


async def test_partitions_are_told_in_order_with_their_replicas(broker: SmallBroker) -> None:
    broker.brokers = (live_broker(1), live_broker(2))
    broker.update(
        describe("t", 1, leader=2, replicas=(2, 1), isr=(2,), offline=(1,), epoch=4),
        describe("t", 0, replicas=(1, 2)),
    )
    (topic,) = (await answer(broker, asking("t"))).topics
    first, second = topic.partitions
    assert (first.partition_index, first.leader_id) == (0, 1)
    assert second == MetadataResponsePartition(
        error_code=0,
        partition_index=1,
        leader_id=2,
        leader_epoch=4,
        replica_nodes=[2, 1],
        isr_nodes=[2],
        offline_replicas=[1],
    )


async def test_a_topic_named_twice_is_told_once(broker: SmallBroker) -> None:
    broker.announce("t")
    assert len((await answer(broker, asking("t", "t"))).topics) == 1


@pytest.mark.parametrize("version", [5, 6])
async def test_a_partition_without_a_live_leader_has_none(broker: SmallBroker, version: int) -> None:
    broker.update(describe("t", 0, leader=-1, replicas=(1,)))
    told = await partition_of(broker, version)
    assert (told.error_code, told.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    broker.update(describe("t", 0, leader=3, replicas=(3,)))
    told = await partition_of(broker, version)
    assert (told.error_code, told.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)


@pytest.mark.parametrize(("version", "error"), [(5, ErrorCode.LEADER_NOT_AVAILABLE), (6, ErrorCode.LISTENER_NOT_FOUND)])
async def test_a_leader_without_the_listener_is_named_so_from_version_6(
    broker: SmallBroker, version: int, error: ErrorCode
) -> None:
    broker.announce("t")
    told = await partition_of(broker, version, listener="OTHER")
    assert (told.error_code, told.leader_id) == (error, -1)


async def test_version_0_leaves_out_replicas_that_are_not_alive(broker: SmallBroker) -> None:
    broker.update(describe("t", 0, replicas=(1, 2)))
    told = await partition_of(broker, 0)
    assert told.error_code == ErrorCode.REPLICA_NOT_AVAILABLE
    assert (told.replica_nodes, told.isr_nodes) == ([1], [1])
    broker.update(describe("t", 0, replicas=(1,), isr=(1, 2)))
    assert (await partition_of(broker, 0)).error_code == ErrorCode.REPLICA_NOT_AVAILABLE
    broker.update(describe("t", 0, replicas=(1, 2)))
    told = await partition_of(broker, 1)
    assert told.error_code == ErrorCode.NONE
    assert told.replica_nodes == [1, 2]


async def test_operations_are_told_to_whoever_asks(broker: SmallBroker) -> None:
    broker.announce("t")
    response = await answer(broker, asking("t"), 8)
    assert response.cluster_authorized_operations == NOT_ASKED
    assert response.topics[0].topic_authorized_operations == NOT_ASKED
    request = asking("t", include_cluster_authorized_operations=True, include_topic_authorized_operations=True)
    response = await answer(broker, request, 8)
    assert response.cluster_authorized_operations == CLUSTER_OPERATIONS == 8096
    assert response.topics[0].topic_authorized_operations == TOPIC_OPERATIONS == 3576


async def test_a_missing_topic_is_made_with_the_brokers_defaults(broker: SmallBroker) -> None:
    broker.services.config = make_config({"num.partitions": "3"})
    response = await answer(broker, asking("new", allow_auto_topic_creation=True), 4)
    assert errors(response) == {"new": ErrorCode.LEADER_NOT_AVAILABLE}
    assert response.topics[0].partitions == []
    assert broker.assignment("new") == {0: (1,), 1: (1,), 2: (1,)}
    config = broker.server.tree.get(paths.topic_config("new"))
    assert config is not None
    assert config.data == b'{"version":1,"config":{}}'


async def test_a_topic_that_somebody_else_made_meanwhile_is_no_error(broker: SmallBroker) -> None:
    await broker.write_topic("new", {0: (1,)})
    assert errors(await answer(broker, asking("new"))) == {"new": ErrorCode.LEADER_NOT_AVAILABLE}


@pytest.mark.parametrize(("request_allows", "broker_allows"), [(False, True), (True, False)])
async def test_a_missing_topic_is_made_only_if_request_and_broker_allow(
    broker: SmallBroker, *, request_allows: bool, broker_allows: bool
) -> None:
    broker.services.config = make_config({"auto.create.topics.enable": str(broker_allows)})
    response = await answer(broker, asking("new", allow_auto_topic_creation=request_allows))
    assert errors(response) == {"new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert broker.assignment("new") is None


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "é", "x" * 250])
async def test_a_name_that_no_topic_may_have_is_an_invalid_topic(broker: SmallBroker, name: str) -> None:
    assert errors(await answer(broker, asking(name))) == {name: ErrorCode.INVALID_TOPIC_EXCEPTION}


async def test_a_name_that_collides_is_an_invalid_topic(broker: SmallBroker) -> None:
    await broker.write_topic("a.b", {0: (1,)})
    assert errors(await answer(broker, asking("a_b"))) == {"a_b": ErrorCode.INVALID_TOPIC_EXCEPTION}


async def test_more_replicas_than_brokers_are_refused(broker: SmallBroker) -> None:
    broker.services.config = replace(make_config(), default_replication_factor=2)
    assert errors(await answer(broker, asking("new"))) == {"new": ErrorCode.INVALID_REPLICATION_FACTOR}


async def test_brokers_with_and_without_racks_do_not_hinder_automatic_creation(broker: SmallBroker) -> None:
    broker.brokers = (live_broker(1, rack="r"), live_broker(2))
    broker.update()
    assert errors(await answer(broker, asking("new"))) == {"new": ErrorCode.LEADER_NOT_AVAILABLE}


async def test_the_topics_of_the_coordinators_are_internal_and_want_their_brokers(broker: SmallBroker) -> None:
    response = await answer(broker, asking("__consumer_offsets", allow_auto_topic_creation=False))
    assert errors(response) == {"__consumer_offsets": ErrorCode.INVALID_REPLICATION_FACTOR}
    assert response.topics[0].is_internal
    broker.announce("__transaction_state")
    (topic,) = (await answer(broker, asking("__transaction_state"))).topics
    assert topic.is_internal
    assert topic.error_code == ErrorCode.NONE


async def test_known_topics_come_before_those_that_were_made(broker: SmallBroker) -> None:
    broker.announce("known")
    response = await answer(broker, asking("new", "known"))
    assert [topic.name for topic in response.topics] == ["known", "new"]


async def test_without_zookeeper_a_missing_topic_has_no_leader_yet(broker: SmallBroker) -> None:
    await broker.zk.close()
    assert errors(await answer(broker, asking("new"))) == {"new": ErrorCode.LEADER_NOT_AVAILABLE}
