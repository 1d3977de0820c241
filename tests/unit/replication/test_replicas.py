"""What a broker makes of the controller's orders about its replicas."""

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerId, TopicPartition
from barnabas.storage.log_config import LogConfig
from replication.partition import Partition, PartitionRefused
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
    leading,
    refusal,
)
from tests.unit.storage.logs import batch

LOG = "/logs0/t-0"
DURING_DELETE, NO_EPOCH = -2, -1


class Roles:
    """What a role watcher was told last."""

    def __init__(self) -> None:
        self.led: dict[TopicPartition, bool] = {}

    def leads(self, partition: Partition) -> None:
        self.led[partition.topic_partition] = True

    def leads_no_more(self, topic_partition: TopicPartition) -> None:
        self.led[topic_partition] = False


@virtual_time
async def test_a_new_partition_gets_a_log_with_its_settings() -> None:
    world, partition = await leading(config=LogConfig(max_message_bytes=77))
    assert world.disk.is_directory(LOG)
    assert partition.log.config.max_message_bytes == 77
    assert partition.is_leader
    assert world.replicas.partitions() == [partition]


@pytest.mark.parametrize("epoch", [0, 1, 4])
def test_an_epoch_that_is_not_newer_changes_nothing(epoch: int) -> None:
    @virtual_time
    async def run() -> None:
        world, partition = await leading()
        await world.assign(4)
        assert await world.assign(epoch, leader=OTHER) is ErrorCode.STALE_CONTROLLER_EPOCH
        assert partition.is_leader
        assert partition.leader_epoch == 4

    run()


@virtual_time
async def test_a_replica_that_is_not_assigned_here_is_not_made() -> None:
    world = await ReplicaWorld().open()
    assert await world.assign(replicas=(OTHER,)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert world.replicas.partition(TP) is None
    assert not world.disk.exists(LOG)


@virtual_time
async def test_another_leader_makes_this_replica_one_that_serves_nothing() -> None:
    world = await ReplicaWorld().open()
    assert await world.assign(3, leader=OTHER, replicas=(OTHER, ME)) is ErrorCode.NONE
    partition = world.partition()
    assert (partition.leader_id, partition.leader_epoch, partition.is_leader) == (OTHER, 3, False)
    with pytest.raises(PartitionRefused):
        partition.require_leader()


@virtual_time
async def test_while_a_directory_is_offline_only_new_replicas_are_made() -> None:
    world = await ReplicaWorld(directories=2).open()
    world.directory.fail(OSError(5, "gone"))
    assert await world.assign(is_new=False) is ErrorCode.KAFKA_STORAGE_ERROR
    assert world.replicas.partition(TP) is None
    assert await world.assign(is_new=True) is ErrorCode.NONE
    assert world.partition().directory.path == "/logs1"


@virtual_time
async def test_a_log_that_cannot_be_made_is_a_storage_error() -> None:
    world = await ReplicaWorld().open()
    world.disk.fail("make_directory", "t-0")
    assert await world.assign() is ErrorCode.KAFKA_STORAGE_ERROR
    assert world.directory.is_offline


@virtual_time
async def test_a_failed_directory_takes_its_own_replicas_along_and_no_others() -> None:
    world = await ReplicaWorld(directories=2).open()
    lost, kept = await world.lead(), await world.lead(at=TopicPartition("t", 1))
    world.directory.fail(OSError(5, "gone"))
    assert (lost.is_offline, kept.is_offline) == (True, False)
    assert await world.assign(1) is ErrorCode.KAFKA_STORAGE_ERROR
    for delete in (True, False):
        assert await world.stop(DURING_DELETE, delete=delete) is ErrorCode.KAFKA_STORAGE_ERROR
        assert world.partition() is lost
    assert await world.assign(1, at=TopicPartition("t", 1)) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("epoch", "error"),
    [
        (DURING_DELETE, ErrorCode.NONE),
        (NO_EPOCH, ErrorCode.NONE),
        (6, ErrorCode.NONE),
        (5, ErrorCode.FENCED_LEADER_EPOCH),
        (4, ErrorCode.FENCED_LEADER_EPOCH),
    ],
)
def test_a_replica_is_stopped_by_a_newer_epoch_or_by_one_that_beats_all(epoch: int, error: ErrorCode) -> None:
    @virtual_time
    async def run() -> None:
        world, partition = await leading()
        await world.assign(5)
        assert await world.stop(epoch) is error
        stopped = error is ErrorCode.NONE
        assert (world.replicas.partition(TP) is None) is stopped
        assert partition.is_leader is not stopped
        assert world.disk.exists(LOG) is not stopped

    run()


@virtual_time
async def test_a_replica_that_is_stopped_without_deletion_finds_its_log_again() -> None:
    world, partition = await leading()
    append_now(partition)
    assert await world.stop(1, delete=False) is ErrorCode.NONE
    assert world.disk.exists(LOG)
    with pytest.raises(PartitionRefused):
        partition.try_append(batch(b"a"), acks=1)
    settings = LogConfig(max_message_bytes=77)
    assert await world.assign(2, is_new=False, config=settings) is ErrorCode.NONE
    again = world.partition()
    assert again is not partition
    assert again.log is partition.log
    assert (again.log.log_end_offset, again.log.config) == (1, settings)


@virtual_time
async def test_a_stale_log_is_no_part_of_a_new_replica() -> None:
    """Kafka 2.7 has no topic ids: a log of a topic that was deleted while this broker was down has the same name."""
    world, partition = await leading()
    append_now(partition)
    assert await world.stop(1, delete=False) is ErrorCode.NONE
    assert await world.assign(0, is_new=True) is ErrorCode.NONE
    assert world.partition().log.log_end_offset == 0


@virtual_time
async def test_a_partition_that_is_deleted_and_made_again_is_empty_and_leads_from_its_first_epoch() -> None:
    world, partition = await leading()
    await world.assign(3)
    append_now(partition)
    assert await world.stop(DURING_DELETE) is ErrorCode.NONE
    again = await world.lead()
    assert again is not partition
    assert (again.leader_epoch, again.log.log_end_offset) == (0, 0)
    assert append_now(again).first_offset == 0
    with pytest.raises(PartitionRefused) as raised:
        partition.try_append(batch(b"a"), acks=1)
    assert raised.value.error is ErrorCode.NOT_LEADER_OR_FOLLOWER


@virtual_time
async def test_what_may_lie_in_a_directory_that_is_offline_is_not_said_to_be_deleted() -> None:
    world = await ReplicaWorld(directories=2).open()
    world.directory.fail(OSError(5, "gone"))
    assert await world.stop(DURING_DELETE) is ErrorCode.KAFKA_STORAGE_ERROR
    assert await world.stop(DURING_DELETE, delete=False) is ErrorCode.NONE


@virtual_time
async def test_stopping_what_is_not_here_is_done_and_deleting_it_takes_its_log() -> None:
    world = await ReplicaWorld().open()
    assert await world.stop(DURING_DELETE) is ErrorCode.NONE
    await world.lead()
    await world.stop(1, delete=False)
    assert await world.stop(DURING_DELETE) is ErrorCode.NONE
    assert not world.disk.exists(LOG)


@virtual_time
async def test_a_deletion_waits_for_the_append_in_the_thread_and_fails_its_wait() -> None:
    world, partition = await leading(config=FLUSH_EACH)
    world.make_slow(partition)
    for kind in ("write", "flush"):
        world.offload.hold(kind)
    appending = append_later(partition, batch(b"a"))
    await turns()
    deleting = world.supervisor.spawn(world.stop(DURING_DELETE), name="stop")
    await turns()
    assert world.replicas.partition(TP) is None, "nobody finds it any more"
    assert world.disk.exists(LOG)
    assert not deleting.done()
    world.offload.release("write")
    wait = (await appending).wait
    assert await deleting is ErrorCode.NONE
    assert not world.disk.exists(LOG)
    assert refusal(wait) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    world.offload.release("flush")
    await turns()
    assert not world.directory.is_offline
    assert world.failed == []


@virtual_time
async def test_a_deletion_during_a_flush_costs_neither_the_directory_nor_the_broker() -> None:
    world, partition = await leading(config=FLUSH_EACH)
    await turns()
    world.offload.hold("flush")
    wait = acknowledged(partition, append_now(partition))
    await turns()
    assert await world.stop(DURING_DELETE) is ErrorCode.NONE
    world.offload.release("flush")
    await turns()
    assert refusal(wait) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert not world.directory.is_offline
    assert world.failed == []


@virtual_time
async def test_a_directory_that_fails_while_it_deletes_is_told() -> None:
    world, _ = await leading()
    world.disk.fail("rename", "t-0")
    assert await world.stop(DURING_DELETE) is ErrorCode.KAFKA_STORAGE_ERROR
    assert world.directory.is_offline


@virtual_time
async def test_closing_waits_for_the_append_in_the_thread_and_takes_no_other() -> None:
    world, partition = await leading()
    world.make_slow(partition)
    world.offload.hold("write")
    appending = append_later(partition, batch(b"a"))
    await turns()
    closing = world.supervisor.spawn(world.replicas.close(), name="close")
    await turns()
    assert not closing.done()
    world.offload.release("write")
    await closing
    assert (await appending).first_offset == 1
    with pytest.raises(PartitionRefused) as raised:
        await partition.append(batch(b"b"), acks=1)
    assert raised.value.error is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("leader", [ME, OTHER])
@virtual_time
async def test_a_directory_that_fails_while_a_role_change_waits_for_it_leaves_nothing_that_leads(
    leader: BrokerId,
) -> None:
    world, partition = await leading()
    seen = Roles()
    world.replicas.role_watchers.append(seen)
    world.make_slow(partition)
    world.offload.hold("write")
    appending = append_later(partition, batch(b"a"))
    await turns()
    assigning = world.supervisor.spawn(world.assign(1, leader=leader, replicas=(ME, OTHER)), name="assign")
    await turns()
    world.directory.fail(OSError("planted"))
    world.offload.release("write")
    assert await assigning is ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(PartitionRefused):
        await appending
    assert seen.led == {TP: False}
    assert world.failed == []
