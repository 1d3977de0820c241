"""How far reassignments are, and a cluster that is watched."""

import asyncio
import random

import pytest

from barnabas.admin.cluster import _watch
from barnabas.admin.move_progress import Progress, in_bytes
from barnabas.admin.output import Format
from barnabas.client.cluster import Cluster, ClusterOptions
from barnabas.client.connection import Address
from barnabas.protocol.ids import TopicPartition
from tests.unit.admin.replica_cluster import ReplicaCluster, Replicated
from tests.unit.client.small_cluster import SmallCluster


@pytest.mark.parametrize(
    ("size", "told"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1_572_864, "1.5 MiB"),
        (5 << 40, "5.0 TiB"),
        (9 << 50, "9216.0 TiB"),
    ],
)
def test_sizes_for_people(size: int, told: str) -> None:
    assert in_bytes(size) == told


def test_without_a_terminal_a_line_is_told_whenever_something_changed(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(shown=False) as progress:
        progress.show(partitions=2, left=2048)
        progress.show(partitions=2, left=2048)
        progress.show(partitions=0, left=0)
    assert capsys.readouterr().err.splitlines() == ["2 partitions left, 2.0 KiB to copy", "all have moved"]


def test_on_a_terminal_there_is_a_bar(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(shown=True) as progress:
        progress.show(partitions=2, left=2048)
        progress.show(partitions=0, left=0)
    assert "all have moved" in capsys.readouterr().out


async def test_a_watched_cluster_is_told_of_whenever_it_changes(capsys: pytest.CaptureFixture[str]) -> None:
    async with SmallCluster(brokers=2) as small:
        replicas = ReplicaCluster(small, {TopicPartition("t", 0): Replicated(1, [1, 2], [1, 2])})
        start = [Address("127.0.0.1", small.ports[1])]
        async with Cluster(start, random=random.Random(1), options=ClusterOptions(timeout_ms=2_000)) as cluster:
            watching = asyncio.create_task(_watch(cluster, 0.01, Format.TABLE))
            told: list[str] = []
            for isr, wanted in (([1, 2], "healthy"), ([1], "unhealthy: t-0 is under-replicated"), ([1, 2], "healthy")):
                replicas.partitions[TopicPartition("t", 0)].isr = isr
                for _ in range(500):
                    await asyncio.sleep(0.01)
                    told += capsys.readouterr().out.splitlines()
                    if told and told[-1].startswith(wanted):
                        break
            watching.cancel()
    assert [line.split(":")[0] for line in told] == ["healthy", "unhealthy", "healthy"]
