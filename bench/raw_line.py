"""Connections for loads on coordinators: requests in the newest version of Kafka 2.7, nothing negotiated or retried.

A `Line` asks for one thing at a time as a message, or sends frames that are encoded already and counts how long after
they were due each was answered. `pace` sends such frames at a steady rate; they do not wait for answers, so a broker
that stalls is seen with all the requests that it holds up.
"""

import asyncio
import itertools
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from barnabas.client.connection import Address
from barnabas.client.errors import raise_for
from barnabas.client.transport import Channel, FrameReceiver, connect_tcp
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.frames import frame_request, response_decoder
from barnabas.protocol.messages import create_topics, find_coordinator, metadata
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.schema import Api
from bench import frames
from bench.percentiles import percentile

GROUP: Final = 0
TRANSACTION: Final = 1
NOT_YET: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""What brokers answer until all that was made is led."""

_CLIENT: Final = "bench"
_AGAIN_S: Final = 0.05
_PATIENCE_S: Final = 120.0


class WrongAnswer(Exception):
    """An answer is not the one that every such request gets."""


def unexpected(frame: bytearray, expected: bytes | None) -> str | None:
    """What is wrong with an answer; None if it is the one that every such request gets."""
    return None if frame == expected else f"{bytes(frame)!r} where {expected!r} is answered to others"


class Line(FrameReceiver):
    """One connection; made by `open_line`. Answers come in the order of the requests."""

    def __init__(self) -> None:
        self.latencies_ms: list[float] = []
        self.expected: bytes | None = None
        """What a frame of `send` is answered."""
        self._channel: Channel | None = None
        self._waiting: deque[asyncio.Future[bytearray] | float] = deque()
        self._lost: str | None = None

    async def ask(self, api: Api, request: object) -> Any:
        """The response to a request."""
        frame = await self.exchange(encoded(api, request))
        return response_decoder(api.key, api.versions[-1])(frame)

    async def exchange(self, frame: bytes) -> bytearray:
        """What is answered to a frame."""
        answer: asyncio.Future[bytearray] = asyncio.get_running_loop().create_future()
        self._put(frame, answer)
        async with asyncio.timeout(_PATIENCE_S):
            return await answer

    def send(self, frame: bytes, due_s: float) -> None:
        """Send what is answered as `expected`; its latency counts from `due_s` of the performance counter."""
        self._put(frame, due_s)

    @property
    def is_answered(self) -> bool:
        self._check()
        return not self._waiting

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()

    def attach(self, channel: Channel) -> None:
        self._channel = channel

    def frame_received(self, frame: bytearray) -> None:
        asked = self._waiting.popleft()
        if not isinstance(asked, float):
            if not asked.done():
                asked.set_result(frame)
            return
        self.latencies_ms.append((time.perf_counter() - asked) * 1000)
        self._lost = unexpected(frame, self.expected) or self._lost

    def channel_lost(self, reason: str) -> None:
        self._lost = self._lost or reason
        for asked in self._waiting:
            if isinstance(asked, asyncio.Future) and not asked.done():
                asked.set_exception(ConnectionError(reason))

    def _put(self, frame: bytes, asked: "asyncio.Future[bytearray] | float") -> None:
        self._check()
        assert self._channel is not None
        self._waiting.append(asked)
        self._channel.send((frame,))

    def _check(self) -> None:
        if self._lost is not None:
            raise WrongAnswer(self._lost)


def encoded(api: Api, request: object) -> bytes:
    """A whole frame, always with the same correlation id, so that equal answers are equal bytes."""
    parts = frame_request(api.key, api.versions[-1], correlation_id=1, client_id=_CLIENT, request=request)
    return b"".join(cast("list[bytes]", parts))


async def open_line(address: Address) -> Line:
    line = Line()
    line.attach(await connect_tcp(address.host, address.port, line))
    return line


async def write_first(leader: Address, topic: str, *partitions: int) -> None:
    """One record that all replicas have: before that nothing may be led, and followers may not have begun to fetch."""
    line = await open_line(leader)
    try:
        async with asyncio.timeout(_PATIENCE_S):
            for partition in partitions:
                frame = frames.produce(topic, partition, records=1, record_bytes=1, acks=-1).frame
                while frames.produce_error(await line.exchange(frame), topic):  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(_AGAIN_S)
    finally:
        line.close()


async def until_served(ask: Callable[[], Awaitable[Any]], codes: Callable[[Any], Collection[int]]) -> Any:
    """Ask until nothing of the answer is in `NOT_YET`, and return it. Raises ClientError for other errors."""
    ends_s = time.monotonic() + _PATIENCE_S
    while True:
        answer = await ask()
        found = [ErrorCode(code) for code in codes(answer)]
        if not any(code in NOT_YET for code in found):
            for code in found:
                raise_for(code)
            return answer
        if time.monotonic() > ends_s:
            raise TimeoutError(f"{found} is answered for {_PATIENCE_S} s")
        await asyncio.sleep(_AGAIN_S)


async def coordinator_of(line: Line, key: str, kind: int) -> Address:
    request = FindCoordinatorRequest(key, kind)
    found = await until_served(lambda: line.ask(find_coordinator.API, request), lambda response: [response.error_code])
    return Address(found.host, found.port)


async def controller_of(bootstrap: Address) -> Address:
    """Where the controller is."""
    line = await open_line(bootstrap)
    try:
        told = await _until_told(line, lambda told: any(each.node_id == told.controller_id for each in told.brokers))
    finally:
        line.close()
    found = next(each for each in told.brokers if each.node_id == told.controller_id)
    return Address(found.host, found.port)


async def create_topic(line: Line, name: str, partitions: int, replication_factor: int = 1) -> None:
    """Create a topic as soon as there are brokers for it, and return when all of it is led."""
    await _until_told(line, lambda told: len(told.brokers) >= replication_factor)
    request = CreateTopicsRequest([CreatableTopic(name, partitions, replication_factor)], 60_000)
    created = await line.ask(create_topics.API, request)
    raise_for(created.topics[0].error_code, created.topics[0].error_message)

    def is_led(told: MetadataResponse) -> bool:
        found = [each for topic in told.topics if topic.name == name for each in topic.partitions]
        return len(found) == partitions and all(each.leader_id >= 0 and not each.error_code for each in found)

    await _until_told(line, is_led)


async def until_replicated(bootstrap: Address, topic: str, replicas: int) -> None:
    """Return when so many replicas of each partition of a topic are in sync."""
    line = await open_line(bootstrap)

    def is_whole(told: MetadataResponse) -> bool:
        found = [each for found in told.topics if found.name == topic for each in found.partitions]
        return bool(found) and all(len(each.isr_nodes) == replicas for each in found)

    try:
        await _until_told(line, is_whole)
    finally:
        line.close()


async def _until_told(line: Line, holds: Callable[[MetadataResponse], bool]) -> MetadataResponse:
    async with asyncio.timeout(_PATIENCE_S):
        while True:
            told: MetadataResponse = await line.ask(metadata.API, MetadataRequest(None))
            if holds(told):
                return told
            await asyncio.sleep(_AGAIN_S)


Turns = Sequence[tuple[Line, bytes]]
"""Frames in the order in which they are sent, each with its connection."""


@dataclass(frozen=True, slots=True)
class Paced:
    """What came of a steady load."""

    requests: int
    seconds: float
    latencies_ms: Sequence[float]

    def percentile_ms(self, share: float) -> float:
        return percentile(self.latencies_ms, share)


async def pace(turns: Turns, *, rate: float, seconds: float) -> Paced:
    """Send the frames in turn, over and over, `rate` a second."""
    lines = {id(line): line for line, _ in turns}.values()
    for line in lines:
        line.latencies_ms.clear()
    total = int(rate * seconds)
    following = itertools.cycle(turns)
    started = time.perf_counter()
    number = 0
    while number < total:
        now = time.perf_counter()
        while number < total and (due := started + number / rate) <= now:
            line, frame = next(following)
            line.send(frame, due)
            number += 1
        await asyncio.sleep(max(0.0, started + number / rate - time.perf_counter()))
    ends = time.perf_counter() + _PATIENCE_S
    while not all(line.is_answered for line in lines):
        if time.perf_counter() > ends:
            raise TimeoutError(f"answers are missing {_PATIENCE_S} s after the end")
        await asyncio.sleep(_AGAIN_S)
    latencies = [latency for line in lines for latency in line.latencies_ms]
    return Paced(total, time.perf_counter() - started, latencies)
