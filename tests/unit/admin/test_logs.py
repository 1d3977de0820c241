"""`barnabas logs verify`: files of a stopped broker that are damaged in every way, and replicas that differ."""

import json
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner

from barnabas.admin.logs import logs
from barnabas.admin.replica_digests import (
    BatchDigest,
    RecordDigest,
    ReplicaDigest,
    differing_batch,
    differing_record,
)
from barnabas.admin.verified_files import verify_directory
from barnabas.admin.verified_replicas import verify_partitions
from barnabas.client.cluster import Cluster as Client
from barnabas.client.connection import Address
from barnabas.protocol.ids import TopicPartition
from barnabas.runtime.disk import SystemDisk
from barnabas.storage.log_config import LogConfig
from replication.partition import Partition
from tests.unit.broker.test_log_scrubbing import drop
from tests.unit.broker.test_replicated_brokers import Cluster
from tests.unit.broker.whole_broker import BrokerHost, make_topic, until
from tests.unit.storage.logs import NOW, TP, append, batch
from tests.unit.storage.stores import open_store

ONE = len(batch(b"v" * 20, producer=(7, 0, 0)))


@pytest.fixture(scope="module")
def stopped(tmp_path_factory) -> Callable[[], Awaitable[Path]]:
    """A log directory with twelve batches in three segments, made once and copied."""
    made = tmp_path_factory.mktemp("logs") / "data"

    async def copy() -> Path:
        if not made.exists():
            config = LogConfig(segment_bytes=4 * ONE, index_interval_bytes=ONE)
            store = await open_store(str(made), config=config)
            log = store.directories.create_log(TP)
            for number in range(12):
                append(log, batch(b"v" * 20, timestamp=NOW + number, producer=(7, 0, number)))
            await store.directories.directories[0].carry_out_flushes()
            await store.directories.close()
        target = tmp_path_factory.mktemp("copy") / "data"
        shutil.copytree(made, target)
        return target

    return copy


def flip(file: Path, position: int, bit: int = 0x40) -> None:
    data = bytearray(file.read_bytes())
    data[position] ^= bit
    file.write_bytes(data)


def problems(path: Path) -> list[str]:
    return [problem for row in verify_directory(SystemDisk(), str(path)) for problem in row["problems"]]


async def test_a_whole_directory_has_no_problems(stopped):
    assert problems(await stopped()) == []


@pytest.mark.parametrize(
    ("name", "position", "said"),
    [
        ("00000000000000000000.log", 66, "checksum"),
        ("00000000000000000004.log", ONE + 7, "offsets"),
        ("00000000000000000004.log", 15, "leader epoch"),
        ("00000000000000000000.index", 7, "byte"),
        ("00000000000000000000.index", 3, "beyond"),
        ("00000000000000000000.timeindex", 7, "do not rise"),
        ("00000000000000000012.snapshot", 9, "snapshot"),
        ("leader-epoch-checkpoint", 0, "leader-epoch-checkpoint"),
    ],
)
async def test_each_kind_of_damage_is_named(stopped, name, position, said):
    path = await stopped()
    flip(path / "topic-0" / name, position)
    found = problems(path)
    assert found
    assert all(problem.startswith(name) for problem in found)
    assert said in " ".join(found)


async def test_a_missing_index_and_a_cut_log_are_named(stopped):
    path = await stopped()
    (path / "topic-0" / "00000000000000000000.timeindex").unlink()
    log = path / "topic-0" / "00000000000000000004.log"
    log.write_bytes(log.read_bytes()[:-5])
    assert [problem.partition(":")[0] for problem in problems(path)] == [
        "00000000000000000000.timeindex",
        "00000000000000000004.log",
    ]


async def test_the_exit_status_says_it_and_json_names_it(stopped):
    path = await stopped()
    run = CliRunner().invoke(logs, ["verify", "-d", str(path), "-o", "json"], standalone_mode=False)
    assert (run.return_value, [row["problems"] for row in json.loads(run.output)]) == (0, [[], []])
    (path / "replication-offset-checkpoint").write_text("what")
    run = CliRunner().invoke(logs, ["verify", "-d", str(path)], standalone_mode=False)
    assert run.return_value == 4
    assert "replication-offset-checkpoint" in run.output


async def test_a_directory_in_use_is_refused(stopped):
    path = await stopped()
    lock = SystemDisk().lock(f"{path}/.lock")
    run = CliRunner().invoke(logs, ["verify", "-d", str(path)], standalone_mode=False)
    lock.release()
    assert "a broker runs on" in str(run.exception)


# Replicas.


def replica(*batches: tuple[int, int], broker=2, start=0, end=10) -> ReplicaDigest:
    found = ReplicaDigest(broker, start, end)
    found.batches = [BatchDigest(base, base + 2, checksum, 0, 70) for base, checksum in batches]
    return found


def test_replicas_that_hold_the_same_where_both_hold_something_do_not_differ():
    whole = replica((0, 1), (2, 2), (4, 3), broker=1)
    assert differing_batch(whole, replica((2, 2), (4, 3), start=2)) is None
    assert differing_batch(whole, replica((0, 1), (2, 2), end=4)) is None


def test_another_checksum_and_a_missing_batch_are_told():
    whole = replica((0, 1), (2, 2), (4, 3), broker=1)
    assert differing_batch(whole, replica((0, 1), (2, 9), (4, 3))) == "at offset 2 broker 2 holds another batch"
    assert differing_batch(whole, replica((0, 1), (2, 2))) == "broker 2 lacks the batch at offset 4"


def record(key: bytes, value: bytes | None = b"v", *, transactional=False) -> RecordDigest:
    return RecordDigest(key, value, transactional)


def compared(one, other):
    return differing_record(one, other, start=0, end=10, broker=2)


def test_compacted_replicas_may_lack_what_a_newer_record_replaced_and_tombstones():
    dirty = {0: record(b"a", b"1"), 1: record(b"a", b"2"), 2: record(b"b"), 3: record(b"b", None)}
    assert compared(dirty, {1: record(b"a", b"2")}) is None


def test_compacted_replicas_must_hold_the_newest_record_of_a_key_and_no_other():
    dirty = {0: record(b"a", b"1"), 1: record(b"a", b"2")}
    assert "newest record" in compared(dirty, {0: record(b"a", b"1")})
    assert "another record" in compared(dirty, {1: record(b"a", b"3")})


@asynccontextmanager
async def alone(tmp_path: Path, **config: str) -> AsyncIterator[tuple[Partition, Callable[[], Awaitable[Any]]]]:
    """A broker with twelve records in batches of three, two in each of two segments, and what is said of its log."""
    host = BrokerHost(tmp_path)
    broker = await host.start(broker_id="1", barnabas_scrub_bytes_per_second="0")
    (partition,) = await make_topic(broker, **config)
    for number in range(4):
        if number == 2:
            partition.log.roll()
        append(partition.log, batch(b"a", b"b", b"c", key=b"%d" % number), leader_epoch=partition.leader_epoch)
    partition._advance()
    nodes = broker.services.metadata.brokers_on("PLAINTEXT").values()

    async def said() -> Any:
        async with Client([Address(node.host, node.port) for node in nodes], random=Random(1)) as client:
            (row,) = [row async for row in verify_partitions(client, [TopicPartition("t", 0)])]
        return row["problem"]

    assert await said() is None
    try:
        yield partition, said
    finally:
        await broker.stop()
        await host.close()


@pytest.mark.parametrize(
    ("policy", "place", "flipped", "problem"),
    [
        ("delete", 1, (6, 0x20), "at offset 9 or after it: the next batch is at offset 8201"),
        ("compact", 1, (6, 0x20), "at offset 9 or after it: a batch ends at offset 8203, and the log ends at 12"),
        ("delete", 1, (7, 2), "at offset 9 or after it: the next batch is at offset 11"),
        ("compact", 1, (7, 2), "at offset 9 or after it: a batch ends at offset 13, and the log ends at 12"),
        ("delete", 0, (7, 4), "at offset 3 or after it: the next batch is at offset 7"),
    ],
)
async def test_a_base_offset_that_is_too_high_hides_nothing(tmp_path, policy, place, flipped, problem):
    async with alone(tmp_path, cleanup_policy=policy) as (partition, said):
        segment = partition.log.segments[place]
        byte, bit = flipped
        flip(Path(segment.path(".log")), segment.size_bytes // 2 + byte, bit)
        assert await said() == problem
        # What it sent was checked by the broker.
        await until(lambda: partition.log.damage)
        first = 3 + 6 * place
        assert [(each.start_offset, each.end_offset) for each in partition.log.damage] == [(first, first + 3)]


async def test_a_log_that_ends_below_its_high_watermark_is_not_whole(tmp_path):
    async with alone(tmp_path) as (partition, said):
        partition.log.high_watermark = 15
        assert await said() == "the log ends at offset 12, below its high watermark, 15"


@pytest.mark.parametrize("was_compacted", [True, False])
async def test_replicas_that_were_cleaned_before_the_policy_was_delete_are_compared_by_records(tmp_path, was_compacted):
    cluster = Cluster(BrokerHost(tmp_path))
    await cluster.start()
    for number in range(12):
        await cluster.produce(b"record %03d" % number)
    await until(lambda: all(cluster.partition(each).log.high_watermark == 12 for each in cluster.brokers))
    cleaned = cluster.followers[0]
    partition = cluster.partition(cleaned)
    partition.log.roll()
    await partition.directory.flush(partition.log, 12)
    await drop(cluster, cleaned, 4, 5)
    if was_compacted:
        partition.directory.first_dirty[partition.topic_partition] = 12
    nodes = cluster.leader.services.metadata.brokers_on("PLAINTEXT").values()
    async with Client([Address(node.host, node.port) for node in nodes], random=Random(1)) as client:
        rows = [row async for row in verify_partitions(client, [TopicPartition("t", 0)])]
    problems = {row["broker"]: row["problem"] for row in rows}
    missing = None if was_compacted else "at offset 4 or after it: the next batch is at offset 6"
    assert problems.pop(cleaned.broker_id) == missing
    assert [*problems.values()] == [None, None]
    for broker in cluster.brokers:
        await broker.stop()
    await cluster.host.close()


async def test_replicas_of_a_cluster_are_read_and_compared(tmp_path):
    cluster = Cluster(BrokerHost(tmp_path))
    await cluster.start()
    for number in range(6):
        await cluster.produce(b"record %d" % number)
    await until(lambda: all(cluster.partition(each).log.high_watermark == 6 for each in cluster.brokers))
    nodes = cluster.leader.services.metadata.brokers_on("PLAINTEXT").values()
    addresses = [Address(node.host, node.port) for node in nodes]

    async def verified():
        async with Client(addresses, random=Random(1)) as client:
            return [row async for row in verify_partitions(client, [TopicPartition("t", 0)])]

    rows = await verified()
    assert [(row["problem"], row["batches"], row["end_offset"]) for row in rows] == [(None, 6, 6)] * 3
    follower, metrics = cluster.partition(cluster.followers[0]), cluster.followers[0].services.metrics
    await until(lambda: "barnabas_scrub_passes_total 1.0" in metrics.exposition().decode())
    flip(Path(follower.log.segments.first.path(".log")), 65)
    rows = await verified()
    problem = {row["broker"]: row["problem"] for row in rows}
    assert "checksum" in problem.pop(cluster.followers[0].broker_id)
    assert set(problem.values()) == {None}
    assert {(row["start_offset"], row["end_offset"]) for row in rows} == {(0, 6)}, "what is known is told"
    await until(lambda: "barnabas_scrub_mended_ranges_total 1.0" in metrics.exposition().decode())
    for broker in cluster.brokers:
        await broker.stop()
    await cluster.host.close()
