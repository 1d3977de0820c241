"""The control plane over gRPC, the calling side: one stream to each broker, and calls to the controller.

Commands leave in the order of `CommandQueue`, one in flight at a time. A command that is not answered, because the
stream broke or its deadline passed, is sent again on a new stream, unless a later one superseded it; a broker may
therefore see a command twice, and compares epochs. Each attempt opens a connection of its own, so that the distance
between attempts is ours (50 to 500 ms) and not that of gRPC's shared state.

The task of a channel belongs to the supervisor and ends when the channel is closed. Calls to the controller share one
connection, which is dropped with the first call that fails on it.
"""

import asyncio
import itertools
import logging
from collections.abc import Callable, Iterator
from typing import Final, Protocol, cast, overload

import grpc

from barnabas.protocol.ids import BrokerId
from barnabas.runtime.tasks import Supervisor
from controller import control_pb2 as wire
from controller.channel_messages import command_to_wire, result_from_wire
from controller.channel_options import OPTIONS
from controller.channel_server import ControlServer
from controller.command_queue import CommandQueue
from controller.commands import (
    AlterPartition,
    AlterPartitionResult,
    AnswerListener,
    Command,
    ControlHandler,
    ControlledShutdown,
    ControlledShutdownResult,
)
from controller.control_pb2_grpc import BrokerControlStub, ControllerRequestsStub
from controller.control_plane import ControllerRequests, ControllerUnreachable
from controller.request_messages import (
    alter_partition_result_from_wire,
    alter_partition_to_wire,
    controlled_shutdown_result_from_wire,
    controlled_shutdown_to_wire,
)

log = logging.getLogger(__name__)

_FIRST_BACKOFF_MS: Final = 50
_MAX_BACKOFF_MS: Final = 500


class _Stream(Protocol):
    """An open stream, as gRPC gives it when the requests are written one by one."""

    async def write(self, request: wire.Command) -> None: ...

    async def read(self) -> object:
        """An answer, or a marker that the stream ended."""
        ...

    def cancel(self) -> bool: ...


class _Unary(Protocol):
    """A call with one message each way."""

    async def __call__(self, request: object, /) -> object: ...


class StreamEnded(Exception):
    """The broker ended the stream, or answered what was not asked."""


class GrpcChannel:
    """A channel to one registration of a broker (a `ControlChannel`)."""

    def __init__(
        self,
        broker: BrokerId,
        endpoint: str,
        on_answer: AnswerListener,
        supervisor: Supervisor,
        *,
        deadline_ms: int,
        numbers: Iterator[int],
    ) -> None:
        self._broker = broker
        self._endpoint = endpoint
        self._on_answer = on_answer
        self._deadline_s = deadline_ms / 1000
        self._numbers = numbers
        self._queue = CommandQueue()
        self._wake = asyncio.Event()
        self._backoff_ms = 0
        self._task = supervisor.spawn(self._run(), name=f"control channel to broker {broker}")

    def send(self, command: Command) -> None:
        self._queue.put(command)
        self._wake.set()

    def close(self) -> None:
        self._task.cancel()

    async def _run(self) -> None:
        while True:
            await self._until_wanted()
            try:
                async with grpc.aio.insecure_channel(self._endpoint, options=OPTIONS) as channel:
                    await self._converse(cast("Callable[[], _Stream]", BrokerControlStub(channel).Obey)())
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError, StreamEnded, TimeoutError) as error:
                await self._back_off(error)

    async def _until_wanted(self) -> None:
        while not self._queue:
            self._wake.clear()
            await self._wake.wait()

    async def _converse(self, stream: _Stream) -> None:
        """Send and hear answers on one stream; ends only by an error."""
        sequence = 0
        try:
            while True:
                await self._until_wanted()
                sequence += 1
                command = self._queue.take()
                try:
                    answer = await self._ask(stream, sequence, command)
                except BaseException:
                    self._queue.put_back(command)
                    raise
                self._on_reached()
                self._on_answer(command, result_from_wire(answer))
        finally:
            stream.cancel()

    async def _ask(self, stream: _Stream, sequence: int, command: Command) -> wire.Answer:
        async with asyncio.timeout(self._deadline_s):
            await stream.write(command_to_wire(command, sequence=sequence, number=next(self._numbers)))
            answer = await stream.read()
        if not isinstance(answer, wire.Answer) or answer.sequence != sequence:
            raise StreamEnded(f"no answer to command {sequence} of the stream")
        return answer

    def _on_reached(self) -> None:
        if self._backoff_ms:
            log.info("broker %d at %s answers again", self._broker, self._endpoint)
            self._backoff_ms = 0

    async def _back_off(self, error: Exception) -> None:
        if not self._backoff_ms:
            reason = error.details() if isinstance(error, grpc.aio.AioRpcError) else error or type(error).__name__
            log.warning("broker %d at %s does not answer: %s; trying again", self._broker, self._endpoint, reason)
        self._backoff_ms = min(_MAX_BACKOFF_MS, max(_FIRST_BACKOFF_MS, 2 * self._backoff_ms))
        await asyncio.sleep(self._backoff_ms / 1000)


class _Line:
    """A connection for calls to one endpoint; closed when it was left and its last call has ended."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.calls = 0
        self.is_left = False
        self._channel = grpc.aio.insecure_channel(endpoint, options=OPTIONS)
        self._stub = ControllerRequestsStub(self._channel)

    async def ask(
        self, request: AlterPartition | ControlledShutdown
    ) -> AlterPartitionResult | ControlledShutdownResult:
        if isinstance(request, AlterPartition):
            alter = cast("_Unary", self._stub.AlterPartition)
            return alter_partition_result_from_wire(
                cast("wire.AlterPartitionResponse", await alter(alter_partition_to_wire(request)))
            )
        shutdown = cast("_Unary", self._stub.ControlledShutdown)
        return controlled_shutdown_result_from_wire(
            cast("wire.ControlledShutdownResponse", await shutdown(controlled_shutdown_to_wire(request)))
        )

    async def leave(self) -> None:
        """Take no further calls. A close under a call would cancel it, and its caller with it."""
        self.is_left = True
        if not self.calls:
            await self._channel.close()


class GrpcControlPlane:
    """The control plane of one broker over gRPC (a `ControlPlane`). `deadline_ms` is `controller.socket.timeout.ms`."""

    def __init__(self, supervisor: Supervisor, *, deadline_ms: int = 30_000) -> None:
        self._supervisor = supervisor
        self._deadline_ms = deadline_ms
        self._numbers = itertools.count(1)
        """Of commands to all brokers: each has heard only lower ones before, on whatever stream they came."""
        self._line: _Line | None = None

    def open_channel(self, broker: BrokerId, endpoint: str, on_answer: AnswerListener) -> GrpcChannel:
        return GrpcChannel(
            broker, endpoint, on_answer, self._supervisor, deadline_ms=self._deadline_ms, numbers=self._numbers
        )

    async def serve(self, handler: ControlHandler, requests: ControllerRequests, host: str, port: int) -> ControlServer:
        server = ControlServer(handler, requests, host, port, self._supervisor)
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
        line = await self._line_to(endpoint)
        line.calls += 1
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await line.ask(request)
        except (grpc.aio.AioRpcError, TimeoutError) as error:
            # gRPC would wait ever longer before it connects again.
            line.is_left = True
            reason = error.details() if isinstance(error, grpc.aio.AioRpcError) else "no answer in time"
            raise ControllerUnreachable(f"{endpoint}: {reason}") from error
        finally:
            line.calls -= 1
            if line.is_left:
                await line.leave()

    async def close(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            await line.leave()

    async def _line_to(self, endpoint: str) -> _Line:
        line = self._line
        if line is not None and line.endpoint == endpoint and not line.is_left:
            return line
        self._line = made = _Line(endpoint)
        if line is not None and not line.is_left:
            await line.leave()
        return made
