"""What a comparison keeps when runs fail, when contestants do not start, and when it is ended and begun again."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import pytest

from bench.side_by_side import comparison
from bench.side_by_side.comparison import Plan, Runner
from bench.side_by_side.contestants import Contestant
from bench.side_by_side.figures import Figure
from bench.side_by_side.journal import Journal
from bench.side_by_side.row import Row, Run

CONTESTANTS = [Contestant(name, version, None) for name, version in (("Barnabas", "here"), ("Kafka", "2.7.2"))]


class Cluster:
    """In place of processes; a contestant in `broken` does not start."""

    broken: set[str] = set()
    starts: list[str] = []

    def __init__(self, contestant: Contestant, directory: Path, **_: Any) -> None:
        self.contestant = contestant
        self.directory = directory

    def __enter__(self) -> Self:
        self.starts.append(self.contestant.version)
        if self.contestant.version in self.broken:
            raise TimeoutError("does not serve")
        return self

    def __exit__(self, *_: object) -> None: ...

    def is_whole(self) -> bool:
        return True

    def take_commands(self, purpose: str) -> dict[str, str]:
        return {f"{self.contestant}: {purpose}": "command"}


@pytest.fixture(autouse=True)
def clusters(monkeypatch: pytest.MonkeyPatch) -> type[Cluster]:
    monkeypatch.setattr(comparison, "RunningCluster", Cluster)
    monkeypatch.setattr(Cluster, "broken", set())
    monkeypatch.setattr(Cluster, "starts", [])
    monkeypatch.setattr(comparison.os, "sync", lambda: None)
    return Cluster


@pytest.fixture
def runner(tmp_path: Path) -> Callable[..., Runner]:
    def made(rounds: int = 1, path: Path | None = None, **plan: Any) -> Runner:
        directory = tmp_path / f"run-{time.perf_counter_ns()}"
        directory.mkdir()
        return Runner(
            CONTESTANTS,
            Plan(rounds, 1.0, warms=False, **plan),
            directory,
            journal=Journal(path),
            tell=lambda _: None,
        )

    return made


def row(name: str, fails_on: str = "", **kind: bool) -> Row:
    def measure(run: Run) -> list[Figure]:
        if run.cluster.contestant.version == fails_on:
            raise ConnectionError("closed")
        return [Figure("seconds", 1.0, "s")]

    return Row(name, measure, **kind)


@pytest.mark.parametrize("is_fresh", [False, True])
def test_a_row_that_fails_on_one_system_takes_nothing_with_it(runner: Callable[..., Runner], is_fresh: bool) -> None:
    rows = [row("a"), row("b", "2.7.2", is_fresh=is_fresh), row("c", "here"), row("d")]
    run = runner(3)
    found = run.compare(rows)
    assert [(each.row, each.rival_version) for each in found.results] == [("a", "2.7.2"), ("b", None), ("d", "2.7.2")]
    assert found.left_out == {
        "b": "Kafka 2.7.2, 0 of 3 rounds: ConnectionError: closed",
        "c": "Barnabas here, 0 of 3 rounds: ConnectionError: closed",
    }
    assert run.has_failed


def test_a_kafka_that_does_not_start_is_told_and_the_others_are_measured(
    runner: Callable[..., Runner], clusters: type[Cluster]
) -> None:
    clusters.broken.add("2.7.2")
    found = runner(2).compare([row(name) for name in "abcd"])
    assert [each.row for each in found.results] == ["a", "b", "c", "d"]
    assert set(found.left_out) == {"a", "b", "c", "d"}
    assert clusters.starts.count("2.7.2") == 3


def test_what_the_journal_has_is_not_run_again(
    runner: Callable[..., Runner], clusters: type[Cluster], tmp_path: Path
) -> None:
    path = tmp_path / "runs.jsonl"
    rows = [row("a"), row("b")]
    runner(1, path).compare(rows[:1])
    path.write_text(path.read_text() + '{"row": "b", "ver')
    clusters.starts.clear()
    assert [each.row for each in runner(1, path).compare(rows).results] == ["a", "b"]
    assert [json.loads(line)["row"] for line in path.read_text().splitlines() if line.endswith("}")] == [*"aabb"]
    clusters.starts.clear()
    assert not runner(1, path).compare(rows).left_out
    assert not clusters.starts


def test_when_the_time_is_over_what_was_run_is_told(runner: Callable[..., Runner]) -> None:
    found = runner(1, ends_s=time.monotonic() - 1).compare([row("a")])
    assert not found.results
    assert found.left_out == {
        "a": "Barnabas here, 0 of 1 rounds: no time was left; Kafka 2.7.2, 0 of 1 rounds: no time was left"
    }
