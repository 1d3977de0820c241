"""Fetch 0 to 9: what clients of those times get of logs that are newer than they are."""

import asyncio
import json
import random
from pathlib import Path

import pytest

from barnabas.protocol.batch import Codec, TruncatedBatch
from barnabas.protocol.entries import iterate_entries, iterate_entry_records
from barnabas.protocol.entry_builder import EntryBuilder
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.records import Record, build_batch
from barnabas.runtime.files import FileSlice
from barnabas.storage.append import AppendOrigin
from barnabas.storage.log_config import LogConfig
from broker.config import resolve_broker_config
from broker.down_conversion import ANSWER_BYTES, PARTITION_BYTES
from broker.topic_configs import resolve_topic
from replication.partition import Partition
from tests.support.virtual_time import virtual_time
from tests.unit.broker.data_broker import MANY, DataBroker, Fetched, answer_of, fetch_request, pins, start_fetch
from tests.unit.replication.replica_world import append_now
from tests.unit.storage.logs import NOW

T0 = ("t", 0)
OLD = range(4)
CAPTURED = Path(__file__).parents[2] / "compatibility" / "captured" / "transactions.json"
BEHIND_MARKERS = (2, 5, 8)


async def ask(
    broker: DataBroker, offset: int = 0, *, version: int, min_bytes: int = 1, partition_max_bytes: int = MANY
) -> Fetched:
    request = fetch_request({T0: offset}, min_bytes=min_bytes, partition_max_bytes=partition_max_bytes)
    return Fetched(await answer_of(start_fetch(broker, request, version=version)))


def offsets_of(data: bytes) -> list[int]:
    found: list[int] = []
    try:
        for at, header in iterate_entries(data):
            found += [record.offset for record in iterate_entry_records(data, at, header, 1 << 20)]
    except TruncatedBatch:
        pass
    return found


def magics_of(data: bytes) -> set[int]:
    found: set[int] = set()
    try:
        for _, header in iterate_entries(data):
            found.add(header.magic)
    except TruncatedBatch:
        pass
    return found


async def leading(**config: object) -> tuple[DataBroker, Partition]:
    broker = await DataBroker().open()
    (partition,) = await broker.lead(config=LogConfig(**config))  # type: ignore[arg-type]
    return broker, partition


@pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2)])
def test_each_version_gets_the_format_that_its_consumers_know(version: int, magic: int) -> None:
    @virtual_time
    async def run() -> None:
        broker, partition = await leading()
        for _ in range(3):
            append_now(partition, b"a", b"b")
        answer = await ask(broker, version=version)
        assert magics_of(answer.records[T0]) == {magic}
        assert offsets_of(answer.records[T0]) == list(range(6))
        assert answer.partitions[T0].high_watermark == 6
        traffic = broker.metrics.topic("t")
        assert traffic.fetch_message_conversions == (6 if version < 4 else 0)
        assert traffic.bytes_out == answer.size_bytes
        assert pins(partition) == 0

    run()


@pytest.mark.parametrize("version", OLD)
def test_the_end_of_a_log_is_empty_and_answered_at_once(version: int) -> None:
    @virtual_time
    async def run() -> None:
        broker, partition = await leading()
        append_now(partition, b"a")
        answer = await ask(broker, 1, version=version, min_bytes=0)
        assert (answer.errors()[T0], answer.records[T0]) == (ErrorCode.NONE, b"")

    run()


@pytest.mark.parametrize("version", OLD)
def test_a_topic_without_conversion_is_refused_where_there_are_records(version: int) -> None:
    @virtual_time
    async def run() -> None:
        broker, partition = await leading(message_downconversion_enable=False)
        append_now(partition, b"a")
        answer = await ask(broker, version=version)
        assert (answer.errors()[T0], answer.records[T0]) == (ErrorCode.UNSUPPORTED_VERSION, b"")
        assert answer.partitions[T0].high_watermark == -1
        assert broker.errors(ApiKey.FETCH) == {ErrorCode.UNSUPPORTED_VERSION: 1}
        assert pins(partition) == 0
        assert (await ask(broker, 1, version=version, min_bytes=0)).errors()[T0] is ErrorCode.NONE
        assert offsets_of((await ask(broker, version=4)).records[T0]) == [0]

    run()


@pytest.mark.parametrize("is_on", [True, False])
@pytest.mark.parametrize("at_topic", [True, False])
def test_records_are_converted_unless_that_is_switched_off(*, at_topic: bool, is_on: bool) -> None:
    @virtual_time
    async def run() -> None:
        given = {} if at_topic else {"log.message.downconversion.enable": str(is_on).lower()}
        overrides = {"message.downconversion.enable": str(is_on).lower()} if at_topic else {}
        settings, left_out = resolve_topic(resolve_broker_config({"zookeeper.connect": "z"} | given), overrides)
        assert left_out == []
        broker = await DataBroker().open()
        (partition,) = await broker.lead(config=settings.log)
        append_now(partition, b"a")
        expected = ErrorCode.NONE if is_on else ErrorCode.UNSUPPORTED_VERSION
        assert (await ask(broker, version=2)).errors()[T0] is expected

    run()


@pytest.mark.parametrize(("version", "leaves_as_it_is"), [(0, False), (1, False), (2, True), (3, True), (4, True)])
def test_what_consumers_know_leaves_as_a_slice_of_its_file(version: int, *, leaves_as_it_is: bool) -> None:
    @virtual_time
    async def run() -> None:
        broker, partition = await leading(message_format=1, message_downconversion_enable=leaves_as_it_is is False)
        builder = EntryBuilder(magic=1, codec=Codec.GZIP)
        builder.add(Record(offset, 5, None, b"v") for offset in range(3))
        await partition.append(memoryview(bytearray(builder.finish())), acks=-1)
        response = await answer_of(start_fetch(broker, fetch_request({T0: 1}), version=version))
        (answer,) = response.responses[0].partition_responses
        assert isinstance(answer.record_set, FileSlice) is leaves_as_it_is
        assert offsets_of(Fetched(response).records[T0]) == [0, 1, 2]
        assert broker.metrics.topic("t").fetch_message_conversions == (0 if leaves_as_it_is else 3)

    run()


@virtual_time
async def test_what_goes_on_in_a_newer_format_behind_an_entry_of_an_old_one_is_converted() -> None:
    broker, partition = await leading(message_format=1)
    append_now(partition, b"a", b"b")
    partition.log.config = LogConfig()
    append_now(partition, b"c", b"d")
    written = (await ask(broker, version=4)).records[T0]
    assert [header.magic for _, header in iterate_entries(written)] == [1, 1, 2]
    records = (await ask(broker, version=2)).records[T0]
    assert magics_of(records) == {1}
    assert offsets_of(records) == [0, 1, 2, 3]
    assert broker.metrics.topic("t").fetch_message_conversions == 2


@virtual_time
async def test_clients_without_a_limit_of_the_answer_get_a_piece_of_a_batch_that_is_too_large() -> None:
    broker, partition = await leading(message_downconversion_enable=False)
    append_now(partition, b"v" * 100)
    answer = await ask(broker, version=2, partition_max_bytes=50)
    assert (answer.errors()[T0], len(answer.records[T0])) == (ErrorCode.NONE, 50)


@virtual_time
async def test_who_asks_for_more_than_is_read_at_a_time_does_not_wait_for_it() -> None:
    broker, partition = await leading()
    for _ in range(15):
        append_now(partition, bytes(100_000))
    request = fetch_request({T0: 0}, max_wait_ms=60_000, min_bytes=2_000_000)
    started = asyncio.get_running_loop().time()
    answer = Fetched(await answer_of(start_fetch(broker, request, version=1)))
    assert answer.size_bytes >= PARTITION_BYTES
    assert asyncio.get_running_loop().time() == started


@pytest.mark.parametrize(("max_bytes", "expected"), [(3_000_000, [0]), (1_400_000, [])])
def test_a_batch_from_a_time_of_larger_ones_is_read_whole(max_bytes: int, expected: list[int]) -> None:
    @virtual_time
    async def run() -> None:
        broker, partition = await leading(max_message_bytes=2_000_000)
        append_now(partition, b"v" * 1_500_000)
        append_now(partition, b"w")
        partition.log.config = LogConfig()
        records = (await ask(broker, version=1, partition_max_bytes=max_bytes)).records[T0]
        assert offsets_of(records) == expected
        assert len(records) <= max_bytes
        assert pins(partition) == 0

    run()


@virtual_time
async def test_an_old_client_that_waits_gets_what_comes_converted() -> None:
    broker, partition = await leading()
    waiting = asyncio.ensure_future(answer_of(start_fetch(broker, fetch_request({T0: 0}, max_wait_ms=500), version=2)))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    append_now(partition, b"a")
    assert magics_of(Fetched(await waiting).records[T0]) == {1}
    assert pins(partition) == 0


@virtual_time
async def test_an_old_client_that_goes_leaves_nothing_pinned() -> None:
    broker, partition = await leading()
    append_now(partition, b"a")
    places = broker.services.conversions.place
    for _ in range(8):
        await places.acquire()
    converting = asyncio.ensure_future(answer_of(start_fetch(broker, fetch_request({T0: 0}), version=1)))
    parked = asyncio.ensure_future(answer_of(start_fetch(broker, fetch_request({T0: 1}, max_wait_ms=500), version=1)))
    await asyncio.sleep(0.01)
    assert pins(partition) == 1
    converting.cancel()
    parked.cancel()
    await asyncio.wait([converting, parked])
    assert pins(partition) == 0
    assert not partition._watchers


@virtual_time
async def test_an_old_client_that_is_sent_nothing_waits_for_no_conversion_of_others() -> None:
    broker, _ = await leading()
    places = broker.services.conversions.place
    for _ in range(8):
        await places.acquire()
    answer = await asyncio.wait_for(ask(broker, 9, version=2), 1)
    assert answer.errors()[T0] is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("version", [0, 3, 4, 9, 10])
def test_a_topic_of_zstd_is_answered_since_version_10(version: int) -> None:
    @virtual_time
    async def run() -> None:
        broker, partition = await leading(compression=Codec.ZSTD)
        append_now(partition, b"a")
        for offset, otherwise in ((0, ErrorCode.NONE), (9, ErrorCode.OFFSET_OUT_OF_RANGE)):
            answer = await ask(broker, offset, version=version)
            expected = otherwise if version >= 10 else ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
            assert answer.errors()[T0] is expected
        assert pins(partition) == 0

    run()


@virtual_time
async def test_a_batch_of_zstd_among_others_is_told_when_it_comes_first() -> None:
    broker, partition = await leading()
    append_now(partition, b"a")
    zstd = build_batch([Record(0, 5, None, b"z")], codec=Codec.ZSTD)
    assert partition.try_append(memoryview(bytearray(zstd)), acks=-1) is not None
    assert offsets_of((await ask(broker, version=3)).records[T0]) == [0]
    answer = await ask(broker, 1, version=3)
    assert answer.errors()[T0] is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert offsets_of((await ask(broker, 1, version=4)).records[T0]) == [1]


@virtual_time
async def test_one_answer_converts_a_bounded_part_of_the_log_and_no_partition_waits_for_ever() -> None:
    broker = await DataBroker().open()
    partitions = await broker.lead(count=10)
    noise = random.Random(1).randbytes(100_000)
    for partition in partitions:
        for _ in range(15):
            append_now(partition, noise)
    request = fetch_request({("t", number): 0 for number in range(10)})
    served: set[int] = set()
    for _ in range(40):
        answer = Fetched(await answer_of(start_fetch(broker, request, version=1)))
        assert ANSWER_BYTES - PARTITION_BYTES < answer.size_bytes <= ANSWER_BYTES + 2 * PARTITION_BYTES
        assert list(answer.partitions) == [("t", number) for number in range(10)]
        served |= {number for (_, number), data in answer.records.items() if data}
        assert all(offsets_of(data) for data in answer.records.values() if data)
    assert served == set(range(10))
    assert pins(*partitions) == 0


@pytest.mark.parametrize("version", OLD)
def test_a_log_of_transactions_comes_as_from_kafka(version: int) -> None:
    """Kafka repeats the first batch of an answer behind a marker that comes before it; Barnabas does not."""

    @virtual_time
    async def run() -> None:
        captured = json.loads(CAPTURED.read_text())
        broker, partition = await leading()
        segment = memoryview(bytearray.fromhex(captured["segment"]))
        log = partition.log
        log.append(segment, leader_epoch=0, origin=AppendOrigin.REPLICATION, now_ms=NOW)
        log.advance_high_watermark(log.log_end_offset)
        for offset in range(10):
            expected = bytes.fromhex(captured[f"{version} {offset}"])
            records = (await ask(broker, offset, version=version)).records[T0]
            assert len(records) == len(expected)
            if offset in BEHIND_MARKERS:
                assert offsets_of(records) == sorted(set(offsets_of(expected)))
            else:
                assert records == expected

    run()
