"""A streaming load that is killed again and again while it loads: `play` tells what was seen.

A load runs as a process of its own, in batches. Its log says of each batch `planned`, `written` and `committed`; the
story waits for one of the first two, waits a drawn part of what a batch takes, looks whether the batch still is not
committed, and then ends something by SIGKILL: a Python worker of Spark, the driver, the broker, or the load with all
its processes and the broker. The broker is started again at once, the load when it has ended; nobody does more.
At the end what lies in the table is counted by DuckDB.
"""

import json
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import confluent_kafka
import duckdb
import psutil

from tests.compatibility.brokers import RunningBroker
from tests.pipeline.load.lake import files_of
from tests.support.broker_process import BrokerProcess
from tests.support.kafka import ONE_BROKER_SETTINGS
from tests.support.zookeeper import new_zookeeper

Victim = Literal["worker", "driver", "broker", "all"]
Stage = Literal["planned", "written"]
VICTIMS: Final[tuple[Victim, ...]] = ("worker", "driver", "broker", "all")
PARTITIONS: Final = 4

_LINE: Final = re.compile(r"query events: batch (\d+) (planned|written|committed)")
_POLL_S: Final = 0.002
_BATCH_S: Final = 300.0
_MOST_RUNS: Final = 200
_PRODUCE_S: Final = 600.0


@dataclass(frozen=True)
class Plan:
    """How much is loaded in batches of which size, and who is killed in which order."""

    records: int
    batch: int
    victims: Sequence[Victim]
    kind: str = "delta"
    value_bytes: int = 100


@dataclass(frozen=True)
class KillSeen:
    """Who was killed, in which batch, after which of its lines, how many seconds later."""

    victim: Victim
    batch: int
    stage: str
    after_s: float


@dataclass
class Seen:
    """What a story showed; `findings` are what must not be."""

    seed: int
    kills: list[KillSeen] = field(default_factory=list)
    runs: int = 0
    batches: int = 0
    repeated: int = 0
    skipped: int = 0
    rows: int = 0
    orphans: int = 0
    findings: list[str] = field(default_factory=list)


class LoadProcess:
    """The load, started as often as needed; its log is one file."""

    def __init__(self, folder: Path, config: Path) -> None:
        self._log = folder / "load.log"
        self._config = config
        self._process: subprocess.Popen[bytes] | None = None
        self.runs = 0

    def start(self) -> None:
        self.runs += 1
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.pipeline.load.loader", str(self._config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def status(self) -> int | None:
        """None while it runs."""
        return None if self._process is None else self._process.poll()

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def lines(self) -> list[tuple[int, str]]:
        """Batches and what was said of them, in order."""
        return [(int(batch), stage) for batch, stage in _LINE.findall(self.log)]

    def processes(self) -> list[psutil.Process]:
        """The driver and all that it has started."""
        assert self._process is not None
        try:
            driver = psutil.Process(self._process.pid)
            return [driver, *driver.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def workers(self) -> list[psutil.Process]:
        """The processes in which Spark's tasks run Python: children of its daemon."""
        found = []
        for each in self.processes():
            try:
                parent = each.parent()
                if parent is not None and "pyspark.daemon" in parent.cmdline():
                    found.append(each)
            except psutil.Error:
                continue
        return found

    def wait(self) -> None:
        """Return when the driver has ended."""
        assert self._process is not None
        self._process.wait()

    def end(self) -> None:
        """Kill whatever is left."""
        for each in self.processes():
            _kill(each)
        if self._process is not None:
            self._process.wait()


def _kill(process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):
        process.send_signal(signal.SIGKILL)


def play(folder: Path, plan: Plan, *, seed: int, tell: Callable[[str], None] = lambda _: None) -> Seen:
    """Load under kills, then count."""
    drawn = random.Random(seed)
    seen = Seen(seed)
    with new_zookeeper(folder / "zookeeper") as zookeeper:
        broker = BrokerProcess(folder, zookeeper.connect_string, ONE_BROKER_SETTINGS)
        broker.start()
        try:
            topic = RunningBroker(broker.bootstrap).new_topic(partitions=PARTITIONS, settings={"retention.ms": "-1"})
            produce(broker.bootstrap, topic, plan)
            load = LoadProcess(folder, write_config(folder, broker.bootstrap, topic, plan))
            with _ended(load):
                for victim in plan.victims:
                    seen.kills.append(_kill_within(load, broker, victim, drawn))
                    tell(str(seen.kills[-1]))
                _finish(load)
            _sum_up(seen, load, folder, plan)
        finally:
            broker.stop()
    return seen


@contextmanager
def _ended(load: LoadProcess) -> Iterator[None]:
    try:
        yield
    finally:
        load.end()


def produce(bootstrap: str, topic: str, plan: Plan) -> None:
    """Records whose values begin with their number, each number once; all acknowledged."""
    settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20, "compression.type": "lz4"}
    producer = confluent_kafka.Producer({**settings, "queue.buffering.max.messages": 200_000})
    failures: list[str] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failures.append(str(error))

    for number in range(plan.records):
        value = f"{number:020d}".encode().ljust(plan.value_bytes, b".")
        while True:
            try:
                producer.produce(topic, value, partition=number % PARTITIONS, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 1000 == 0:
            producer.poll(0)
    assert producer.flush(_PRODUCE_S) == 0
    assert failures == []


def write_config(folder: Path, bootstrap: str, topic: str, plan: Plan) -> Path:
    path = folder / "load.toml"
    # Four attempts of a task, so that a worker that is killed does not always end the run.
    path.write_text(
        f"""
name = "events"
checkpoint = {json.dumps(str(folder / "checkpoint"))}
[cluster]
bootstrap_servers = {json.dumps(bootstrap)}
[source]
topics = [{json.dumps(topic)}]
max_offsets_per_batch = {plan.batch}
[table]
path = {json.dumps(str(folder / "table"))}
format = {json.dumps(plan.kind)}
[spark]
master = "local[2,2]"
[spark.settings]
"spark.driver.memory" = "1g"
"spark.driver.bindAddress" = "127.0.0.1"
"spark.driver.host" = "127.0.0.1"
"spark.ui.enabled" = "false"
"spark.log.level" = "ERROR"
"""
    )
    return path


def _kill_within(load: LoadProcess, broker: BrokerProcess, victim: Victim, drawn: random.Random) -> KillSeen:
    """Kill between a batch's plan and its commit, in the batch that comes when some more were committed."""
    stage: Stage = drawn.choice(("planned", "written")) if victim in ("driver", "all") else "planned"
    wait = drawn.randrange(1, 4)
    # Less than a batch takes: what is written comes a moment before it is committed.
    part = drawn.random() * (0.5 if stage == "planned" else 0.01)
    deadline = time.monotonic() + _BATCH_S
    begun = len(load.lines())
    while True:
        assert time.monotonic() < deadline, f"no batch to kill {victim} in:\n{load.log[-4000:]}"
        if load.status is not None or load.runs == 0:
            assert load.status != 0, "everything was loaded before the last kill: there are too few batches"
            assert load.runs < _MOST_RUNS, load.log[-4000:]
            load.start()
        lines = load.lines()
        committed = sum(what == "committed" for _, what in lines[begun:])
        if committed >= wait and lines[-1][1] == stage:
            batch = lines[-1][0]
            time.sleep(part)
            targets = _targets(load, broker, victim)
            if targets and load.lines()[-1] == (batch, stage):
                for kill in targets:
                    kill()
                # The driver's log is final once it is dead.
                if victim in ("worker", "broker") or load.lines()[-1] == (batch, stage):
                    _mend(load, broker, victim)
                    return KillSeen(victim, batch, stage, round(part, 4))
                _mend(load, broker, victim)
            begun, wait, part = len(lines), 1, part / 2
        time.sleep(_POLL_S)


def _targets(load: LoadProcess, broker: BrokerProcess, victim: Victim) -> list[Callable[[], None]]:
    if victim == "broker":
        return [broker.kill]
    processes = load.processes()
    if victim == "worker":
        return [lambda each=each: _kill(each) for each in load.workers()[:1]]  # type: ignore[misc]
    if victim == "driver":
        return [lambda: _kill(processes[0])] if processes else []
    return [*(lambda each=each: _kill(each) for each in processes), broker.kill] if processes else []  # type: ignore[misc]


def _mend(load: LoadProcess, broker: BrokerProcess, victim: Victim) -> None:
    """Start the broker again; the load is when it is seen to have ended."""
    if victim in ("broker", "all") and not broker.is_started:
        broker.start()
    if victim in ("driver", "all"):
        load.wait()


def _finish(load: LoadProcess) -> None:
    """Run until a run has ended well."""
    while load.status != 0:
        if load.status is not None:
            assert load.runs < _MOST_RUNS, load.log[-4000:]
            load.start()
        time.sleep(0.05)


def _sum_up(seen: Seen, load: LoadProcess, folder: Path, plan: Plan) -> None:
    lines = load.lines()
    planned = [batch for batch, what in lines if what == "planned"]
    seen.runs, seen.batches = load.runs, len(set(planned))
    seen.repeated, seen.skipped = len(planned) - len(set(planned)), load.log.count("is in the table already")
    for batch in set(planned):
        times = sum(each == (batch, "committed") for each in lines)
        if times > 1:
            seen.findings.append(f"batch {batch} was committed {times} times")
    files = files_of(str(folder / "table"))
    lying = list((folder / "table").rglob("*.parquet"))
    seen.orphans = len(lying) - len(files)
    seen.rows, findings = count(files, plan)
    seen.findings += findings


def count(files: list[str], plan: Plan) -> tuple[int, list[str]]:
    """Rows, and how the table differs from the input: each number once, each place once, values as they were."""
    with duckdb.connect() as connection:
        found = connection.execute(
            """
            select count(*), count(distinct number), min(number), max(number), count(distinct ("partition", "offset")),
                   count(*) filter ("partition" <> number % ?),
                   count(*) filter (value <> rpad(lpad(number::varchar, 20, '0'), ?, '.')::blob)
            from (select *, substr(decode(value), 1, 20)::bigint as number from read_parquet(?))
            """,
            [PARTITIONS, plan.value_bytes, files],
        ).fetchone()
    assert found is not None
    rows, numbers, least, most, places, strayed, changed = found
    told = {
        f"{rows} rows, not {plan.records}": rows != plan.records,
        f"{numbers} of {plan.records} records are there": numbers != plan.records,
        f"numbers are {least} to {most}": (least, most) != (0, plan.records - 1),
        f"{rows - places} rows are of a place that another row has": places != rows,
        f"{strayed} rows are of another partition": strayed != 0,
        f"{changed} values are not what was produced": changed != 0,
    }
    return rows, [text for text, is_so in told.items() if is_so]
