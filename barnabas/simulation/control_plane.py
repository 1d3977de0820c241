"""The control plane of a simulated broker: what gRPC carries between processes goes as bytes over the world's wires.

Everything but the transport is the shipped code: the queue of a channel, its retries and deadlines, the server's one
task for commands. A wire carries one stream of commands, or one request and its answer; frames begin with their kind.
"""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from typing import Any, Final, overload

from barnabas.protocol.ids import BrokerId
from barnabas.runtime.network import Connection, Listener, PeerOptions
from barnabas.runtime.tasks import Supervisor
from barnabas.simulation.network import SimulatedNetwork
from controller import control_pb2 as wire
from controller.channel import GrpcChannel, StreamEnded
from controller.channel_server import ControlServer, _Commands, _Requests
from controller.commands import (
    AlterPartition,
    AlterPartitionResult,
    AnswerListener,
    ControlHandler,
    ControlledShutdown,
    ControlledShutdownResult,
)
from controller.control_plane import ControllerRequests, ControllerUnreachable
from controller.request_messages import (
    alter_partition_result_from_wire,
    alter_partition_to_wire,
    controlled_shutdown_result_from_wire,
    controlled_shutdown_to_wire,
)

_OPTIONS: Final = PeerOptions(max_frame_bytes=1 << 26, user_timeout_ms=30_000)
_COMMAND: Final = 1
_ALTER_PARTITION: Final = 2
_CONTROLLED_SHUTDOWN: Final = 3


class _Pipe:
    """One end of a wire that carries frames of a kind; its reader gets None at the end."""

    def __init__(self) -> None:
        self.frames: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.connection: Connection | None = None

    def bind(self, connection: Connection) -> "_Pipe":
        self.connection = connection
        return self

    def write(self, kind: int, message: bytes) -> None:
        assert self.connection is not None
        body = bytes([kind]) + message
        self.connection.send([len(body).to_bytes(4, "big") + body])
        self.connection.flush()

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close("the stream is left")

    # What the connection calls.

    def frame_received(self, frame: bytearray) -> None:
        self.frames.put_nowait(bytes(frame))

    def frames_done(self) -> None:
        pass

    def drained(self) -> None:
        pass

    def disconnected(self) -> None:
        self.frames.put_nowait(None)


class _CommandStream:
    """A stream of commands, as the channel sees it."""

    def __init__(self, pipe: _Pipe) -> None:
        self._pipe = pipe

    async def write(self, request: wire.Command) -> None:
        self._pipe.write(_COMMAND, request.SerializeToString())

    async def read(self) -> object:
        frame = await self._pipe.frames.get()
        return None if frame is None else wire.Answer.FromString(frame[1:])

    def cancel(self) -> bool:
        self._pipe.close()
        return True


class SimulatedChannel(GrpcChannel):
    """A `ControlChannel` over the world's wires."""

    def __init__(self, plane: "SimulatedControlPlane", *arguments: Any, **options: Any) -> None:
        self._plane = plane
        super().__init__(*arguments, **options)

    @contextlib.asynccontextmanager
    async def _open_stream(self) -> AsyncIterator[_CommandStream]:
        pipe = await self._plane.connect(self._endpoint)
        try:
            yield _CommandStream(pipe)
        finally:
            pipe.close()

    async def _run(self) -> None:
        while True:
            await self._until_wanted()
            try:
                async with self._open_stream() as stream:
                    await self._converse(stream)
            except (StreamEnded, TimeoutError, OSError) as error:
                await self._back_off(error)


class SimulatedControlServer(ControlServer):
    """Hears controllers and brokers at a port of the world."""

    def __init__(self, plane: "SimulatedControlPlane", *arguments: Any) -> None:
        super().__init__(*arguments)
        self._plane = plane
        self._listener: Listener | None = None
        self._pipes: dict[_Pipe, asyncio.Task[None]] = {}

    async def start(self) -> None:
        network = self._plane.network
        self._listener = await network.listen(network.host, self._port)
        self._host, self._port = network.host, self._listener.port
        self._task = self._supervisor.spawn(self._obey(), name="control server")
        self._listener.start(self._accept)

    async def stop(self) -> None:
        await super().stop()
        if self._listener is not None:
            self._listener.close()
        for pipe, task in list(self._pipes.items()):
            task.cancel()
            pipe.close()

    def _accept(self, connection: Connection) -> _Pipe:
        pipe = _Pipe().bind(connection)
        self._pipes[pipe] = asyncio.get_running_loop().create_task(self._serve(pipe))
        return pipe

    async def _serve(self, pipe: _Pipe) -> None:
        commands, requests = _Commands(self._orders, self._heard), _Requests(self._requests)
        try:
            first = await pipe.frames.get()
            if first is None:
                return
            if first[0] == _COMMAND:
                async for answer in commands.Obey(_commands_of(first, pipe), None):
                    pipe.write(_COMMAND, answer.SerializeToString())
            elif first[0] == _ALTER_PARTITION:
                altered = await requests.AlterPartition(wire.AlterPartitionRequest.FromString(first[1:]), None)
                pipe.write(first[0], altered.SerializeToString())
            else:
                asked = wire.ControlledShutdownRequest.FromString(first[1:])
                pipe.write(first[0], (await requests.ControlledShutdown(asked, None)).SerializeToString())
        finally:
            pipe.close()
            del self._pipes[pipe]


async def _commands_of(first: bytes, pipe: _Pipe) -> AsyncIterator[wire.Command]:
    frame: bytes | None = first
    while frame is not None:
        yield wire.Command.FromString(frame[1:])
        frame = await pipe.frames.get()


class SimulatedControlPlane:
    """One broker's way to the control plane (a `ControlPlane`)."""

    def __init__(self, network: SimulatedNetwork, supervisor: Supervisor, *, deadline_ms: int = 30_000) -> None:
        self.network = network
        self._supervisor = supervisor
        self._deadline_ms = deadline_ms
        self._numbers = itertools.count(1)

    def open_channel(self, broker: BrokerId, endpoint: str, on_answer: AnswerListener) -> SimulatedChannel:
        return SimulatedChannel(
            self,
            broker,
            endpoint,
            on_answer,
            self._supervisor,
            deadline_ms=self._deadline_ms,
            numbers=self._numbers,
        )

    async def serve(
        self, handler: ControlHandler, requests: ControllerRequests, host: str, port: int
    ) -> SimulatedControlServer:
        server = SimulatedControlServer(self, handler, requests, host, port, self._supervisor)
        await server.start()
        return server

    @overload
    async def call(self, endpoint: str, request: AlterPartition, *, timeout_ms: int) -> AlterPartitionResult: ...

    @overload
    async def call(
        self, endpoint: str, request: ControlledShutdown, *, timeout_ms: int
    ) -> ControlledShutdownResult: ...

    async def call(
        self, endpoint: str, request: AlterPartition | ControlledShutdown, *, timeout_ms: int
    ) -> AlterPartitionResult | ControlledShutdownResult:
        pipe: _Pipe | None = None
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                pipe = await self.connect(endpoint)
                if isinstance(request, AlterPartition):
                    pipe.write(_ALTER_PARTITION, alter_partition_to_wire(request).SerializeToString())
                else:
                    pipe.write(_CONTROLLED_SHUTDOWN, controlled_shutdown_to_wire(request).SerializeToString())
                frame = await pipe.frames.get()
        except (TimeoutError, OSError) as error:
            raise ControllerUnreachable(f"{endpoint}: {error or 'no answer in time'}") from error
        finally:
            if pipe is not None:
                pipe.close()
        if frame is None:
            raise ControllerUnreachable(f"{endpoint}: the connection was closed")
        if isinstance(request, AlterPartition):
            return alter_partition_result_from_wire(wire.AlterPartitionResponse.FromString(frame[1:]))
        return controlled_shutdown_result_from_wire(wire.ControlledShutdownResponse.FromString(frame[1:]))

    async def close(self) -> None:
        """Calls leave nothing open."""

    async def connect(self, endpoint: str) -> _Pipe:
        """A wire to another broker's control server. Raises OSError."""
        host, _, port = endpoint.rpartition(":")
        pipes: list[_Pipe] = []

        def accept(connection: Connection) -> _Pipe:
            pipes.append(_Pipe().bind(connection))
            return pipes[0]

        await self.network.connect(host, int(port), accept, options=_OPTIONS)
        return pipes[0]
