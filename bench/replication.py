"""What replication costs, on three broker processes and one ZooKeeper of this machine.

`python -m bench.replication [--row NAME ...] [--seconds 5] [--idle-seconds 60] [--partitions N] [--keep TABLE.md]`.
Each row starts a cluster of its own. CPU is that of a broker with its children. The status is 1 where a bound does not
hold. Rows:

- volume: CPU by gigabyte of a leader with one replica, and of leader and followers with three (acks=all, so all of them
  have everything when the load ends); batches of 100 records of 1 KiB, pre-encoded, on four connections;
- requests: requests of one record with acks=all and three replicas by second, at most 64 under way on four connections;
- idle: CPU of brokers that lead 1 000 partitions each, with three replicas, while nothing is produced;
- creation: from CreateTopics for 1 000 partitions with three replicas until every broker knows all their leaders, and
  until all are in sync;
- failover: the broker that is the controller is killed in a cluster with 5 000 partitions: when every partition has a
  leader again, beyond ZooKeeper's session timeout, and the longest that the others, one of them its successor, let a
  client wait for an answer meanwhile (a question every 10 ms).
"""

import argparse
import asyncio
import contextlib
import json
import platform
import random
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from barnabas.client.admin import Admin, NewTopic
from barnabas.client.cluster import Cluster
from barnabas.client.connection import Address
from barnabas.client.errors import ClientError
from barnabas.client.metadata import ClusterMetadata
from barnabas.launcher.broker_process import SESSION_TIMEOUT_MS
from barnabas.launcher.cluster import LocalCluster
from bench.pings import Pings

RESULTS = Path(__file__).parent / "results"
LEADER = 1
BROKERS = (1, 2, 3)
TOPIC = "t"
_METRICS = re.compile(r"metrics are shown at (http://\S+)")
_SETTLE_S = 5.0


@dataclass(slots=True)
class Row:
    """One figure with its bound."""

    what: str
    figure: float
    unit: str
    bound: float
    at_most: bool = True
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def is_met(self) -> bool:
        return self.figure <= self.bound if self.at_most else self.figure >= self.bound

    def __str__(self) -> str:
        notes = ", ".join(f"{name} {value}" for name, value in self.notes.items())
        bound = f"{'at most' if self.at_most else 'at least'} {self.bound:g}"
        return f"| {self.what} | {self.figure:.2f} {self.unit} | {bound} | {'yes' if self.is_met else 'NO'} | {notes} |"


class Brokers:
    """Three brokers that run."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster

    def cpu_seconds(self) -> dict[int, float]:
        """Of each broker and its children so far."""
        return {broker_id: self._cpu_seconds(broker_id) for broker_id in BROKERS}

    def _cpu_seconds(self, broker_id: int) -> float:
        process = psutil.Process(self.cluster.pid(broker_id))
        times = [member.cpu_times() for member in (process, *process.children(recursive=True))]
        return sum(each.user + each.system for each in times)

    def greatest_lag_ms(self, broker_id: int) -> float:
        """The longest that the broker's loop was late, of its whole life."""
        address = _METRICS.findall(self.cluster.log_file(broker_id).read_text(encoding="utf-8"))[-1]
        with urllib.request.urlopen(address) as answer:
            lines = answer.read().decode().splitlines()
        return float(next(line.split()[1] for line in lines if line.startswith("barnabas_event_loop_greatest_lag_ms ")))

    def client(self, broker_ids: tuple[int, ...] = BROKERS) -> Cluster:
        addresses = [Address(self.cluster.host, self.cluster.port(broker_id)) for broker_id in broker_ids]
        return Cluster(addresses, random=random.Random(1))

    def load(self, seconds: float, **given: Any) -> dict[str, Any]:
        """Pre-encoded Produce requests to the leader."""
        request = {
            "endpoints": [
                {"host": self.cluster.host, "port": self.cluster.port(LEADER), "connections": 4, "partitions": [0]}
            ],
            "kind": "produce",
            "topic": TOPIC,
            "seconds": seconds,
            **given,
        }
        done = subprocess.run(
            [sys.executable, "-m", "bench.load", json.dumps(request)], check=True, capture_output=True, text=True
        )
        result: dict[str, Any] = json.loads(done.stdout)
        return result


def _create(brokers: Brokers, topic: NewTopic) -> None:
    asyncio.run(_ask_to_create(brokers, topic))


async def _ask_to_create(brokers: Brokers, topic: NewTopic) -> None:
    async with brokers.client() as client:
        outcomes = await Admin(client).create_topics([topic])
        if error := outcomes[topic.name]:
            raise error


def _until(
    brokers: Brokers, broker_ids: tuple[int, ...], is_so: Callable[[ClusterMetadata], bool], timeout_s: float
) -> float:
    """Wait until each of these brokers says so of all topics; how long it took."""
    started = time.monotonic()
    asyncio.run(asyncio.wait_for(_each_says(brokers, broker_ids, is_so), timeout_s))
    return time.monotonic() - started


async def _each_says(brokers: Brokers, broker_ids: tuple[int, ...], is_so: Callable[[ClusterMetadata], bool]) -> None:
    for broker_id in broker_ids:
        async with brokers.client((broker_id,)) as client:
            while not await _says(client, is_so):  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.1)


async def _says(client: Cluster, is_so: Callable[[ClusterMetadata], bool]) -> bool:
    try:
        return is_so(await client.metadata(None))
    except ClientError:
        return False


def _all_led(count: int, *, without: int = -1) -> Callable[[ClusterMetadata], bool]:
    def is_so(metadata: ClusterMetadata) -> bool:
        partitions = [part for topic in metadata.topics.values() for part in topic.partitions.values()]
        return len(partitions) == count and all(part.leader not in (-1, without) for part in partitions)

    return is_so


def _all_in_sync(count: int) -> Callable[[ClusterMetadata], bool]:
    def is_so(metadata: ClusterMetadata) -> bool:
        partitions = [part for topic in metadata.topics.values() for part in topic.partitions.values()]
        return len(partitions) == count and all(len(part.isr) == len(BROKERS) for part in partitions)

    return is_so


def _led_by_first(brokers: Brokers, *, replication_factor: int) -> None:
    replicas = list(BROKERS[:replication_factor])
    _create(brokers, NewTopic(TOPIC, assignments={0: replicas}))
    _until(brokers, BROKERS, lambda metadata: TOPIC in metadata.topics and _all_led(1)(metadata), 30)


def volume(seconds: float) -> list[Row]:
    """CPU by gigabyte with one replica and with three."""
    by_gigabyte: dict[int, dict[int, float]] = {}
    rates: dict[int, float] = {}
    for replication_factor in (1, 3):
        with _cluster() as cluster:
            brokers = Brokers(cluster)
            _led_by_first(brokers, replication_factor=replication_factor)
            brokers.load(1.0, records=100, record_bytes=1024, window=8, acks=-1)
            before = brokers.cpu_seconds()
            result = brokers.load(seconds, records=100, record_bytes=1024, window=8, acks=-1)
            after = brokers.cpu_seconds()
            gigabytes = result["answers"] * 100 * 1024 / 1e9
            by_gigabyte[replication_factor] = {each: (after[each] - before[each]) / gigabytes for each in BROKERS}
            rates[replication_factor] = gigabytes * 1000 / result["seconds"]
    alone, three = by_gigabyte[1], by_gigabyte[3]
    notes = {
        "CPU s/GB alone": round(alone[LEADER], 2),
        "leader of three": round(three[LEADER], 2),
        "followers": [round(three[2], 2), round(three[3], 2)],
        "MB/s alone": round(rates[1]),
        "MB/s with three": round(rates[3]),
    }
    follower = max(three[2], three[3])
    return [
        Row("leader's CPU by GB, three replicas to one", three[LEADER] / alone[LEADER], "x", 2.0, notes=notes),
        Row("follower's CPU by GB to that of a leader alone", follower / alone[LEADER], "x", 1.0, notes=notes),
    ]


def requests(seconds: float) -> list[Row]:
    """Requests of one record by second."""
    with _cluster() as cluster:
        brokers = Brokers(cluster)
        _led_by_first(brokers, replication_factor=3)
        brokers.load(1.0, records=1, record_bytes=100, window=16, acks=-1)
        before = brokers.cpu_seconds()
        result = brokers.load(seconds, records=1, record_bytes=100, window=16, acks=-1)
        used = {each: round(cpu - before[each], 2) for each, cpu in brokers.cpu_seconds().items()}
    rate = result["answers"] / result["seconds"]
    notes = {"CPU s of each broker": used, "seconds": round(result["seconds"], 2)}
    return [
        Row("one-record requests, acks=all, three replicas", rate, "requests/s", 5000.0, at_most=False, notes=notes)
    ]


def idle(seconds: float, partitions: int) -> list[Row]:
    """CPU of brokers to which nothing is produced."""
    with _cluster() as cluster:
        brokers = Brokers(cluster)
        _create(brokers, NewTopic(TOPIC, partitions=partitions, replication_factor=3))
        _until(brokers, BROKERS, _all_in_sync(partitions), 120)
        time.sleep(_SETTLE_S)
        before = brokers.cpu_seconds()
        time.sleep(seconds)
        after = brokers.cpu_seconds()
    shares = {each: round((after[each] - before[each]) / seconds * 100, 2) for each in BROKERS}
    notes = {"each": shares, "partitions": partitions, "seconds": seconds}
    return [Row("idle broker", max(shares.values()), "% of a core", 3.0, notes=notes)]


def creation(partitions: int) -> list[Row]:
    """How long until new partitions are led."""
    with _cluster() as cluster:
        brokers = Brokers(cluster)
        started = time.monotonic()
        _create(brokers, NewTopic(TOPIC, partitions=partitions, replication_factor=3))
        answered = time.monotonic() - started
        _until(brokers, BROKERS, _all_led(partitions), 120)
        led = time.monotonic() - started
        _until(brokers, BROKERS, _all_in_sync(partitions), 120)
        notes = {
            "answered after s": round(answered, 2),
            "all in sync after s": round(time.monotonic() - started, 2),
            "greatest loop lag ms": {each: round(brokers.greatest_lag_ms(each)) for each in BROKERS},
        }
    return [Row(f"{partitions} partitions created and led", led, "s", 10.0, notes=notes)]


def failover(partitions: int) -> list[Row]:
    """How long partitions are without a leader when the controller's process dies."""
    with _cluster() as cluster:
        brokers = Brokers(cluster)
        for number in range(partitions // 1000):
            _create(brokers, NewTopic(f"{TOPIC}-{number}", partitions=1000, replication_factor=3))
        _until(brokers, BROKERS, _all_in_sync(partitions), 300)
        time.sleep(_SETTLE_S)
        controller = cluster.status().controller
        assert controller is not None
        others = tuple(each for each in BROKERS if each != controller)
        pings = {each: Pings(cluster.host, cluster.port(each)) for each in others}
        cluster.kill(controller)
        led = _until(brokers, others, _all_led(partitions, without=controller), 120)
        time.sleep(_SETTLE_S)
        pinged = {each: asked.stop() for each, asked in pings.items()}
        successor = cluster.status().controller
    notes = {"s in all": round(led, 2), "controller": controller, "then": successor}
    waits = {
        "each": {each: round(seen.longest_ms) for each, seen in pinged.items()},
        "answers": {each: seen.answers for each, seen in pinged.items()},
        "successor": successor,
    }
    beyond = led - SESSION_TIMEOUT_MS / 1000
    stall_ms = max(seen.longest_ms for seen in pinged.values())
    return [
        Row(
            f"{partitions} partitions led after the controller's death",
            beyond,
            "s beyond the session",
            10.0,
            notes=notes,
        ),
        Row("longest that an answer took meanwhile", stall_ms, "ms", 100.0, notes=waits),
    ]


@contextlib.contextmanager
def _cluster() -> Iterator[LocalCluster]:
    """Three brokers in a directory that goes with them."""
    properties = {"barnabas.metrics.port": "0"}
    with (
        tempfile.TemporaryDirectory() as directory,
        LocalCluster(Path(directory), brokers=3, port=0, zookeeper_port=0, properties=properties) as cluster,
    ):
        yield cluster


def _rows(given: argparse.Namespace) -> dict[str, Callable[[], list[Row]]]:
    return {
        "volume": lambda: volume(given.seconds),
        "requests": lambda: requests(given.seconds),
        "idle": lambda: idle(given.idle_seconds, given.partitions or 3000),
        "creation": lambda: creation(given.partitions or 1000),
        "failover": lambda: failover(given.partitions or 5000),
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--row", action="append", default=[], help="only this row; may be repeated")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of a load")
    parser.add_argument("--idle-seconds", type=float, default=60.0)
    parser.add_argument("--partitions", type=int, default=None, help="in place of each row's own number")
    parser.add_argument("--keep", type=Path, default=None, help="write the table to this file too")
    return parser.parse_args()


def main() -> int:
    """See the module."""
    given = _arguments()
    found: list[Row] = []
    for name, row in _rows(given).items():
        if not given.row or name in given.row:
            for figure in row():
                sys.stderr.write(f"{figure}\n")
                found.append(figure)
    head = ["| what | figure | bound | met | notes |", "|---|---|---|---|---|"]
    about = f"\n{platform.platform()}, {psutil.cpu_count()} CPUs, load average {psutil.getloadavg()[0]:.1f}\n"
    table = "\n".join([*head, *map(str, found)]) + "\n" + about
    sys.stdout.write(table)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "replication.md").write_text(table, encoding="utf-8")
    if given.keep is not None:
        given.keep.write_text(table, encoding="utf-8")
    return 0 if found and all(figure.is_met for figure in found) else 1


if __name__ == "__main__":
    sys.exit(main())
