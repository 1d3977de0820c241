"""Rows of a broker's life: its start, its recovery, its memory, its rest, and what a failure costs those who write."""

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final, Self

import psutil

from barnabas.launcher.sockets import receive
from bench import frames
from bench.side_by_side import clients
from bench.side_by_side.clients import Shape
from bench.side_by_side.contestants import HOST, RunningCluster
from bench.side_by_side.figures import Figure, Target
from bench.side_by_side.row import Row, Run
from bench.side_by_side.usage import watch_machine, watch_start
from bench.systems import System

_RETRY_S: Final = 0.02
_RETRY_SOON_S: Final = 0.001
"""Where the time without writes is measured, which may be no longer than a few of the retries above."""
_ANSWER_S: Final = 0.5
_PATIENCE_S: Final = 120.0
_IDLE_S: Final = 20.0
_SETTLED_S: Final = 30.0
"""Of 3,000 new logs Barnabas looks through all in the first 20 s, as it does with each once a while."""
_MEMORY_LOOK_S: Final = 0.2
_SESSION_MS: Final = 6_000
_SESSION: Final = (("zookeeper.session.timeout.ms", str(_SESSION_MS)),)
_STEADY_S: Final = 2.0
_GAP_S: Final = 0.1
_BEYOND: Final = "without writes beyond the session"
_WITHOUT: Final = "time without writes"
_PSS: Final = "PSS of a broker"


class Writer:
    """Writes one record at a time to whichever broker takes it, and never waits long: it tries the next one."""

    def __init__(
        self, cluster: RunningCluster, topic: str, *, acks: int, partition: int = 0, retry_s: float = _RETRY_S
    ) -> None:
        self._ports = list(cluster.ports.values())
        self._frame = frames.produce(topic, partition, records=1, record_bytes=100, acks=acks).frame
        self._topic = topic
        self._retry_s = retry_s
        self._turn = 0
        self._socket: socket.socket | None = None

    def write(self) -> bool:
        """Whether the record was acknowledged; if not, the next one goes elsewhere."""
        try:
            if self._socket is None:
                self._socket = socket.create_connection((HOST, self._ports[self._turn % len(self._ports)]), _ANSWER_S)
            self._socket.sendall(self._frame)
            (size,) = struct.unpack(">i", receive(self._socket, 4))
            body = receive(self._socket, size)
            error = frames.produce_error(body, self._topic)
        except (OSError, TimeoutError):
            error = -1
        if error:
            self.close()
            self._turn += 1
        return not error

    def until_written(self) -> float:
        """Try again after `retry_s` each time; the clock when it was acknowledged."""
        ends_s = time.perf_counter() + _PATIENCE_S
        while not self.write():
            if time.perf_counter() > ends_s:
                raise TimeoutError(f"nothing is written for {_PATIENCE_S:g} s")
            time.sleep(self._retry_s)
        return time.perf_counter()

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def time_to_first_record(cluster: RunningCluster, topic: str, figure: str = "seconds") -> Figure:
    """Stop the broker cleanly and start it: from exec to the first acknowledged record."""
    writer = Writer(cluster, topic, acks=1)
    writer.until_written()
    cluster.terminate(1)
    cluster.wait_for_end(1)
    writer.close()
    return _launched(cluster, writer, figure)


def _launched(cluster: RunningCluster, writer: Writer, figure: str) -> Figure:
    def work() -> None:
        cluster.launch(1)
        writer.until_written()

    _, usage = watch_start(cluster, work)
    writer.close()
    cluster.wait_for(1)
    return Figure(figure, usage.seconds, "s", usage.limiter, shares=usage.shares)


def start_to_first_record() -> Row:
    """A broker with one topic. Fresh, as no row that is warmed may follow a restart on the same cluster."""

    def measure(run: Run) -> list[Figure]:
        with run.cluster.topic(partitions=1) as topic:
            return [time_to_first_record(run.cluster, topic)]

    target = {"seconds": Target(at_least=False, ratio=0.3)}
    return Row("from exec to the first acknowledged record", measure, target, is_fresh=True)


def recovery() -> Row:
    """After kill -9 with 2 GB that nobody had flushed.

    It starts when the session of the killed one has ended: before, Kafka gives up and Barnabas waits.
    """

    def measure(run: Run) -> list[Figure]:
        shape = Shape(max(2_000_000, int(2_000_000_000 * run.scale)), 1000)
        with run.cluster.topic(partitions=1) as topic:
            clients.replay(run.cluster, topic, shape)
            writer = Writer(run.cluster, topic, acks=1)
            run.cluster.kill(1)
            run.cluster.wait_until_unregistered(1)
            return [_launched(run.cluster, writer, "seconds")]

    return Row("recovery after kill -9 with 2 GB unflushed", measure, properties=_SESSION, is_fresh=True)


class GreatestMemory(threading.Thread):
    """Looks at a broker's PSS from time to time inside of its context, the last time as it ends."""

    def __init__(self, system: System) -> None:
        super().__init__(name=f"memory of {system.name}")
        self.pss_bytes = 0
        self._system = system
        self._is_over = threading.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self.join()

    def run(self) -> None:
        is_over = False
        while not is_over:
            is_over = self._is_over.wait(_MEMORY_LOOK_S)
            # A child may end just now.
            with contextlib.suppress(psutil.Error):
                self.pss_bytes = max(self.pss_bytes, self._system.pss_bytes())


def memory(partitions: int, target: Target) -> Row:
    """Of a broker and its children at rest, with so many partitions; and the CPU that it uses so."""

    def measure(run: Run) -> list[Figure]:
        seconds = max(1.0, _IDLE_S * run.scale)
        with run.cluster.topic(partitions=partitions):
            time.sleep(_SETTLED_S * run.scale)
            system = run.cluster.system(1)
            before = system.cpu_seconds()
            time.sleep(seconds)
            used = system.cpu_seconds() - before
            return [
                Figure(_PSS, system.pss_bytes() / 1e6, "MB"),
                Figure("CPU at rest", used / seconds * 100, "% of a core"),
            ]

    name = f"at rest with {partitions:,} partitions"
    return Row(name, measure, {_PSS: target}, is_fresh=True)


def memory_under_load() -> Row:
    """The greatest PSS while gigabytes come in and go out."""

    def measure(run: Run) -> list[Figure]:
        shape = Shape(max(2_000_000, int(1_000_000_000 * run.scale)), 1000, partitions=6)
        with run.cluster.topic(partitions=6) as topic:
            with GreatestMemory(run.cluster.system(1)) as memory:
                for _ in range(3):
                    clients.replay(run.cluster, topic, shape)
                    records = shape.records // 6
                    answer_bytes = shape.payload_bytes
                    clients.drain(run.cluster, topic, partitions=6, records=records, answer_bytes=answer_bytes)
            return [Figure(_PSS, memory.pss_bytes / 1e6, "MB")]

    return Row("memory under load", measure, {_PSS: Target(at_least=False, ratio=0.25)}, is_fresh=True)


def failover(partitions: int, *, victim: str, is_killed: bool) -> Row:
    """Three brokers, acks=all, min ISR 2: how long nothing is acknowledged around a failure.

    That is the sum of all gaps of more than 100 ms between two acknowledged records, so that a second stall counts as
    the first does; where there is none so long, the longest. It is measured on the first and on the last partition of
    the same leader, as a controller gets from one to the other in some time, and the longer one counts. `victim` is the
    leader of what is written to, or the controller, and never both: that is no matter of chance. Of a killed broker the
    aim is for what comes after its session had ended, which is when its ephemeral znode goes. One that is asked to stop
    ends its session itself, so of it all counts.
    """

    def measure(run: Run) -> list[Figure]:
        count = max(2, int(partitions * min(1.0, run.scale * 10)))
        cluster = run.cluster
        controller = cluster.controller()
        leader = next(broker_id for broker_id in cluster.ports if broker_id != controller)
        broker_id = leader if victim == "leader" else controller
        settings = {"min.insync.replicas": "2"}
        with cluster.topic(partitions=count, replication_factor=3, settings=settings, first_leader=leader) as topic:
            writers = [
                Writer(cluster, topic, acks=-1, partition=partition, retry_s=_RETRY_SOON_S)
                for partition in ends_of_leader(count, len(cluster.ports))
            ]
            for writer in writers:
                _write_for(writer, _STEADY_S)
            if (cluster.leader(topic), cluster.controller()) != (leader, controller):
                raise RuntimeError(f"{cluster}: leader or controller is another before anything was killed")
            with (
                cluster.watching_registration(broker_id) as registration,
                ThreadPoolExecutor(len(writers)) as pool,
            ):
                (cluster.kill if is_killed else cluster.terminate)(broker_id)
                least_s = _SESSION_MS / 1000 + _STEADY_S * 2
                found, usage = watch_machine(
                    lambda: list(pool.map(lambda each: gaps_of(each, least_s, registration.is_alive), writers))
                )
            for writer in writers:
                writer.close()
            cluster.wait_for_end(broker_id)
            cluster.launch(broker_id)
            cluster.wait_for(broker_id)
            cluster.wait_until_in_sync(topic)
        if registration.ended_s is None:
            raise RuntimeError(f"{cluster}: when the session of broker {broker_id} ended was not seen")
        outages = [
            [
                replace(figure, shares=f"machine {usage.machine.busy / usage.seconds:.2f}")
                for figure in outage(gaps, usage.limiter, is_killed=is_killed, session_ended_s=registration.ended_s)
            ]
            for gaps in found
        ]
        return [max(each, key=lambda figure: figure.value) for each in zip(*outages, strict=True)]

    name = f"failover, {'kill -9' if is_killed else 'SIGTERM'} of the {victim}, {partitions:,} partitions"
    target = {_BEYOND if is_killed else _WITHOUT: Target(at_least=False, ratio=0.6)}
    return Row(name, measure, target, 3, _SESSION, restarts=True)


def ends_of_leader(partitions: int, brokers: int) -> list[int]:
    """The first partition and the last one of the same leader, where brokers lead them in turn; one, if it is both."""
    return sorted({0, (partitions - 1) // brokers * brokers})


def outage(
    gaps: Sequence[tuple[float, float]], limiter: str, *, is_killed: bool, session_ended_s: float
) -> list[Figure]:
    """Of a failover, the figure with the aim first."""
    whole = Figure(_WITHOUT, without_writes(gaps), "s", limiter)
    if not is_killed:
        return [whole]
    return [Figure(_BEYOND, without_writes(gaps, counts_from=session_ended_s), "s", limiter), whole]


def without_writes(gaps: Sequence[tuple[float, float]], *, counts_from: float | None = None) -> float:
    """Seconds of all gaps of more than 100 ms, or of the longest, less what was before `counts_from`."""
    long = [gap for gap in gaps if gap[1] - gap[0] > _GAP_S] or [max(gaps, key=lambda gap: gap[1] - gap[0])]
    return sum(max(0.0, end - (begin if counts_from is None else max(begin, counts_from))) for begin, end in long)


def _write_for(writer: Writer, seconds: float) -> None:
    ends_s = time.perf_counter() + seconds
    while time.perf_counter() < ends_s:
        writer.until_written()
        time.sleep(0.001)


def gaps_of(writer: Writer, least_s: float, goes_on: Callable[[], bool]) -> list[tuple[float, float]]:
    """From one acknowledged record to the next, for at least so long, and until writes go through again.

    Longer while it `goes_on`, as a broker that hands over much takes long, but no longer than `_PATIENCE_S`.
    """
    began = last = time.perf_counter()
    found = []
    while last - began < least_s or (goes_on() and last - began < _PATIENCE_S):
        now = writer.until_written()
        found.append((last, now))
        last = now
        time.sleep(0.001)
    return found


def rows() -> list[Row]:
    at_rest = Target(at_least=False, ratio=0.3, absolute=90.0)
    with_many = Target(at_least=False, ratio=0.25)
    core = [
        start_to_first_record(),
        memory(30, at_rest),
        failover(30, victim="leader", is_killed=True),
    ]
    others = [
        recovery(),
        memory(3_000, with_many),
        memory_under_load(),
        failover(30, victim="leader", is_killed=False),
        failover(30, victim="controller", is_killed=True),
        failover(3_000, victim="leader", is_killed=True),
        failover(3_000, victim="leader", is_killed=False),
        failover(3_000, victim="controller", is_killed=True),
    ]
    return [*(replace(row, is_core=True) for row in core), *others]
