"""How brokers of contestants are started, and who leads what is made."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from barnabas.launcher.processes import LocalProcess
from bench.side_by_side.contestants import Contestant, RunningCluster, kafka_command, led_in_turn
from bench.systems import System

# Ends when its standard input does.
TWO_THREADS = """
import sys, threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
print("both run", flush=True)
sys.stdin.read()
"""


def test_every_broker_forgets_deleted_topics_at_once_and_a_row_adds_its_own(tmp_path: Path) -> None:
    told: list[Mapping[str, str]] = []

    def launch(_: Path, __: int, properties: Mapping[str, str]) -> LocalProcess:
        told.append(properties)
        return LocalProcess(["true"], log_file=tmp_path / "log")

    cluster = RunningCluster(Contestant("Any", "1", launch), tmp_path, brokers=2, properties={"a": "b"})
    for broker_id in cluster.ports:
        cluster.launch(broker_id)
        cluster.wait_for_end(broker_id)
    assert [each["broker.id"] for each in told] == ["1", "2"]
    assert all((each["log.segment.delete.delay.ms"], each["a"]) == ("1000", "b") for each in told)


def test_the_leader_of_the_first_partition_can_be_chosen() -> None:
    assert led_in_turn(3, 4, 2) == {0: [1, 2], 1: [2, 3], 2: [3, 1], 3: [1, 2]}
    assert led_in_turn(3, 2, 3, first_leader=3) == {0: [3, 1, 2], 1: [1, 2, 3]}


def test_commands_of_clusters_with_other_properties_do_not_overwrite_each_other(tmp_path: Path) -> None:
    def launch(_: Path, __: int, ___: Mapping[str, str]) -> LocalProcess:
        return LocalProcess(["sleep", "60"], log_file=tmp_path / "log")

    told: list[str] = []
    for properties in ({}, {"a": "b"}):
        cluster = RunningCluster(Contestant("Any", "1", launch), tmp_path, brokers=1, properties=properties)
        cluster.launch(1)
        cluster.note([["load", "it"]])
        told += cluster.take_commands("row")
        cluster.kill(1)
    assert told == [
        "Any 1, 1 brokers: the first",
        "Any 1, 1 brokers: row",
        "Any 1, 1 brokers, a=b: the first",
        "Any 1, 1 brokers, a=b: row",
    ]


def test_kafka_has_a_heap_of_one_gigabyte_from_the_start() -> None:
    command = kafka_command("java", "a.jar:b.jar", Path("log4j"), Path("config"))
    assert [text for text in command if text.startswith(("-Xms", "-Xmx"))] == ["-Xms1G", "-Xmx1G"]
    assert command[-4:] == ["-cp", "a.jar:b.jar", "kafka.Kafka", "config"]


def test_every_thread_of_a_broker_is_pinned() -> None:
    cpu = max(os.sched_getaffinity(0))
    with subprocess.Popen(
        [sys.executable, "-c", TWO_THREADS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "both run\n"
        System("any", 0, (process.pid,)).pin({cpu})
        threads = [int(each.name) for each in Path(f"/proc/{process.pid}/task").iterdir()]
        assert len(threads) == 2
        assert {thread: os.sched_getaffinity(thread) for thread in threads} == {each: {cpu} for each in threads}
        process.communicate()
