"""What brokers ask of their controller, over real gRPC on loopback."""

import asyncio

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerEpoch, LeaderEpoch, TopicPartition
from controller.commands import (
    AlterPartition,
    AlterPartitionItem,
    AlterPartitionOutcome,
    AlterPartitionResult,
    ControlledShutdown,
    ControlledShutdownResult,
)
from controller.control_plane import ControllerUnreachable
from tests.support.control_line import ONE, TWO, Line, until

ALTER = AlterPartition(
    ONE,
    BrokerEpoch(2**40),
    [
        AlterPartitionItem("t", 0, LeaderEpoch(3), (ONE, TWO), 5, BrokerEpoch(2**41)),
        AlterPartitionItem("ü", 2**31 - 1, LeaderEpoch(0), (ONE,), 0),
    ],
)


async def test_a_request_to_alter_partitions_is_answered(line: Line) -> None:
    line.requests.altered = AlterPartitionResult(
        ErrorCode.NONE,
        {
            TopicPartition("t", 0): AlterPartitionOutcome(ErrorCode.NONE, ONE, LeaderEpoch(3), (ONE, TWO), 6),
            TopicPartition("ü", 1): AlterPartitionOutcome(ErrorCode.INELIGIBLE_REPLICA),
        },
    )
    assert await line.plane.call(line.listener.endpoint, ALTER, timeout_ms=10_000) == line.requests.altered
    assert line.requests.heard == [ALTER]


async def test_a_request_to_shut_down_is_answered(line: Line) -> None:
    line.requests.shut_down = ControlledShutdownResult(remaining=[TopicPartition("t", 0), TopicPartition("ü", 1)])
    request = ControlledShutdown(TWO, BrokerEpoch(7))
    assert await line.plane.call(line.listener.endpoint, request, timeout_ms=10_000) == line.requests.shut_down
    assert line.requests.heard == [request]


async def test_who_is_not_in_office_says_so(line: Line) -> None:
    line.requests.altered = AlterPartitionResult(ErrorCode.NOT_CONTROLLER)
    result = await line.plane.call(line.listener.endpoint, ALTER, timeout_ms=10_000)
    assert result.error_code is ErrorCode.NOT_CONTROLLER


async def test_calls_may_overlap(line: Line) -> None:
    line.requests.gate.clear()
    calls = [asyncio.create_task(line.plane.call(line.listener.endpoint, ALTER, timeout_ms=10_000)) for _ in range(20)]
    await until(lambda: len(line.requests.heard) == 20)
    line.requests.gate.set()
    assert await asyncio.gather(*calls) == [AlterPartitionResult()] * 20


async def test_a_call_to_nobody_raises(line: Line) -> None:
    await line.listener.stop()
    with pytest.raises(ControllerUnreachable):
        await line.plane.call(line.listener.endpoint, ALTER, timeout_ms=10_000)


async def test_a_call_without_an_answer_raises_in_time_and_the_next_one_passes(line: Line) -> None:
    line.requests.gate.clear()
    with pytest.raises(ControllerUnreachable):
        await line.plane.call(line.listener.endpoint, ALTER, timeout_ms=50)
    line.requests.gate.set()
    assert await line.plane.call(line.listener.endpoint, ALTER, timeout_ms=10_000) == AlterPartitionResult()


async def test_a_call_under_way_when_its_server_stops_raises(line: Line) -> None:
    line.requests.gate.clear()
    call = asyncio.create_task(line.plane.call(line.listener.endpoint, ALTER, timeout_ms=10_000))
    await until(lambda: bool(line.requests.heard))
    await line.listener.stop()
    with pytest.raises(ControllerUnreachable):
        await call


async def test_a_call_passes_at_once_when_the_server_is_there_again(line: Line) -> None:
    port = line.port
    await line.listener.stop()
    for _ in range(5):
        with pytest.raises(ControllerUnreachable):
            await line.plane.call(line.listener.endpoint, ALTER, timeout_ms=10_000)
    await line.start(port=port)
    started = asyncio.get_running_loop().time()
    assert await line.plane.call(line.listener.endpoint, ALTER, timeout_ms=10_000) == AlterPartitionResult()
    assert asyncio.get_running_loop().time() - started < 0.6


async def test_a_call_under_way_survives_a_call_to_somebody_else(line: Line) -> None:
    line.requests.gate.clear()
    call = asyncio.create_task(line.plane.call(line.listener.endpoint, ALTER, timeout_ms=10_000))
    await until(lambda: bool(line.requests.heard))
    with pytest.raises(ControllerUnreachable):
        await line.plane.call("127.0.0.1:1", ALTER, timeout_ms=10_000)
    line.requests.gate.set()
    assert await call == AlterPartitionResult()
