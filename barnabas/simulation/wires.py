"""Streams of bytes between hosts of a simulated world, and what can go wrong with them.

A wire has two directions; in each bytes arrive in order, whole or in pieces cut anywhere, after a drawn latency. As
with TCP nothing is lost within a wire: while the way from one host to the other is cut the bytes wait, and arrive when
it heals, unless the wire was reset meanwhile. What the peer has not read is bounded by a window, beyond which the
sender keeps its bytes.

When a process dies its peers hear of it after the latency, or, while the way is cut, when it heals. When a machine
loses power nobody hears anything: a peer finds out when its keepalive does.
"""

import asyncio
import errno
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from barnabas.simulation.loop import Life, SimulationLoop

_SYN_RETRY_S: Final = 1.0
_CONNECT_TIMEOUT_S: Final = 20.0
_KEEPALIVE_S: Final = 15.0
_RETRANSMISSION_S: Final = 0.2
CLIENT: Final = 0
SERVER: Final = 1


class Receiver(Protocol):
    """One end of a wire; called in the life that owns it."""

    def bytes_arrived(self, data: bytes) -> None: ...

    def room_again(self) -> None:
        """What was sent has left."""
        ...

    def wire_lost(self, reason: str) -> None:
        """The wire is gone; called once, unless this end closed it."""
        ...


@dataclass(slots=True)
class WireWeather:
    """How wires behave; a seed draws it."""

    latency_s: tuple[float, float] = (0.0002, 0.002)
    spike_chance: float = 0.0
    spike_s: float = 0.1
    split_chance: float = 0.0
    window_bytes: int = 256 * 1024

    @property
    def mean_s(self) -> float:
        """How long a piece takes on average."""
        return sum(self.latency_s) / 2 + self.spike_chance * self.spike_s / 2


@dataclass(slots=True, frozen=True)
class _Lost:
    """Stands in a stream where it ends."""

    reason: str


class Direction:
    """Bytes from one end to the other. `to` is the index of the end that receives."""

    __slots__ = (
        "_last_arrival_s",
        "_stranded",
        "in_flight_bytes",
        "inbox",
        "is_paused",
        "pending",
        "to",
        "unsent",
        "unsent_bytes",
        "way",
        "wire",
    )

    def __init__(self, wire: "Wire", to: int, way: tuple[str, str]) -> None:
        self.wire = wire
        self.to = to
        self.way = way
        self.unsent: deque[bytes] = deque()
        self.unsent_bytes = 0
        self.in_flight_bytes = 0
        self.pending: deque[bytes | _Lost] = deque()
        self.inbox: deque[bytes | _Lost] = deque()
        self.is_paused = False
        self._stranded = 0
        self._last_arrival_s = 0.0

    def send(self, data: bytes) -> None:
        self.unsent.append(data)
        self.unsent_bytes += len(data)
        self._pump()

    def _pump(self, *, regardless: bool = False) -> None:
        wires = self.wire.wires
        window = wires.weather.window_bytes
        while self.unsent and (regardless or self.in_flight_bytes < window):
            data = self.unsent.popleft()
            self.unsent_bytes -= len(data)
            self.in_flight_bytes += len(data)
            for piece in wires.pieces(data):
                self._dispatch(piece)

    def end(self, reason: str) -> None:
        """Let the stream end after all that was sent."""
        self._pump(regardless=True)
        self._dispatch(_Lost(reason))

    def _dispatch(self, item: "bytes | _Lost") -> None:
        # Each timer carries whichever item is the oldest then, so that none overtakes.
        self.pending.append(item)
        wires = self.wire.wires
        if wires.cuts and self.way in wires.cuts:
            wires.cut_hits += 1
            self._stranded += 1
        else:
            self._start_timer()

    def _start_timer(self) -> None:
        wires = self.wire.wires
        loop = wires.loop
        at_s = max(loop.now_s + wires.latency(self.way), self._last_arrival_s)
        self._last_arrival_s = at_s
        loop.call_in(self.wire.lives[self.to], at_s - loop.now_s, self._arrive)

    def unclog(self) -> None:
        """The way has healed: what waited leaves, after the time that TCP takes to try again."""
        if self._stranded:
            loop = self.wire.wires.loop
            self._last_arrival_s = max(self._last_arrival_s, loop.now_s + _RETRANSMISSION_S)
            for _ in range(self._stranded):
                self._start_timer()
            self._stranded = 0

    def _arrive(self) -> None:
        wires = self.wire.wires
        if wires.cuts and self.way in wires.cuts:
            # A cut takes what is under way, too; it will be sent again.
            wires.cut_hits += 1
            self._stranded += 1
            return
        self.inbox.append(self.pending.popleft())
        self.deliver()

    def deliver(self) -> None:
        """Give the receiver what has arrived, unless it does not read now."""
        wire, to = self.wire, self.to
        while self.inbox and not self.is_paused and wire.is_accepted:
            receiver = wire.ends[to]
            if receiver is None:
                self.inbox.clear()
                if not wire.is_over:
                    wire.lose(1 - to, "connection reset by peer")
                return
            item = self.inbox.popleft()
            if isinstance(item, _Lost):
                wire.tell_lost(to, item.reason)
                return
            wire.wires.loop.note(item)
            self.in_flight_bytes -= len(item)
            if self.unsent:
                self._pump()
                if not self.unsent:
                    wire.wires.loop.call_in(wire.lives[1 - to], 0, self._tell_room)
            receiver.bytes_arrived(item)

    def _tell_room(self) -> None:
        end = self.wire.ends[1 - self.to]
        if end is not None and not self.unsent:
            end.room_again()


class Wire:
    """One connection. An end that is None is closed or dead."""

    __slots__ = ("directions", "ends", "hosts", "is_accepted", "lives", "wires")

    def __init__(self, wires: "Wires", *, lives: tuple[Life, Life], hosts: tuple[str, str]) -> None:
        self.wires = wires
        self.lives = lives
        self.hosts = hosts
        self.ends: list[Receiver | None] = [None, None]
        self.is_accepted = False
        self.directions = (Direction(self, CLIENT, (hosts[1], hosts[0])), Direction(self, SERVER, hosts))

    @property
    def is_over(self) -> bool:
        return self.is_accepted and self.ends[CLIENT] is None and self.ends[SERVER] is None

    def accept(self, receiver: Receiver) -> None:
        """The server's process has taken the connection."""
        self.ends[SERVER] = receiver
        self.is_accepted = True
        for direction in self.directions:
            direction.deliver()

    def close(self, end: int) -> None:
        """One end closes; the other hears of it after all that was sent."""
        if self.ends[end] is not None:
            self.ends[end] = None
            self.directions[1 - end].end("the connection was closed")
            self.wires.forget(self)

    def lose(self, end: int, reason: str) -> None:
        """One end learns that the other is gone."""
        self.wires.loop.call_in(self.lives[end], 0, self.tell_lost, end, reason)

    def tell_lost(self, end: int, reason: str) -> None:
        receiver, self.ends[end] = self.ends[end], None
        if receiver is not None:
            receiver.wire_lost(reason)
        self.wires.forget(self)

    def die(self, life: Life, *, says_so: bool) -> None:
        """The process at one end, or at both, is no more; its kernel tells the peer, or lost power with it."""
        self.is_accepted = True
        for end in (CLIENT, SERVER):
            if self.lives[end] is life:
                self.ends[end] = None
                self.directions[1 - end].unsent.clear()
        for end in (CLIENT, SERVER):
            if self.lives[end] is not life and says_so:
                self.directions[end].end("connection reset by peer")
            elif self.lives[end] is not life:
                loop = self.wires.loop
                loop.call_in(loop.world, _KEEPALIVE_S, self.lose, end, "connection timed out")
        self.wires.forget(self)


@dataclass(slots=True)
class Bound:
    """A port that somebody holds; wires wait until `accept` is there."""

    life: Life
    accept: Callable[[Wire], Receiver] | None = None
    backlog: list[Wire] = field(default_factory=list)

    def take(self, wire: Wire) -> None:
        if self.accept is None:
            self.backlog.append(wire)
        else:
            wire.accept(self.accept(wire))

    def start(self, accept: Callable[[Wire], Receiver]) -> None:
        """Serve, those first who wait already."""
        self.accept = accept
        waiting, self.backlog = self.backlog, []
        for wire in waiting:
            self.take(wire)


class Wires:
    """All wires of a world, and the cuts between its hosts."""

    def __init__(self, loop: SimulationLoop, chance: random.Random) -> None:
        self.loop = loop
        self.weather = WireWeather()
        self.cuts: dict[tuple[str, str], int] = {}
        self.slow_s: dict[tuple[str, str], float] = {}
        self.dark_hosts: dict[str, None] = {}
        self.bound: dict[tuple[str, int], Bound] = {}
        self.cut_hits = 0
        self.slow_hits = 0
        self._chance = chance
        self._wires: dict[Wire, None] = {}

    # Faults.

    def cut(self, source: str, target: str) -> None:
        """Let nothing pass from one host to the other until it is healed as often."""
        self.cuts[source, target] = self.cuts.get((source, target), 0) + 1

    def heal(self, source: str, target: str) -> None:
        way = (source, target)
        self.cuts[way] -= 1
        if not self.cuts[way]:
            del self.cuts[way]
            for wire in list(self._wires):
                for direction in wire.directions:
                    if direction.way == way:
                        direction.unclog()

    def reset_between(self, one: str, other: str) -> int:
        """Reset every wire between two hosts, as a box between them does; how many there were."""
        hit = [wire for wire in self._wires if wire.hosts in ((one, other), (other, one))]
        for wire in hit:
            for end in (CLIENT, SERVER):
                wire.lose(end, "connection reset by peer")
        return len(hit)

    def process_died(self, life: Life, *, says_so: bool) -> None:
        """A process is gone, and its ports with it."""
        for address in [address for address, bound in self.bound.items() if bound.life is life]:
            del self.bound[address]
        for wire in [wire for wire in self._wires if life in wire.lives]:
            wire.die(life, says_so=says_so)

    # What networks ask.

    def bind(self, host: str, port: int, life: Life) -> Bound:
        """Take a port.

        Raises:
            OSError: somebody has it.
        """
        if (host, port) in self.bound:
            raise OSError(errno.EADDRINUSE, f"Address already in use: {host}:{port}")
        bound = self.bound[host, port] = Bound(life)
        return bound

    async def connect(self, life: Life, hosts: tuple[str, str], port: int, make: Callable[[Wire], Receiver]) -> None:
        """Open a wire from one host to another; `make` gives our end of it.

        Raises:
            OSError: refused, or nobody answers.
        """
        loop, (here, there) = self.loop, hosts
        deadline_s = loop.now_s + _CONNECT_TIMEOUT_S
        await asyncio.sleep(self.latency(hosts))
        while hosts in self.cuts or (there, here) in self.cuts or there in self.dark_hosts:
            if loop.now_s >= deadline_s:
                raise TimeoutError(errno.ETIMEDOUT, "Connection timed out")
            self.cut_hits += there not in self.dark_hosts
            await asyncio.sleep(_SYN_RETRY_S)
        bound = self.bound.get((there, port))
        await asyncio.sleep(self.latency((there, here)))
        if bound is None or self.bound.get((there, port)) is not bound:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        wire = Wire(self, lives=(life, bound.life), hosts=hosts)
        wire.ends[CLIENT] = make(wire)
        self._wires[wire] = None
        # The kernel has accepted; the process does so when it runs.
        loop.call_in(bound.life, 0, bound.take, wire)

    def forget(self, wire: Wire) -> None:
        if wire.is_over:
            self._wires.pop(wire, None)

    def latency(self, way: tuple[str, str]) -> float:
        """Drawn seconds for one piece on its way."""
        weather = self.weather
        low, high = weather.latency_s
        seconds = low + (high - low) * self._chance.random()
        if weather.spike_chance and self._chance.random() < weather.spike_chance:
            seconds += weather.spike_s * self._chance.random()
        if self.slow_s and way in self.slow_s:
            self.slow_hits += 1
            seconds += self.slow_s[way] * self._chance.random()
        return seconds

    def pieces(self, data: bytes) -> list[bytes]:
        """The data as it arrives: whole, or cut somewhere."""
        if len(data) < 2 or not self.weather.split_chance or self._chance.random() >= self.weather.split_chance:
            return [data]
        at = self._chance.randrange(1, len(data))
        return [data[:at], data[at:]]
