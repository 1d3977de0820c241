"""The systems that are measured: how each is started, what its broker processes are, how their CPU time is read."""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from barnabas.launcher.cluster import LocalCluster

TOPIC = "t"


@dataclass(frozen=True, slots=True)
class System:
    """A running broker with the topic `t`."""

    name: str
    port: int
    pids: tuple[int, ...]
    metrics_port: int | None = None

    def cpu_seconds(self) -> float:
        """Of the broker and its children so far."""
        total = 0.0
        for pid in self.pids:
            process = psutil.Process(pid)
            for member in (process, *process.children(recursive=True)):
                times = member.cpu_times()
                total += times.user + times.system
        return total

    def pss_bytes(self) -> int:
        """Memory of the broker and its children, shared pages counted by their share."""
        total = 0
        for pid in self.pids:
            process = psutil.Process(pid)
            total += sum(member.memory_full_info().pss for member in (process, *process.children(recursive=True)))
        return total


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


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
        if cpu is not None:
            for thread in psutil.Process(pid).threads():
                os.sched_setaffinity(thread.id, {cpu})
        yield System("barnabas", port, (pid,), metrics_port)
