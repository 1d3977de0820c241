"""Produce: what a producer that sends a batch again is answered, and when."""

import asyncio
from types import SimpleNamespace

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.messages.produce import PartitionProduceResponse
from barnabas.storage.log_config import LogConfig
from broker.handlers import produce
from tests.support.virtual_time import turns, virtual_time
from tests.unit.broker.data_broker import DataBroker, answer_of, produce_request, produced
from tests.unit.replication.replica_world import FLUSH_EACH, OTHER
from tests.unit.storage.logs import batch

T0 = ("t", 0)


async def leading(config: LogConfig | None = None) -> DataBroker:
    broker = await DataBroker().open()
    await broker.lead(config=config)
    return broker


async def sent_twice() -> tuple[DataBroker, list[asyncio.Task[list[PartitionProduceResponse]]]]:
    """A batch and its retry at a broker whose flushes wait, so that neither is committed."""
    broker = await leading(FLUSH_EACH)
    broker.world.offload.hold("flush")
    request = {T0: batch(b"a", producer=(5, 0, 0))}
    answers = [asyncio.get_running_loop().create_task(produced(broker, request)) for _ in range(2)]
    await turns()
    return broker, answers


@virtual_time
async def test_a_duplicate_is_acknowledged_as_its_original_was() -> None:
    broker = await leading()
    for _ in range(2):
        (answer,) = await produced(broker, {T0: batch(b"a", producer=(5, 0, 0))})
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)
        await produced(broker, {T0: batch(b"between")})
    assert broker.world.partition().log.log_end_offset == 3


@virtual_time
async def test_a_duplicate_waits_until_its_original_is_committed() -> None:
    broker, answers = await sent_twice()
    assert [answer.done() for answer in answers] == [False, False]
    assert broker.world.partition().log.log_end_offset == 1
    broker.world.offload.release("flush")
    assert [(each.error_code, each.base_offset) for answer in answers for each in await answer] == [(0, 0), (0, 0)]


@virtual_time
async def test_a_duplicate_whose_leader_goes_before_its_original_is_committed_is_not_acknowledged() -> None:
    broker, answers = await sent_twice()
    await broker.world.assign(1, leader=OTHER, replicas=(OTHER, broker.services.broker_id))
    codes = [each.error_code for answer in answers for each in await answer]
    assert codes == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND] * 2
    broker.world.offload.release("flush")


@virtual_time
async def test_a_late_retry_is_told_that_it_is_a_duplicate_and_not_of_a_gap() -> None:
    """As of a batch whose old leader answered after the new one had taken more than the five that are remembered."""
    broker = await leading()
    for number in range(7):
        await produced(broker, {T0: batch(b"a", producer=(5, 0, number))})
    (answer,) = await produced(broker, {T0: batch(b"a", producer=(5, 0, 1))})
    assert (answer.error_code, answer.base_offset) == (ErrorCode.DUPLICATE_SEQUENCE_NUMBER, -1)
    (again,) = await produced(broker, {T0: batch(b"a", producer=(5, 0, 0))})
    assert again.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "as of a producer that begins again"
    assert broker.world.partition().log.log_end_offset == 7


@virtual_time
async def test_a_late_retry_waits_until_its_original_is_committed() -> None:
    broker = await leading()
    partition = broker.world.partition()
    for number in range(7):
        await produced(broker, {T0: batch(b"a", producer=(5, 0, number))})
    partition.log.high_watermark = 1
    info = partition.try_append(batch(b"a", producer=(5, 0, 1)), acks=-1)
    assert info is not None
    assert partition.when_acknowledged(info, acks=-1) is not None
    partition.log.high_watermark = 2
    assert partition.when_acknowledged(info, acks=-1) is None


@virtual_time
async def test_what_stands_behind_a_batch_whose_transaction_is_never_confirmed_is_refused_alike() -> None:
    broker = await leading()
    partition = broker.world.partition()
    is_ended_meanwhile = True

    async def verify(*_: object, **__: object) -> ErrorCode:
        if is_ended_meanwhile:
            partition.guards.on_marker(5)
        return ErrorCode.NONE

    async def sent(sequence: int) -> ErrorCode:
        request = produce_request({T0: batch(b"a", producer=(5, 0, sequence), transactional=True)})
        request.transactional_id = "transactional"
        response = await answer_of(produce.handle(request, broker.context(8)))
        return ErrorCode(response.responses[0].partitions[0].error_code)

    broker.services.coordination = SimpleNamespace(verify=verify)
    assert await sent(0) is ErrorCode.NOT_ENOUGH_REPLICAS
    is_ended_meanwhile = False
    assert await sent(1) is ErrorCode.NOT_ENOUGH_REPLICAS, "or there would be a gap"
    assert [await sent(0), await sent(1)] == [ErrorCode.NONE, ErrorCode.NONE]
    assert partition.log.log_end_offset == 2
