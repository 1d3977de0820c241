"""What coordinators of groups do in a second, on broker processes of this machine.

`python -m bench.coordinators [--row NAME ...] [--seconds 10] [--brokers 1] [--keep FILE]`. Each row starts a cluster
of its own; the load is this one process, which speaks the protocol over plain connections (`bench.raw_line`) and has no
client library for each member. CPU is that of a broker with its children. The limiter is whoever used more than 90 %
of a core, else nobody (it was waited). Rows:

- heartbeats: Stable groups of three members, each member on a connection of its own with a heartbeat every three
  seconds: CPU of the busiest broker;
- rebalance: 50 members join a new group, and all of them again with another subscription: from the last JoinGroup, or
  the end of the group's initial delay, to the last member's answer to SyncGroup;
- commits: 5 000 commits of one partition a second, on 50 connections, one replica; latencies count from when a commit
  was due, so that a stall is seen with all the commits that it holds up;
- load: a million committed offsets: from the start of the broker's process until every partition of __consumer_offsets
  has answered with what was committed;
- failover: the same offsets, of two brokers with two replicas, one of which leads everything and is killed: from the
  kill until the other has answered for every partition. What ZooKeeper's session timeout takes of it is told beside it.

Transactions, beside Kafka's, are rows of `bench.side_by_side`.
"""

import argparse
import asyncio
import contextlib
import json
import math
import platform
import re
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import psutil

from barnabas.client.connection import Address
from barnabas.coordinator.partitioning import coordinator_partition
from barnabas.launcher.broker_process import answers_api_versions
from barnabas.launcher.cluster import LocalCluster
from bench import group_load
from bench.raw_line import controller_of, create_topic, open_line, pace, until_replicated
from bench.replication import Row
from bench.systems import System

T = TypeVar("T")

RESULTS = Path(__file__).parent / "results"
TOPIC: Final = "t"
CONSUMER_OFFSETS: Final = "__consumer_offsets"
OFFSETS_PARTITIONS: Final = 50
SESSION_MS: Final = 6_000
PATIENCE_S: Final = 300.0
HEARTBEAT_INTERVAL_S: Final = 3.0
INITIAL_DELAY_S: Final = 3.0
PARTITIONS_A_GROUP: Final = 100
_BUSY: Final = 0.9
_POLL_S: Final = 0.02
_SETTLE_S: Final = 2.0
_LOADED = re.compile(r"loaded (\d+) records up to offset \d+ in (\d+) ms")
_ONE_REPLICA: Final = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


@dataclass(slots=True)
class Options:
    """Sizes of the rows."""

    seconds: float = 10.0
    brokers: int = 1
    groups: int = 1000
    members: int = 50
    rate: float = 5000.0
    connections: int = 50
    offsets: int = 1_000_000


class Brokers:
    """A cluster that runs."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.bootstrap = Address(cluster.host, cluster.port(1))

    def systems(self) -> list[System]:
        """Each broker with its children."""
        found = []
        for broker_id in self.cluster.broker_ids:
            pid = _pid(self.cluster, broker_id)
            found.append(System(str(broker_id), self.cluster.port(broker_id), (pid,)))
        return found


def _pid(cluster: LocalCluster, broker_id: int) -> int:
    pid = cluster.pid(broker_id)
    assert pid is not None, f"broker {broker_id} does not run"
    return pid


@dataclass(slots=True)
class Cpu:
    """CPU seconds of each broker and of this process while something ran."""

    seconds: float
    brokers: list[float]
    client: float

    @property
    def limiter(self) -> str:
        if max(self.brokers) / self.seconds > _BUSY:
            return "broker"
        return "client" if self.client / self.seconds > _BUSY else "nobody"

    def shares(self) -> list[float]:
        """Of each broker, in per cent of a core."""
        return [round(each / self.seconds * 100, 1) for each in self.brokers]

    def told(self) -> dict[str, Any]:
        return {
            "CPU % of each broker": self.shares(),
            "CPU % of the client": round(self.client / self.seconds * 100, 1),
            "limiter": self.limiter,
        }


async def measured(systems: list[System], work: Awaitable[T]) -> tuple[T, Cpu]:
    """What came of it, and what it cost."""
    before, own, began = [each.cpu_seconds() for each in systems], time.process_time(), time.perf_counter()
    result = await work
    seconds = time.perf_counter() - began
    used = [each.cpu_seconds() - each_before for each, each_before in zip(systems, before, strict=True)]
    return result, Cpu(seconds, used, time.process_time() - own)


def heartbeats(options: Options) -> list[Row]:
    """CPU of brokers whose groups are at rest."""
    with _cluster(options.brokers, {"group.initial.rebalance.delay.ms": "500"}) as brokers:
        return asyncio.run(_heartbeats(brokers, options))


async def _heartbeats(brokers: Brokers, options: Options) -> list[Row]:
    members = await group_load.stable_groups(brokers.bootstrap, groups=options.groups, members=3)
    systems = brokers.systems()
    turns = await group_load.heartbeats(members)
    await asyncio.sleep(_SETTLE_S)
    _, idle = await measured(systems, asyncio.sleep(options.seconds))
    load = pace(turns, rate=len(members) / HEARTBEAT_INTERVAL_S, seconds=options.seconds)
    paced, cpu = await measured(systems, load)
    for member in members:
        member.line.close()
    notes = {
        **cpu.told(),
        "without heartbeats": idle.shares(),
        "heartbeats/s": round(paced.requests / paced.seconds),
        "CPU us a heartbeat": round((sum(cpu.brokers) - sum(idle.brokers)) / paced.requests * 1e6),
        "p99 ms": round(paced.percentile_ms(0.99), 2),
    }
    what = f"busiest of {options.brokers} brokers, {options.groups} groups of 3 at rest"
    return [Row(what, max(cpu.shares()), "% of a core", 5.0, notes=notes)]


def rebalance(options: Options) -> list[Row]:
    """How long members of a large group wait for each other."""
    delay_ms = str(int(INITIAL_DELAY_S * 1000))
    with _cluster(options.brokers, {"group.initial.rebalance.delay.ms": delay_ms}) as brokers:
        return asyncio.run(_rebalance(brokers, options))


async def _rebalance(brokers: Brokers, options: Options) -> list[Row]:
    members = await group_load.new_members(brokers.bootstrap, "large", options.members)
    first, cpu = await measured(brokers.systems(), group_load.rebalance(members, b"first"))
    # The delay begins anew, as Kafka's does, when it ends and members have come meanwhile.
    delays = math.floor(first.from_first_s / INITIAL_DELAY_S)
    again, cpu_again = await measured(brokers.systems(), group_load.rebalance(members, b"again"))
    for member in members:
        member.line.close()
    notes = {
        "s from the first join": round(first.from_first_s, 3),
        "initial delays": delays,
        "s from the first answer to a join": round(first.joins_s, 3),
        **cpu.told(),
    }
    after_delay = first.from_first_s - delays * INITIAL_DELAY_S
    return [
        Row(f"{options.members} members enter a new group, after its delay", after_delay, "s", 2.0, notes=notes),
        Row(f"{options.members} members join again", again.from_last_s, "s", 2.0, notes=cpu_again.told()),
    ]


def commits(options: Options) -> list[Row]:
    """How long a commit takes at a steady rate."""
    with _cluster(1, {}) as brokers:
        return asyncio.run(_commits(brokers, options))


async def _commits(brokers: Brokers, options: Options) -> list[Row]:
    await _create(brokers.bootstrap, 1)
    turns = await group_load.commits(brokers.bootstrap, TOPIC, connections=options.connections)
    await pace(turns, rate=options.rate, seconds=min(1.0, options.seconds))
    paced, cpu = await measured(brokers.systems(), pace(turns, rate=options.rate, seconds=options.seconds))
    notes = {
        "commits/s": round(paced.requests / paced.seconds),
        "p50 ms": round(paced.percentile_ms(0.5), 2),
        "greatest ms": round(max(paced.latencies_ms), 1),
        "CPU us a commit": round(cpu.brokers[0] / paced.requests * 1e6),
        **cpu.told(),
    }
    what = f"p99 of {options.rate:g} commits a second on {options.connections} connections"
    return [Row(what, paced.percentile_ms(0.99), "ms", 50.0, notes=notes)]


def load(options: Options) -> list[Row]:
    """How long until committed offsets are served after a restart."""
    groups = max(OFFSETS_PARTITIONS, options.offsets // PARTITIONS_A_GROUP)
    with _cluster(1, {}) as brokers:
        asyncio.run(_create(brokers.bootstrap, PARTITIONS_A_GROUP))
        fill = group_load.fill(brokers.bootstrap, TOPIC, groups=groups, partitions=PARTITIONS_A_GROUP)
        began = time.perf_counter()
        group_ids = asyncio.run(fill)
        filled_s = time.perf_counter() - began
        # One group of each partition of the topic.
        chosen = {coordinator_partition(group_id, OFFSETS_PARTITIONS): group_id for group_id in group_ids}.values()
        cluster = brokers.cluster
        cluster.stop_broker(1)
        loads_before = len(_loads(cluster))
        began = time.perf_counter()
        cluster.start_broker(1, wait=False)
        while not answers_api_versions(brokers.bootstrap.host, brokers.bootstrap.port):
            time.sleep(_POLL_S)
        serves_s = time.perf_counter() - began
        asyncio.run(group_load.all_committed(brokers.bootstrap, TOPIC, chosen, partitions=PARTITIONS_A_GROUP))
        all_s = time.perf_counter() - began
        cpu_s = sum(system.cpu_seconds() for system in brokers.systems())
        loads = _loads(cluster)[loads_before:]
    notes = {
        "s until the broker serves": round(serves_s, 1),
        "records loaded": sum(records for records, _ in loads),
        "longest load of a partition ms": max(took_ms for _, took_ms in loads),
        "CPU s of the broker": round(cpu_s, 1),
        "s to commit them": round(filled_s, 1),
    }
    return [Row(f"{groups * PARTITIONS_A_GROUP} offsets answered after a restart", all_s, "s", 20.0, notes=notes)]


def failover(options: Options) -> list[Row]:
    """How long until committed offsets are served by another broker."""
    groups = max(OFFSETS_PARTITIONS, options.offsets // PARTITIONS_A_GROUP)
    settings = {"auto.leader.rebalance.enable": "false", "zookeeper.session.timeout.ms": str(SESSION_MS)}
    with _cluster(2, settings) as brokers:
        cluster = brokers.cluster
        asyncio.run(_create(brokers.bootstrap, PARTITIONS_A_GROUP, 2))
        filling = group_load.fill(brokers.bootstrap, TOPIC, groups=groups, partitions=PARTITIONS_A_GROUP)
        group_ids = asyncio.run(filling)
        chosen = {coordinator_partition(group_id, OFFSETS_PARTITIONS): group_id for group_id in group_ids}.values()
        # Who stops hands everything to the other, which keeps it.
        cluster.stop_broker(2)
        cluster.start_broker(2, timeout_s=PATIENCE_S)
        asyncio.run(until_replicated(brokers.bootstrap, CONSUMER_OFFSETS, 2))
        loads_before = len(_loads(cluster, 2))
        (before_s,) = (system.cpu_seconds() for system in brokers.systems()[1:])
        began = time.perf_counter()
        cluster.kill(1)
        other = Address(cluster.host, cluster.port(2))
        asyncio.run(group_load.all_committed(other, TOPIC, chosen, partitions=PARTITIONS_A_GROUP))
        all_s = time.perf_counter() - began
        loads = _loads(cluster, 2)[loads_before:]
        cpu_s = System("2", cluster.port(2), (_pid(cluster, 2),)).cpu_seconds() - before_s
    notes = {
        "s of it ZooKeeper's session": SESSION_MS / 1000,
        "records loaded": sum(records for records, _ in loads),
        "longest load of a partition ms": max(took_ms for _, took_ms in loads),
        "CPU s of the broker": round(cpu_s, 1),
    }
    return [Row(f"{groups * PARTITIONS_A_GROUP} offsets answered after a failover", all_s, "s", 20.0, notes=notes)]


def _loads(cluster: LocalCluster, broker_id: int = 1) -> list[tuple[int, int]]:
    """(records, milliseconds) of each load of a coordinator, as the broker told of them."""
    text = cluster.log_file(broker_id).read_text(encoding="utf-8")
    return [(int(records), int(took_ms)) for records, took_ms in _LOADED.findall(text)]


async def _create(bootstrap: Address, partitions: int, replicas: int = 1) -> None:
    line = await open_line(await controller_of(bootstrap))
    await create_topic(line, TOPIC, partitions, replicas)
    line.close()


@contextlib.contextmanager
def _cluster(count: int, settings: Mapping[str, str]) -> Iterator[Brokers]:
    """So many brokers in a directory that goes with them."""
    replicas = {"offsets.topic.replication.factor": str(min(3, count))}
    properties = {**_ONE_REPLICA, **replicas, **settings}
    with (
        tempfile.TemporaryDirectory() as directory,
        LocalCluster(Path(directory), brokers=count, port=0, zookeeper_port=0, properties=properties) as cluster,
    ):
        yield Brokers(cluster)


ROWS: Final[Mapping[str, Callable[[Options], list[Row]]]] = {
    "heartbeats": heartbeats,
    "rebalance": rebalance,
    "commits": commits,
    "load": load,
    "failover": failover,
}


def _arguments() -> argparse.Namespace:
    sizes = Options()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--row", action="append", default=[], choices=ROWS, help="only this row; may be repeated")
    parser.add_argument("--seconds", type=float, default=sizes.seconds, help="length of a load")
    parser.add_argument("--brokers", type=int, default=sizes.brokers, help="of the rows heartbeats and rebalance")
    for name, what in (("groups", "at rest"), ("members", "that rebalance"), ("connections", "that commit")):
        parser.add_argument(f"--{name}", type=int, default=getattr(sizes, name), help=what)
    parser.add_argument("--rate", type=float, default=sizes.rate, help="commits a second")
    parser.add_argument("--offsets", type=int, default=sizes.offsets, help="that are loaded")
    parser.add_argument("--keep", type=Path, default=None, help="write the table to this file too")
    return parser.parse_args()


def main() -> int:
    given = vars(_arguments())
    chosen, keep = given.pop("row"), given.pop("keep")
    options = Options(**given)
    found: list[Row] = []
    for name, row in ROWS.items():
        if not chosen or name in chosen:
            for figure in row(options):
                sys.stderr.write(f"{figure}\n")
                found.append(figure)
    head = ["| what | figure | bound | met | notes |", "|---|---|---|---|---|"]
    about = f"\n{platform.platform()}, {psutil.cpu_count()} CPUs, load average {psutil.getloadavg()[0]:.1f}\n"
    table = "\n".join([*head, *map(str, found)]) + "\n" + about
    sys.stdout.write(table)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "coordinators.md").write_text(table, encoding="utf-8")
    result = {"options": asdict(options), "load": psutil.getloadavg(), "rows": [asdict(row) for row in found]}
    (RESULTS / "coordinators.json").write_text(json.dumps(result, indent=1), encoding="utf-8")
    if keep is not None:
        keep.write_text(table, encoding="utf-8")
    return 0 if all(row.is_met for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
