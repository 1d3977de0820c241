"""What outlives an epoch of a leadership, or an internal topic, in the coordinators of one broker: nothing.

What another coordinator has been told since is not missed by who reads.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerId, LeaderEpoch, TopicPartition
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from broker.coordination import Coordination
from broker.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from replication.partition import Partition
from replication.replicas import ReplicaAssignment
from replication.settings import TopicSettings
from tests.unit.broker.group_talk import SMALL, GroupTalk
from tests.unit.broker.whole_broker import BrokerHost, make_topic, until
from zk_schema import paths
from zk_schema.memory import MemorySession

NONE = ErrorCode.NONE
KEYS = {name.replace(".", "_"): text for name, text in SMALL.items()}


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[BrokerHost]:
    machine = BrokerHost(tmp_path)
    yield machine
    await machine.close()


@asynccontextmanager
async def talking(host: BrokerHost, **more: str) -> AsyncIterator[GroupTalk]:
    """A broker whose coordinators are loaded; `more` are its settings."""
    broker = await host.start(**KEYS, **more)
    talk = GroupTalk(broker)
    await make_topic(broker, partitions=2)
    await talk.find("g")
    await talk.find("id", 1)
    yield talk
    await broker.stop()


@pytest.fixture
async def talk(host: BrokerHost) -> AsyncIterator[GroupTalk]:
    async with talking(host) as one:
        yield one


@pytest.fixture
async def hasty(host: BrokerHost) -> AsyncIterator[GroupTalk]:
    """One that does not wait long for other replicas."""
    async with talking(host, offsets_commit_timeout_ms="50") as one:
        yield one


def coordination_of(talk: GroupTalk) -> Coordination:
    return talk.broker.services.coordination


async def lead(talk: GroupTalk, partition: Partition, *, epoch: int, others: tuple[BrokerId, ...] = ()) -> None:
    """What the controller would have this broker do; `others` are in sync beside it."""
    me = talk.broker.broker_id
    assignment = ReplicaAssignment(
        partition.topic_partition,
        me,
        LeaderEpoch(epoch),
        isr=(me, *others),
        replicas=(me, *others),
        zk_version=epoch,
        is_new=False,
        settings=TopicSettings(log=partition.log.config),
    )
    assert await talk.broker.services.replicas.assign(assignment) is NONE


async def test_a_transaction_coordinator_lives_for_one_epoch_and_the_next_knows_what_it_wrote(talk: GroupTalk) -> None:
    shard = await coordination_of(talk).transaction_shard("id")
    assert shard is not None
    first = await talk.ask(InitProducerIdRequest("id", 60_000))
    assert first.error_code == NONE
    (number,) = (each for each, other in coordination_of(talk).transactions.items() if other is shard)
    partition = talk.broker.services.replicas.partition(TopicPartition(TRANSACTION_STATE, number))
    assert partition is not None
    await lead(talk, partition, epoch=5)
    assert shard.error is ErrorCode.NOT_COORDINATOR
    assert shard.machine is None
    following = coordination_of(talk).transactions[number]
    assert following.coordinator_epoch == 5
    await until(lambda: following.is_loaded)
    again = await talk.ask(InitProducerIdRequest("id", 60_000))
    assert (again.producer_id, again.producer_epoch) == (first.producer_id, first.producer_epoch + 1)


async def test_how_many_partitions_a_topic_has_is_asked_again_when_it_was_made_anew(talk: GroupTalk) -> None:
    coordination = coordination_of(talk)
    assert coordination.find_group_shard("g") not in (False, None)
    assert (await talk.ask(DeleteTopicsRequest([CONSUMER_OFFSETS], 10_000))).responses[0].error_code == NONE
    await until(lambda: not talk.broker.services.metadata.has_topic(CONSUMER_OFFSETS))
    await until(lambda: not coordination.groups)
    assert coordination.find_group_shard("g") is False
    assert await talk.commit(5) is ErrorCode.NOT_COORDINATOR
    async with asyncio.timeout(10):
        while await talk.broker.services.zk.get(paths.topic(CONSUMER_OFFSETS)) is not None:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.005)
    await make_topic(talk.broker, CONSUMER_OFFSETS, partitions=5)
    places = {await coordination.partition_of(CONSUMER_OFFSETS, f"group {number}") for number in range(100)}
    assert places == {0, 1, 2, 3, 4}
    await until(lambda: all(shard.is_loaded for shard in coordination.groups.values()))
    assert await talk.commit(5) is NONE


async def test_a_marker_is_answered_when_it_is_replicated(talk: GroupTalk) -> None:
    """What is complete has markers that no failover takes back."""
    at = TopicPartition("t", 0)
    partition = talk.broker.services.replicas.partition(at)
    assert partition is not None
    await lead(talk, partition, epoch=5, others=(BrokerId(2),))
    marker = WritableTxnMarker(7, 0, True, [WritableTxnMarkerTopic("t", [0])], 1)
    writing = asyncio.ensure_future(talk.ask(WriteTxnMarkersRequest([marker])))
    await until(lambda: partition.log.log_end_offset == 1)
    await asyncio.wait([writing], timeout=0.05)
    assert not writing.done()
    await lead(talk, partition, epoch=6)
    (result,) = (await writing).markers
    assert result.topics[0].partitions[0].error_code == NONE
    assert partition.log.high_watermark == 1


async def followed(talk: GroupTalk) -> Partition:
    """The partition that has group `g`, in which 5 is committed, with a follower in sync that says nothing."""
    assert await talk.commit(5) is NONE
    number = await coordination_of(talk).partition_of(CONSUMER_OFFSETS, "g")
    assert number is not None
    partition = talk.broker.services.replicas.partition(TopicPartition(CONSUMER_OFFSETS, number))
    assert partition is not None
    await lead(talk, partition, epoch=5, others=(BrokerId(2),))
    await until(lambda: coordination_of(talk).groups[number].is_loaded)
    return partition


async def test_offsets_are_told_when_it_is_proven_that_nobody_else_leads(talk: GroupTalk) -> None:
    """A successor may have taken another commit while this process stood still."""
    partition = await followed(talk)
    reading = asyncio.ensure_future(talk.committed())
    await asyncio.wait([reading], timeout=0.05)
    assert not reading.done()
    partition.on_follower_fetch(
        BrokerId(2),
        leader_epoch=5,
        fetch_offset=partition.log.log_end_offset,
        log_start_offset=0,
        heard_at=next(talk.broker.services.replicas.ports.order),
    )
    assert await reading == (5, NONE)


async def test_who_reads_when_the_leadership_goes_is_sent_elsewhere(talk: GroupTalk) -> None:
    partition = await followed(talk)
    reading = asyncio.ensure_future(talk.committed())
    await asyncio.wait([reading], timeout=0.05)
    await partition.become_follower(leader_id=BrokerId(2), leader_epoch=LeaderEpoch(6), replicas=partition.replicas)
    assert await reading == (-1, ErrorCode.NOT_COORDINATOR)


async def test_offsets_that_cannot_be_proven_in_time_are_not_told(hasty: GroupTalk) -> None:
    """With the one error after which every client asks again: to consumers of 2.7 others are fatal."""
    await followed(hasty)
    assert await hasty.committed() == (-1, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


async def test_who_is_cut_off_from_zookeeper_too_sends_others_elsewhere(host: BrokerHost, hasty: GroupTalk) -> None:
    await followed(hasty)
    session = hasty.broker.services.zk
    assert isinstance(session, MemorySession)
    host.zookeeper.disconnect(session, hold=True)
    assert await hasty.committed() == (-1, ErrorCode.NOT_COORDINATOR)
    session.reconnect()


async def test_a_coordinator_that_is_loaded_says_so_at_once(talk: GroupTalk) -> None:
    partition = await followed(talk)
    await lead(talk, partition, epoch=6, others=(BrokerId(2),))
    assert await talk.committed() == (-1, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert not partition.proof.waiting


async def test_a_proof_is_of_one_epoch(talk: GroupTalk) -> None:
    partition = await followed(talk)
    reading = asyncio.ensure_future(talk.committed())
    await asyncio.wait([reading], timeout=0.05)
    await lead(talk, partition, epoch=6)
    assert await reading == (-1, ErrorCode.NOT_COORDINATOR)
