"""`barnabas logdirs` against a small cluster whose log directory lies on this machine, or elsewhere."""

import json
from pathlib import Path

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerId, TopicPartition
from barnabas.storage.cleaner_report import CLEANED, FAILED, REPORT_FILE, RUNNING, CleanerRun, encode_report
from barnabas.storage.meta_properties import MetaProperties
from tests.unit.admin.conftest import Run
from tests.unit.admin.replica_cluster import ReplicaCluster, Replicated
from tests.unit.client.small_cluster import SmallCluster

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
NOW = 1_600_000_000_000
ENDED = CleanerRun(
    "t", 0, CLEANED, NOW, NOW + 2500, phase="cleaning", done_bytes=3, total_bytes=3, bytes_read=1000, bytes_written=100
)
UNDER_WAY = CleanerRun("t", 1, RUNNING, NOW, phase="mapping", done_bytes=1, total_bytes=4)


@pytest.fixture
def replicas(served: SmallCluster, tmp_path: Path) -> ReplicaCluster:
    """Brokers 1 and 2; broker 1's directory is here."""
    cluster = ReplicaCluster(served, {A: Replicated(1, [1, 2], [1, 2]), B: Replicated(2, [2, 1], [1, 2])})
    cluster.sizes = {1: {A: 7000, B: 10}, 2: {A: 7001}}
    cluster.log_dir = str(tmp_path)
    (tmp_path / "meta.properties").write_bytes(MetaProperties(BrokerId(1), "small").encode())
    (tmp_path / REPORT_FILE).write_bytes(encode_report([ENDED, UNDER_WAY]))
    return cluster


def test_the_document_is_that_of_kafka_log_dirs_with_a_cleaner(replicas: ReplicaCluster, on_cluster: Run) -> None:
    document = json.loads(on_cluster("logdirs", "-o", "json").out)
    assert [broker["broker"] for broker in document["brokers"]] == [1, 2]
    (directory,) = document["brokers"][0]["logDirs"]
    assert (document["version"], directory["logDir"], directory["error"]) == (1, replicas.log_dir, None)
    first, second = directory["partitions"]
    cleaner = first.pop("cleaner")
    assert first == {"partition": "t-0", "size": 7000, "offsetLag": 0, "isFuture": False}
    assert (cleaner["state"], cleaner["bytesRead"], cleaner["endedMs"]) == (CLEANED, 1000, NOW + 2500)
    assert (second["cleaner"]["state"], second["cleaner"]["progress"]) == (RUNNING, 0.25)


def test_what_another_brokers_cleaner_does_is_not_told(replicas: ReplicaCluster, on_cluster: Run) -> None:
    document = json.loads(on_cluster("logdirs", "t:0", "--brokers", "2", "-o", "json").out)
    (broker,) = document["brokers"]
    assert [each["cleaner"] for each in broker["logDirs"][0]["partitions"]] == [None]
    (Path(replicas.log_dir) / "meta.properties").write_bytes(MetaProperties(BrokerId(2), "another").encode())
    document = json.loads(on_cluster("logdirs", "-o", "json").out)
    assert {each["cleaner"] for broker in document["brokers"] for each in broker["logDirs"][0]["partitions"]} == {None}


def test_a_table_says_it_in_words(replicas: ReplicaCluster, on_cluster: Run) -> None:
    failed = CleanerRun("t", 1, FAILED, NOW, NOW + 1, reason="a bad batch")
    (Path(replicas.log_dir) / REPORT_FILE).write_bytes(encode_report([ENDED, failed]))
    lines = on_cluster("logdirs").lines
    assert lines[0].split() == ["BROKER", "LOG", "DIR", "PARTITION", "BYTES", "LAG", "MOVES", "IN", "CLEANER"]
    assert lines[1].endswith("s ago in 2.5 s: 1000 bytes read, 100 kept")
    assert lines[2].endswith("s ago: a bad batch")
    assert [line.split()[2] for line in lines[1:]] == ["t-0", "t-1", "t-0"]


def test_a_directory_that_failed_shows_and_fails(replicas: ReplicaCluster, on_cluster: Run) -> None:
    replicas.log_dir_error = ErrorCode.KAFKA_STORAGE_ERROR
    replicas.sizes = {}
    ran = on_cluster("logdirs", "--brokers", "1")
    assert ran.status == 1
    assert "KAFKA_STORAGE_ERROR" in ran.lines[1]


def test_a_broker_that_is_not_there_is_named(replicas: ReplicaCluster, on_cluster: Run) -> None:
    assert replicas.sizes
    ran = on_cluster("logdirs", "--brokers", "1,9")
    assert ran.status == 1
    assert "broker 9 does not live" in ran.err
    assert on_cluster("logdirs", "--brokers", "x").status == 2


def test_a_broken_report_is_as_none(replicas: ReplicaCluster, on_cluster: Run) -> None:
    for content in (b"no json", b"[1]\n", b"\xff", b'{"topic": "t"}\n', b""):
        (Path(replicas.log_dir) / REPORT_FILE).write_bytes(content)
        document = json.loads(on_cluster("logdirs", "-o", "json").out)
        assert document["brokers"][0]["logDirs"][0]["partitions"][0]["cleaner"] is None
