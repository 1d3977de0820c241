"""Coordinators come and go with the leadership of their partitions, on a whole broker in this process."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import NO_LEADER, LeaderEpoch, TopicPartition
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from barnabas.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from broker.internal_topics import CONSUMER_OFFSETS
from replication.partition import Partition
from replication.replicas import ReplicaAssignment
from replication.settings import TopicSettings
from tests.unit.broker.group_talk import SMALL, GroupTalk
from tests.unit.broker.whole_broker import BrokerHost, make_topic, until

NONE = ErrorCode.NONE
OTHER = 2
KEYS = {name.replace(".", "_"): text for name, text in SMALL.items()}


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[BrokerHost]:
    machine = BrokerHost(tmp_path)
    yield machine
    await machine.close()


@pytest.fixture
async def talk(host: BrokerHost) -> AsyncIterator[GroupTalk]:
    broker = await host.start(**KEYS)
    talk = GroupTalk(broker)
    await make_topic(broker, partitions=2)
    await talk.find("g")
    yield talk
    await broker.stop()


async def place_of(talk: GroupTalk, group: str = "g") -> Partition:
    number = await talk.broker.services.coordination.partition_of(CONSUMER_OFFSETS, group)
    assert number is not None
    partition = talk.broker.services.replicas.partition(TopicPartition(CONSUMER_OFFSETS, number))
    assert partition is not None
    return partition


async def assign(talk: GroupTalk, partition: Partition, leader: int, *, epoch: int) -> ErrorCode:
    """What the controller would have this replica be."""
    me = talk.broker.broker_id
    return await talk.broker.services.replicas.assign(
        ReplicaAssignment(
            partition.topic_partition,
            leader,  # type: ignore[arg-type]
            LeaderEpoch(epoch),
            isr=(me,),
            replicas=(me,),
            zk_version=epoch,
            is_new=False,
            settings=TopicSettings(log=partition.log.config),
        )
    )


async def loaded(talk: GroupTalk) -> None:
    shards = talk.broker.services.coordination.groups
    await until(lambda: all(shard.is_loaded for shard in shards.values()))


async def test_offsets_outlive_the_broker(host: BrokerHost) -> None:
    broker = await host.start(**KEYS)
    talk = GroupTalk(broker)
    await make_topic(broker)
    await talk.find("g")
    joined = await talk.member()
    assert await talk.commit(5, generation_id=1, member_id=joined.member_id) is NONE
    await broker.stop()
    again = GroupTalk(await host.start(**KEYS))
    await again.find("g")
    assert await again.committed() == (5, NONE)
    assert await again.heartbeat(joined) is NONE
    await again.broker.stop()


async def test_records_larger_than_the_load_buffer_are_loaded(host: BrokerHost) -> None:
    """KAFKA-7286: one that did not fit was read for ever."""
    broker = await host.start(**KEYS, offsets_load_buffer_size="1")
    talk = GroupTalk(broker)
    await make_topic(broker)
    await talk.find("g")
    assert await talk.commit(5) is NONE
    await broker.stop()
    again = GroupTalk(await host.start(**KEYS, offsets_load_buffer_size="1"))
    await again.find("g")
    assert await again.committed() == (5, NONE)
    await again.broker.stop()


async def test_who_waits_when_the_leadership_goes_is_sent_elsewhere(talk: GroupTalk) -> None:
    member = await talk.member()
    waiting = asyncio.create_task(talk.joined())
    while await talk.heartbeat(member) is NONE:  # noqa: ASYNC110 - what is waited for has no event
        await asyncio.sleep(0.005)
    partition = await place_of(talk)
    assert await assign(talk, partition, NO_LEADER, epoch=5) is NONE
    assert (await waiting).error_code == ErrorCode.NOT_COORDINATOR
    assert await talk.heartbeat(member) is ErrorCode.NOT_COORDINATOR
    assert await talk.commit(1) is ErrorCode.NOT_COORDINATOR
    assert await assign(talk, partition, talk.broker.broker_id, epoch=6) is NONE
    await loaded(talk)
    assert await talk.heartbeat(member) is NONE


async def test_a_new_epoch_of_the_same_leader_loads_again(talk: GroupTalk) -> None:
    assert await talk.commit(5) is NONE
    partition = await place_of(talk)
    before = await talk.broker.services.coordination.group_shard("g")
    assert await assign(talk, partition, talk.broker.broker_id, epoch=5) is NONE
    await loaded(talk)
    after = await talk.broker.services.coordination.group_shard("g")
    assert before is not None
    assert after is not None
    assert after is not before
    assert (before.error, after.coordinator_epoch) == (ErrorCode.NOT_COORDINATOR, 5)
    assert await talk.committed() == (5, NONE)


async def test_an_epoch_that_is_over_changes_nothing(talk: GroupTalk) -> None:
    partition = await place_of(talk)
    assert await assign(talk, partition, talk.broker.broker_id, epoch=5) is NONE
    await loaded(talk)
    assert await assign(talk, partition, NO_LEADER, epoch=4) is ErrorCode.STALE_CONTROLLER_EPOCH
    assert await talk.commit(5) is NONE


async def test_a_failed_directory_takes_its_coordinators_along(talk: GroupTalk) -> None:
    partition = await place_of(talk)
    partition.directory.fail(OSError(5, "a failed disk"))
    assert await talk.commit(5) is ErrorCode.NOT_COORDINATOR


async def test_too_few_replicas_refuse_a_commit_and_leave_no_trace(talk: GroupTalk) -> None:
    partition = await place_of(talk)
    assert await talk.commit(5) is NONE
    partition.set_min_in_sync_replicas(2)
    assert await talk.commit(6) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    partition.set_min_in_sync_replicas(1)
    assert await talk.committed() == (5, NONE)
    shard = await talk.broker.services.coordination.group_shard("g")
    assert shard is not None
    assert shard.counts.loads == 1


async def test_offsets_of_a_deleted_topic_are_forgotten(talk: GroupTalk) -> None:
    await make_topic(talk.broker, "gone")
    assert await talk.commit(5, topic="gone") is NONE
    assert await talk.commit(6) is NONE
    assert (await talk.ask(DeleteTopicsRequest(["gone"], 10_000))).responses[0].error_code == NONE
    partition = await place_of(talk)
    await until(lambda: partition.log.log_end_offset == 3)
    assert await talk.committed(topic="gone") == (-1, NONE)
    assert await talk.committed() == (6, NONE)


async def test_the_number_of_partitions_is_that_of_zookeeper(talk: GroupTalk) -> None:
    coordination = talk.broker.services.coordination
    places = {await coordination.partition_of(CONSUMER_OFFSETS, f"group-{number}") for number in range(50)}
    assert places == {0, 1}
    assert await coordination.partition_of("__transaction_state", "t") is None


def markers(*, commit: bool, epoch: int = 0, coordinator_epoch: int = 1, partitions: dict[str, list[int]]) -> object:
    topics = [WritableTxnMarkerTopic(name, numbers) for name, numbers in partitions.items()]
    return WriteTxnMarkersRequest([WritableTxnMarker(7, epoch, commit, topics, coordinator_epoch)])


async def marker_errors(talk: GroupTalk, request: object) -> dict[tuple[str, int], ErrorCode]:
    (result,) = (await talk.ask(request)).markers
    assert result.producer_id == 7
    return {
        (topic.name, each.partition_index): ErrorCode(each.error_code)
        for topic in result.topics
        for each in topic.partitions
    }


async def commit_in_transaction(talk: GroupTalk, offset: int) -> ErrorCode:
    shard = await talk.broker.services.coordination.group_shard("g")
    assert shard is not None
    place = await place_of(talk)
    place.guards.answer(place.guards.of(7, 0, place.log.producers), NONE)
    request = TxnOffsetCommitRequest(
        "t", "g", 7, 0, topics=[TxnOffsetCommitRequestTopic("t", [TxnOffsetCommitRequestPartition(0, offset)])]
    )
    answer = await shard.run(
        lambda machine, ticket, _now_ms, wall_ms: machine.commit_in_transaction(ticket, request, wall_ms=wall_ms),
        on_lost=lambda error: error,
    )
    return ErrorCode(answer.topics[0].partitions[0].error_code)


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("reloads", [True, False])
async def test_a_marker_ends_what_a_transaction_has_committed(talk: GroupTalk, commits: bool, reloads: bool) -> None:
    place = await place_of(talk)
    assert await talk.commit(5) is NONE
    assert await commit_in_transaction(talk, 9) is NONE
    if reloads:
        assert await assign(talk, place, talk.broker.broker_id, epoch=5) is NONE
        await loaded(talk)
    assert await talk.committed() == (5, NONE)
    assert await talk.committed(is_stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    number = place.topic_partition.partition
    written = await marker_errors(talk, markers(commit=commits, partitions={CONSUMER_OFFSETS: [number]}))
    assert written == {(CONSUMER_OFFSETS, number): NONE}
    assert await talk.committed(is_stable=True) == (9 if commits else 5, NONE)
    if reloads:
        assert await assign(talk, place, talk.broker.broker_id, epoch=6) is NONE
        await loaded(talk)
        assert await talk.committed() == (9 if commits else 5, NONE)


async def test_each_marker_is_answered_for_itself(talk: GroupTalk) -> None:
    wanted = markers(commit=True, partitions={"t": [0, 1, 2], "none": [0]}, epoch=3, coordinator_epoch=4)
    assert await marker_errors(talk, wanted) == {
        ("t", 0): NONE,
        ("t", 1): NONE,
        ("t", 2): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("none", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    number = (await place_of(talk)).topic_partition.partition
    places = {"t": [0], CONSUMER_OFFSETS: [number]}
    assert await marker_errors(talk, markers(commit=True, partitions=places, epoch=3, coordinator_epoch=4)) == {
        ("t", 0): NONE,
        (CONSUMER_OFFSETS, number): NONE,
    }
    stale = await marker_errors(talk, markers(commit=True, partitions=places, epoch=2, coordinator_epoch=4))
    assert set(stale.values()) == {ErrorCode.INVALID_PRODUCER_EPOCH}
    stale = await marker_errors(talk, markers(commit=True, partitions=places, epoch=3, coordinator_epoch=3))
    assert set(stale.values()) == {ErrorCode.TRANSACTION_COORDINATOR_FENCED}


async def test_a_fenced_producer_does_not_cost_the_coordinator_its_state(talk: GroupTalk) -> None:
    number = (await place_of(talk)).topic_partition.partition
    await marker_errors(talk, markers(commit=True, partitions={CONSUMER_OFFSETS: [number]}, epoch=3))
    assert await commit_in_transaction(talk, 9) is ErrorCode.INVALID_PRODUCER_EPOCH
    shard = await talk.broker.services.coordination.group_shard("g")
    assert shard is not None
    assert (shard.counts.loads, shard.counts.failed_appends) == (1, 0)
