"""The control channel over real gRPC on loopback: what a channel promises and a server must do."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition
from barnabas.runtime.tasks import Supervisor
from controller.channel import GrpcChannel, GrpcChannels
from controller.channel_server import ControlServer
from controller.commands import (
    Command,
    CommandResult,
    Endpoint,
    LeaderAndIsr,
    LeaderAndIsrPartition,
    LiveBroker,
    LiveLeader,
    StopReplica,
    StopReplicaPartition,
    UpdateMetadata,
    UpdateMetadataPartition,
)

HEADER = (BrokerId(1), ControllerEpoch(2), BrokerEpoch(2**40))
ONE, TWO = BrokerId(1), BrokerId(2)
DEADLINE_S = 10


def lead(number: int, *, epoch: int = 0, topic: str = "t") -> LeaderAndIsr:
    entry = LeaderAndIsrPartition(topic, number, ControllerEpoch(2), ONE, LeaderEpoch(epoch), (ONE,), 0, (ONE,))
    return LeaderAndIsr(*HEADER, [entry])


def tell(count: int = 0) -> UpdateMetadata:
    entries = [
        UpdateMetadataPartition("t", each, ControllerEpoch(2), ONE, LeaderEpoch(0), (ONE,), 0, (ONE,))
        for each in range(count)
    ]
    return UpdateMetadata(*HEADER, entries, (LiveBroker(ONE, ()),))


def stop(*numbers: int) -> StopReplica:
    return StopReplica(*HEADER, [StopReplicaPartition("t", each, LeaderEpoch(-2), delete=True) for each in numbers])


class Handler:
    """Remembers commands; can be held, and answers as told."""

    def __init__(self) -> None:
        self.heard: list[Command] = []
        self.answer = CommandResult()
        self.gate = asyncio.Event()
        self.gate.set()
        self.at_once = 0
        self.error: Exception | None = None

    async def _hear(self, command: Command) -> CommandResult:
        self.at_once += 1
        assert self.at_once == 1, "commands come one at a time"
        self.heard.append(command)
        if self.error is not None:
            raise self.error
        await self.gate.wait()
        self.at_once -= 1
        return self.answer

    async def on_leader_and_isr(self, command: LeaderAndIsr) -> CommandResult:
        return await self._hear(command)

    async def on_stop_replica(self, command: StopReplica) -> CommandResult:
        return await self._hear(command)

    async def on_update_metadata(self, command: UpdateMetadata) -> CommandResult:
        return await self._hear(command)


class Line:
    """A broker's control server and a controller's channel to it."""

    def __init__(self) -> None:
        self.failures: list[str] = []
        self.supervisor = Supervisor(lambda name, error: self.failures.append(f"{name}: {error!r}"))
        self.handler = Handler()
        self.server = ControlServer(self.handler, "127.0.0.1", 0, self.supervisor)
        self.answers: list[tuple[Command, CommandResult]] = []
        self.channels: list[GrpcChannel] = []

    def channel(self, *, deadline_ms: int = 30_000) -> GrpcChannel:
        def on_answer(command: Command, result: CommandResult) -> None:
            self.answers.append((command, result))

        channel = GrpcChannels(self.supervisor, deadline_ms=deadline_ms)(TWO, self.server.endpoint, on_answer)
        self.channels.append(channel)
        return channel

    async def restart(self) -> None:
        """The same port, a new server."""
        await self.server.stop()
        self.server = ControlServer(self.handler, "127.0.0.1", self.server.port, self.supervisor)
        await self.server.start()

    async def close(self) -> None:
        for channel in self.channels:
            channel.close()
        await self.server.stop()
        await self.supervisor.stop()


@pytest.fixture
async def line() -> AsyncIterator[Line]:
    line = Line()
    await line.server.start()
    try:
        yield line
    finally:
        await line.close()
    assert not line.failures


async def until(predicate: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not predicate():  # noqa: ASYNC110 - what is waited for is in gRPC's threads
            await asyncio.sleep(0.001)


async def test_every_field_of_every_command_arrives(line: Line) -> None:
    broker = LiveBroker(TWO, (Endpoint("INSIDE", "h", 9, "SSL"), Endpoint("OUT", "::1", 10)), "rack", "h:11")
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
    await line.server.stop()
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
    await line.server.stop()
    channel.send(stop(5))
    line.handler.gate.set()
    line.handler.at_once = 0
    await line.restart()
    await until(lambda: len(line.answers) == 2)
    assert line.handler.heard == [lead(0), lead(0), stop(5)]


async def test_a_command_past_its_deadline_is_sent_again(line: Line) -> None:
    line.handler.gate.clear()
    line.channel(deadline_ms=200).send(lead(0))
    await until(lambda: len(line.handler.heard) == 1)
    await asyncio.sleep(0.4)
    line.handler.gate.set()
    await until(lambda: len(line.answers) == 1)
    assert len(line.handler.heard) > 1
    assert all(command == lead(0) for command in line.handler.heard)


async def test_a_peer_that_is_not_there_yet_is_waited_for(line: Line) -> None:
    await line.server.stop()
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
    other = line.channel()
    other.send(lead(2))
    await until(lambda: bool(line.answers))
    assert [command for command, _ in line.answers] == [lead(2)]
    assert lead(1) not in line.handler.heard


async def test_two_controllers_are_heard_one_command_at_a_time(line: Line) -> None:
    old, new = line.channel(), line.channel()
    for number in range(100):
        old.send(stop(number))
        new.send(stop(1_000 + number))
        await asyncio.sleep(0)
    await until(lambda: sum(len(command.partitions) for command in line.handler.heard) == 200)
    heard = [entry.partition for command in line.handler.heard for entry in command.partitions]
    assert [each for each in heard if each < 1_000] == list(range(100))
    assert [each for each in heard if each >= 1_000] == list(range(1_000, 1_100))


async def test_a_second_server_on_the_port_is_refused(line: Line) -> None:
    second = ControlServer(Handler(), "127.0.0.1", line.server.port, line.supervisor)
    try:
        with pytest.raises(OSError, match=str(line.server.port)):
            await second.start()
    finally:
        await second.stop()


async def test_a_port_is_chosen_and_told(line: Line) -> None:
    assert line.server.port > 0
    assert line.server.endpoint == f"127.0.0.1:{line.server.port}"


async def test_a_proxy_of_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    line = Line()
    await line.server.start()
    try:
        line.channel().send(lead(0))
        await until(lambda: len(line.answers) == 1)
    finally:
        await line.close()


async def test_a_mistake_of_the_handler_is_fatal_for_the_broker() -> None:
    line = Line()
    await line.server.start()
    try:
        line.handler.error = ZeroDivisionError("planted")
        line.channel().send(lead(0))
        await until(lambda: bool(line.failures))
        assert line.failures == ["control server: ZeroDivisionError('planted')"]
        assert not line.answers
    finally:
        await line.close()
