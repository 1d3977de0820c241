"""Fetch with read_committed (KIP-98): nothing undecided, and what was aborted is named."""

from barnabas.protocol.error_code import ErrorCode
from replication.partition import Partition
from tests.support.virtual_time import turns, virtual_time
from tests.unit.broker.data_broker import (
    DataBroker,
    Fetched,
    end_transaction,
    fetch_now,
    fetch_request,
    fetched,
    in_transaction,
    pins,
    start_waiting,
)
from tests.unit.replication.replica_world import append_now
from tests.unit.storage.logs import read_bytes

T0 = ("t", 0)
COMMITTED = 1


async def leading() -> tuple[DataBroker, Partition]:
    broker = await DataBroker().open()
    (partition,) = await broker.lead()
    return broker, partition


def committed(broker: DataBroker, offset: int, *, max_bytes: int = 1 << 20, version: int = 12) -> Fetched:
    return fetch_now(
        broker, fetch_request({T0: offset}, isolation_level=COMMITTED, max_bytes=max_bytes), version=version
    )


def aborted(answer: Fetched) -> list[tuple[int, int]]:
    transactions = answer.partitions[T0].aborted_transactions
    assert transactions is not None
    return [(each.producer_id, each.first_offset) for each in transactions]


@virtual_time
async def test_nothing_at_or_above_the_first_undecided_record_is_read() -> None:
    broker, partition = await leading()
    append_now(partition, b"plain")
    in_transaction(partition, 5, b"a", b"b")
    append_now(partition, b"behind it")
    answer = committed(broker, 0)
    assert answer.records[T0] == read_bytes(partition.log, 0, upper=1)
    told = answer.partitions[T0]
    assert (told.high_watermark, told.last_stable_offset) == (4, 1)
    assert aborted(answer) == []
    assert len(fetch_now(broker, fetch_request({T0: 0})).records[T0]) > len(answer.records[T0])
    end_transaction(partition, 5, commits=True)
    assert committed(broker, 0).records[T0] == read_bytes(partition.log, 0)
    assert pins(partition) == 0


@virtual_time
async def test_an_aborted_transaction_is_named_with_its_first_offset() -> None:
    broker, partition = await leading()
    append_now(partition, b"plain")
    in_transaction(partition, 5, b"a")
    in_transaction(partition, 6, b"b")
    in_transaction(partition, 5, b"c", sequence=1)
    end_transaction(partition, 5, commits=False)
    end_transaction(partition, 6, commits=True)
    answer = committed(broker, 0)
    assert answer.records[T0] == read_bytes(partition.log, 0)
    assert aborted(answer) == [(5, 1)]
    # Also for who begins to read in the middle of it.
    assert aborted(committed(broker, 3)) == [(5, 1)]
    # The marker itself is the last record of it.
    assert aborted(committed(broker, 4)) == [(5, 1)]
    assert aborted(committed(broker, 5)) == []


@virtual_time
async def test_transactions_behind_what_the_answer_holds_are_not_named() -> None:
    broker, partition = await leading()
    partition.log.config = partition.log.config.__class__(index_interval_bytes=0)
    for producer_id in (5, 6):
        in_transaction(partition, producer_id, b"x" * 100)
        end_transaction(partition, producer_id, commits=False)
    assert aborted(committed(broker, 0)) == [(5, 0), (6, 2)]
    assert aborted(committed(broker, 0, max_bytes=1)) == [(5, 0)]


@virtual_time
async def test_who_has_read_everything_is_told_of_no_transaction() -> None:
    broker, partition = await leading()
    in_transaction(partition, 5, b"a")
    in_transaction(partition, 6, b"b")
    end_transaction(partition, 6, commits=False)
    # The last stable offset is 0: the aborted transaction stands behind an undecided one.
    answer = committed(broker, 0)
    assert answer.records[T0] == b""
    assert aborted(answer) == []


@virtual_time
async def test_read_uncommitted_has_no_list_at_all() -> None:
    broker, partition = await leading()
    in_transaction(partition, 5, b"a")
    end_transaction(partition, 5, commits=False)
    assert fetch_now(broker, fetch_request({T0: 0})).partitions[T0].aborted_transactions is None


@virtual_time
async def test_a_list_that_cannot_be_read_costs_the_partition_and_no_slice() -> None:
    broker, partition = await leading()
    in_transaction(partition, 5, b"a")
    end_transaction(partition, 5, commits=False)
    partition.log.roll()
    partition.log.flush()
    path = f"{partition.log.directory}/00000000000000000000.txnindex"
    broker.world.disk.open(path).pwrite(b"\xff" * 10, 0)
    answer = committed(broker, 0)
    assert answer.errors()[T0] is ErrorCode.CORRUPT_MESSAGE
    assert pins(partition) == 0
    broker.world.disk.fail("pread", ".txnindex")
    answer = committed(broker, 0)
    assert answer.errors()[T0] is ErrorCode.KAFKA_STORAGE_ERROR
    assert pins(partition) == 0
    assert partition.is_offline


@virtual_time
async def test_a_wait_for_committed_records_ends_with_the_transaction_and_not_with_its_records() -> None:
    broker, partition = await leading()
    in_transaction(partition, 5, b"a")
    waiting = start_waiting(broker, fetch_request({T0: 0}, isolation_level=COMMITTED, max_wait_ms=1000))
    in_transaction(partition, 5, b"b", sequence=1)
    await turns()
    assert not waiting.done()
    end_transaction(partition, 5, commits=True)
    answer = await fetched(waiting)
    assert answer.records[T0] == read_bytes(partition.log, 0)
    assert pins(partition) == 0
