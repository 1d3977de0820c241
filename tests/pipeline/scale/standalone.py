"""A Spark standalone cluster: a master and two workers as processes of their own, and what its event logs tell."""

import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyspark
import pytest

_STARTED_S = 120.0
_MASTER_IS_UP = re.compile(r"Starting Spark master at (spark://\S+)")
_WORKER_IS_UP = re.compile(r"Successfully registered with master")


@dataclass(frozen=True)
class Standalone:
    """Where its master listens, and how many workers it has."""

    master: str
    workers: int


@dataclass
class Tasks:
    """What the tasks of an application did: how many each executor ran, what they sent to the driver, what it held."""

    of_executor: Counter[str] = field(default_factory=Counter)
    result_bytes: int = 0
    python_bytes: int = 0
    """The most that the Python processes of one executor held at once."""


@pytest.fixture(scope="session")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """A master and two workers with a core and a gigabyte each."""
    directory = tmp_path_factory.mktemp("standalone")
    processes: list[subprocess.Popen[bytes]] = []
    try:
        log = directory / "master.log"
        arguments = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        processes.append(_start("master.Master", arguments, log))
        (master,) = _await(processes[-1], log, _MASTER_IS_UP)
        for number in range(2):
            log = directory / f"worker-{number}.log"
            work = ["--work-dir", str(directory / f"work-{number}"), "--cores", "1", "--memory", "1g"]
            processes.append(_start("worker.Worker", [*arguments, *work, master], log))
            _await(processes[-1], log, _WORKER_IS_UP)
        yield Standalone(master, 2)
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait(_STARTED_S)


def read_tasks(event_logs: Path) -> Tasks:
    """What the one application did whose events were logged into a folder."""
    tasks = Tasks()
    for file in sorted(event_logs.rglob("events_*")):
        for line in file.read_text().splitlines():
            event = json.loads(line)
            if event["Event"] == "SparkListenerTaskEnd":
                assert event["Task End Reason"]["Reason"] == "Success", event["Task End Reason"]
                tasks.of_executor[event["Task Info"]["Executor ID"]] += 1
                tasks.result_bytes += event["Task Metrics"]["Result Size"]
            if event["Event"] == "SparkListenerStageExecutorMetrics" and event["Executor ID"] != "driver":
                held = event["Executor Metrics"]["ProcessTreePythonRSSMemory"]
                tasks.python_bytes = max(tasks.python_bytes, held)
    return tasks


def _start(what: str, arguments: list[str], log: Path) -> "subprocess.Popen[bytes]":
    command = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    environment = {
        **os.environ,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
        "PYSPARK_PYTHON": sys.executable,
    }
    with log.open("wb") as output:
        return subprocess.Popen(
            [command, f"org.apache.spark.deploy.{what}", *arguments],
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def _await(process: "subprocess.Popen[bytes]", log: Path, line: "re.Pattern[str]") -> tuple[str, ...]:
    deadline = time.monotonic() + _STARTED_S
    while time.monotonic() < deadline:
        text = log.read_text()
        if (found := line.search(text)) is not None:
            return found.groups()
        assert process.poll() is None, text
        time.sleep(0.05)
    raise AssertionError(f"it is not up after {_STARTED_S:.0f} s:\n{log.read_text()}")
