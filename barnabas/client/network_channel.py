"""The client's `Channel` on the network port of a broker: brokers reach each other by what a simulator can replace."""

import asyncio
from collections.abc import Iterable

from barnabas.client.transport import Channel, Connector, FrameReceiver
from barnabas.protocol.batch import Buffer
from barnabas.runtime.network import Connection, FrameSink, Network, PeerOptions


def connector_over(network: Network, options: PeerOptions) -> Connector:
    """What `open_connection` takes to connect through `network`."""

    async def connect(host: str, port: int, receiver: FrameReceiver) -> Channel:
        sinks: list[_Sink] = []

        def accept(connection: Connection) -> FrameSink:
            sinks.append(_Sink(connection, receiver))
            return sinks[0]

        connection = await network.connect(host, port, accept, options=options)
        return _NetworkChannel(connection, sinks[0].writable)

    return connect


class _Sink:
    """Takes the frames of a connection for its receiver."""

    def __init__(self, connection: Connection, receiver: FrameReceiver) -> None:
        self._connection = connection
        self._receiver = receiver
        self.writable = asyncio.Event()
        self.writable.set()

    def frame_received(self, frame: bytearray) -> None:
        self._connection.frame_finished(frame)
        self._receiver.frame_received(frame)

    def frames_done(self) -> None:
        """Requests leave as they are asked for."""

    def drained(self) -> None:
        self.writable.set()

    def disconnected(self) -> None:
        self.writable.set()
        self._receiver.channel_lost("the connection was closed")


class _NetworkChannel:
    """See `transport.Channel`; closing drops what was not sent yet."""

    def __init__(self, connection: Connection, writable: asyncio.Event) -> None:
        self._connection = connection
        self._writable = writable

    def send(self, parts: Iterable[Buffer]) -> None:
        self._connection.send([part for part in parts if len(part)])
        self._connection.flush()
        if self._connection.unsent_bytes:
            self._writable.clear()

    @property
    def is_writable(self) -> bool:
        return self._writable.is_set()

    async def drained(self) -> None:
        await self._writable.wait()

    def close(self) -> None:
        self._connection.close("its owner closed it")
