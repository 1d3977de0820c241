"""Batches behind one that was refused: they are refused alike, so that a producer tries all of them again in order."""

import pytest

from barnabas.protocol.batch import read_header
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import LeaderEpoch
from barnabas.storage.append import AppendRejected
from barnabas.storage.producer_state import MAX_SEQUENCE, ProducerState
from replication.partition import Partition, PartitionRefused
from replication.refused_batches import IN_FLIGHT_BEHIND, MOVING_MS, PRODUCERS_KEPT, RefusedBatches
from tests.support.virtual_time import virtual_time
from tests.unit.replication.replica_world import ME, OTHER, ReplicaWorld
from tests.unit.storage.logs import batch

PRODUCER = 5


def sent(sequence: int, *, epoch: int = 0, producer: int = PRODUCER) -> memoryview:
    return batch(b"v", producer=(producer, epoch, sequence))


def refused(sequence: int = 10) -> RefusedBatches:
    batches = RefusedBatches()
    batches.note(sent(sequence), PartitionRefused(ErrorCode.NOT_ENOUGH_REPLICAS, "why"))
    return batches


def is_refused(batches: RefusedBatches, records: memoryview, producers: ProducerState | None = None) -> bool:
    try:
        batches.check(records, producers or ProducerState())
    except PartitionRefused as refusal:
        return (refusal.error, refusal.message) == (ErrorCode.NOT_ENOUGH_REPLICAS, "why")
    return False


def refusal_of(
    partition: Partition, records: memoryview, kind: type[PartitionRefused] | type[AppendRejected]
) -> ErrorCode:
    """Why the leader does not take it, by an error of that kind."""
    with pytest.raises(kind) as refused_by:
        partition.try_append(records, acks=-1)
    return refused_by.value.error


def test_four_behind_a_refused_batch_are_refused_and_the_fifth_is_told_of_its_gap() -> None:
    batches = refused()
    assert [is_refused(batches, sent(11 + number)) for number in range(5)] == [True] * IN_FLIGHT_BEHIND + [False]
    assert not batches


def test_when_the_refused_batch_comes_again_it_and_all_behind_it_pass() -> None:
    batches = refused()
    assert is_refused(batches, sent(11))
    assert not is_refused(batches, sent(10))
    assert not is_refused(batches, sent(11))


def test_an_earlier_batch_passes_and_the_refused_one_is_still_waited_for() -> None:
    batches = refused()
    assert not is_refused(batches, sent(9))
    assert is_refused(batches, sent(11))


def test_of_several_refused_batches_the_first_counts() -> None:
    batches = refused(10)
    batches.note(sent(11), PartitionRefused(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert is_refused(batches, sent(12))
    batches.note(sent(8), PartitionRefused(ErrorCode.NOT_ENOUGH_REPLICAS, "why"))
    assert is_refused(batches, sent(9))


def test_sequences_wrap() -> None:
    batches = refused(MAX_SEQUENCE)
    assert is_refused(batches, sent(0))
    assert not is_refused(batches, sent(MAX_SEQUENCE - 1))


def test_another_epoch_or_producer_is_another_matter() -> None:
    batches = refused()
    assert not is_refused(batches, sent(11, producer=PRODUCER + 1))
    assert not is_refused(batches, batch(b"v"))
    assert not is_refused(batches, sent(11, epoch=1))
    assert not batches
    batches.note(batch(b"v"), PartitionRefused(ErrorCode.NOT_ENOUGH_REPLICAS))
    batches.note(memoryview(bytearray(20)), PartitionRefused(ErrorCode.NOT_ENOUGH_REPLICAS))
    assert not batches


def test_only_so_many_producers_are_remembered() -> None:
    batches = RefusedBatches()
    for producer in range(PRODUCERS_KEPT + 1):
        batches.note(sent(10, producer=producer), PartitionRefused(ErrorCode.NOT_ENOUGH_REPLICAS, "why"))
    assert not is_refused(batches, sent(11, producer=0))
    assert is_refused(batches, sent(11, producer=1))


@virtual_time
async def test_a_producer_whose_replicas_come_back_between_two_batches_hears_of_no_gap() -> None:
    world = await ReplicaWorld().open()
    partition = await world.lead(min_in_sync_replicas=2)
    for sequence in (0, 1):
        with pytest.raises(PartitionRefused):
            partition.try_append(sent(sequence), acks=-1)
    partition.set_min_in_sync_replicas(1)
    assert refusal_of(partition, sent(2), PartitionRefused) is ErrorCode.NOT_ENOUGH_REPLICAS
    for sequence in (0, 1, 2):
        assert partition.try_append(sent(sequence), acks=-1) is not None
    assert refusal_of(partition, sent(4), AppendRejected) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@virtual_time
async def test_nor_does_one_whose_leader_began_between_them() -> None:
    world = await ReplicaWorld().open()
    assert await world.assign(0, leader=OTHER, replicas=(OTHER, ME)) is ErrorCode.NONE
    partition = world.partition()
    with pytest.raises(PartitionRefused):
        partition.try_append(sent(0), acks=-1)
    assert await world.assign(1) is ErrorCode.NONE
    assert refusal_of(partition, sent(1), PartitionRefused) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.try_append(sent(0), acks=-1) is not None
    assert partition.try_append(sent(1), acks=-1) is not None


@virtual_time
async def test_what_another_leader_has_taken_since_is_waited_for_no_longer() -> None:
    world = await ReplicaWorld().open()
    partition = await world.lead()
    assert await world.assign(1, leader=OTHER, replicas=(OTHER, ME)) is ErrorCode.NONE
    with pytest.raises(PartitionRefused):
        partition.try_append(sent(0), acks=-1)
    for offset in range(2):
        records = batch(b"v", producer=(PRODUCER, 0, offset), base_offset=offset, leader_epoch=1)
        await partition.append_as_follower(records, leader_epoch=LeaderEpoch(1))
    assert await world.assign(2) is ErrorCode.NONE
    assert partition.try_append(sent(2), acks=-1) is not None


@virtual_time
async def test_what_another_leader_has_taken_of_it_before_does_not_count() -> None:
    world = await ReplicaWorld().open()
    partition = await world.lead()
    assert await world.assign(1, leader=OTHER, replicas=(OTHER, ME)) is ErrorCode.NONE
    with pytest.raises(PartitionRefused):
        partition.try_append(sent(1), acks=-1)
    records = batch(b"v", producer=(PRODUCER, 0, 0), base_offset=0, leader_epoch=1)
    await partition.append_as_follower(records, leader_epoch=LeaderEpoch(1))
    assert await world.assign(2) is ErrorCode.NONE
    assert refusal_of(partition, sent(2), PartitionRefused) is ErrorCode.NOT_LEADER_OR_FOLLOWER


@virtual_time
async def test_of_a_batch_that_came_again_and_was_refused_the_next_one_is_waited_for() -> None:
    world = await ReplicaWorld().open()
    partition = await world.lead()
    assert partition.try_append(sent(0), acks=-1) is not None
    partition.set_min_in_sync_replicas(2)
    for sequence in (0, 1):
        with pytest.raises(PartitionRefused):
            partition.try_append(sent(sequence), acks=-1)
    partition.set_min_in_sync_replicas(1)
    assert refusal_of(partition, sent(2), PartitionRefused) is ErrorCode.NOT_ENOUGH_REPLICAS
    for sequence in (0, 1, 2):
        assert partition.try_append(sent(sequence), acks=-1) is not None


@pytest.mark.parametrize(("first", "next_one"), [(MAX_SEQUENCE - 1, MAX_SEQUENCE), (MAX_SEQUENCE, 0), (0, 1)])
def test_of_what_the_log_has_the_next_one_is_waited_for_around_the_end_of_sequences(first: int, next_one: int) -> None:
    producers = ProducerState()
    producers.apply_batch(read_header(sent(first)), base_offset=0)
    batches = refused(first)
    assert is_refused(batches, sent((next_one + 1) & MAX_SEQUENCE), producers)
    assert not is_refused(batches, sent(next_one), producers)
    assert not batches


def test_what_the_log_has_of_another_epoch_does_not_count() -> None:
    producers = ProducerState()
    producers.apply_batch(read_header(sent(20, epoch=1)), base_offset=0)
    assert is_refused(refused(), sent(11), producers)


@virtual_time
async def test_a_refusal_that_is_remembered_holds_no_request() -> None:
    world = await ReplicaWorld().open()
    partition = await world.lead(min_in_sync_replicas=2)
    frame = bytearray(sent(0))
    with pytest.raises(PartitionRefused):
        partition.try_append(memoryview(frame), acks=-1)
    # An array that something has a view of cannot grow.
    frame.append(0)


@virtual_time
async def test_a_gap_behind_what_went_to_the_leader_before_is_tried_again_for_a_while() -> None:
    world = await ReplicaWorld().open()
    partition = await world.lead()
    assert partition.try_append(sent(0), acks=-1) is not None
    assert await world.assign(1) is ErrorCode.NONE
    for later_ms in (0, MOVING_MS - 1):
        world.clock.advance(later_ms)
        assert refusal_of(partition, sent(2), PartitionRefused) is ErrorCode.NOT_ENOUGH_REPLICAS
    world.clock.advance(1)
    assert refusal_of(partition, sent(2), AppendRejected) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@virtual_time
async def test_a_producer_that_has_reached_the_new_leader_is_told_of_its_gap_at_once() -> None:
    world = await ReplicaWorld().open()
    partition = await world.lead()
    assert partition.try_append(sent(0), acks=-1) is not None
    assert await world.assign(1) is ErrorCode.NONE
    assert partition.try_append(sent(1), acks=-1) is not None
    assert refusal_of(partition, sent(3), AppendRejected) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
