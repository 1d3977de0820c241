"""What is read from the outputs of the programs that load a cluster, as Kafka's tools of 3.9.2 have printed them."""

import os
from pathlib import Path

import pytest

from bench import kafka_releases
from bench.side_by_side import clients
from bench.side_by_side.clients import Shape
from bench.side_by_side.usage import ClientFailed
from bench.systems import System

# Of one run of 1,500,000 records of 1000 bytes: the first line came after five seconds, the other is the whole.
PRODUCER = """\
863450 records sent, 172690.0 records/sec (164.69 MB/sec), 42.2 ms avg latency, 372.0 ms max latency.
1500000 records sent, 189226.693579 records/sec (180.46 MB/sec), 41.51 ms avg latency, 372.00 ms max latency, \
3 ms 50th, 217 ms 95th, 264 ms 99th, 278 ms 99.9th.

"""
CONSUMER = """\
start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, \
fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec
2026-11-27 23:21:55:062, 2026-11-27 23:21:56:743, 190.7349, 113.4651, 200000, 118976.7995, 602, \
1079, 176.7700, 185356.8119

"""


def this() -> System:
    """A broker whose process is this one."""
    return System("this", 0, (os.getpid(),))


def program(directory: Path, name: str, script: str) -> None:
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def java_prints(output: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of Java, and without Kafka's jars."""
    (directory / "output").write_text(output)
    program(directory, "bin/java", f'cat "{directory}/output"')
    monkeypatch.setenv("JAVA_HOME", str(directory))
    monkeypatch.setattr(kafka_releases, "_class_path", lambda _: "no.jar")


def test_a_producers_rate_is_of_its_whole_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java_prints(PRODUCER, tmp_path, monkeypatch)
    volume = clients.performance_produce(this(), "topic", Shape(1_500_000_000, 1000))
    assert (volume.records, volume.payload_bytes) == (1_500_000, 1_500_000_000)
    assert volume.seconds == pytest.approx(1_500_000 / 189226.693579)
    assert volume.usage.seconds == volume.seconds


def test_a_producer_that_tells_no_rate_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java_prints("org.apache.kafka.common.errors.TimeoutException: it is late\n", tmp_path, monkeypatch)
    with pytest.raises(ClientFailed, match=r"told no rate:\norg[.]apache[.]kafka.*it is late"):
        clients.performance_produce(this(), "topic", Shape(1_500_000_000, 1000))


def test_a_consumers_time_is_that_of_its_fetching(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java_prints(CONSUMER, tmp_path, monkeypatch)
    volume = clients.performance_consume(this(), "topic", Shape(200_000_000, 1000))
    assert (volume.records, volume.payload_bytes, volume.seconds) == (200_000, 200_000_000, 1.079)
    assert volume.usage.seconds == volume.seconds


def test_the_time_of_several_consumers_is_that_of_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java_prints(CONSUMER, tmp_path, monkeypatch)
    # Each makes a directory, which only one can that is the first: that one takes ten times as long.
    slow = CONSUMER.replace(" 1079,", " 10790,")
    assert slow != CONSUMER
    (tmp_path / "slow").write_text(slow)
    found = f'mkdir "{tmp_path}/first" 2>/dev/null && cat "{tmp_path}/slow" || cat "{tmp_path}/output"'
    program(tmp_path, "bin/java", found)
    volume = clients.performance_consume(this(), "topic", Shape(200_000_000, 1000), 3)
    assert (volume.records, volume.payload_bytes, volume.seconds) == (600_000, 600_000_000, 10.79)
    assert volume.usage.seconds == volume.seconds


def test_a_consumer_that_has_given_up_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java_prints(CONSUMER, tmp_path, monkeypatch)
    with pytest.raises(ClientFailed, match="read 200000 of 200001 records"):
        clients.performance_consume(this(), "topic", Shape(200_001_000, 1000))


@pytest.mark.parametrize("consumers", [1, 3])
def test_each_consumer_of_kcat_reads_all_records(
    consumers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "kcat", f'echo "$@" >>"{tmp_path}/ran"')
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    volume = clients.kcat_consume(this(), "topic", Shape(500_000, 1000), consumers)
    ran = (tmp_path / "ran").read_text().splitlines()
    assert len(ran) == consumers
    assert all("-C" in line.split() and "-c 500" in line for line in ran)
    assert (volume.records, volume.payload_bytes) == (500 * consumers, 500_000 * consumers)
