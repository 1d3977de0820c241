"""The control channel over gRPC, the controller's side: one stream to each broker.

Commands leave in the order of `CommandQueue`, one in flight at a time. A command that is not answered, because the
stream broke or its deadline passed, is sent again on a new stream, unless a later one superseded it; a broker may
therefore see a command twice, and compares epochs. Each attempt opens a connection of its own, so that the distance
between attempts is ours (50 to 500 ms) and not that of gRPC's shared state.

The task of a channel belongs to the supervisor and ends when the channel is closed.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol, cast

import grpc

from barnabas.protocol.ids import BrokerId
from barnabas.runtime.tasks import Supervisor
from controller import control_pb2 as wire
from controller.channel_messages import command_to_wire, result_from_wire
from controller.command_queue import CommandQueue
from controller.commands import AnswerListener, Command
from controller.control_pb2_grpc import BrokerControlStub

log = logging.getLogger(__name__)

MAX_MESSAGE_BYTES: Final = 64 * 1024 * 1024
OPTIONS: Final = (
    # Else two brokers could share a port without either noticing.
    ("grpc.so_reuseport", 0),
    # A proxy of the environment has no business between brokers.
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    # A connection that failed must not delay the next attempt.
    ("grpc.use_local_subchannel_pool", 1),
)
_FIRST_BACKOFF_MS: Final = 50
_MAX_BACKOFF_MS: Final = 500


class _Stream(Protocol):
    """An open stream, as gRPC gives it when the requests are written one by one."""

    async def write(self, request: wire.Command) -> None: ...

    async def read(self) -> object:
        """An answer, or a marker that the stream ended."""
        ...

    def cancel(self) -> bool: ...


class StreamEnded(Exception):
    """The broker ended the stream, or answered what was not asked."""


class GrpcChannel:
    """A channel to one registration of a broker (a `ControlChannel`)."""

    def __init__(
        self, broker: BrokerId, endpoint: str, on_answer: AnswerListener, supervisor: Supervisor, *, deadline_ms: int
    ) -> None:
        self._broker = broker
        self._endpoint = endpoint
        self._on_answer = on_answer
        self._deadline_s = deadline_ms / 1000
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
            await stream.write(command_to_wire(sequence, command))
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


class GrpcChannels:
    """Opens channels over gRPC (an `OpenChannel`). `deadline_ms` is `controller.socket.timeout.ms`."""

    def __init__(self, supervisor: Supervisor, *, deadline_ms: int = 30_000) -> None:
        self._supervisor = supervisor
        self._deadline_ms = deadline_ms

    def __call__(self, broker: BrokerId, endpoint: str, on_answer: AnswerListener) -> GrpcChannel:
        return GrpcChannel(broker, endpoint, on_answer, self._supervisor, deadline_ms=self._deadline_ms)
