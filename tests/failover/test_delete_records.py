"""DeleteRecords on three brokers: every replica starts where it was told, keeps that, and removes what lies below."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from barnabas.launcher.cluster import LocalCluster
from barnabas.protocol.ids import TopicPartition
from tests.failover.load.watermarks import watermarks
from tests.support.cluster import new_cluster
from tests.support.topics import wait_for_leaders

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]

PARTITION = TopicPartition("t", 0)
RECORDS = 600
QUICK = {
    "log.flush.start.offset.checkpoint.interval.ms": "200",
    "log.retention.check.interval.ms": "200",
    "replica.lag.time.max.ms": "3000",
}
WAIT_SECONDS = 30.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three brokers, and a topic of many small segments on all of them."""
    made = new_cluster(tmp_path_factory.mktemp("data"), brokers=3, properties=QUICK)
    made.start()
    settings = {"segment.bytes": "1500", "file.delete.delay.ms": "100", "min.insync.replicas": "2"}
    make_topic(made, "t", settings)
    producer = confluent_kafka.Producer({"bootstrap.servers": made.bootstrap_servers, "batch.num.messages": 20})
    for number in range(RECORDS):
        producer.produce("t", b"record %d" % number, partition=0)
    assert producer.flush(WAIT_SECONDS) == 0
    yield made
    made.stop()


def make_topic(cluster: LocalCluster, name: str, settings: dict[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(name, 1, 3, config=settings)])[name].result(WAIT_SECONDS)
    wait_for_leaders(cluster.bootstrap_servers, [TopicPartition(name, 0)])


def delete(cluster: LocalCluster, before: int, *, topic: str = "t") -> subprocess.CompletedProcess[str]:
    """As an operator does it."""
    where = [
        "--bootstrap-server",
        cluster.bootstrap_servers,
        "--before",
        str(before),
        "--yes",
        "-o",
        "jsonl",
        "--timeout",
        "60",
    ]
    command = [sys.executable, "-m", "barnabas.admin.main", "records", "delete", topic, *where]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=90)


def until(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"{what}: not within {WAIT_SECONDS} s"
        time.sleep(0.05)


def start_on_disk(cluster: LocalCluster, broker_id: int) -> int:
    """The start that this broker's checkpoint says; 0 where it says none."""
    checkpoint = cluster.log_directory(broker_id) / "log-start-offset-checkpoint"
    lines = checkpoint.read_text().splitlines() if checkpoint.exists() else []
    return next((int(line.split()[2]) for line in lines if line.startswith("t 0 ")), 0)


def segments(cluster: LocalCluster, broker_id: int) -> list[int]:
    """The base offsets of the files that this broker has."""
    return sorted(int(path.name[:20]) for path in Path(cluster.log_directory(broker_id), "t-0").glob("*.log*"))


def bounds(cluster: LocalCluster) -> tuple[int, int]:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "none"})
    try:
        return watermarks(consumer, "t", 0, seconds=WAIT_SECONDS)
    finally:
        consumer.close()


def leader(cluster: LocalCluster) -> int:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    return int(admin.list_topics("t", timeout=WAIT_SECONDS).topics["t"].partitions[0].leader)


def test_all_replicas_start_there_and_the_files_below_go(cluster: LocalCluster) -> None:
    before = {broker_id: segments(cluster, broker_id) for broker_id in cluster.broker_ids}
    assert all(len(bases) > 5 and bases[0] == 0 for bases in before.values()), before
    done = delete(cluster, 250)
    assert (done.returncode, done.stdout) == (0, '{"topic": "t", "partition": 0, "low_watermark": 250}\n'), done.stderr
    for broker_id in cluster.broker_ids:
        # The file that holds 250 stays, those that end before it go.
        kept = [base for base in before[broker_id] if base > 250]
        first = max(base for base in before[broker_id] if base <= 250)
        until(lambda b=broker_id, k=[first, *kept]: segments(cluster, b) == k, f"files of broker {broker_id}")  # type: ignore[misc]
        until(lambda b=broker_id: start_on_disk(cluster, b) == 250, f"checkpoint of broker {broker_id}")  # type: ignore[misc]
    assert bounds(cluster) == (250, RECORDS)


def test_who_reads_what_is_gone_is_told_and_goes_on_at_the_start(cluster: LocalCluster) -> None:
    for reset, expected in (("earliest", 250), ("error", None)):
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": "none",
                "enable.auto.commit": False,
                "auto.offset.reset": reset,
            }
        )
        consumer.assign([confluent_kafka.TopicPartition("t", 0, 10)])
        record = consumer.poll(WAIT_SECONDS)
        assert record is not None
        if expected is None:
            assert "_AUTO_OFFSET_RESET" in repr(record.error())
        else:
            assert (record.error(), record.offset()) == (None, expected)
        consumer.close()


def test_what_cannot_be_is_refused(cluster: LocalCluster) -> None:
    done = delete(cluster, RECORDS + 1)
    assert done.returncode == 1
    assert "OFFSET_OUT_OF_RANGE" in done.stderr
    make_topic(cluster, "compacted", {"cleanup.policy": "compact"})
    done = delete(cluster, 0, topic="compacted")
    assert done.returncode == 1
    assert "POLICY_VIOLATION" in done.stderr
    done = delete(cluster, 0, topic="nowhere")
    assert done.returncode == 3
    assert bounds(cluster) == (250, RECORDS)


def test_a_dead_replica_is_not_waited_for_and_follows_when_it_is_back(cluster: LocalCluster) -> None:
    dead = next(broker_id for broker_id in cluster.broker_ids if broker_id != leader(cluster))
    cluster.kill(dead)
    began = time.monotonic()
    done = delete(cluster, 400)
    assert (done.returncode, done.stdout[-6:]) == (0, " 400}\n"), done.stderr
    print(f"answered after {time.monotonic() - began:.1f} s")
    assert start_on_disk(cluster, dead) == 250
    cluster.start_broker(dead)
    until(lambda: start_on_disk(cluster, dead) == 400, "the start of who was away")
    until(lambda: segments(cluster, dead)[0] >= 350, "its files")
    assert delete(cluster, 401).returncode == 0


def test_a_restart_of_all_and_a_change_of_leaders_keep_the_start(cluster: LocalCluster) -> None:
    first = leader(cluster)
    until(lambda: all(start_on_disk(cluster, broker_id) == 401 for broker_id in cluster.broker_ids), "checkpoints")
    cluster.restart(first)
    until(lambda: leader(cluster) not in {first, -1}, "another leader")
    assert bounds(cluster) == (401, RECORDS)
    for broker_id in cluster.broker_ids:
        cluster.kill(broker_id)
    for broker_id in cluster.broker_ids:
        cluster.start_broker(broker_id)
    wait_for_leaders(cluster.bootstrap_servers, [PARTITION])
    assert bounds(cluster) == (401, RECORDS)
    done = delete(cluster, -1)
    assert done.returncode == 2, "an offset is not negative; all is called end"
    assert delete(cluster, RECORDS).returncode == 0
    assert bounds(cluster) == (RECORDS, RECORDS)


def test_what_was_deleted_stays_so_when_all_brokers_are_killed_at_once(tmp_path: Path) -> None:
    with new_cluster(tmp_path, brokers=3) as cluster:
        make_topic(cluster, "t", {"min.insync.replicas": "2"})
        producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for number in range(20):
            producer.produce("t", b"record %d" % number, partition=0)
        assert producer.flush(WAIT_SECONDS) == 0
        assert delete(cluster, 10).returncode == 0
        for broker_id in cluster.broker_ids:
            cluster.kill(broker_id)
        assert [start_on_disk(cluster, broker_id) for broker_id in cluster.broker_ids] == [10, 10, 10]
        for broker_id in cluster.broker_ids:
            cluster.start_broker(broker_id, wait=False)
        for broker_id in cluster.broker_ids:
            cluster.wait_for_broker(broker_id)
        wait_for_leaders(cluster.bootstrap_servers, [PARTITION])
        until(lambda: bounds(cluster) == (10, 20), "what stands there")
