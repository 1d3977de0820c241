"""A process that sends hostile frames from many connections at a given pace, and tells what it did.

Started as `python -m tests.hostile.attacker HOST PORT SETTINGS`, with the settings as JSON. It says `ready` when its
frames are made, begins when its input closes or brings a line, and ends with its report, one line of JSON. It is one
thread without a task per connection, its frames are made before it begins, and the scheduler gives it what others leave
over: on a machine of two cores it must not take the time of the broker that it attacks.

Most connections send frames one after another and read what is answered; a closed one is opened again. Some send a byte
a second, some ask for much and never read, some begin a great request and leave it unfinished.
"""

import json
import os
import select
import socket
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from random import Random
from typing import Final

from barnabas.protocol.compiler import encode
from barnabas.protocol.frames import encode_request_header
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.metadata import MetadataRequest
from tests.hostile.frames import FrameMaker, HostileFrame, produce_frame

_DISTINCT_FRAMES: Final = 4000
_TURN_SECONDS: Final = 0.002
_MOST_A_TURN: Final = 5
_DEAF_BUFFER_BYTES: Final = 4096
_ANNOUNCED_BYTES: Final = 50_000_000
_HELD_BYTES: Final = 8_000_000
_PIECE: Final = bytes(64 * 1024)


@dataclass(slots=True)
class Settings:
    """How many of what; `frames` are sent in all, `rate` a second."""

    topic: str
    seed: int
    frames: int
    rate: int
    senders: int = 160
    slow: int = 15
    deaf: int = 15
    holding: int = 10

    @property
    def connections(self) -> int:
        return self.senders + self.slow + self.deaf + self.holding


@dataclass(slots=True)
class Report:
    """What was done. `ended_by_broker` counts connections that the broker closed."""

    sent: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    connects: int = 0
    refused_connects: int = 0
    ended_by_broker: int = 0
    unfinished: int = 0
    answer_bytes: int = 0
    slow_bytes: int = 0
    deaf_requests: int = 0
    held_bytes: int = 0
    cpu_seconds: float = 0.0

    @property
    def frames(self) -> int:
        return sum(self.sent.values())


class _Slot:
    """One connection of the attack, made anew when it is gone."""

    def __init__(self, attack: "Attack", *, receive_buffer_bytes: int | None = None) -> None:
        self._attack = attack
        self._receive_buffer_bytes = receive_buffer_bytes
        self.socket: socket.socket | None = None
        self.is_spent = False
        self.progress = 0

    def open(self) -> socket.socket | None:
        if self.socket is None:
            self.socket = self._attack.connect(self._receive_buffer_bytes)
            self.is_spent, self.progress = False, 0
        return self.socket

    def close(self) -> None:
        if self.socket is not None:
            self.socket.close()
            self.socket = None

    def send(self, data: bytes | memoryview) -> int:
        """How many bytes went out; the connection is closed when it is broken."""
        connection = self.open()
        if connection is None:
            return 0
        try:
            return connection.send(data)
        except BlockingIOError:
            return 0
        except OSError:
            self._attack.report.ended_by_broker += 1
            self.close()
            return 0


class Attack:
    """See the module."""

    def __init__(self, host: str, port: int, settings: Settings) -> None:
        self.report = Report()
        self._address = (host, port)
        self._settings = settings
        self._poll = select.epoll()
        random = Random(settings.seed)
        maker = FrameMaker(random, settings.topic)
        self._frames = [maker.make(kind) for kind in maker.kinds]
        self._frames += [maker.any() for _ in range(_DISTINCT_FRAMES)]
        random.shuffle(self._frames)
        self._senders = [_Slot(self) for _ in range(settings.senders)]
        self._by_descriptor: dict[int, _Slot] = {}
        self._slow = [_Slot(self) for _ in range(settings.slow)]
        self._deaf = [_Slot(self, receive_buffer_bytes=_DEAF_BUFFER_BYTES) for _ in range(settings.deaf)]
        self._holding = [_Slot(self) for _ in range(settings.holding)]
        self._slow_frame = produce_frame(settings.topic, random.randbytes(5000))
        self._deaf_requests = [_fetch_all(settings.topic), _metadata_of_all()]
        self._kinds: Counter[str] = Counter()

    def connect(self, receive_buffer_bytes: int | None) -> socket.socket | None:
        connection = socket.socket()
        if receive_buffer_bytes is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        try:
            connection.connect(self._address)
        except OSError:
            self.report.refused_connects += 1
            connection.close()
            return None
        connection.setblocking(False)
        self.report.connects += 1
        return connection

    def run(self) -> Report:
        for slot in (*self._senders, *self._slow, *self._deaf, *self._holding):
            slot.open()
        began = before = next_behaviour = time.monotonic()
        sent, tenths, due = 0, 0, 0.0
        while sent < self._settings.frames:
            now = time.monotonic()
            # Time in which this process stood still is not made up for.
            due = min(due + (now - before) * self._settings.rate, _MOST_A_TURN)
            before = now
            for _ in range(min(int(due), self._settings.frames - sent)):
                self._send_one(self._senders[sent % len(self._senders)], self._frames[sent % len(self._frames)])
                sent, due = sent + 1, due - 1
            if now >= next_behaviour:
                next_behaviour = now + 0.1
                self._behave(tenths)
                tenths += 1
            self._read(_TURN_SECONDS)
        self.report.seconds = time.monotonic() - began
        self.report.cpu_seconds = time.process_time()
        self.report.sent = dict(self._kinds)
        return self.report

    def _send_one(self, slot: _Slot, frame: HostileFrame) -> None:
        if slot.is_spent:
            slot.close()
        fresh = slot.socket is None
        connection = slot.open()
        if connection is None:
            return
        if fresh or connection.fileno() not in self._by_descriptor:
            self._by_descriptor[connection.fileno()] = slot
            self._poll.register(connection.fileno(), select.EPOLLIN)
        count = slot.send(frame.data)
        if count == len(frame.data):
            self._kinds[frame.kind] += 1
        else:
            self.report.unfinished += 1
        slot.is_spent = frame.breaks_stream or count != len(frame.data)

    def _read(self, seconds: float) -> None:
        for descriptor, _ in self._poll.poll(seconds):
            slot = self._by_descriptor.get(descriptor)
            if slot is None or slot.socket is None or slot.socket.fileno() != descriptor:
                continue
            try:
                data = slot.socket.recv(1 << 18)
            except BlockingIOError:
                continue
            except OSError:
                data = b""
            self.report.answer_bytes += len(data)
            if not data:
                self.report.ended_by_broker += 1
                slot.close()

    def _behave(self, tenths: int) -> None:
        """What the odd connections do, called ten times a second."""
        for slot in self._slow[tenths % 10 :: 10]:
            count = slot.send(self._slow_frame[slot.progress : slot.progress + 1])
            slot.progress += count
            self.report.slow_bytes += count
        for slot in self._deaf:
            for request in self._deaf_requests:
                self.report.deaf_requests += slot.send(request) == len(request)
        for slot in self._holding:
            if slot.progress == 0:
                slot.progress = slot.send(_ANNOUNCED_BYTES.to_bytes(4) + bytes(8))
            elif slot.progress < _HELD_BYTES:
                count = slot.send(_PIECE)
                slot.progress += count
                self.report.held_bytes += count


def _fetch_all(topic: str) -> bytes:
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic=topic, partitions=[wanted])]
    request = FetchRequest(replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=topics)
    return _framed(encode_request_header(ApiKey.FETCH, 11, 1, "deaf") + encode(request, 11))


def _metadata_of_all() -> bytes:
    return _framed(encode_request_header(ApiKey.METADATA, 8, 1, "deaf") + encode(MetadataRequest(topics=None), 8))


def _framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4) + payload


def main() -> None:
    host, port, settings = sys.argv[1:]
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    attack = Attack(host, int(port), Settings(**json.loads(settings)))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    sys.stdout.write(json.dumps(asdict(attack.run())) + "\n")


if __name__ == "__main__":
    main()
