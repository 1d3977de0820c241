"""The control plane's channels over real gRPC on loopback: what a channel promises and a server must do."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import grpc
import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition
from controller import control_pb2 as wire
from controller.channel_messages import command_to_wire
from controller.channel_options import OPTIONS
from controller.channel_server import ControlServer
from controller.commands import (
    Command,
    CommandResult,
    Endpoint,
    LeaderAndIsr,
    LeaderAndIsrPartition,
    LiveBroker,
    LiveLeader,
    LogEnd,
    ReportLogEnds,
    StopReplica,
    StopReplicaPartition,
    UpdateMetadata,
    UpdateMetadataPartition,
)
from controller.control_pb2_grpc import BrokerControlStub
from controller.control_plane import ControlListener
from tests.support.control_line import HEADER, ONE, TWO, Handler, Line, Requests, lead, over_grpc, stop, tell, until

Judged = list[tuple[int, int, bool]]


def watch(listener: ControlListener) -> Judged:
    """What comes from now on: sequence in its stream, number, and whether it is taken for late."""
    assert isinstance(listener, ControlServer)
    judged: Judged = []
    is_late = listener._heard.is_late

    def judge(message: wire.Command) -> bool:
        late = is_late(message)
        judged.append((message.sequence, message.number, late))
        return late

    setattr(listener._heard, "is_late", judge)  # noqa: B010 - no type checker lets a method be replaced
    return judged


@contextlib.asynccontextmanager
async def two_streams() -> AsyncIterator[tuple[Line, Any, Any]]:
    """A broker, and two streams of commands to it on connections of their own."""
    line = Line(over_grpc)
    await line.start()
    channels = [grpc.aio.insecure_channel(line.listener.endpoint, options=OPTIONS) for _ in range(2)]
    first, second = (BrokerControlStub(channel).Obey() for channel in channels)
    try:
        yield line, first, second
    finally:
        for channel in channels:
            await channel.close()
        await line.close()


async def test_every_field_of_every_command_arrives(line: Line) -> None:
    broker = LiveBroker(
        TWO, (Endpoint("INSIDE", "h", 9, "SSL"), Endpoint("OUT", "::1", 10)), "rack", "h:11", BrokerEpoch(2**40)
    )
    bare = LiveBroker(ONE, ())
    partition = LeaderAndIsrPartition(
        "t",
        2**31 - 1,
        ControllerEpoch(7),
        BrokerId(-1),
        LeaderEpoch(-2),
        (TWO, ONE),
        3,
        (ONE, TWO),
        (TWO,),
        (ONE,),
        True,
    )
    told = UpdateMetadataPartition(
        "ü", 0, ControllerEpoch(7), BrokerId(-2), LeaderEpoch(-2), (), -1, (TWO, ONE), (ONE,)
    )
    commands: list[Command] = [
        LeaderAndIsr(*HEADER, [partition], (LiveLeader(TWO, "h", 9),)),
        UpdateMetadata(*HEADER, [told], (broker, bare)),
        StopReplica(*HEADER, [StopReplicaPartition("t", 0, LeaderEpoch(-2), delete=True)]),
        UpdateMetadata(*HEADER, [], ()),
        UpdateMetadata(*HEADER, [], (), ends_welcome=True),
        ReportLogEnds(*HEADER, [TopicPartition("t", 1), TopicPartition("ü", 2)]),
    ]
    channel = line.channel()
    for command in commands:
        channel.send(command)
        await until(lambda: command in line.handler.heard)  # noqa: B023
    assert line.handler.heard == commands
    await until(lambda: len(line.answers) == len(commands))
    assert [command for command, _ in line.answers] == commands


async def test_the_answer_comes_back_with_its_command(line: Line) -> None:
    line.handler.answer = CommandResult(
        ErrorCode.NONE, {TopicPartition("t", 0): ErrorCode.KAFKA_STORAGE_ERROR, TopicPartition("t", 1): ErrorCode.NONE}
    )
    line.channel().send(stop(0, 1))
    await until(lambda: bool(line.answers))
    ((command, result),) = line.answers
    assert command == stop(0, 1)
    assert result.error_code is ErrorCode.NONE
    assert result.partition_errors == {TopicPartition("t", 0): ErrorCode.KAFKA_STORAGE_ERROR}


async def test_the_ends_of_logs_come_back(line: Line) -> None:
    ends = {
        TopicPartition("t", 0): LogEnd(LeaderEpoch(-1), 0),
        TopicPartition("t", 1): LogEnd(LeaderEpoch(7), 2**40),
    }
    line.handler.answer = CommandResult(
        partition_errors={TopicPartition("t", 2): ErrorCode.KAFKA_STORAGE_ERROR}, log_ends=ends
    )
    line.channel().send(ReportLogEnds(*HEADER, [TopicPartition("t", number) for number in range(3)]))
    await until(lambda: bool(line.answers))
    assert line.answers[0][1] == line.handler.answer


async def test_the_error_of_a_whole_command_comes_back(line: Line) -> None:
    line.handler.answer = CommandResult(ErrorCode.STALE_BROKER_EPOCH)
    line.channel().send(lead(0))
    await until(lambda: bool(line.answers))
    assert line.answers[0][1].of(TopicPartition("t", 0)) is ErrorCode.STALE_BROKER_EPOCH


async def test_order_is_kept(line: Line, seed: int) -> None:
    dice = random.Random(seed)
    channel = line.channel()
    sent: list[object] = []
    for number in range(300):
        command: Command = lead(number) if dice.random() < 0.5 else stop(number)
        sent += command.partitions
        channel.send(command)
        if dice.random() < 0.3:
            await asyncio.sleep(0)
    await until(lambda: sum(len(command.partitions) for command in line.handler.heard) == 300)
    assert [entry for command in line.handler.heard for entry in command.partitions] == sent


async def test_what_is_superseded_while_the_broker_is_busy_is_not_sent(line: Line) -> None:
    line.handler.gate.clear()
    channel = line.channel()
    channel.send(tell())
    await until(lambda: len(line.handler.heard) == 1)
    for epoch in range(1, 50):
        channel.send(lead(0, epoch=epoch))
    channel.send(lead(1))
    line.handler.gate.set()
    await until(lambda: len(line.answers) == 2)
    merged = line.handler.heard[1]
    assert isinstance(merged, LeaderAndIsr)
    assert [(each.partition, each.leader_epoch) for each in merged.partitions] == [(0, 49), (1, 0)]


async def test_many_partitions_travel_in_messages_of_two_thousand(line: Line) -> None:
    line.channel().send(tell(5_000))
    await until(lambda: len(line.answers) == 3)
    assert [len(command.partitions) for command in line.handler.heard] == [2_000, 2_000, 1_000]


async def test_great_messages_pass(line: Line) -> None:
    entries = [lead(number, topic="x" * 249 + str(number)).partitions[0] for number in range(2_000)]
    for entry in entries:
        entry.replicas = tuple(map(BrokerId, range(2_000)))
    line.channel().send(LeaderAndIsr(*HEADER, entries))
    await until(lambda: bool(line.answers))
    assert line.handler.heard[0].partitions == entries


async def test_a_peer_that_restarts_is_reached_again_within_600_ms(line: Line) -> None:
    channel = line.channel()
    channel.send(lead(0))
    await until(lambda: len(line.answers) == 1)
    await line.listener.stop()
    channel.send(lead(1))
    # Long enough for the pauses between attempts to have grown to their greatest.
    await asyncio.sleep(1.8)
    assert len(line.answers) == 1
    await line.restart()
    started = asyncio.get_running_loop().time()
    await until(lambda: len(line.answers) == 2)
    assert asyncio.get_running_loop().time() - started < 0.6
    assert line.handler.heard[-1] == lead(1)


async def test_an_idle_channel_survives_a_restart(line: Line) -> None:
    channel = line.channel()
    channel.send(lead(0))
    await until(lambda: len(line.answers) == 1)
    await line.restart()
    channel.send(lead(1))
    await until(lambda: len(line.answers) == 2)


async def test_a_command_under_way_in_a_restart_is_sent_again(line: Line) -> None:
    line.handler.gate.clear()
    channel = line.channel()
    channel.send(lead(0))
    await until(lambda: len(line.handler.heard) == 1)
    await line.listener.stop()
    channel.send(stop(5))
    line.handler.gate.set()
    line.handler.at_once = 0
    await line.restart()
    await until(lambda: len(line.answers) == 2)
    assert line.handler.heard == [lead(0), lead(0), stop(5)]


async def test_a_command_past_its_deadline_is_sent_again(line: Line) -> None:
    line.handler.gate.clear()
    line.channel(controller_socket_timeout_ms=200).send(lead(0))
    await until(lambda: len(line.handler.heard) == 1)
    await asyncio.sleep(0.4)
    line.handler.gate.set()
    await until(lambda: len(line.answers) == 1)
    assert len(line.handler.heard) > 1
    assert all(command == lead(0) for command in line.handler.heard)


async def test_a_peer_that_is_not_there_yet_is_waited_for(line: Line) -> None:
    await line.listener.stop()
    channel = line.channel()
    channel.send(lead(0))
    await asyncio.sleep(0.2)
    await line.restart()
    await until(lambda: len(line.answers) == 1)
    assert line.handler.heard == [lead(0)]


async def test_a_closed_channel_says_and_hears_no_more(line: Line) -> None:
    line.handler.gate.clear()
    channel = line.channel()
    channel.send(lead(0))
    await until(lambda: len(line.handler.heard) == 1)
    channel.close()
    channel.send(lead(1))
    line.handler.gate.set()
    other, later = line.channel(), replace(lead(2), controller_epoch=ControllerEpoch(3))
    other.send(later)
    await until(lambda: bool(line.answers))
    assert [command for command, _ in line.answers] == [later]
    assert lead(1) not in line.handler.heard


async def test_two_controllers_are_heard_one_command_at_a_time(line: Line) -> None:
    old, new = line.channel(), line.channel()
    for number in range(100):
        old.send(stop(number))
        new.send(replace(stop(1_000 + number), controller_epoch=ControllerEpoch(3)))
        await asyncio.sleep(0)
    await until(lambda: sum(len(command.partitions) for command in line.handler.heard) == 200)
    heard = [entry.partition for command in line.handler.heard for entry in command.partitions]
    assert [each for each in heard if each < 1_000] == list(range(100))
    assert [each for each in heard if each >= 1_000] == list(range(1_000, 1_100))


async def test_what_was_under_way_on_a_connection_that_was_given_up_is_not_obeyed_after_what_came_later() -> None:
    async with two_streams() as (line, old, new):
        sent: list[tuple[int, int, Command]] = [(1, 1, tell()), (1, 3, stop(0)), (2, 4, lead(0))]
        for stream, (sequence, number, command) in zip((old, new, new), sent, strict=True):
            await stream.write(command_to_wire(command, sequence=sequence, number=number))
            await stream.read()
        await old.write(command_to_wire(stop(0), sequence=2, number=2))
        assert await old.read() is grpc.aio.EOF
        assert line.handler.heard == [tell(), stop(0), lead(0)]


async def test_a_controller_of_before_there_were_numbers_is_obeyed_on_each_of_its_streams() -> None:
    async with two_streams() as (line, first, second):
        for stream, sequence in ((first, 1), (first, 2), (first, 3), (second, 1), (second, 2)):
            await stream.write(command_to_wire(lead(0), sequence=sequence, number=0))
            answer = await stream.read()
            assert isinstance(answer, wire.Answer)
            assert answer.sequence == sequence
        assert line.handler.heard == [lead(0)] * 5


async def test_a_stream_begins_to_count_anew_and_the_numbers_go_on(line: Line) -> None:
    judged = watch(line.listener)
    line.handler.gate.clear()
    line.channel(controller_socket_timeout_ms=200).send(lead(0))
    await until(lambda: len(judged) == 3)
    line.handler.gate.set()
    await until(lambda: len(line.answers) == 1)
    assert judged == [(1, number, False) for number in range(1, len(judged) + 1)]


async def test_commands_to_two_brokers_take_turns_and_neither_takes_any_for_late(line: Line) -> None:
    other = Line(line.open_plane)
    await other.start()
    try:
        judged = [watch(each.listener) for each in (line, other)]
        answers: list[Command] = []
        ends = [line.listener.endpoint, other.listener.endpoint]
        channels = [
            line.plane.open_channel(broker, end, lambda command, _: answers.append(command))
            for broker, end in zip((ONE, TWO), ends, strict=True)
        ]
        line.channels += channels
        for number, channel in enumerate((0, 1, 1, 0, 1, 0, 0, 1), 1):
            channels[channel].send(stop(number))
            await until(lambda: len(answers) == number)  # noqa: B023
        assert judged == [
            [(1, 1, False), (2, 4, False), (3, 6, False), (4, 7, False)],
            [(1, 2, False), (2, 3, False), (3, 5, False), (4, 8, False)],
        ]
        assert line.handler.heard == [stop(number) for number in (1, 4, 6, 7)]
        assert other.handler.heard == [stop(number) for number in (2, 3, 5, 8)]
    finally:
        await other.close()
    assert not other.failures


async def test_a_second_server_on_the_port_is_refused(line: Line) -> None:
    with pytest.raises(OSError, match=str(line.port)):
        await line.plane.serve(Handler(), Requests(), "127.0.0.1", line.port)


async def test_a_port_is_chosen_and_told(line: Line) -> None:
    assert line.port > 0
    assert line.listener.endpoint == f"127.0.0.1:{line.port}"


async def test_a_proxy_of_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    line = Line(over_grpc)
    await line.start()
    try:
        line.channel().send(lead(0))
        await until(lambda: len(line.answers) == 1)
    finally:
        await line.close()


async def test_a_mistake_of_the_handler_is_fatal_for_the_broker() -> None:
    line = Line(over_grpc)
    await line.start()
    try:
        line.handler.error = ZeroDivisionError("planted")
        line.channel().send(lead(0))
        await until(lambda: bool(line.failures))
        assert line.failures == ["control server: ZeroDivisionError('planted')"]
        assert not line.answers
    finally:
        await line.close()
