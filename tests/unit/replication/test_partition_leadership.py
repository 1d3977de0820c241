"""A leader with followers: what they fetch commits records, changes the in-sync set and lets go of who waits."""

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerEpoch, BrokerId, LeaderEpoch, TopicPartition
from barnabas.storage.log_config import LogConfig
from replication.isr import IsrAnswer
from replication.partition import Partition, PartitionRefused
from replication.replicas import ReplicaAssignment
from replication.settings import TopicSettings
from tests.support.virtual_time import turns, virtual_time
from tests.unit.replication.replica_world import (
    FLUSH_EACH,
    ME,
    OTHER,
    TP,
    ReplicaWorld,
    acknowledged,
    append_later,
    append_now,
    refusal,
)
from tests.unit.storage.logs import batch

THIRD = BrokerId(3)
ALL = (ME, OTHER, THIRD)
LAG_MS = 30_000


async def lead(
    world: ReplicaWorld,
    *,
    epoch: int = 0,
    isr: tuple[BrokerId, ...] = ALL,
    min_isr: int = 1,
    config: LogConfig | None = None,
) -> Partition:
    world.live[THIRD] = BrokerEpoch(3)
    error = await world.replicas.assign(
        ReplicaAssignment(
            topic_partition=TP,
            leader_id=ME,
            leader_epoch=LeaderEpoch(epoch),
            isr=isr,
            replicas=ALL,
            zk_version=epoch,
            is_new=True,
            settings=TopicSettings(config or LogConfig(), min_isr),
        )
    )
    assert error is ErrorCode.NONE
    return world.partition()


async def leading(**more: object) -> tuple[ReplicaWorld, Partition]:
    world = await ReplicaWorld().open()
    return world, await lead(world, **more)  # type: ignore[arg-type]


def fetch(partition: Partition, offset: int, *replicas: BrokerId, epoch: int | None = None, start: int = 0) -> None:
    for replica in replicas or (OTHER, THIRD):
        partition.on_follower_fetch(
            replica,
            leader_epoch=partition.leader_epoch if epoch is None else epoch,
            fetch_offset=offset,
            log_start_offset=start,
        )


class Ear:
    """Hears what a follower's session hears."""

    def __init__(self) -> None:
        self.changes = self.watermarks = 0

    def partition_changed(self, topic_partition: TopicPartition) -> None:
        assert topic_partition == TP
        self.changes += 1

    def watermark_changed(self, topic_partition: TopicPartition) -> None:
        assert topic_partition == TP
        self.watermarks += 1


# Acknowledgements.


@virtual_time
async def test_acks_of_all_wait_for_every_member_and_acks_of_one_for_none() -> None:
    _, partition = await leading()
    info = append_now(partition, b"a", b"b")
    assert partition.when_acknowledged(info, acks=1) is None
    wait = acknowledged(partition, info)
    fetch(partition, 2, OTHER)
    fetch(partition, 1, THIRD)
    assert (wait.done(), partition.log.high_watermark) == (False, 1)
    fetch(partition, 2, THIRD)
    assert (wait.result(), partition.log.high_watermark) == (None, 2)


@virtual_time
async def test_a_duplicate_waits_like_its_original() -> None:
    _, partition = await leading()
    infos = [partition.try_append(batch(b"a", producer=(5, 0, 0)), acks=-1) for _ in range(2)]
    waits = [acknowledged(partition, info) for info in infos if info is not None]
    assert [wait.done() for wait in waits] == [False, False]
    fetch(partition, 1)
    assert [wait.result() for wait in waits] == [None, None]


@virtual_time
async def test_the_leaders_own_end_counts_only_when_it_is_durable() -> None:
    world, partition = await leading(config=FLUSH_EACH)
    world.offload.hold("flush")
    wait = acknowledged(partition, append_now(partition))
    fetch(partition, 1)
    await turns()
    assert (wait.done(), partition.log.high_watermark) == (False, 0)
    world.offload.release("flush")
    await turns()
    assert (wait.result(), partition.log.high_watermark) == (None, 1)


@virtual_time
async def test_too_few_in_sync_refuse_before_the_append_and_an_expansion_counts_only_when_committed() -> None:
    world, partition = await leading(isr=(ME,), min_isr=2)
    with pytest.raises(PartitionRefused) as refused:
        append_now(partition)
    assert refused.value.error is ErrorCode.NOT_ENOUGH_REPLICAS
    assert partition.log.log_end_offset == 0
    append_now(partition, acks=1)
    fetch(partition, 1, OTHER)
    assert world.channel.proposed == [(ME, OTHER)]
    with pytest.raises(PartitionRefused):
        append_now(partition)
    world.channel.obey(TP)
    assert partition.isr == (ME, OTHER)
    acknowledged(partition, append_now(partition))


@virtual_time
async def test_who_waits_is_told_when_a_shrink_leaves_too_few() -> None:
    world, partition = await leading(min_isr=2)
    info = append_now(partition)
    wait, late = acknowledged(partition, info), acknowledged(partition, info)
    late.cancel()
    world.clock.advance(LAG_MS + 1)
    partition.check_lag()
    assert world.channel.proposed == [(ME,)]
    assert not wait.done()
    world.channel.obey(TP)
    assert refusal(wait) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert partition.log.high_watermark == 0
    assert refusal(partition.when_acknowledged(info, acks=-1)) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    fetch(partition, 1, OTHER)
    assert partition.log.high_watermark == 1, "who is to join counts at once"


@virtual_time
async def test_an_append_that_a_shrink_overtakes_is_told_too() -> None:
    world, partition = await leading(min_isr=2)
    world.make_slow(partition)
    world.clock.advance(LAG_MS + 1)
    partition.check_lag()
    world.offload.hold("write")
    appending = append_later(partition, batch(b"a"))
    await turns()
    world.channel.obey(TP)
    world.offload.release("write")
    assert refusal((await appending).wait) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


@virtual_time
async def test_a_shrink_that_leaves_enough_raises_the_high_watermark() -> None:
    # KAFKA-13091
    world, partition = await leading(min_isr=2)
    wait = acknowledged(partition, append_now(partition))
    world.clock.advance(LAG_MS)
    fetch(partition, 1, OTHER)
    world.clock.advance(1)
    partition.check_lag()
    assert world.channel.proposed == [(ME, OTHER)]
    assert not wait.done()
    world.channel.obey(TP)
    assert (wait.result(), partition.isr) == (None, (ME, OTHER))
    assert (world.ports.counts.shrinks, world.ports.counts.expands) == (1, 0)


# Changes of the in-sync set.


@virtual_time
async def test_a_follower_that_has_all_is_taken_in() -> None:
    world, partition = await leading(isr=(ME,))
    append_now(partition)
    fetch(partition, 0, OTHER)
    assert world.channel.proposed == []
    fetch(partition, 1, OTHER)
    fetch(partition, 1, THIRD)
    assert world.channel.proposed == [(ME, OTHER)]
    world.channel.obey(TP)
    fetch(partition, 1, THIRD)
    world.channel.obey(TP)
    assert partition.isr == ALL
    assert world.ports.counts.expands == 2


@virtual_time
async def test_a_broker_that_the_metadata_does_not_know_is_not_taken_in() -> None:
    world, partition = await leading(isr=(ME,))
    del world.live[OTHER]
    fetch(partition, 0, OTHER)
    assert world.channel.proposed == []
    world.live[OTHER] = BrokerEpoch(8)
    fetch(partition, 0, OTHER)
    assert world.channel.waiting[TP][0].joiner_epoch == 8


@virtual_time
async def test_who_caught_up_while_something_else_was_pending_is_taken_in_by_the_next_check() -> None:
    world, partition = await leading(isr=(ME,))
    append_now(partition)
    fetch(partition, 1, OTHER)
    fetch(partition, 1, THIRD)
    world.channel.obey(TP)
    assert partition.isr == (ME, OTHER)
    # An idle follower says no more: it has all.
    partition.check_lag()
    world.channel.obey(TP)
    assert partition.isr == ALL


@virtual_time
async def test_what_a_broker_said_before_it_started_anew_takes_nobody_in() -> None:
    world, partition = await leading(isr=(ME,))
    append_now(partition)
    fetch(partition, 1, OTHER)
    fetch(partition, 1, THIRD)
    world.channel.obey(TP)
    world.live[THIRD] = BrokerEpoch(9)
    partition.check_lag()
    assert world.channel.proposed == [(ME, OTHER)]


@virtual_time
async def test_a_request_that_may_be_of_an_earlier_life_takes_nobody_in_now_or_later() -> None:
    world, partition = await leading(isr=(ME,))
    partition.on_follower_fetch(OTHER, leader_epoch=LeaderEpoch(0), fetch_offset=0, log_start_offset=0, is_proven=False)
    partition.check_lag()
    assert world.channel.proposed == []
    fetch(partition, 0, OTHER)
    assert world.channel.proposed == [(ME, OTHER)]


@virtual_time
async def test_an_answer_that_decides_nothing_is_asked_again_by_the_next_check() -> None:
    world, partition = await leading(isr=(ME,))
    fetch(partition, 0, OTHER)
    world.channel.answer(TP, IsrAnswer(ErrorCode.INVALID_UPDATE_VERSION))
    fetch(partition, 0, THIRD)
    assert world.channel.proposed == [(ME, OTHER)]
    partition.check_lag()
    partition.check_lag()
    assert world.channel.proposed == [(ME, OTHER)] * 2, "once, until there is an answer again"
    world.channel.obey(TP)
    assert partition.isr == (ME, OTHER)
    assert world.ports.counts.failed_updates == 1


@virtual_time
async def test_an_answer_after_leader_and_isr_is_not_heard() -> None:
    # KAFKA-12686: the proposal is over with its epoch, and so is whatever was in flight.
    world, partition = await leading(isr=(ME,))
    fetch(partition, 0, OTHER)
    _, on_answer = world.channel.waiting[TP]
    await lead(world, epoch=1, isr=(ME, THIRD))
    on_answer(IsrAnswer(ErrorCode.NONE, 0, (ME, OTHER), 1))
    on_answer(IsrAnswer(ErrorCode.NONE, 1, (ME, OTHER), 9))
    assert partition.isr == (ME, THIRD)
    fetch(partition, 0, OTHER)
    assert world.channel.proposed == [(ME, OTHER), (ME, THIRD, OTHER)]


@virtual_time
async def test_who_leads_no_longer_proposes_nothing_and_hears_nothing() -> None:
    world, partition = await leading(isr=(ME,))
    fetch(partition, 0, OTHER)
    _, on_answer = world.channel.waiting[TP]
    await world.assign(1, leader=OTHER, replicas=ALL)
    assert world.channel.waiting == {}
    on_answer(IsrAnswer(ErrorCode.NONE, 0, (ME, OTHER), 1))
    partition.check_lag()
    assert (partition.isr, partition.leadership) == ((), None)


@virtual_time
async def test_a_partition_whose_directory_failed_proposes_nothing() -> None:
    world, partition = await leading()
    append_now(partition)
    world.clock.advance(LAG_MS + 1)
    world.directory.fail(OSError(5, "gone"))
    partition.check_lag()
    assert world.channel.proposed == []


# Epochs.


@virtual_time
async def test_a_new_epoch_starts_without_what_was_said_in_the_last() -> None:
    world, partition = await leading()
    info = append_now(partition)
    wait = acknowledged(partition, info)
    fetch(partition, 1, OTHER)
    await lead(world, epoch=1)
    fetch(partition, 1, THIRD)
    fetch(partition, 1, OTHER, epoch=0)
    assert (partition.log.high_watermark, wait.done()) == (0, False)
    fetch(partition, 1, OTHER)
    assert (partition.log.high_watermark, wait.result()) == (1, None)


@virtual_time
async def test_who_waits_when_the_leadership_ends_is_told_that_others_may_have_the_records() -> None:
    world, partition = await leading()
    wait = acknowledged(partition, append_now(partition))
    await world.assign(1, leader=OTHER, replicas=ALL)
    assert refusal(wait) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


@virtual_time
async def test_who_waits_when_the_directory_fails_is_told_that_others_may_have_the_records() -> None:
    world, partition = await leading()
    wait = acknowledged(partition, append_now(partition))
    world.directory.fail(OSError(5, "gone"))
    assert refusal(wait) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


@virtual_time
async def test_a_replica_behind_the_start_of_the_epoch_is_not_taken_in() -> None:
    # KAFKA-7128
    world, partition = await leading(isr=(ME,))
    append_now(partition)
    world.live.clear()
    partition.log.set_high_watermark(0)
    await lead(world, epoch=1, isr=(ME, THIRD))
    world.live[OTHER] = BrokerEpoch(2)
    fetch(partition, 0, OTHER)
    assert partition.log.high_watermark == 0
    assert world.channel.proposed == []
    fetch(partition, 1, OTHER)
    assert world.channel.proposed == [(ME, THIRD, OTHER)]


# Deleting records.


@virtual_time
async def test_records_are_deleted_when_every_live_replica_has_let_go() -> None:
    world, partition = await leading()
    append_now(partition, b"a", b"b", b"c")
    fetch(partition, 3)
    wait = partition.deletion.delete(2)
    assert wait is not None
    assert (partition.log.log_start_offset, partition.deletion.low_watermark) == (2, 0)
    fetch(partition, 3, OTHER, start=2)
    assert not wait.done()
    fetch(partition, 3, THIRD, start=2)
    assert (await wait, partition.deletion.low_watermark) == (None, 2)
    del world.live[THIRD]
    wait = partition.deletion.delete(-1)
    assert wait is not None
    fetch(partition, 3, OTHER, start=3)
    assert await wait is None, "who is gone is not waited for"
    assert partition.deletion.delete(1) is None


@pytest.mark.parametrize("offset", [4, -2])
def test_nothing_is_deleted_that_is_not_committed(offset: int) -> None:
    @virtual_time
    async def run() -> None:
        _, partition = await leading()
        append_now(partition, b"a", b"b", b"c", b"d")
        fetch(partition, 3)
        with pytest.raises(PartitionRefused) as refused:
            partition.deletion.delete(offset)
        assert refused.value.error is ErrorCode.OFFSET_OUT_OF_RANGE
        assert partition.log.log_start_offset == 0

    run()


@virtual_time
async def test_nothing_is_deleted_where_only_compaction_deletes() -> None:
    _, partition = await leading(config=LogConfig(delete=False, compact=True))
    with pytest.raises(PartitionRefused) as refused:
        partition.deletion.delete(0)
    assert refused.value.error is ErrorCode.POLICY_VIOLATION


@virtual_time
async def test_who_waits_for_a_deletion_is_told_when_the_epoch_ends() -> None:
    world, partition = await leading()
    append_now(partition)
    fetch(partition, 1)
    wait = partition.deletion.delete(1)
    await world.assign(1, leader=OTHER, replicas=ALL)
    assert refusal(wait) is ErrorCode.NOT_LEADER_OR_FOLLOWER


# Watching.


@virtual_time
async def test_a_follower_is_woken_by_records_and_only_noted_when_they_are_committed() -> None:
    _, partition = await leading()
    follower, consumer = Ear(), Ear()
    partition.watch_end(follower)
    partition.watch(consumer)
    append_now(partition, acks=1)
    assert (follower.changes, follower.watermarks, consumer.changes) == (1, 0, 0)
    fetch(partition, 1)
    assert (follower.changes, follower.watermarks, consumer.changes) == (1, 1, 1)
    partition.unwatch_end(follower)
    append_now(partition, acks=1)
    assert follower.changes == 1


@virtual_time
async def test_what_waited_for_more_in_sync_is_committed_when_fewer_are_asked_for() -> None:
    _, partition = await leading(isr=(ME, OTHER), min_isr=3)
    append_now(partition, acks=1)
    fetch(partition, 1, OTHER)
    assert partition.log.high_watermark == 0
    partition.set_min_in_sync_replicas(2)
    assert partition.log.high_watermark == 1


@virtual_time
async def test_an_expansion_under_way_is_enough_after_the_append() -> None:
    # Before the append the committed set counts, after it the maximal one.
    world, partition = await leading(isr=(ME,), min_isr=1)
    info = append_now(partition)
    partition.set_min_in_sync_replicas(2)
    assert refusal(partition.when_acknowledged(info, acks=-1)) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    fetch(partition, 1, OTHER)
    assert world.channel.proposed == [(ME, OTHER)]
    assert partition.when_acknowledged(info, acks=-1) is None


@virtual_time
async def test_a_follower_that_had_all_lags_since_the_next_record() -> None:
    world, partition = await leading()
    fetch(partition, 0)
    world.clock.advance(10 * LAG_MS)
    append_now(partition)
    partition.check_lag()
    assert world.channel.proposed == []
    world.clock.advance(LAG_MS + 1)
    partition.check_lag()
    assert world.channel.proposed == [(ME,)]


@virtual_time
async def test_a_topic_with_fewer_replicas_than_min_isr_commits_on_all_it_has() -> None:
    # Consumers of acks=1 see records there, as in Kafka.
    _, partition = await leading(min_isr=4)
    append_now(partition, acks=1)
    fetch(partition, 1)
    assert partition.log.high_watermark == 1


@virtual_time
async def test_what_is_gone_everywhere_already_is_not_waited_for() -> None:
    _, partition = await leading()
    append_now(partition, b"a", b"b")
    fetch(partition, 2, start=1)
    wait = partition.deletion.delete(1)
    assert wait is not None
    await wait
    assert partition.deletion.delete(1) is None


@virtual_time
async def test_who_waits_is_told_when_a_new_epoch_leaves_too_few_in_sync() -> None:
    world, partition = await leading(min_isr=2)
    wait = acknowledged(partition, append_now(partition))
    await lead(world, epoch=1, isr=(ME,), min_isr=2)
    assert refusal(wait) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


@virtual_time
async def test_who_waits_is_told_when_more_replicas_are_demanded_than_are_in_sync() -> None:
    _, partition = await leading(min_isr=1, isr=(ME, OTHER))
    wait = acknowledged(partition, append_now(partition))
    partition.set_min_in_sync_replicas(3)
    assert refusal(wait) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
