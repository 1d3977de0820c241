"""Workers, drivers and the broker are killed while a stream writes; nothing is lost, nothing is there twice.

Kills land between a batch's plan and Spark's record of its commit: where `offsets/N` of the checkpoint is there and
`commits/N` is not; as the plan is made, while a task's transaction is open, or as the driver has decided and begins to
end them. BARNABAS_SINK_KILLS says how many (3); `-s` shows where each landed.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.client.cluster import open_cluster
from barnabas.client.errors import ClientError
from barnabas.client.transaction_admin import TransactionAdmin
from barnabas.pipeline.sink.marks import PLACE, RunName
from barnabas.pipeline.sink.task_writer import group_offsets
from barnabas.runtime.loop_thread import LoopThread
from tests.compatibility.brokers import RunningBroker
from tests.pipeline.sink.topics import read_topic, values
from tests.pipeline.source.events import counted, new_topic, produce
from tests.support.broker_process import BrokerProcess
from tests.support.kafka import ONE_BROKER_SETTINGS
from tests.support.zookeeper import new_zookeeper

KILLS = int(os.environ.get("BARNABAS_SINK_KILLS", "3"))
RECORDS_PER_BATCH = 1000
BATCHES_PER_KILL = 3
SECONDS = 600

pytestmark = pytest.mark.timeout(900 + 300 * KILLS)


@pytest.fixture
def brittle(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that may be killed."""
    with (
        new_zookeeper(tmp_path / "zookeeper") as zookeeper,
        BrokerProcess(tmp_path / "broker", zookeeper.connect_string, ONE_BROKER_SETTINGS) as broker,
    ):
        yield broker


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    with LoopThread("watch") as loop:
        yield loop


class Watch:
    """What the broker knows of a query that writes."""

    def __init__(self, bootstrap: str, checkpoint: Path, loop: LoopThread) -> None:
        self._checkpoint = checkpoint
        self._loop = loop
        self._cluster = open_cluster(bootstrap)

    def has_come(self, moment: str, batch: int) -> bool:
        try:
            match moment:
                case "open":
                    return bool(self._loop.run(TransactionAdmin(self._cluster).list_transactions(states=["Ongoing"])))
                case "decided":
                    query = json.loads((self._checkpoint / "metadata").read_text())["id"]
                    group = group_offsets(self._cluster, RunName("copying", query, batch).group_id)
                    found = self._loop.run(group.committed([PLACE])).get(PLACE)
                    return found is not None and found.offset == batch + 1
                case _:
                    return True
        except ClientError:
            return False

    def close(self) -> None:
        self._loop.run(self._cluster.close())


class Copier:
    """The program of copying.py in a session of its own, so that all its processes are found."""

    def __init__(self, arguments: list[str], checkpoint: Path, log: Path) -> None:
        self._checkpoint = checkpoint
        self._log = log.open("ab")
        command = [sys.executable, "-m", "tests.pipeline.sink.copying", *arguments]
        self._process = subprocess.Popen(command, start_new_session=True, stdout=self._log, stderr=self._log)

    def poll(self) -> int | None:
        return self._process.poll()

    def planned(self) -> int | None:
        """The batch that is planned and not committed."""
        offsets, commits = (_numbers(self._checkpoint / name) for name in ("offsets", "commits"))
        return None if not offsets or offsets <= commits else max(offsets)

    def kill(self) -> None:
        """Driver, JVM and workers at once."""
        for pid in self._pids():
            _kill(pid)
        self._process.wait()
        self._log.close()

    def kill_workers(self) -> int:
        """Every Python that works for a task or for the driver's part of the sink."""
        workers = [pid for pid in self._pids() if b"pyspark" in _command(pid) and b"java" not in _command(pid)]
        for pid in workers:
            _kill(pid)
        return len(workers)

    def _pids(self) -> list[int]:
        found = []
        for each in Path("/proc").iterdir():
            if each.name.isdigit():
                try:
                    fields = (each / "stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                if int(fields[3]) == self._process.pid:
                    found.append(int(each.name))
        return found


def test_killed_at_any_moment_everything_is_there_once(
    brittle: BrokerProcess, loop: LoopThread, tmp_path: Path, seed: int
) -> None:
    draw = random.Random(seed)
    broker = RunningBroker(brittle.bootstrap, brittle.log_directory)
    source, target = new_topic(broker, partitions=3), new_topic(broker, partitions=2)
    total = RECORDS_PER_BATCH * BATCHES_PER_KILL * (KILLS + 1)
    produced = produce(broker.bootstrap, source, counted(total, partitions=3))
    checkpoint, log = tmp_path / "checkpoint", tmp_path / "copier.log"
    arguments = [broker.bootstrap, source, target, str(checkpoint), str(RECORDS_PER_BATCH)]
    landed: Counter[str] = Counter()
    watch = Watch(broker.bootstrap, checkpoint, loop)
    starts, copier = 1, Copier(arguments, checkpoint, log)
    try:
        while copier.poll() != 0:
            if copier.poll() is not None:
                assert starts <= 3 * KILLS + 3, f"it ends again and again: {log.read_text()[-4000:]}"
                starts, copier = starts + 1, Copier(arguments, checkpoint, log)
            if landed.total() >= KILLS:
                time.sleep(0.1)
                continue
            what = draw.choice(["everything", "everything", "workers", "broker"])
            moment = draw.choice(["planned", "open", "decided", "decided"])
            batch = _await_plan(copier, draw.randrange(1, BATCHES_PER_KILL))
            if batch is None:
                continue
            while copier.poll() is None and copier.planned() == batch and not watch.has_come(moment, batch):
                pass
            is_between = copier.planned() == batch
            if what == "everything":
                copier.kill()
                is_between = copier.planned() == batch
            elif what == "workers":
                copier.kill_workers()
            else:
                brittle.kill()
                brittle.start()
            print(f"killed {what} in batch {batch}, {moment}{'' if is_between else ', which was committed already'}")
            landed[what] += is_between
    finally:
        copier.kill()
        watch.close()
    print(dict(landed), "starts:", starts)
    assert landed.total()
    found = Counter(values(read_topic(broker, target)))
    assert found == Counter(values(produced))


def _await_plan(copier: Copier, more: int) -> int | None:
    """Return when so many batches later one is planned, None where the program ends before."""
    deadline = time.monotonic() + SECONDS
    first: int | None = None
    while copier.poll() is None:
        assert time.monotonic() < deadline, "no batch was planned"
        planned = copier.planned()
        if planned is not None:
            first = planned if first is None else first
            if planned >= first + more - 1:
                return planned
        time.sleep(0.005)
    return None


def _numbers(folder: Path) -> set[int]:
    return {int(each.name) for each in folder.iterdir() if each.name.isdigit()} if folder.exists() else set()


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
