"""The systems that are measured: how each is started, what its broker processes are, how their CPU time is read."""

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from barnabas.launcher.cluster import LocalCluster
from barnabas.launcher.sockets import free_port

TOPIC = "t"


@dataclass(frozen=True, slots=True)
class System:
    """A running broker with the topic `t`."""

    name: str
    port: int
    pids: tuple[int, ...]
    metrics_port: int | None = None

    def members(self) -> Iterator[psutil.Process]:
        """The broker's process and its children."""
        for pid in self.pids:
            process = psutil.Process(pid)
            yield process
            yield from process.children(recursive=True)

    def cpu_seconds(self) -> float:
        """Of the broker and its children so far."""
        times = [member.cpu_times() for member in self.members()]
        return sum(each.user + each.system for each in times)

    def pss_bytes(self) -> int:
        """Memory of the broker and its children, shared pages counted by their share."""
        return sum(member.memory_full_info().pss for member in self.members())

    def pin(self, cpus: Collection[int]) -> None:
        """Let every thread of the broker and its children run on these CPUs only."""
        for member in self.members():
            for thread in member.threads():
                with contextlib.suppress(ProcessLookupError):
                    os.sched_setaffinity(thread.id, cpus)


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
        options = ["--bootstrap-server", f"127.0.0.1:{port}", "--partitions", str(partitions)]
        subprocess.run([*create, *options], check=True, stdout=subprocess.DEVNULL)
        system = System("barnabas", port, (pid,), metrics_port)
        if cpu is not None:
            system.pin({cpu})
        yield system
