"""CreatePartitions: growing topics, and what may not grow."""

import asyncio
from typing import Any

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerId
from barnabas.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from broker.handlers.create_partitions import handle
from broker.topic_creation import MAX_PARTITIONS
from tests.unit.broker.small_broker import CutOnWrite, SmallBroker, live_broker
from zk_schema import paths
from zk_schema.ops import Create


def to(name: str, count: int, *manual: list[int]) -> CreatePartitionsTopic:
    return CreatePartitionsTopic(name, count, [CreatePartitionsAssignment(ids) for ids in manual] if manual else None)


async def grow(
    broker: SmallBroker, *topics: CreatePartitionsTopic, timeout_ms: int = 0, validate_only: bool = False
) -> dict[str, tuple[ErrorCode, str | None]]:
    response = await handle(CreatePartitionsRequest(list(topics), timeout_ms, validate_only), broker.context(3))
    return {each.name: (ErrorCode(each.error_code), each.error_message) for each in response.results}


@pytest.fixture
async def holder(broker: SmallBroker) -> SmallBroker:
    """Brokers 1 and 2 and the topic t of two partitions."""
    broker.brokers = (live_broker(1), live_broker(2))
    await broker.write_topic("t", {0: (2,), 1: (1,)})
    broker.announce("t", 2)
    return broker


async def test_a_broker_that_is_not_the_controller_says_so(holder: SmallBroker) -> None:
    holder.services.controller.is_active = False
    assert await grow(holder, to("t", 3)) == {"t": (ErrorCode.NOT_CONTROLLER, None)}


async def test_partitions_are_added_after_the_present_ones_and_waited_for(holder: SmallBroker) -> None:
    growing = asyncio.create_task(grow(holder, to("t", 4), timeout_ms=60_000))
    await holder.until(lambda: len(holder.assignment("t") or ()) == 4)
    assert holder.assignment("t") == {0: (2,), 1: (1,), 2: (2,), 3: (1,)}
    await asyncio.sleep(0)
    assert not growing.done()
    holder.announce("t", 4)
    assert await growing == {"t": (ErrorCode.NONE, None)}


async def test_an_assignment_by_hand_is_kept(holder: SmallBroker) -> None:
    assert await grow(holder, to("t", 3, [2])) == {"t": (ErrorCode.REQUEST_TIMED_OUT, None)}
    assert holder.assignment("t") == {0: (2,), 1: (1,), 2: (2,)}


async def test_a_trial_writes_nothing(holder: SmallBroker) -> None:
    assert await grow(holder, to("t", 3), validate_only=True, timeout_ms=60_000) == {"t": (ErrorCode.NONE, None)}
    assert len(holder.assignment("t") or ()) == 2


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (to("t", 2), ErrorCode.INVALID_PARTITIONS),
        (to("t", 1), ErrorCode.INVALID_PARTITIONS),
        (to("t", -5), ErrorCode.INVALID_PARTITIONS),
        (to("t", MAX_PARTITIONS + 1), ErrorCode.INVALID_PARTITIONS),
        (to("t", 4, [1]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (to("t", 3, [9]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (to("t", 3, []), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (to("t", 3, [1, 1]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (to("t", 3, [1, 2]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (to("never", 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (to("..", 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
async def test_what_may_not_be_is_refused_with_a_message(
    holder: SmallBroker, wanted: CreatePartitionsTopic, error: ErrorCode
) -> None:
    ((told, message),) = (await grow(holder, wanted)).values()
    assert told is error
    assert message
    assert len(holder.assignment("t") or ()) == 2


async def test_a_topic_whose_replicas_move_does_not_grow(holder: SmallBroker) -> None:
    await holder.write_topic("moving", {0: (1, 2)}, adding_replicas={0: (BrokerId(2),)})
    ((told, _),) = (await grow(holder, to("moving", 2))).values()
    assert told is ErrorCode.REASSIGNMENT_IN_PROGRESS


async def test_a_topic_that_is_being_deleted_does_not_grow(holder: SmallBroker) -> None:
    await holder.zk.write(Create(paths.delete_topic("t"), b""))
    ((told, _),) = (await grow(holder, to("t", 3))).values()
    assert told is ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_a_topic_named_twice_is_answered_once(holder: SmallBroker) -> None:
    told = await grow(holder, to("t", 3), to("t", 4), to("never", 1))
    assert [(name, error) for name, (error, _) in told.items()] == [
        ("t", ErrorCode.INVALID_REQUEST),
        ("never", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


@pytest.mark.parametrize("applied", [True, False])
async def test_a_topic_grows_once_when_the_outcome_of_its_write_is_unknown(
    holder: SmallBroker, *, applied: bool
) -> None:
    zk: Any = CutOnWrite(holder, applied=applied)
    holder.services.zk = zk
    assert await grow(holder, to("t", 3)) == {"t": (ErrorCode.REQUEST_TIMED_OUT, None)}
    assert zk.cut
    assert holder.assignment("t") == {0: (2,), 1: (1,), 2: (2,)}
