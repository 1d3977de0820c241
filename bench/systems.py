"""The systems that are measured: how each is started, what its broker processes are, how their CPU time is read."""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import psutil

from barnabas.launcher.broker_process import answers_api_versions
from barnabas.launcher.cluster import LocalCluster
from barnabas.launcher.sockets import free_port

TOPIC = "t"
_HOST: Final = "127.0.0.1"
_START_S: Final = 20.0
_POLL_S: Final = 0.05


class Deployment(Protocol):
    """Brokers that clients load, and whose CPU time is counted."""

    @property
    def ports(self) -> Mapping[int, int]:
        """By a broker's id."""

    @property
    def bootstrap(self) -> str: ...

    def systems(self) -> Sequence["System"]:
        """Each broker."""

    def note(self, commands: Sequence[Sequence[str]]) -> None:
        """Hear of client programs that are run."""


@dataclass(frozen=True, slots=True)
class System:
    """A running broker with the topic `t`; a deployment of one."""

    name: str
    port: int
    pids: tuple[int, ...]
    metrics_port: int | None = None

    @property
    def ports(self) -> Mapping[int, int]:
        return {1: self.port}

    @property
    def bootstrap(self) -> str:
        return f"{_HOST}:{self.port}"

    def systems(self) -> Sequence["System"]:
        return (self,)

    def note(self, commands: Sequence[Sequence[str]]) -> None:
        """Keeps none."""

    def metric(self, name: str) -> float | None:
        """What the broker's own metrics say of one without labels; None of a system that tells none."""
        if self.metrics_port is None:
            return None
        with urllib.request.urlopen(f"http://{_HOST}:{self.metrics_port}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        return float(next(line.split()[1] for line in lines if line.startswith(f"{name} ")))

    def members(self) -> Iterator[psutil.Process]:
        """The broker's process and its children."""
        for pid in self.pids:
            process = psutil.Process(pid)
            yield process
            yield from process.children(recursive=True)

    def cpu_seconds(self) -> float:
        """Of the broker and its children so far, those that have ended with it."""
        return sum(self.user_and_kernel_seconds())

    def user_and_kernel_seconds(self) -> tuple[float, float]:
        """As `cpu_seconds`, by who used it: they themselves, or the kernel for them."""
        # From the children up: what one of them used that has ended since it was listed stands with its parent.
        used = [_user_and_kernel_seconds(member) for member in reversed([*self.members()])]
        return sum(user for user, _ in used), sum(kernel for _, kernel in used)

    def pss_bytes(self) -> int:
        """Memory of the broker and its children, shared pages counted by their share."""
        return sum(member.memory_full_info().pss for member in self.members())

    def pin(self, cpus: Collection[int]) -> None:
        """Let every thread of the broker and its children run on these CPUs only."""
        for member in self.members():
            for thread in member.threads():
                with contextlib.suppress(ProcessLookupError):
                    os.sched_setaffinity(thread.id, cpus)


def _user_and_kernel_seconds(process: psutil.Process) -> tuple[float, float]:
    try:
        used = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0, 0.0
    return used.user + used.children_user, used.system + used.children_system


@contextlib.contextmanager
def prototype(script: Path, *, partitions: int, cpu: int | None) -> Iterator[System]:
    """The throw-away data path that the design was measured with, `script PORT PARTITIONS`; its files go where it runs.

    Raises:
        RuntimeError: it ended; why is in its standard error, which is this process's.
        TimeoutError: it does not serve in time.
    """
    port = free_port()
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, str(script.resolve()), str(port), str(partitions)]
        # It prints what it does not know of a client's requests, which would stand in the table.
        process = subprocess.Popen(command, cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            ends_s = time.monotonic() + _START_S
            while not answers_api_versions(_HOST, port):
                if process.poll() is not None:
                    raise RuntimeError(f"the prototype ended with {process.returncode}")
                if time.monotonic() > ends_s:
                    raise TimeoutError(f"the prototype does not serve after {_START_S:g} s")
                time.sleep(_POLL_S)
            system = System("prototype", port, (process.pid,))
            if cpu is not None:
                system.pin({cpu})
            yield system
        finally:
            process.kill()
            process.wait()


@contextlib.contextmanager
def barnabas(*, partitions: int, cpu: int | None) -> Iterator[System]:
    """One broker as `barnabas up` starts it, with the topic made."""
    metrics_port = free_port()
    with (
        tempfile.TemporaryDirectory() as directory,
        LocalCluster(
            Path(directory),
            brokers=1,
            port=0,
            zookeeper_port=0,
            properties={"barnabas.metrics.port": str(metrics_port)},
        ) as cluster,
    ):
        (broker_id,) = cluster.broker_ids
        port, pid = cluster.port(broker_id), cluster.pid(broker_id)
        assert pid is not None
        create = [sys.executable, "-m", "barnabas.admin.main", "topics", "create", TOPIC]
        options = ["--bootstrap-server", f"{_HOST}:{port}", "--partitions", str(partitions)]
        subprocess.run([*create, *options], check=True, stdout=subprocess.DEVNULL)
        system = System("barnabas", port, (pid,), metrics_port)
        if cpu is not None:
            system.pin({cpu})
        yield system
