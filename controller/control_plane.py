"""The port through which brokers and their controller speak: commands one way, requests the other.

One contract suite holds for every implementation: what is sent through a channel arrives in order
or was superseded (`controller.command_queue`); a call is answered once or raises, and after `ControllerUnreachable`
it may or may not have been done. The real side is `controller.channel.GrpcControlPlane`; a simulated cluster has its
own.
"""

from typing import Protocol, overload

from barnabas.protocol.ids import BrokerId
from controller.commands import (
    AlterPartition,
    AlterPartitionResult,
    AnswerListener,
    ControlChannel,
    ControlHandler,
    ControlledShutdown,
    ControlledShutdownResult,
)


class ControllerUnreachable(Exception):
    """No answer: the request may or may not have been done."""


class ControllerRequests(Protocol):
    """What a broker does when another asks for its controller; NOT_CONTROLLER where it is not in office."""

    async def alter_partition(self, request: AlterPartition) -> AlterPartitionResult: ...

    async def controlled_shutdown(self, request: ControlledShutdown) -> ControlledShutdownResult: ...


class ControlListener(Protocol):
    """A broker's end of the control plane."""

    @property
    def endpoint(self) -> str:
        """The "host:port" for the broker's znode."""
        ...

    async def stop(self) -> None:
        """Cut all streams and calls; what is being done is not waited for."""
        ...


class ControlPlane(Protocol):
    """One broker's way to the control plane."""

    def open_channel(self, broker: BrokerId, endpoint: str, on_answer: AnswerListener) -> ControlChannel:
        """A channel to the control server at `endpoint`, "host:port"."""
        ...

    async def serve(
        self, handler: ControlHandler, requests: ControllerRequests, host: str, port: int
    ) -> ControlListener:
        """Listen for controllers and for brokers that ask; port 0 takes a free one.

        Raises:
            OSError: the address cannot be had.
        """
        ...

    @overload
    async def call(self, endpoint: str, request: AlterPartition, *, timeout_ms: int) -> AlterPartitionResult: ...

    @overload
    async def call(
        self, endpoint: str, request: ControlledShutdown, *, timeout_ms: int
    ) -> ControlledShutdownResult: ...

    async def call(
        self, endpoint: str, request: AlterPartition | ControlledShutdown, *, timeout_ms: int
    ) -> AlterPartitionResult | ControlledShutdownResult:
        """Ask the broker at `endpoint`, which should be the controller.

        Raises:
            ControllerUnreachable: no answer within `timeout_ms`.
        """
        ...

    async def close(self) -> None:
        """Give back what calls have left open."""
        ...
