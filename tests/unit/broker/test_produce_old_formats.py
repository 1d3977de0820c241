"""Produce 0 to 2: sets of messages of formats 0 and 1, and what becomes of them."""

import asyncio

import pytest

from barnabas.protocol.batch import Codec
from barnabas.protocol.entries import read_entry
from barnabas.protocol.entry_builder import EntryBuilder
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.records import Record, iterate_records
from barnabas.storage.log_config import LogConfig
from broker.handlers import produce
from broker.registry import CloseConnection
from tests.support.virtual_time import virtual_time
from tests.unit.broker.data_broker import DataBroker, answer_of, is_no_response, produce_request, produced
from tests.unit.storage.logs import batch, read_bytes

T0 = ("t", 0)
OLD = ((0, 0), (1, 0), (2, 1))
"""Versions, and the format that their clients write."""


def message_set(magic: int, *values: bytes, codec: Codec = Codec.NONE) -> bytes:
    builder = EntryBuilder(magic=magic, codec=codec)
    builder.add(Record(number, 1000 + number, None, value) for number, value in enumerate(values))
    return builder.finish()


def view(data: bytes) -> memoryview:
    return memoryview(bytearray(data))


async def leading(**config: object) -> DataBroker:
    broker = await DataBroker().open()
    await broker.lead(config=LogConfig(**config))  # type: ignore[arg-type]
    return broker


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
@pytest.mark.parametrize(("version", "magic"), OLD)
def test_messages_become_a_batch(version: int, magic: int, codec: Codec) -> None:
    @virtual_time
    async def run() -> None:
        broker = await leading()
        for base_offset in (0, 3):
            (answer,) = await produced(
                broker, {T0: view(message_set(magic, b"a", b"b", b"c", codec=codec))}, version=version
            )
            assert (answer.error_code, answer.base_offset, answer.log_append_time_ms) == (0, base_offset, -1)
        log = broker.world.partition().log
        assert (log.log_end_offset, log.high_watermark) == (6, 6)
        data = read_bytes(log, 3)
        header = read_entry(data)
        assert (header.magic, header.base_offset, header.codec) == (2, 3, codec)
        assert [record.value for record in iterate_records(data, 0, header, 1 << 20)] == [b"a", b"b", b"c"]
        traffic = broker.metrics.topic("t")
        assert (traffic.messages_in, traffic.produce_requests, traffic.produce_message_conversions) == (6, 2, 6)

    run()


@virtual_time
async def test_what_is_stored_as_it_came_counts_as_no_conversion() -> None:
    broker = await leading(message_format=1)
    await produced(broker, {T0: view(message_set(1, b"a", b"b"))}, version=2)
    assert broker.metrics.topic("t").produce_message_conversions == 0
    await produced(broker, {T0: view(message_set(0, b"a", b"b"))}, version=2)
    assert broker.metrics.topic("t").produce_message_conversions == 2


@pytest.mark.parametrize(("version", "magic"), OLD)
def test_sets_without_a_whole_message_are_refused_unless_they_are_empty(version: int, magic: int) -> None:
    @virtual_time
    async def run() -> None:
        broker = await leading()
        message = message_set(magic, b"value")
        for size in range(len(message)):
            (answer,) = await produced(broker, {T0: view(message[:size])}, version=version)
            expected = ErrorCode.CORRUPT_MESSAGE if size else ErrorCode.NONE
            assert (answer.error_code, answer.base_offset) == (expected, -1), size
        (answer,) = await produced(broker, {T0: view(message + message[:-1])}, version=version)
        assert (answer.error_code, answer.base_offset) == (0, 0)

    run()


@pytest.mark.parametrize("version", range(3))
def test_a_batch_among_others_is_refused(version: int) -> None:
    @virtual_time
    async def run() -> None:
        broker = await leading()
        one, old = bytes(batch(b"a")), message_set(1, b"b")
        for records in (one + one, one + old, old + one):
            (answer,) = await produced(broker, {T0: view(records)}, version=version)
            assert (answer.error_code, answer.base_offset) == (ErrorCode.INVALID_RECORD, -1)
        (answer,) = await produced(broker, {T0: view(one)}, version=version)
        assert (answer.error_code, answer.base_offset) == (0, 0)

    run()


@pytest.mark.parametrize("version", range(3))
def test_transactional_batches_are_refused_as_these_versions_have_no_transactional_id(version: int) -> None:
    @virtual_time
    async def run() -> None:
        broker = await leading()
        records = batch(b"a", producer=(5, 0, 0), transactional=True)
        (answer,) = await produced(broker, {T0: records}, version=version)
        assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

    run()


@pytest.mark.parametrize("version", range(3, 9))
@pytest.mark.parametrize("magic", [0, 1])
def test_newer_versions_take_no_messages_of_old_formats(version: int, magic: int) -> None:
    @virtual_time
    async def run() -> None:
        broker = await leading()
        (answer,) = await produced(broker, {T0: view(message_set(magic, b"v" * 100))}, version=version)
        assert (answer.error_code, answer.base_offset) == (ErrorCode.INVALID_RECORD, -1)

    run()


@virtual_time
async def test_without_acknowledgement_nothing_is_answered_and_an_error_ends_the_connection() -> None:
    broker = await leading()
    for magic, records in ((0, message_set(0, b"a")), (1, message_set(1, b"a"))):
        result = produce.handle(produce_request({T0: view(records)}, acks=0), broker.context(magic))
        assert is_no_response(await answer_of(result))
    with pytest.raises(CloseConnection, match="CORRUPT_MESSAGE"):
        await answer_of(produce.handle(produce_request({T0: view(records[:-1])}, acks=0), broker.context(1)))


@virtual_time
async def test_a_set_that_takes_long_to_convert_is_written_before_the_next_request_of_its_partition() -> None:
    broker = await leading()
    large = message_set(1, *[b"v" * 100] * 2_000, codec=Codec.GZIP)
    first = asyncio.ensure_future(produced(broker, {T0: view(large)}, version=2))
    await asyncio.sleep(0)
    second = asyncio.ensure_future(produced(broker, {T0: batch(b"behind")}))
    answers = await asyncio.gather(first, second)
    assert [answer.base_offset for (answer,) in answers] == [0, 2_000]
