"""CreateTopics: what is checked, written, waited for and told."""

import asyncio
from typing import Any

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicResult,
    CreateableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from broker.config_description import ConfigSource
from broker.config_keys import TOPIC_KEYS
from broker.handlers.create_topics import handle
from broker.topic_creation import MAX_PARTITIONS
from tests.unit.broker.small_broker import AfterWrite, CutOnWrite, SmallBroker, live_broker, make_config
from zk_schema import paths
from zk_schema.ops import Create
from zk_schema.payloads import EntityConfig


def topic(
    name: str = "t",
    partitions: int = 1,
    replicas: int = 1,
    *,
    manual: dict[int, list[int]] | None = None,
    **configs: str | None,
) -> CreatableTopic:
    return CreatableTopic(
        name,
        partitions,
        replicas,
        [CreatableReplicaAssignment(number, brokers) for number, brokers in (manual or {}).items()],
        [CreateableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()],
    )


def manual(assignment: dict[int, list[int]]) -> CreatableTopic:
    return topic(partitions=-1, replicas=-1, manual=assignment)


async def create(
    broker: SmallBroker, *topics: CreatableTopic, version: int = 6, timeout_ms: int = 0, validate_only: bool = False
) -> list[CreatableTopicResult]:
    request = CreateTopicsRequest(list(topics), timeout_ms, validate_only)
    response = await handle(request, broker.context(version))
    assert isinstance(response, CreateTopicsResponse)
    return response.topics


async def refusal(broker: SmallBroker, wanted: CreatableTopic) -> ErrorCode:
    """The error, which must come with a message and leave nothing behind."""
    (result,) = await create(broker, wanted, validate_only=False, timeout_ms=1)
    assert result.error_message
    assert (result.num_partitions, result.replication_factor, result.configs) == (-1, -1, [])
    return ErrorCode(result.error_code)


async def test_a_broker_that_is_not_the_controller_says_so(broker: SmallBroker) -> None:
    broker.services.controller.is_active = False
    results = await create(broker, topic("a"), topic("b"))
    assert [(each.name, each.error_code, each.error_message) for each in results] == [
        ("a", ErrorCode.NOT_CONTROLLER, ""),
        ("b", ErrorCode.NOT_CONTROLLER, ""),
    ]
    assert broker.assignment("a") is None


async def test_a_topic_without_a_count_gets_the_replicas_that_brokers_are_set_to() -> None:
    broker = await SmallBroker({"default.replication.factor": "2"}).open()
    try:
        broker.brokers = (live_broker(1), live_broker(2), live_broker(3))
        broker.update()
        await create(broker, topic(partitions=1, replicas=-1))
        (replicas,) = (broker.assignment("t") or {}).values()
        assert len(set(replicas)) == 2
    finally:
        await broker.close()


async def test_a_topic_is_written_and_answered_once_its_leaders_are_known(broker: SmallBroker) -> None:
    creating = asyncio.create_task(create(broker, topic(partitions=2, retention_ms="5"), timeout_ms=60_000))
    await broker.until(lambda: broker.assignment("t"))
    assert broker.assignment("t") == {0: (1,), 1: (1,)}
    broker.announce("t", 1)
    broker.announce("t", 2, leader=-1)
    for _ in range(10):
        await asyncio.sleep(0)
    assert not creating.done()
    broker.announce("t", 2)
    (result,) = await creating
    assert (result.error_code, result.error_message) == (ErrorCode.NONE, None)
    assert (result.num_partitions, result.replication_factor) == (2, 1)
    znode = broker.server.tree.get(paths.topic_config("t"))
    assert znode is not None
    assert EntityConfig.decode(znode.data).config == {"retention.ms": "5"}


async def test_what_was_made_is_told_with_its_configuration(broker: SmallBroker) -> None:
    (result,) = await create(broker, topic(retention_ms="5"), validate_only=True)
    assert result.configs is not None
    assert {each.name for each in result.configs} == set(TOPIC_KEYS)
    told = {each.name: (each.value, each.config_source) for each in result.configs}
    assert told["retention.ms"] == ("5", ConfigSource.TOPIC)
    assert told["segment.bytes"] == ("1073741824", ConfigSource.DEFAULT)
    assert not any(each.read_only or each.is_sensitive for each in result.configs)


async def test_a_trial_writes_nothing(broker: SmallBroker) -> None:
    (result,) = await create(broker, topic(partitions=3), validate_only=True)
    assert (result.error_code, result.num_partitions) == (ErrorCode.NONE, 3)
    assert broker.assignment("t") is None


@pytest.mark.parametrize("timeout_ms", [0, -1, 1])
async def test_without_leaders_in_time_the_request_timed_out_though_the_topic_is_made(
    broker: SmallBroker, timeout_ms: int
) -> None:
    (result,) = await create(broker, topic(), timeout_ms=timeout_ms)
    assert (result.error_code, result.error_message) == (ErrorCode.REQUEST_TIMED_OUT, None)
    assert (result.num_partitions, result.configs) == (-1, [])
    assert broker.assignment("t") == {0: (1,)}


async def test_without_time_to_wait_the_request_timed_out_even_if_the_leaders_are_known(broker: SmallBroker) -> None:
    broker.services.zk = AfterWrite(broker, lambda: broker.announce("t"))
    (result,) = await create(broker, topic(), timeout_ms=0)
    assert result.error_code == ErrorCode.REQUEST_TIMED_OUT


async def test_defaults_stand_for_minus_one(broker: SmallBroker) -> None:
    broker.services.config = make_config({"num.partitions": "4"})
    (result,) = await create(broker, topic(partitions=-1, replicas=-1), validate_only=True)
    assert (result.num_partitions, result.replication_factor) == (4, 1)


async def test_an_assignment_by_hand_is_kept(broker: SmallBroker) -> None:
    broker.brokers = (live_broker(1), live_broker(2))
    broker.update()
    await create(broker, manual({1: [1], 0: [2]}))
    assert broker.assignment("t") == {0: (2,), 1: (1,)}


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (topic(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic(partitions=0), ErrorCode.INVALID_PARTITIONS),
        (topic(partitions=-2), ErrorCode.INVALID_PARTITIONS),
        (topic(partitions=MAX_PARTITIONS + 1), ErrorCode.INVALID_PARTITIONS),
        (topic(partitions=2**31 - 1), ErrorCode.INVALID_PARTITIONS),
        (topic(replicas=0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic(replicas=2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic(manual={0: [1]}), ErrorCode.INVALID_REQUEST),
        (topic(partitions=-1, manual={0: [1]}), ErrorCode.INVALID_REQUEST),
        (manual({0: [1], 2: [1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (manual({0: [1], 1: [1, 2]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (manual({0: [1, 1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (manual({0: []}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic(retention_ms=None), ErrorCode.INVALID_REQUEST),
        (topic(retention_ms="x"), ErrorCode.INVALID_CONFIG),
        (topic(no_such_key="1"), ErrorCode.INVALID_CONFIG),
        (topic(cleanup_policy="shred"), ErrorCode.INVALID_CONFIG),
        (topic(preallocate="true"), ErrorCode.INVALID_CONFIG),
    ],
)
async def test_what_may_not_be_is_refused_and_not_written(
    broker: SmallBroker, wanted: CreatableTopic, error: ErrorCode
) -> None:
    assert await refusal(broker, wanted) is error
    assert await broker.zk.children(paths.BROKER_TOPICS) == []


async def test_a_topic_that_exists_is_refused(broker: SmallBroker) -> None:
    await broker.write_topic("t", {0: (1,)})
    assert await refusal(broker, topic()) is ErrorCode.TOPIC_ALREADY_EXISTS
    broker.announce("known")
    assert await refusal(broker, topic("known", partitions=0)) is ErrorCode.TOPIC_ALREADY_EXISTS


async def test_a_name_that_collides_is_refused(broker: SmallBroker) -> None:
    await broker.write_topic("a_b", {0: (1,)})
    assert await refusal(broker, topic("a.b")) is ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_brokers_with_and_without_racks_refuse_a_placement(broker: SmallBroker) -> None:
    broker.brokers = (live_broker(1, rack="r"), live_broker(2))
    broker.update()
    assert await refusal(broker, topic()) is ErrorCode.UNKNOWN_SERVER_ERROR


async def test_a_name_that_occurs_twice_is_an_invalid_request_at_each_place(broker: SmallBroker) -> None:
    results = await create(broker, topic("a"), topic("b"), topic("a"), validate_only=True)
    assert [(each.name, each.error_code) for each in results] == [
        ("a", ErrorCode.INVALID_REQUEST),
        ("b", ErrorCode.NONE),
        ("a", ErrorCode.INVALID_REQUEST),
    ]


async def test_topics_of_one_request_stand_for_themselves(broker: SmallBroker) -> None:
    creating = asyncio.create_task(create(broker, topic("bad", partitions=0), topic("good"), timeout_ms=60_000))
    await broker.until(lambda: broker.assignment("good"))
    broker.announce("good")
    assert [each.error_code for each in await creating] == [ErrorCode.INVALID_PARTITIONS, ErrorCode.NONE]


async def test_a_configuration_without_a_topic_is_written_over(broker: SmallBroker) -> None:
    await broker.zk.write(Create(paths.topic_config("t"), EntityConfig({"segment.bytes": "99"}).encode()))
    await create(broker, topic(retention_ms="5"))
    znode = broker.server.tree.get(paths.topic_config("t"))
    assert znode is not None
    assert EntityConfig.decode(znode.data).config == {"retention.ms": "5"}
    assert broker.assignment("t") == {0: (1,)}


@pytest.mark.parametrize("applied", [True, False])
async def test_a_topic_is_made_once_when_the_outcome_of_its_write_is_unknown(
    broker: SmallBroker, *, applied: bool
) -> None:
    zk: Any = CutOnWrite(broker, applied=applied)
    broker.services.zk = zk
    (result,) = await create(broker, topic(partitions=2))
    assert zk.cut
    assert result.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert broker.assignment("t") == {0: (1,), 1: (1,)}


async def test_without_zookeeper_the_request_timed_out(broker: SmallBroker) -> None:
    await broker.zk.close()
    (result,) = await create(broker, topic())
    assert result.error_code == ErrorCode.REQUEST_TIMED_OUT
