"""A partition of an internal topic as its coordinator sees it, in one leadership."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from barnabas.coordinator.batches import batch_of, marker_batch
from barnabas.coordinator.outcome import CoordinatorRecord, ProducerStamp
from barnabas.coordinator.ports import LogRefused
from barnabas.protocol.batch import Codec
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerId, LeaderEpoch
from barnabas.storage.log_config import LogConfig
from broker.partition_log import PartitionLog
from replication.replicas import ReplicaAssignment
from replication.settings import TopicSettings
from tests.support.virtual_time import turns, virtual_time
from tests.unit.replication.replica_world import ME, OTHER, TP, ReplicaWorld

RECORD = batch_of([CoordinatorRecord(b"key", b"value")], 1, Codec.NONE, None)
PRODUCER = ProducerStamp(7, 3)


async def lead(
    world: ReplicaWorld,
    *,
    epoch: int = 0,
    leader: BrokerId = ME,
    isr: tuple[BrokerId, ...] = (ME, OTHER),
    config: LogConfig | None = None,
) -> None:
    assignment = ReplicaAssignment(
        topic_partition=TP,
        leader_id=leader,
        leader_epoch=LeaderEpoch(epoch),
        isr=isr,
        replicas=(ME, OTHER),
        zk_version=0,
        is_new=not epoch,
        settings=TopicSettings(config or LogConfig(), 1),
    )
    assert await world.replicas.assign(assignment) is ErrorCode.NONE


async def log_of(
    *, acks: int = -1, alone: bool = False, config: LogConfig | None = None
) -> tuple[ReplicaWorld, PartitionLog]:
    world = await ReplicaWorld().open()
    await lead(world, isr=(ME,) if alone else (ME, OTHER), config=config)
    return world, PartitionLog(world.partition(), world.offload, acks=acks)


async def refusal_of(what: object) -> ErrorCode:
    with pytest.raises(LogRefused) as raised:
        await what  # type: ignore[misc]
    return raised.value.error


async def at_once(log: PartitionLog, batch: bytes) -> int:
    end = log.try_append(batch)
    assert end is not None
    return end


async def in_turn(log: PartitionLog, batch: bytes) -> int:
    return await log.append(batch)


Write = Callable[[PartitionLog, bytes], Awaitable[int]]
both_ways = pytest.mark.parametrize("write", [at_once, in_turn], ids=["at once", "in turn"])


@both_ways
@pytest.mark.parametrize("leader", [ME, OTHER], ids=["the same leader", "another"])
def test_a_log_is_of_one_leadership(leader: BrokerId, write: Write) -> None:
    @virtual_time
    async def play() -> None:
        world, log = await log_of(alone=True)
        end = await write(log, RECORD)
        assert log.is_committed(end)
        await lead(world, epoch=5, leader=leader, isr=(leader,))
        assert log.refusal() is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert not log.is_committed(end), "who coordinates now may have decided otherwise"
        for what in (write(log, RECORD), log.committed(end), log.read(0, 1000)):
            assert await refusal_of(what) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert world.partition().log.log_end_offset == 1

    play()


@virtual_time
async def test_who_waits_for_a_commit_when_the_leadership_ends_is_told_that() -> None:
    world, log = await log_of()
    end = await log.append(RECORD)
    assert not log.is_committed(end)
    waiting = asyncio.ensure_future(log.committed(end))
    await turns(5)
    assert not waiting.done()
    await lead(world, epoch=5, leader=OTHER)
    assert await refusal_of(waiting) is ErrorCode.NOT_LEADER_OR_FOLLOWER


@virtual_time
async def test_what_too_few_replicas_have_may_be_committed_yet() -> None:
    world, log = await log_of()
    end = await log.append(RECORD)
    waiting = asyncio.ensure_future(log.committed(end))
    await turns(5)
    world.partition().set_min_in_sync_replicas(3)
    assert await refusal_of(log.committed(end)) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert await refusal_of(waiting) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert log.refusal() is ErrorCode.NOT_ENOUGH_REPLICAS


@pytest.mark.parametrize("acks", [0, 1])
def test_with_fewer_acks_what_the_leader_has_counts_as_committed(acks: int) -> None:
    @virtual_time
    async def play() -> None:
        world, log = await log_of(acks=acks)
        world.partition().set_min_in_sync_replicas(3)
        assert log.refusal() is None
        end = await log.append(RECORD)
        assert log.is_committed(end)
        await log.committed(end)

    play()


@virtual_time
async def test_all_that_stands_in_the_log_is_read_committed_or_not() -> None:
    _, log = await log_of()
    for _ in range(3):
        await log.append(RECORD)
    assert log.bounds() == (0, 3)
    assert len(await log.read(0, 1 << 20)) == 3 * len(RECORD)
    assert await log.read(3, 1 << 20) == b""


@virtual_time
async def test_what_is_damaged_is_not_read_and_looked_at_by_the_scrubber() -> None:
    world, log = await log_of()
    for _ in range(3):
        await log.append(RECORD)
    partition = world.partition()
    file = partition.log.segments.active.log_file
    at = 2 * len(RECORD) - 1
    file.pwrite(bytes([file.pread(1, at)[0] ^ 1]), at)
    assert await refusal_of(log.read(0, 1 << 20)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert partition.directory.suspects == {partition.log: 1}
    assert len(await log.read(0, 1)) == len(RECORD), "what is before it can be read"
    assert len(await log.read(2, 1 << 20)) == len(RECORD)


@virtual_time
@pytest.mark.parametrize("is_rolled", [False, True])
async def test_a_batch_whose_base_offset_says_that_it_lies_above_the_end_is_damaged(*, is_rolled: bool) -> None:
    world, log = await log_of()
    for _ in range(3):
        await log.append(RECORD)
    partition = world.partition()
    if is_rolled:
        partition.log.roll()
        for _ in range(90):
            await log.append(RECORD)
    # Offset 66 in place of 2: below the log's end there, and above where the segment ends.
    partition.log.segments.first.log_file.pwrite(bytes([66]), 2 * len(RECORD) + 7)
    assert await refusal_of(log.read(1, 1 << 20)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert partition.directory.suspects == {partition.log: 2}
    assert len(await log.read(1, 1)) == len(RECORD), "what is before it can be read"


@both_ways
@virtual_time
async def test_markers_of_former_coordinators_and_epochs_are_refused_before_anything_is_written(write: Write) -> None:
    world, log = await log_of(alone=True)
    await write(log, marker_batch(PRODUCER, 4, 1, commit=True))
    former = PRODUCER._replace(producer_epoch=2)
    assert log.refusal(PRODUCER, marker_coordinator_epoch=3) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert log.refusal(former, marker_coordinator_epoch=4) is ErrorCode.INVALID_PRODUCER_EPOCH
    for stale in (marker_batch(PRODUCER, 3, 1, commit=True), marker_batch(former, 4, 1, commit=True)):
        assert await refusal_of(write(log, stale)) in (
            ErrorCode.TRANSACTION_COORDINATOR_FENCED,
            ErrorCode.INVALID_PRODUCER_EPOCH,
        )
    for epoch in (4, 5):
        assert log.refusal(PRODUCER, marker_coordinator_epoch=epoch) is None
    assert log.refusal(PRODUCER._replace(producer_epoch=4), marker_coordinator_epoch=4) is None
    assert world.partition().log.log_end_offset == 1


@both_ways
@virtual_time
async def test_offsets_of_a_transaction_need_a_guard_and_a_marker_takes_it(write: Write) -> None:
    """What is refused for it leaves a log that takes what comes next."""
    world, log = await log_of(alone=True)
    guards, producers = world.partition().guards, world.partition().log.producers
    offsets = batch_of([CoordinatorRecord(b"key", b"value")], 1, Codec.NONE, PRODUCER)
    assert log.refusal(PRODUCER) is ErrorCode.INVALID_TXN_STATE
    assert await refusal_of(write(log, offsets)) is ErrorCode.INVALID_TXN_STATE
    guards.answer(guards.of(*PRODUCER, producers), ErrorCode.NONE)
    assert log.refusal(PRODUCER) is None
    await write(log, offsets)
    assert log.refusal(PRODUCER._replace(producer_epoch=2)) is ErrorCode.INVALID_PRODUCER_EPOCH
    await write(log, marker_batch(PRODUCER, 4, 1, commit=False))
    assert log.refusal(PRODUCER) is ErrorCode.INVALID_TXN_STATE
    assert await refusal_of(write(log, offsets)) is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("why", ["the directory is slow", "another append is under way"])
@virtual_time
async def test_what_would_have_to_wait_is_not_appended_at_once(why: str) -> None:
    world, log = await log_of(alone=True)
    if why == "the directory is slow":
        world.directory.writes_inline = False
        assert log.try_append(RECORD) is None
    else:
        async with world.partition()._writing:
            assert log.try_append(RECORD) is None
    assert world.partition().log.log_end_offset == 0
    assert await log.append(RECORD) == 1


@virtual_time
async def test_a_guard_ends_with_the_leadership_in_which_it_was_confirmed() -> None:
    world, log = await log_of(alone=True)
    guard = world.partition().lacks_guard(*PRODUCER)
    assert guard is not None
    world.partition().guards.answer(guard, ErrorCode.NONE)
    assert log.refusal(PRODUCER) is None
    await lead(world, epoch=5, isr=(ME,))
    following = PartitionLog(world.partition(), world.offload)
    assert following.refusal(PRODUCER) is ErrorCode.INVALID_TXN_STATE


@virtual_time
async def test_a_batch_is_never_larger_than_a_segment() -> None:
    _, log = await log_of(config=LogConfig(max_message_bytes=5000, segment_bytes=20_000))
    assert log.max_batch_bytes == 5000
    _, log = await log_of(config=LogConfig(max_message_bytes=50_000, segment_bytes=20_000))
    assert log.max_batch_bytes == 20_000


@virtual_time
async def test_nothing_is_read_where_the_directory_has_failed() -> None:
    world, log = await log_of(alone=True)
    await log.append(RECORD)
    world.partition().directory.fail(OSError(5, "a failed disk"))
    assert await refusal_of(log.read(0, 1000)) in (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER)


@both_ways
@pytest.mark.parametrize(
    "config", [LogConfig(compression=Codec.GZIP), LogConfig(message_format=1)], ids=["codec", "format"]
)
def test_what_is_long_to_convert_is_appended_too(config: LogConfig, write: Write) -> None:
    @virtual_time
    async def play() -> None:
        _, log = await log_of(acks=1, config=config)
        records = [CoordinatorRecord(b"%d" % number, bytes(100)) for number in range(400)]
        batch = batch_of(records, 1, Codec.NONE, None)
        if write is at_once:
            assert log.try_append(batch) is None
        else:
            assert await write(log, batch) == len(records)
            assert log.bounds() == (0, len(records))

    play()
