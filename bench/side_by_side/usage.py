"""Who used the CPU while something was measured, and so what the limit was."""

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO, TypeVar

import psutil

from bench.systems import Deployment

T = TypeVar("T")

BUSY: Final = 0.9
"""Share of a core, or of the machine, from which on it counts as the limit."""
_LOOK_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds over `seconds` of wall time: of all brokers, of the client, and of the busiest thread of each."""

    seconds: float
    brokers: float
    client: float
    busiest_broker_thread: float
    busiest_client_thread: float
    cores: int

    @property
    def limiter(self) -> str:
        """`client`, `broker`, `machine` (full, most of it by brokers), or `waiting`."""
        full = (self.brokers + self.client) / (self.seconds * self.cores) > BUSY
        if self.busiest_client_thread / self.seconds > BUSY or (full and self.client > self.brokers):
            return "client"
        if self.busiest_broker_thread / self.seconds > BUSY:
            return "broker"
        return "machine" if full else "waiting"


@dataclass(frozen=True, slots=True)
class ClientRun:
    """What a client program printed, and who used the CPU meanwhile."""

    output: str
    usage: Usage


class ClientFailed(Exception):
    """A client program ended with an error; the text carries the end of its output."""


def run_clients(
    cluster: Deployment,
    commands: Sequence[Sequence[str]],
    *,
    cpus: Sequence[int] | None = None,
    timeout_s: float = 300.0,
) -> ClientRun:
    """Run client programs at once, to their ends, beside the cluster's brokers; `output` is that of the first.

    Raises:
        ClientFailed: one ended with an error or not in time; none is left.
    """
    cluster.note(commands)
    before, began = threads_of(cluster), time.perf_counter()
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
        while any(process.poll() is None for process, _, _ in running):
            for process, _, _ in running:
                with contextlib.suppress(psutil.Error):
                    threads |= _threads(psutil.Process(process.pid))
            if time.perf_counter() > began + timeout_s:
                raise ClientFailed(f"{' '.join(commands[0])} did not end in {timeout_s:g} s")
            time.sleep(_LOOK_S)
        seconds = time.perf_counter() - began
        for process, output, errors in running:
            if process.returncode:
                told = _text(output)[-500:] + _text(errors)[-2000:]
                raise ClientFailed(f"{' '.join(commands[0])} ended with {process.returncode}:\n{told}")
        return ClientRun(_text(running[0][1]), _usage(seconds, before, threads_of(cluster), threads))


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
    process.wait()


def _text(file: TextIO) -> str:
    file.seek(0)
    return file.read()


def watch(cluster: Deployment, work: Callable[[], T]) -> tuple[T, Usage]:
    """Do something in this process, which is the client."""
    own = psutil.Process()
    before, own_before, began = threads_of(cluster), _threads(own), time.perf_counter()
    result = work()
    seconds = time.perf_counter() - began
    after = _threads(own)
    threads = {number: used - own_before.get(number, 0.0) for number, used in after.items()}
    return result, _usage(seconds, before, threads_of(cluster), threads)


def threads_of(cluster: Deployment) -> dict[int, float]:
    """CPU seconds of every thread of every broker and its children so far."""
    found: dict[int, float] = {}
    for system in cluster.systems():
        for process in system.members():
            with contextlib.suppress(psutil.Error):
                found |= _threads(process)
    return found


def _threads(process: psutil.Process) -> dict[int, float]:
    return {thread.id: thread.user_time + thread.system_time for thread in process.threads()}


def _usage(
    seconds: float, before: Mapping[int, float], after: Mapping[int, float], client: Mapping[int, float]
) -> Usage:
    brokers = {number: used - before.get(number, 0.0) for number, used in after.items()}
    return Usage(
        seconds,
        sum(brokers.values()),
        sum(client.values()),
        max(brokers.values(), default=0.0),
        max(client.values(), default=0.0),
        psutil.cpu_count() or 1,
    )
