"""Who used the CPU while something was measured, and so what the limit was.

Of brokers counts what their processes used, threads and children that have ended with it. Whether the machine was full
is asked of the machine: ZooKeeper, the kernel's flushers and a host that takes the CPU away fill it too.
"""

import contextlib
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self, TextIO, TypeVar

import psutil

from bench.systems import Deployment, System

T = TypeVar("T")

BUSY: Final = 0.9
"""Share of a core, or of the machine, from which on it counts as the limit."""
DISK: Final = 0.5
"""Share of the time in which a CPU has nothing to do but to wait for a disk, from which on that counts as the limit."""
_LEAST_TICKS: Final = 50
"""From so many of the kernel's clock on CPU is counted well enough to be held against an aim."""
_LOOK_S: Final = 0.05
_LOOPS: Final = 1_000_000
"""Some 20 ms."""
_TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")
_STAT: Final = Path("/proc/stat")


@dataclass(frozen=True, slots=True)
class Machine:
    """CPU seconds of all CPUs so far: in use, by whomever and by the host; and idle with a disk to wait for."""

    busy: float
    waiting_for_disk: float

    @classmethod
    def now(cls) -> "Machine":
        """What the kernel counts."""
        return cls.of(_STAT.read_text())

    @classmethod
    def of(cls, text: str) -> "Machine":
        """From the text of /proc/stat, whose first line sums up all CPUs."""
        user, nice, system, _, disk, irq, soft_irq, steal = (int(each) for each in text.split(maxsplit=9)[1:9])
        return cls((user + nice + system + irq + soft_irq + steal) / _TICKS_A_SECOND, disk / _TICKS_A_SECOND)

    def since(self, before: "Machine") -> "Machine":
        return Machine(self.busy - before.busy, self.waiting_for_disk - before.waiting_for_disk)

    def __add__(self, other: "Machine") -> "Machine":
        return Machine(self.busy + other.busy, self.waiting_for_disk + other.waiting_for_disk)


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds over `seconds` of wall time: of all brokers, of the client, of the busiest thread of each, of all."""

    seconds: float
    brokers: float
    client: float
    busiest_broker_thread: float
    busiest_client_thread: float
    machine: Machine
    cores: int
    broker_cores: int | None = None
    """Those that brokers may use; None is all."""
    kernel: float = 0.0
    """What of the brokers' the kernel has used for them."""

    def __add__(self, other: "Usage") -> "Usage":
        """Of both, one after the other, by other clients on the same brokers."""
        return Usage(
            self.seconds + other.seconds,
            self.brokers + other.brokers,
            self.client + other.client,
            self.busiest_broker_thread + other.busiest_broker_thread,
            self.busiest_client_thread + other.busiest_client_thread,
            self.machine + other.machine,
            self.cores,
            self.broker_cores,
            self.kernel + other.kernel,
        )

    @property
    def limiter(self) -> str:
        """`client`, `broker`, `machine` (full, less of it by the client than by brokers), `disk`, or `waiting`."""
        full = self.machine.busy / (self.seconds * self.cores) > BUSY
        if self.busiest_client_thread / self.seconds > BUSY or (full and self.client > self.brokers):
            return "client"
        of_brokers = self.brokers / (self.broker_cores or self.cores)
        if max(self.busiest_broker_thread, of_brokers) / self.seconds > BUSY:
            return "broker"
        if full:
            return "machine"
        return "disk" if self.machine.waiting_for_disk / self.seconds > DISK else "waiting"

    @property
    def shares(self) -> str:
        """In cores: what `limiter` was told from."""
        used = (self.brokers, self.busiest_broker_thread, self.client, self.busiest_client_thread, self.machine.busy)
        brokers, broker, clients, client, machine = (f"{each / self.seconds:.2f}" for each in used)
        return f"brokers {brokers}, a thread {broker}; client {clients}, a thread {client}; machine {machine}"


def usable_cpus() -> AbstractSet[int]:
    """Those that this process may run on, and what it starts."""
    return os.sched_getaffinity(0)


def loop_ms(clock: Callable[[], float] = time.perf_counter) -> float:
    """How long a loop of Python takes, the mean of all usable CPUs: what a virtual one does in a second changes.

    Its host lends its cores, and two threads of a core to two guests, and no clock in here says when. For the moment
    this thread runs on one CPU after the other.
    """
    cpus = usable_cpus()
    taken_s = []
    try:
        for cpu in cpus:
            os.sched_setaffinity(0, {cpu})
            began_s = clock()
            for _ in range(_LOOPS):
                pass
            taken_s.append(clock() - began_s)
    finally:
        os.sched_setaffinity(0, cpus)
    return statistics.fmean(taken_s) * 1000


def too_few_ticks(cpu_seconds: float) -> str:
    """Why a cost that was counted from so much CPU is not judged; empty if it is."""
    ticks = round(cpu_seconds * _TICKS_A_SECOND)
    return f"{ticks} clock ticks of CPU, less than {_LEAST_TICKS}" if ticks < _LEAST_TICKS else ""


@dataclass(frozen=True, slots=True)
class Account:
    """At one moment: CPU seconds that all used so far, and those of this process and what it has started.

    That is what is measured: brokers, clients and ZooKeeper; by process its parent, and what it used with its children
    that have ended.
    """

    at_s: float
    machine: float
    ours: Mapping[int, tuple[int, float]]

    @classmethod
    def now(cls, rivals: Collection[int] = ()) -> "Account":
        """Without the processes of these pids and their children: clusters that wait for their turn are elsewhere."""
        machine, ours = Machine.now().busy, {}
        waiting: set[int] = set()
        for pid in rivals:
            with contextlib.suppress(psutil.NoSuchProcess):
                waiting |= {process.pid for process in System("waiting", 0, (pid,)).members()}
        # From the children up: what one of them used that has ended since it was listed stands with its parent.
        for process in reversed([*System("bench", 0, (os.getpid(),)).members()]):
            if process.pid in waiting:
                continue
            with contextlib.suppress(psutil.NoSuchProcess):
                ours[process.pid] = process.ppid(), sum(process.cpu_times()[:4])
        return cls(time.perf_counter(), machine, ours)

    def elsewhere_since(self, before: "Account") -> float:
        """Cores that everything else used: other programs, the kernel for itself, a host that takes the CPU away."""
        used = sum(seconds for _, seconds in self.ours.values()) - sum(seconds for _, seconds in before.ours.values())
        # Who ended behind its parent, as a broker's worker does where the broker is killed, is in no sum any more.
        used += sum(seconds for pid, (parent, seconds) in before.ours.items() if not {pid, parent} & self.ours.keys())
        return max(0.0, (self.machine - before.machine - used) / (self.at_s - before.at_s))


@dataclass(frozen=True, slots=True)
class Look:
    """At one moment: the machine, and the CPU seconds of each of the client's threads so far."""

    at_s: float
    machine: Machine
    client: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class ClientRun:
    """What each client program printed, who used the CPU meanwhile, and what was seen from time to time."""

    outputs: Sequence[str]
    usage: Usage
    looks: Sequence[Look]

    def over(self, seconds: float) -> Usage:
        """Of the last so many seconds, which is what a program counts that tells its own time; before, it started.

        All that brokers used counts, as they are asked for nothing before.
        """
        last = self.looks[-1]
        first = next((look for look in reversed(self.looks) if look.at_s <= last.at_s - seconds), self.looks[0])
        client = _differences(first.client, last.client)
        return replace(
            self.usage,
            seconds=seconds,
            client=sum(client.values()),
            busiest_client_thread=max(client.values(), default=0.0),
            machine=last.machine.since(first.machine),
        )


class ClientFailed(Exception):
    """A client program ended with an error; the text carries the end of its output."""


def run_clients(
    cluster: Deployment,
    commands: Sequence[Sequence[str]],
    *,
    cpus: Sequence[int] | None = None,
    timeout_s: float = 300.0,
) -> ClientRun:
    """Run client programs at once, to their ends, beside the cluster's brokers.

    Raises:
        ClientFailed: one ended with an error, or not in time; the others were ended then, and none is left.
    """
    cluster.note(commands)
    before, began = _Brokers.of(cluster), time.perf_counter()
    looks = [Look(began, Machine.now(), {})]
    with contextlib.ExitStack() as ended, tempfile.TemporaryDirectory() as directory:
        running = []
        for number, command in enumerate(commands):
            output = (Path(directory) / f"{number}.out").open("w+")
            errors = (Path(directory) / f"{number}.err").open("w+")
            ended.callback(output.close)
            ended.callback(errors.close)
            process = subprocess.Popen(list(command), stdout=output, stderr=errors, stdin=subprocess.DEVNULL)
            ended.callback(_end, process)
            if cpus is not None:
                os.sched_setaffinity(process.pid, set(cpus))
            running.append((process, output, errors))
        threads: dict[int, float] = {}
        while None in (codes := [process.poll() for process, _, _ in running]) and not any(codes):
            for process, _, _ in running:
                with contextlib.suppress(psutil.Error):
                    threads |= _threads(psutil.Process(process.pid))
            looks.append(Look(time.perf_counter(), Machine.now(), dict(threads)))
            if time.perf_counter() > began + timeout_s:
                raise ClientFailed(f"{' '.join(commands[0])} did not end in {timeout_s:g} s")
            time.sleep(_LOOK_S)
        seconds = time.perf_counter() - began
        for command, (process, output, errors) in zip(commands, running, strict=True):
            if process.returncode:
                told = _text(output)[-500:] + _text(errors)[-2000:]
                raise ClientFailed(f"{' '.join(command)} ended with {process.returncode}:\n{told}")
        looks.append(Look(time.perf_counter(), Machine.now(), threads))
        usage = _usage(seconds, before, cluster, threads, looks[0].machine)
        return ClientRun([_text(output) for _, output, _ in running], usage, looks)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
    process.wait()


def _text(file: TextIO) -> str:
    file.seek(0)
    return file.read()


class Watch:
    """While it is open this process is the client; then `usage` says who used the CPU."""

    usage: Usage

    def __init__(self, cluster: Deployment) -> None:
        self._cluster = cluster
        self._own = psutil.Process()

    def __enter__(self) -> Self:
        self._brokers, self._threads, self._machine = _Brokers.of(self._cluster), _threads(self._own), Machine.now()
        self._began_s = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        seconds = time.perf_counter() - self._began_s
        client = _differences(self._threads, _threads(self._own))
        self.usage = _usage(seconds, self._brokers, self._cluster, client, self._machine)


def watch(cluster: Deployment, work: Callable[[], T]) -> tuple[T, Usage]:
    """Do something in this process, which is the client."""
    with Watch(cluster) as watched:
        result = work()
    return result, watched.usage


def watch_start(cluster: Deployment, work: Callable[[], T]) -> tuple[T, Usage]:
    """As `watch`, while brokers are started that did not run before: what they have used since their exec counts."""
    own = psutil.Process()
    own_before, machine, began = _threads(own), Machine.now(), time.perf_counter()
    result = work()
    seconds = time.perf_counter() - began
    client = _differences(own_before, _threads(own))
    return result, _usage(seconds, _Brokers(0.0, 0.0, {}, frozenset()), cluster, client, machine)


def watch_machine(work: Callable[[], T]) -> tuple[T, Usage]:
    """As `watch`, but of the machine alone: for work that ends brokers."""
    machine, began = Machine.now(), time.perf_counter()
    result = work()
    seconds = time.perf_counter() - began
    return result, Usage(seconds, 0.0, 0.0, 0.0, 0.0, Machine.now().since(machine), len(usable_cpus()))


@dataclass(frozen=True, slots=True)
class _Brokers:
    """CPU seconds so far: of all brokers with their children, and of each thread that lives. And where they may run."""

    total: float
    kernel: float
    threads: Mapping[int, float]
    cpus: AbstractSet[int]

    @classmethod
    def of(cls, cluster: Deployment) -> "_Brokers":
        threads: dict[int, float] = {}
        cpus: set[int] = set()
        for system in cluster.systems():
            for process in system.members():
                with contextlib.suppress(psutil.Error):
                    threads |= _threads(process)
                    cpus |= {*process.cpu_affinity()}
        used = [system.user_and_kernel_seconds() for system in cluster.systems()]
        return cls(sum(map(sum, used)), sum(kernel for _, kernel in used), threads, cpus)


def _threads(process: psutil.Process) -> dict[int, float]:
    return {thread.id: thread.user_time + thread.system_time for thread in process.threads()}


def _differences(before: Mapping[int, float], after: Mapping[int, float]) -> dict[int, float]:
    return {number: used - before.get(number, 0.0) for number, used in after.items()}


def _usage(
    seconds: float, before: _Brokers, cluster: Deployment, client: Mapping[int, float], machine: Machine
) -> Usage:
    spent, after = Machine.now().since(machine), _Brokers.of(cluster)
    return Usage(
        seconds,
        after.total - before.total,
        sum(client.values()),
        max(_differences(before.threads, after.threads).values(), default=0.0),
        max(client.values(), default=0.0),
        spent,
        len(usable_cpus()),
        len(after.cpus) or None,
        after.kernel - before.kernel,
    )
