"""Fetch: what an answer holds that leaves at once; its limits and its errors."""

import errno

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey, TopicPartition
from replication.partition import Partition
from tests.support.virtual_time import virtual_time
from tests.unit.broker.data_broker import DataBroker, Fetched, answer_of, fetch_now, fetch_request, pins, start_fetch
from tests.unit.replication.replica_world import FLUSH_EACH, ME, OTHER, append_now
from tests.unit.storage.logs import batch, read_bytes

T0, T1, T2 = ("t", 0), ("t", 1), ("t", 2)
SIZE = len(batch(b"v" * 100))


async def with_records(batches: int = 3, *, partitions: int = 1) -> tuple[DataBroker, list[Partition]]:
    """Partitions with that many batches of `SIZE` bytes, one record each."""
    broker = await DataBroker().open()
    leading = await broker.lead(count=partitions)
    for partition in leading:
        for _ in range(batches):
            append_now(partition, b"v" * 100)
    return broker, leading


def error(answer: Fetched, at: tuple[str, int] = T0) -> ErrorCode:
    assert answer.records[at] == b""
    return answer.errors()[at]


@pytest.mark.parametrize("version", range(4, 13))
@pytest.mark.parametrize("offset", [0, 1, 3])
def test_batches_come_as_they_stand_in_the_log(version: int, offset: int) -> None:
    @virtual_time
    async def run() -> None:
        broker, (partition,) = await with_records()
        answer = fetch_now(broker, fetch_request({T0: offset}), version=version)
        assert answer.records[T0] == read_bytes(partition.log, offset)
        told = answer.partitions[T0]
        assert (told.error_code, told.high_watermark, told.last_stable_offset, told.log_start_offset) == (0, 3, 3, 0)
        assert (told.aborted_transactions, told.preferred_read_replica) == (None, -1)
        assert pins(partition) == 0

    run()


@virtual_time
async def test_an_offset_within_a_batch_gets_the_whole_batch() -> None:
    broker = await DataBroker().open()
    (partition,) = await broker.lead()
    append_now(partition, b"a", b"b", b"c")
    assert fetch_now(broker, fetch_request({T0: 2})).records[T0] == read_bytes(partition.log, 0)


@virtual_time
async def test_the_traffic_of_a_topic_is_counted() -> None:
    broker, _ = await with_records()
    answer = fetch_now(broker, fetch_request({T0: 0, ("unknown", 0): 0}))
    traffic = broker.metrics.topic("t")
    assert (traffic.fetch_requests, traffic.bytes_out) == (1, answer.size_bytes)
    assert broker.errors(ApiKey.FETCH) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 1}


# Limits.


@virtual_time
async def test_the_first_batch_comes_whole_however_small_the_limits_are() -> None:
    broker, (partition,) = await with_records()
    for limits in ({"max_bytes": 1}, {"partition_max_bytes": 1}, {"max_bytes": 0}, {"max_bytes": SIZE}):
        assert len(fetch_now(broker, fetch_request({T0: 0}, **limits)).records[T0]) == SIZE  # type: ignore[arg-type]
    assert pins(partition) == 0


@virtual_time
async def test_only_the_first_partition_with_records_may_go_beyond_the_limit() -> None:
    broker, _ = await with_records(partitions=3)
    answer = fetch_now(broker, fetch_request({T0: 3, T1: 0, T2: 0}, max_bytes=1))
    assert [len(answer.records[at]) for at in (T0, T1, T2)] == [0, SIZE, 0]
    assert set(answer.errors().values()) == {ErrorCode.NONE}
    assert [each.high_watermark for each in answer.partitions.values()] == [3, 3, 3]


@virtual_time
async def test_the_limit_of_the_answer_is_shared_in_the_order_of_the_request() -> None:
    broker, _ = await with_records(partitions=3)
    answer = fetch_now(broker, fetch_request({T2: 0, T0: 0, T1: 0}, max_bytes=5 * SIZE))
    assert [len(records) for records in answer.records.values()] == [3 * SIZE, 2 * SIZE, 0]
    assert list(answer.records) == [T2, T0, T1]


@virtual_time
async def test_the_limit_of_a_partition_holds_for_each() -> None:
    broker, _ = await with_records(partitions=2)
    answer = fetch_now(broker, fetch_request({T0: 0, T1: 0}, partition_max_bytes=2 * SIZE))
    assert [len(records) for records in answer.records.values()] == [2 * SIZE, 2 * SIZE]


@virtual_time
async def test_the_last_batch_may_be_cut_as_in_kafka_and_a_piece_of_the_first_is_not_sent() -> None:
    broker, partitions = await with_records(partitions=2)
    answer = fetch_now(broker, fetch_request({T0: 0, T1: 0}, max_bytes=4 * SIZE - 1))
    assert [len(records) for records in answer.records.values()] == [3 * SIZE, 0]
    answer = fetch_now(broker, fetch_request({T0: 0, T1: 0}, max_bytes=5 * SIZE - 1))
    assert [len(records) for records in answer.records.values()] == [3 * SIZE, 2 * SIZE - 1]
    assert pins(*partitions) == 0


@virtual_time
async def test_the_broker_has_a_limit_of_its_own_for_consumers() -> None:
    broker = await DataBroker({"fetch.max.bytes": str(max(1024, 8 * SIZE))}).open()
    (partition,) = await broker.lead()
    for _ in range(20):
        append_now(partition, b"v" * 100)
    assert fetch_now(broker, fetch_request({T0: 0})).size_bytes == max(1024, 8 * SIZE)


# Errors.


@virtual_time
async def test_an_unknown_partition_is_told_last_and_alone_in_its_entry() -> None:
    broker, (partition,) = await with_records()
    answer = fetch_now(broker, fetch_request({("unknown", 0): 0, ("t", 9): 0, T0: 0}))
    assert list(answer.errors()) == [T0, ("unknown", 0), ("t", 9)]
    assert list(answer.errors().values()) == [ErrorCode.NONE] + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
    told = answer.partitions[("unknown", 0)]
    assert (told.high_watermark, told.last_stable_offset, told.log_start_offset) == (-1, -1, -1)
    assert pins(partition) == 0


@virtual_time
async def test_a_partition_that_lives_elsewhere_sends_the_client_there() -> None:
    broker, _ = await with_records()
    broker.announce("elsewhere", leader=OTHER)
    assert error(fetch_now(broker, fetch_request({("elsewhere", 0): 0})), ("elsewhere", 0)) is (
        ErrorCode.NOT_LEADER_OR_FOLLOWER
    )
    await broker.world.assign(1, leader=OTHER, replicas=(OTHER, ME))
    assert error(fetch_now(broker, fetch_request({T0: 0}), version=10)) is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (2, ErrorCode.FENCED_LEADER_EPOCH),
        (3, ErrorCode.NONE),
        (4, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (-1, ErrorCode.NONE),
    ],
)
def test_the_epoch_that_a_client_names_fences(epoch: int, expected: ErrorCode) -> None:
    @virtual_time
    async def run() -> None:
        broker, _ = await with_records()
        await broker.world.assign(3)
        assert error(fetch_now(broker, fetch_request({T0: 3}, leader_epoch=epoch))) is expected

    run()


@pytest.mark.parametrize(("offset", "expected"), [(-1, True), (0, True), (1, False), (3, False), (4, True)])
def test_an_offset_below_the_start_or_above_the_end_is_out_of_range(offset: int, *, expected: bool) -> None:
    @virtual_time
    async def run() -> None:
        broker, (partition,) = await with_records()
        partition.log.advance_log_start_offset(1)
        answer = fetch_now(broker, fetch_request({T0: offset}))
        assert (answer.errors()[T0] is ErrorCode.OFFSET_OUT_OF_RANGE) is expected
        if expected:
            assert answer.partitions[T0].high_watermark == -1

    run()


@virtual_time
async def test_a_failed_directory_is_told_in_words_that_the_client_knows() -> None:
    broker, (partition,) = await with_records()
    broker.world.directory.fail(OSError(errno.EIO, "gone"))
    for version in range(13):
        expected = ErrorCode.KAFKA_STORAGE_ERROR if version >= 6 else ErrorCode.NOT_LEADER_OR_FOLLOWER
        answer = Fetched(await answer_of(start_fetch(broker, fetch_request({T0: 0}), version=version)))
        assert error(answer) is expected
    assert partition.is_offline


@virtual_time
async def test_a_read_that_fails_takes_the_directory_offline_and_leaves_no_slice() -> None:
    broker = await DataBroker(directories=2).open()
    good, bad = await broker.lead(count=2)
    for partition in (good, bad):
        append_now(partition, b"a", b"b")
    broker.world.disk.fail("pread", "t-1")
    answer = fetch_now(broker, fetch_request({T0: 0, T1: 1}))
    assert list(answer.errors().values()) == [ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR]
    assert (good.is_offline, bad.is_offline) == (False, True)
    assert pins(good, bad) == 0


@virtual_time
async def test_a_log_that_is_corrupt_on_the_disk_is_told_and_stays_online() -> None:
    broker = await DataBroker().open()
    (partition,) = await broker.lead()
    append_now(partition, b"a", b"b")
    file = broker.world.disk.open(f"{partition.log.directory}/00000000000000000000.log")
    file.pwrite(bytes(SIZE), 0)
    assert error(fetch_now(broker, fetch_request({T0: 1}))) is ErrorCode.CORRUPT_MESSAGE
    assert not partition.is_offline
    assert pins(partition) == 0


@pytest.mark.interpreted
@virtual_time
async def test_what_fails_in_the_broker_lets_go_of_what_was_read_before() -> None:
    broker, partitions = await with_records(partitions=2)

    class Broken:
        def __init__(self, log: object) -> None:
            self._log = log

        def read(self, *_: object, **__: object) -> None:
            raise ZeroDivisionError

        def __getattr__(self, name: str) -> object:
            return getattr(self._log, name)

    broken: object = Broken(partitions[1].log)
    partitions[1].log = broken  # type: ignore[assignment]
    with pytest.raises(ZeroDivisionError):
        fetch_now(broker, fetch_request({T0: 0, T1: 0}))
    assert pins(partitions[0]) == 0


# Followers, and where logs diverge.


@virtual_time
async def test_a_replica_that_is_not_assigned_gets_no_records() -> None:
    broker, (partition,) = await with_records()
    answer = fetch_now(broker, fetch_request({T0: 0}, replica_id=7))
    assert answer.records[T0] == b""
    assert answer.errors()[T0] is ErrorCode.NONE
    assert pins(partition) == 0


@pytest.mark.parametrize(
    ("epoch", "offset", "diverging"),
    [
        (0, 2, None),  # agrees up to where epoch 0 ended
        (0, 3, (0, 2)),  # has more of epoch 0 than there was
        (5, 4, None),
        (3, 3, (0, 2)),  # an epoch that nobody led in
        (3, 2, (0, 2)),
    ],
)
def test_a_client_whose_log_left_ours_is_told_where(epoch: int, offset: int, diverging: tuple[int, int] | None) -> None:
    @virtual_time
    async def run() -> None:
        broker, (partition,) = await with_records(2)
        await broker.world.assign(5)
        append_now(partition)
        append_now(partition)
        answer = fetch_now(broker, fetch_request({T0: offset}, last_fetched_epoch=epoch))
        told = answer.partitions[T0]
        assert told.error_code == ErrorCode.NONE
        found = (told.diverging_epoch.epoch, told.diverging_epoch.end_offset)
        assert found == (diverging or (-1, -1))
        assert (answer.records[T0] == b"") is (diverging is not None or offset == 4)

    run()


@pytest.mark.parametrize(("epoch", "offset"), [(9, 2), (0, 0), (3, 0)])
def test_a_client_of_an_epoch_or_offset_that_the_log_does_not_have_is_out_of_range(epoch: int, offset: int) -> None:
    @virtual_time
    async def run() -> None:
        broker, (partition,) = await with_records(3)
        await broker.world.assign(5)
        append_now(partition)
        partition.log.advance_log_start_offset(1)
        answer = fetch_now(broker, fetch_request({T0: offset}, last_fetched_epoch=epoch))
        assert error(answer) is ErrorCode.OFFSET_OUT_OF_RANGE

    run()


@virtual_time
async def test_who_looks_for_faults_may_read_what_is_not_committed() -> None:
    broker = await DataBroker().open()
    (partition,) = await broker.lead(config=FLUSH_EACH)
    broker.world.offload.hold("flush")
    append_now(partition, b"a")
    assert fetch_now(broker, fetch_request({T0: 0})).records[T0] == b""
    checked = await start_fetch(broker, fetch_request({T0: 0}, replica_id=-2), version=12)
    assert Fetched(checked).records[T0] == read_bytes(partition.log, 0)
    broker.world.offload.release("flush")


@virtual_time
async def test_a_lack_of_descriptors_fails_the_read_and_not_the_directory() -> None:
    broker = await DataBroker().open()
    (partition,) = await broker.lead()
    append_now(partition, b"a", b"b")
    broker.world.disk.fail("pread", "t-0", error=errno.EMFILE, times=1)
    assert error(fetch_now(broker, fetch_request({T0: 1}))) is ErrorCode.KAFKA_STORAGE_ERROR
    assert not partition.is_offline
    assert fetch_now(broker, fetch_request({T0: 1})).records[T0] != b""


@virtual_time
async def test_a_partition_is_read_by_its_own_number() -> None:
    broker, partitions = await with_records(0, partitions=3)
    append_now(partitions[1], b"only here")
    answer = fetch_now(broker, fetch_request({T0: 0, T1: 0, T2: 0}))
    assert [bool(records) for records in answer.records.values()] == [False, True, False]
    assert broker.world.partition(TopicPartition(*T1)) is partitions[1]
