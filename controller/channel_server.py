"""The control plane over gRPC, the side that is called: commands of controllers, and requests to this controller.

Several controllers may have streams open, an old one that does not know yet that it was replaced among them; their
commands reach the handler one at a time, each stream's in its order. A command that comes after one that its controller
sent later ends its stream; nothing else is checked here: the handler compares epochs and answers with error codes.

Requests of brokers go to the controller of this broker as they come; it answers, one way or the other.

One task of the supervisor hands the commands to the handler, so that an exception there is fatal for the broker and
is not answered as if it were the peer's.
"""

import asyncio
import errno
import logging
from collections.abc import AsyncIterator
from typing import Final

import grpc

from barnabas.protocol.error_code import ErrorCode
from barnabas.runtime.tasks import Supervisor
from controller import control_pb2 as wire
from controller.channel_messages import command_from_wire, result_to_wire
from controller.channel_options import OPTIONS
from controller.commands import (
    Command,
    CommandResult,
    ControlHandler,
    LeaderAndIsr,
    ReportLogEnds,
    StopReplica,
    UpdateMetadata,
)
from controller.control_pb2_grpc import (
    BrokerControlServicer,
    ControllerRequestsServicer,
    add_BrokerControlServicer_to_server,
    add_ControllerRequestsServicer_to_server,
)
from controller.control_plane import ControllerRequests
from controller.request_messages import (
    alter_partition_from_wire,
    alter_partition_result_to_wire,
    controlled_shutdown_from_wire,
    controlled_shutdown_result_to_wire,
)

log = logging.getLogger(__name__)

_MAX_WAITING: Final = 16
_Order = tuple[Command, "asyncio.Future[CommandResult]"]


class Heard:
    """The latest command of a controller to a registration of this broker, by which one that comes late is known.

    A channel that gives up a connection sends on another what was not answered, and what follows. What was under way
    on the first may arrive after that: a StopReplica of a topic that was made again since, or an old UpdateMetadata.
    """

    def __init__(self) -> None:
        self._latest = (-1, -1, 0)

    def is_late(self, message: wire.Command) -> bool:
        """Whether it was sent before one that was heard; a command of another epoch is judged by its epochs.

        A controller of before there were numbers sends 0: of its commands nobody knows.
        """
        if not message.number:
            return False
        told = message.controller_epoch, message.broker_epoch, message.number
        if told[:2] == self._latest[:2] and told <= self._latest:
            return True
        self._latest = max(self._latest, told)
        return False


class ControlServer:
    """Hears controllers and brokers at `host`:`port`; port 0 takes a free one, which `port` then tells."""

    def __init__(
        self, handler: ControlHandler, requests: ControllerRequests, host: str, port: int, supervisor: Supervisor
    ) -> None:
        self._handler = handler
        self._requests = requests
        self._host = host
        self._port = port
        self._supervisor = supervisor
        self._orders: asyncio.Queue[_Order] = asyncio.Queue(_MAX_WAITING)
        self._heard = Heard()
        self._server: grpc.aio.Server | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """Where it listens, after `start`."""
        return self._port

    @property
    def endpoint(self) -> str:
        """The "host:port" for the broker's znode."""
        return _join(self._host, self._port)

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: the address cannot be had.
        """
        server = grpc.aio.server(options=OPTIONS)
        add_BrokerControlServicer_to_server(_Commands(self._orders, self._heard), server)
        add_ControllerRequestsServicer_to_server(_Requests(self._requests), server)
        try:
            self._port = server.add_insecure_port(_join(self._host, self._port))
        except RuntimeError as error:
            await server.stop(None)
            raise OSError(errno.EADDRINUSE, f"the control server cannot listen at {self.endpoint}") from error
        self._server = server
        self._task = self._supervisor.spawn(self._obey(), name="control server")
        await server.start()
        log.info("control server listens at %s", self.endpoint)

    async def stop(self) -> None:
        """Cut all streams; the command that is being obeyed is not waited for."""
        if self._task is not None:
            self._task.cancel()
        if self._server is not None:
            await self._server.stop(None)
            self._server = None

    async def _obey(self) -> None:
        while True:
            command, answer = await self._orders.get()
            result = await self._hand_over(command)
            if not answer.done():
                answer.set_result(result)

    async def _hand_over(self, command: Command) -> CommandResult:
        match command:
            case LeaderAndIsr():
                return await self._handler.on_leader_and_isr(command)
            case StopReplica():
                return await self._handler.on_stop_replica(command)
            case UpdateMetadata():
                return await self._handler.on_update_metadata(command)
            case ReportLogEnds():
                return await self._handler.on_report_log_ends(command)


class _Commands(BrokerControlServicer):
    """gRPC's entry: one call of `Obey` is one stream."""

    def __init__(self, orders: "asyncio.Queue[_Order]", heard: Heard) -> None:
        self._orders = orders
        self._heard = heard

    async def Obey(  # noqa: N802 - the name in control.proto
        self,
        request_iterator: AsyncIterator[wire.Command],
        context: object,  # noqa: ARG002
    ) -> AsyncIterator[wire.Answer]:
        async for message in request_iterator:
            if self._heard.is_late(message):
                log.warning("command %d of controller %d comes late", message.number, message.controller_id)
                return
            command = command_from_wire(message)
            if command is None:
                yield result_to_wire(message.sequence, CommandResult(ErrorCode.UNSUPPORTED_VERSION))
                continue
            answer: asyncio.Future[CommandResult] = asyncio.get_running_loop().create_future()
            await self._orders.put((command, answer))
            yield result_to_wire(message.sequence, await answer)


class _Requests(ControllerRequestsServicer):
    """gRPC's entry for what brokers ask of their controller."""

    def __init__(self, requests: ControllerRequests) -> None:
        self._requests = requests

    async def AlterPartition(  # noqa: N802 - the name in control.proto
        self,
        request: wire.AlterPartitionRequest,
        context: object,  # noqa: ARG002
    ) -> wire.AlterPartitionResponse:
        result = await self._requests.alter_partition(alter_partition_from_wire(request))
        return alter_partition_result_to_wire(result)

    async def ControlledShutdown(  # noqa: N802 - the name in control.proto
        self,
        request: wire.ControlledShutdownRequest,
        context: object,  # noqa: ARG002
    ) -> wire.ControlledShutdownResponse:
        result = await self._requests.controlled_shutdown(controlled_shutdown_from_wire(request))
        return controlled_shutdown_result_to_wire(result)


def _join(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
