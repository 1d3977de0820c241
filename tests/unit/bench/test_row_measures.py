"""What rows make of what they see: which figure is which, who is killed, and what counts as written."""

import contextlib
import json
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from bench.side_by_side.__main__ import all_rows
from bench.side_by_side.contestants import RunningCluster
from bench.side_by_side.figures import Figure, Target
from bench.side_by_side.row import Row
from bench.side_by_side.rows import life, requests, volume
from bench.side_by_side.rows.life import Writer
from tests.unit.bench.chosen_answers import answering, run_on
from tests.unit.bench.fake_clusters import CONTESTANTS, Cluster
from tests.unit.bench.small_broker import TOPIC, produced, small_broker

MEGABYTE = 1 << 20
FAILOVERS = [row for row in all_rows() if "failover" in row.name]


def values(figures: list[Figure]) -> dict[str, float]:
    return {figure.name: figure.value for figure in figures}


def test_acknowledged_is_what_the_load_says_of_answers_and_end_to_end_what_it_says_of_readers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    percentiles = ("p50", "p99", "p99.9", "max")
    acknowledged = dict(zip(percentiles, (1.0, 2.0, 3.0, 4.0), strict=True))
    read = dict(zip(percentiles, (5.0, 6.0, 7.0, 8.0), strict=True))
    told = {"acknowledged": acknowledged, "read": read, "records": 9, "seconds": 0.01, "client_cpu_seconds": 0.001}
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\necho '{json.dumps(told)}'\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    with small_broker() as broker:
        found = values(requests.latency(10_000, 1).measure(run_on(broker, tmp_path)))
    assert {name: found[f"{name} acknowledged"] for name in percentiles} == acknowledged
    assert {name: found[f"{name} end to end"] for name in percentiles} == read


class Resting:
    """A cluster of one broker that uses a twentieth of a core and has 50 MB."""

    pss_bytes = staticmethod(lambda: 50_000_000)

    @contextlib.contextmanager
    def topic(self, **_: object) -> Iterator[str]:
        yield TOPIC

    def system(self, broker_id: int) -> "Resting":
        assert broker_id == 1
        return self

    def cpu_seconds(self) -> float:
        return time.perf_counter() / 20


def test_cpu_at_rest_is_in_percent_of_a_core_and_memory_in_megabytes(tmp_path: Path) -> None:
    row = life.memory(30, Target(at_least=False, ratio=0.3))
    found = {figure.unit: figure.value for figure in row.measure(run_on(Resting(), tmp_path))}
    assert found["MB"] == 50.0
    assert found["% of a core"] == pytest.approx(5.0, rel=0.5)


class Failing:
    """Three brokers that are one; what was done to which of them is noted. The leadership may move while it is used."""

    def __init__(self, port: int, controller: int, *, moves: bool = False) -> None:
        self.ports = dict.fromkeys((1, 2, 3), port)
        self.done: list[tuple[str, int]] = []
        self.led_first = 0
        self._controller = controller
        self._moves = moves
        self.wait_for_end = self.wait_for = self.wait_until_in_sync = lambda _: None

    def controller(self) -> int:
        return self._controller

    def leader(self, _: str) -> int:
        return self._controller if self._moves else self.led_first

    @contextlib.contextmanager
    def topic(self, *, first_leader: int, **told: object) -> Iterator[str]:
        self.led_first = first_leader
        self.told = told
        yield TOPIC

    @contextlib.contextmanager
    def watching_registration(self, broker_id: int) -> Iterator[SimpleNamespace]:
        self.done.append(("watch", broker_id))
        yield SimpleNamespace(ended_s=time.perf_counter(), is_alive=lambda: False)

    def kill(self, broker_id: int) -> None:
        self.done.append(("kill -9", broker_id))

    def terminate(self, broker_id: int) -> None:
        self.done.append(("SIGTERM", broker_id))

    def launch(self, broker_id: int) -> None:
        self.done.append(("launch", broker_id))


@pytest.fixture
def soon_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life, "_STEADY_S", 0.01)
    monkeypatch.setattr(life, "_SESSION_MS", 0)


@pytest.mark.usefixtures("soon_over")
@pytest.mark.parametrize("controller", [1, 2, 3])
@pytest.mark.parametrize("row", FAILOVERS, ids=lambda row: row.name)
def test_a_failover_strikes_whom_its_name_says_and_never_leader_and_controller_in_one(
    row: Row, controller: int, tmp_path: Path
) -> None:
    with small_broker() as broker:
        cluster = Failing(broker.port, controller)
        row.measure(run_on(cluster, tmp_path))
    assert cluster.led_first in set(cluster.ports) - {controller}
    victim = controller if "of the controller" in row.name else cluster.led_first
    how = "kill -9" if "kill -9" in row.name else "SIGTERM"
    assert cluster.done == [("watch", victim), (how, victim), ("launch", victim)]
    # Of what is written two of the three replicas have each record that counts.
    partitions = 3 if "3,000 partitions" in row.name else 2
    settings = {"min.insync.replicas": "2"}
    assert cluster.told == {"partitions": partitions, "replication_factor": 3, "settings": settings}


@pytest.mark.usefixtures("soon_over")
def test_nobody_is_struck_where_the_leader_has_become_the_controller(tmp_path: Path) -> None:
    with small_broker() as broker:
        cluster = Failing(broker.port, 2, moves=True)
        with pytest.raises(RuntimeError, match="another before anything was killed"):
            FAILOVERS[0].measure(run_on(cluster, tmp_path))
    assert cluster.done == []


def writer_to(ports: Mapping[int, int]) -> Writer:
    return Writer(cast("RunningCluster", SimpleNamespace(ports=ports)), TOPIC, acks=-1)


def test_what_is_refused_is_not_written_and_the_next_record_goes_to_the_next_broker() -> None:
    asked = {"refusing": 0, "taking": 0}

    def answer(name: str, error: int) -> bytes:
        asked[name] += 1
        return produced(error)

    with answering(lambda _: answer("refusing", 6)) as refusing, answering(lambda _: answer("taking", 0)) as taking:
        writer = writer_to({1: refusing, 2: taking})
        assert [writer.write() for _ in range(4)] == [False, True, True, True]
        writer.close()
    assert asked == {"refusing": 1, "taking": 3}


def test_what_nobody_answers_is_not_written() -> None:
    with answering(lambda _: produced(0)) as closed:
        pass
    writer = writer_to({1: closed})
    assert not writer.write()
    writer.close()


def segments(directory: Path, **sizes: int) -> None:
    for name, size in sizes.items():
        broker, _, number = name.rpartition("_")
        path = directory / broker.replace("_", "-") / "logs" / "topic-0" / f"{number}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.truncate(size)


def test_the_bare_loop_serves_the_largest_segment_of_the_first_broker(tmp_path: Path) -> None:
    cluster = Cluster(CONTESTANTS[0], tmp_path)
    segments(tmp_path, broker_1_0=5 * MEGABYTE, broker_1_1=9 * MEGABYTE, broker_1_2=MEGABYTE, broker_2_0=20 * MEGABYTE)
    assert volume._segment(run_on(cluster, tmp_path), "topic-0") == tmp_path / "broker-1/logs/topic-0/1.log"


def test_the_bare_loop_has_something_to_serve_where_next_to_nothing_was_written(tmp_path: Path) -> None:
    cluster = Cluster(CONTESTANTS[0], tmp_path)
    segments(tmp_path, broker_1_0=100)
    segment = volume._segment(run_on(cluster, tmp_path), "topic-0")
    assert segment == tmp_path / "bare"
    assert segment.stat().st_size > MEGABYTE
