"""A small cluster without sockets: the same frames, carried in the process, so that tests run in virtual time.

Requests of one connection are answered in turn. `delay_s` is what each answer takes on its way.
"""

import asyncio
import random
from collections.abc import Iterable

from barnabas.client.cluster import Cluster, ClusterOptions
from barnabas.client.connection import Address
from barnabas.client.transport import Channel, FrameReceiver
from barnabas.protocol.batch import Buffer
from tests.unit.client.small_cluster import Hangup, SmallCluster


class MemoryWire:
    """Connects clients to the brokers of a cluster that listens nowhere."""

    def __init__(self, small: SmallCluster, *, delay_s: float = 0.001) -> None:
        self.small = small
        self.delay_s = delay_s
        self.unreachable: set[int] = set()
        for node_id in range(1, small.count + 1):
            small.ports[node_id] = node_id

    async def connect(self, _host: str, port: int, receiver: FrameReceiver) -> Channel:
        if port in self.unreachable:
            raise ConnectionRefusedError(111, "Connection refused")
        return _Line(self, port, receiver)

    def cluster(self, **options: int) -> Cluster:
        return Cluster(
            [Address("memory", 1)],
            random=random.Random(7),
            connector=self.connect,
            options=ClusterOptions(**options) if options else None,
        )


class _Line:
    """One connection: what is sent is answered by a task, frame after frame."""

    def __init__(self, wire: MemoryWire, node_id: int, receiver: FrameReceiver) -> None:
        self._wire = wire
        self._node_id = node_id
        self._receiver = receiver
        self._frames: asyncio.Queue[bytes] = asyncio.Queue()
        self._task = asyncio.get_running_loop().create_task(self._answer())

    def send(self, parts: Iterable[Buffer]) -> None:
        data = b"".join(parts)
        while data:
            size = 4 + int.from_bytes(data[:4], "big")
            self._frames.put_nowait(data[4:size])
            data = data[size:]

    @property
    def is_writable(self) -> bool:
        return True

    async def drained(self) -> None:
        return

    def close(self) -> None:
        self._task.cancel()
        asyncio.get_running_loop().call_soon(self._receiver.channel_lost, "it was closed")

    async def _answer(self) -> None:
        try:
            while True:
                await self._wire.small._answer(self._node_id, await self._frames.get(), self)  # type: ignore[arg-type]
        except Hangup:
            self._receiver.channel_lost("the broker hung up")

    # What the small cluster takes for a stream.

    def writelines(self, parts: Iterable[Buffer]) -> None:
        asyncio.get_running_loop().call_later(
            self._wire.delay_s, self._receiver.frame_received, bytearray(b"".join(parts)[4:])
        )

    async def drain(self) -> None:
        return


def small_cluster(partitions: int = 1, brokers: int = 1) -> MemoryWire:
    """A cluster with the topic `t`."""
    small = SmallCluster(brokers)
    small.add_topic("t", partitions)
    return MemoryWire(small)
