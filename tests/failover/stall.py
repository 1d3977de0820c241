"""One log directory of a broker stalls: how long the records of its other directory wait then, and how long before.

Each broker has two log directories, each an ext4 on a loop device of its own. Two topics lie in different directories
and flush every record; each has a client, and so connections, of its own. Then the device under one directory is
throttled so that a sync takes 100 ms and more.
"""

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from barnabas.protocol.ids import TopicPartition
from tests.failover.load.clients import Kind
from tests.failover.load.history_file import now_us
from tests.failover.world.broker_node import BrokerNode
from tests.failover.world.disk_faults import sync_seconds
from tests.failover.world.disks import Disk, Ext4Image
from tests.failover.world.drill import Drill, LoadPlan
from tests.failover.world.fault import DidNotAct
from tests.failover.world.world import World, WorldPlan

STALL_MS: Final = 100
_BYTES_A_SECOND: Final = 80 * 1024
_RATE: Final = 600
_PROBE_BYTES: Final = 4096
_PROBES: Final = 9


@dataclass(slots=True)
class Stall:
    """Milliseconds from the sending of a record to its acknowledgement, the 99th of a hundred."""

    before_ms: float
    during_ms: float
    stalled_before_ms: float
    stalled_during_ms: float
    sync_ms: float
    findings: list[str]

    @property
    def factor(self) -> float:
        return self.during_ms / self.before_ms


def play(directory: Path, *, seconds: float) -> Stall:
    """Measure for so long before and so long during the stall."""
    loads = [
        LoadPlan(Kind.CONFLUENT, _RATE, partitions=3, topic=topic, settings={"flush.messages": "1"})
        for topic in ("stalled", "calm")
    ]
    plan = WorldPlan(directory, isolated=True, disk="ext4", disk_bytes=512 << 20, disks=2)
    with World(plan) as world, contextlib.ExitStack() as cleanup:
        drill = Drill(world, loads, replicas=1)
        cleanup.callback(drill.kill_clients)
        drill.start()
        broker, stalled, calm = _pair(world)
        disk = broker.disk_of(stalled)
        assert isinstance(disk, Ext4Image)
        drill.watch(seconds / 4)
        began = now_us()
        drill.watch(seconds)
        ended = now_us()
        with disk.slowed(bytes_a_second=_BYTES_A_SECOND, pids=[broker.process.pid, os.getpid()]):
            sync_ms = _probe(disk)
            since = now_us()
            drill.watch(seconds)
            until = now_us()
        verdict = drill.finish()
        return Stall(
            p99_ms(drill.histories["calm"], calm.partition, began, ended),
            p99_ms(drill.histories["calm"], calm.partition, since, until),
            p99_ms(drill.histories["stalled"], stalled.partition, began, ended),
            p99_ms(drill.histories["stalled"], stalled.partition, since, until),
            round(sync_ms, 1),
            verdict.findings,
        )


def _pair(world: World) -> tuple[BrokerNode, TopicPartition, TopicPartition]:
    """A broker that leads a partition of each topic, in different directories."""
    for broker in world.brokers.values():
        led = {where.topic: where for where in world.view.led_by(broker.id, ["stalled", "calm"])}
        if len(led) == 2 and broker.disk_of(led["stalled"]) is not broker.disk_of(led["calm"]):
            return broker, led["stalled"], led["calm"]
    raise AssertionError("no broker has the two topics in different directories")


def _probe(disk: Disk) -> float:
    # The first ones may take what the device had saved up.
    waits = sorted(1000 * sync_seconds(disk.path, _PROBE_BYTES) for _ in range(_PROBES))
    if waits[_PROBES // 2] < STALL_MS:
        raise DidNotAct(f"{_PROBE_BYTES} bytes are synced in {waits} ms")
    return waits[_PROBES // 2]


def p99_ms(history: Path, partition: int, began_us: int, ended_us: int) -> float:
    """Of the records of a partition that were sent within this time."""
    sent: dict[int, int] = {}
    waits: list[int] = []
    for line in history.read_text().splitlines():
        words = line.split(" ")
        if words[0] == "i":
            _, number, _, _, sequence, _ = words[2].split("|", 5)
            if int(number) == partition and began_us <= int(words[1]) < ended_us:
                sent[int(sequence)] = int(words[1])
        elif words[0] == "k" and int(words[2]) == partition and int(words[3]) in sent:
            waits.append(int(words[1]) - sent[int(words[3])])
    assert len(waits) >= 100, f"{len(waits)} records"
    return sorted(waits)[len(waits) * 99 // 100] / 1000
