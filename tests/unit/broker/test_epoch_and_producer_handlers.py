"""OffsetForLeaderEpoch and InitProducerId."""

from pathlib import Path

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from broker.handlers import init_producer_id, offset_for_leader_epoch
from broker.handlers.init_producer_id import refuse
from tests.unit.broker.small_broker import SmallBroker
from tests.unit.storage.logs import append, batch
from zk_schema.ops import Set
from zk_schema.paths import LATEST_PRODUCER_ID_BLOCK

# Its broker has a stand-in for the replicas.
pytestmark = pytest.mark.interpreted


def ends(broker: SmallBroker, *wanted: OffsetForLeaderPartition, topic: str = "t") -> list[tuple[int, int, int, int]]:
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic, list(wanted))])
    response = offset_for_leader_epoch.handle(request, broker.context(3))
    return [
        (each.partition_index, each.error_code, each.leader_epoch, each.end_offset)
        for told in response.topics
        for each in told.partitions
    ]


@pytest.fixture
async def leader(broker: SmallBroker, tmp_path: Path) -> SmallBroker:
    """Leader of t-0: epoch 1 from 0, epoch 5 from 2, end 3."""
    log = await broker.lead(str(tmp_path), epoch=1)
    append(log, batch(b"a", b"b"), leader_epoch=1)
    log.assign_leader_epoch(5, start_offset=2)
    append(log, batch(b"c"), leader_epoch=5)
    broker.partitions[log.topic_partition].leader_epoch = 5  # type: ignore[assignment]
    return broker


@pytest.mark.parametrize(
    ("epoch", "told"), [(0, (0, 0)), (1, (1, 2)), (3, (1, 2)), (5, (5, 3)), (6, (-1, -1)), (-1, (-1, -1))]
)
async def test_an_epoch_ends_where_the_next_begins(leader: SmallBroker, epoch: int, told: tuple[int, int]) -> None:
    assert ends(leader, OffsetForLeaderPartition(0, leader_epoch=epoch)) == [(0, 0, *told)]


@pytest.mark.parametrize(
    ("current", "error"), [(4, ErrorCode.FENCED_LEADER_EPOCH), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
async def test_another_leader_epoch_is_refused(leader: SmallBroker, current: int, error: ErrorCode) -> None:
    wanted = OffsetForLeaderPartition(0, current_leader_epoch=current, leader_epoch=1)
    assert ends(leader, wanted) == [(0, error, -1, -1)]


async def test_a_partition_that_is_not_here_is_told_so(leader: SmallBroker) -> None:
    assert ends(leader, OffsetForLeaderPartition(7)) == [(7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)]
    leader.announce("elsewhere", leader=2)
    wanted = OffsetForLeaderPartition(0)
    assert ends(leader, wanted, topic="elsewhere") == [(0, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1)]


async def test_of_a_partition_named_twice_the_last_naming_counts(leader: SmallBroker) -> None:
    wanted = OffsetForLeaderPartition(0, leader_epoch=1), OffsetForLeaderPartition(0, leader_epoch=5)
    assert ends(leader, *wanted) == [(0, 0, 5, 3)]
    assert ends(leader) == []


LIMIT_MS = 900_000


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (InitProducerIdRequest(None, 0), ErrorCode.NONE),
        (InitProducerIdRequest(None, 0, producer_id=5, producer_epoch=1), ErrorCode.NONE),
        (InitProducerIdRequest(None, 0, producer_id=5), ErrorCode.INVALID_REQUEST),
        (InitProducerIdRequest(None, 0, producer_epoch=1), ErrorCode.INVALID_REQUEST),
        (InitProducerIdRequest("", 1), ErrorCode.INVALID_REQUEST),
        (InitProducerIdRequest("x", 0), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (InitProducerIdRequest("x", LIMIT_MS + 1), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (InitProducerIdRequest("x", LIMIT_MS), ErrorCode.NONE),
        (InitProducerIdRequest("x", 0, producer_id=5), ErrorCode.INVALID_REQUEST),
    ],
)
def test_who_gets_an_id(request_: InitProducerIdRequest, error: ErrorCode) -> None:
    assert refuse(request_, max_transaction_timeout_ms=LIMIT_MS) is error


async def test_an_idempotent_producer_gets_a_new_id_and_epoch_0_each_time(broker: SmallBroker) -> None:
    request = InitProducerIdRequest(None, 0)
    for producer_id in range(2):
        response = await init_producer_id.handle(request, broker.context(4))
        assert response == InitProducerIdResponse(0, 0, producer_id, 0)


async def test_a_refused_producer_gets_no_id(broker: SmallBroker) -> None:
    response = await init_producer_id.handle(InitProducerIdRequest("x", 0), broker.context(4))
    assert response == InitProducerIdResponse(0, ErrorCode.INVALID_TRANSACTION_TIMEOUT, -1, -1)


async def test_a_broken_znode_of_ids_is_a_server_error(broker: SmallBroker) -> None:
    await broker.zk.write(Set(LATEST_PRODUCER_ID_BLOCK, b"{"))
    response = await init_producer_id.handle(InitProducerIdRequest(None, 0), broker.context(0))
    assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


async def test_without_zookeeper_the_producer_is_to_try_again(broker: SmallBroker) -> None:
    await broker.zk.close()
    response = await init_producer_id.handle(InitProducerIdRequest(None, 0), broker.context(0))
    assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
