"""A broker's end of the control plane, and who speaks to it: what the contract of the control plane is tried on.

A simulated plane joins by a row of its own in `PLANES`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from barnabas.protocol.ids import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch
from barnabas.runtime.tasks import Supervisor
from broker.config import resolve_broker_config
from broker.system_ports import open_control_plane
from controller.commands import (
    AlterPartition,
    AlterPartitionResult,
    Command,
    CommandResult,
    ControlChannel,
    ControlledShutdown,
    ControlledShutdownResult,
    LeaderAndIsr,
    LeaderAndIsrPartition,
    LiveBroker,
    ReportLogEnds,
    StopReplica,
    StopReplicaPartition,
    UpdateMetadata,
    UpdateMetadataPartition,
)
from controller.control_plane import ControlListener, ControlPlane

OpenPlane = Callable[[Supervisor, int], ControlPlane]


def over_grpc(supervisor: Supervisor, controller_socket_timeout_ms: int) -> ControlPlane:
    """The real one."""
    given = {"zookeeper.connect": "unused", "controller.socket.timeout.ms": str(controller_socket_timeout_ms)}
    return open_control_plane(resolve_broker_config(given), supervisor)


PLANES: dict[str, OpenPlane] = {"grpc": over_grpc}

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

    async def on_report_log_ends(self, command: ReportLogEnds) -> CommandResult:
        return await self._hear(command)


class Requests:
    """A controller that answers as told, and may be held."""

    def __init__(self) -> None:
        self.heard: list[AlterPartition | ControlledShutdown] = []
        self.altered = AlterPartitionResult()
        self.shut_down = ControlledShutdownResult()
        self.gate = asyncio.Event()
        self.gate.set()

    async def alter_partition(self, request: AlterPartition) -> AlterPartitionResult:
        self.heard.append(request)
        await self.gate.wait()
        return self.altered

    async def controlled_shutdown(self, request: ControlledShutdown) -> ControlledShutdownResult:
        self.heard.append(request)
        await self.gate.wait()
        return self.shut_down


class Line:
    """A broker's control server and a controller's channel to it."""

    listener: ControlListener

    def __init__(self, open_plane: OpenPlane) -> None:
        self.failures: list[str] = []
        self.supervisor = Supervisor(lambda name, error: self.failures.append(f"{name}: {error!r}"))
        self.handler = Handler()
        self.requests = Requests()
        self.open_plane = open_plane
        self.plane = open_plane(self.supervisor, 30_000)
        self.answers: list[tuple[Command, CommandResult]] = []
        self.channels: list[ControlChannel] = []

    async def start(self, *, port: int = 0) -> None:
        self.listener = await self.plane.serve(self.handler, self.requests, "127.0.0.1", port)

    @property
    def port(self) -> int:
        return int(self.listener.endpoint.rpartition(":")[2])

    def channel(self, *, controller_socket_timeout_ms: int = 30_000) -> ControlChannel:
        def on_answer(command: Command, result: CommandResult) -> None:
            self.answers.append((command, result))

        plane = self.open_plane(self.supervisor, controller_socket_timeout_ms)
        channel = plane.open_channel(TWO, self.listener.endpoint, on_answer)
        self.channels.append(channel)
        return channel

    async def restart(self) -> None:
        """The same port, a new server."""
        await self.listener.stop()
        await self.start(port=self.port)

    async def close(self) -> None:
        for channel in self.channels:
            channel.close()
        await self.listener.stop()
        await self.plane.close()
        await self.supervisor.stop()


@pytest.fixture(params=PLANES)
def open_plane(request: pytest.FixtureRequest) -> OpenPlane:
    return PLANES[request.param]


@pytest.fixture
async def line(open_plane: OpenPlane) -> AsyncIterator[Line]:
    line = Line(open_plane)
    await line.start()
    try:
        yield line
    finally:
        await line.close()
    assert not line.failures


async def until(predicate: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not predicate():  # noqa: ASYNC110 - what is waited for is in gRPC's threads
            await asyncio.sleep(0.001)
