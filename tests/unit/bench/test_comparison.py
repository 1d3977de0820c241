"""What a comparison keeps when runs fail, when contestants do not start, and when it is ended and begun again."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.side_by_side import comparison
from bench.side_by_side.clients import ProgramMissing, Shape
from bench.side_by_side.comparison import Plan, Runner, blocks, in_turn, warm
from bench.side_by_side.figures import SMOKE, Figure, Target
from bench.side_by_side.journal import Journal, OtherOrigin
from bench.side_by_side.row import Incomplete, Row, Run
from tests.unit.bench.fake_clusters import CONTESTANTS, Cluster


@pytest.fixture(autouse=True)
def clusters(monkeypatch: pytest.MonkeyPatch) -> type[Cluster]:
    monkeypatch.setattr(comparison, "RunningCluster", Cluster)
    monkeypatch.setattr(Cluster, "broken", set())
    monkeypatch.setattr(Cluster, "starts", [])
    monkeypatch.setattr(Cluster, "told", [])
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
            journal=Journal(path or directory / "runs.jsonl", {"commit": "1"}),
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
    assert run.has_failed(rows)


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
    assert [json.loads(line)["row"] for line in path.read_text().splitlines()[1:] if line.endswith("}")] == [*"aabb"]
    clusters.starts.clear()
    assert not runner(1, path).compare(rows).left_out
    assert not clusters.starts


def test_when_the_time_is_over_what_was_run_is_told(runner: Callable[..., Runner]) -> None:
    found = runner(1, ends_s=time.monotonic() - 1).compare([row("a")])
    assert not found.results
    assert found.left_out == {
        "a": "Barnabas here, 0 of 1 rounds: no time was left; Kafka 2.7.2, 0 of 1 rounds: no time was left"
    }


def test_a_journal_of_another_commit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    Journal(path, {"commit": "1"})
    Journal(path, {"commit": "1"})
    with pytest.raises(OtherOrigin, match=r"'1'.*'2'"):
        Journal(path, {"commit": "2"})
    path.write_text('{"row": "a"}\n')
    with pytest.raises(OtherOrigin):
        Journal(path, {"commit": "1"})


@pytest.mark.parametrize(("is_core", "named"), [(False, False), (True, False), (False, True)])
def test_what_lacks_a_program_has_failed_where_it_is_a_core_row_or_was_named(
    runner: Callable[..., Runner], *, is_core: bool, named: bool
) -> None:
    def measure(_: Run) -> list[Figure]:
        raise ProgramMissing("no kcat")

    rows = [Row("a", measure, is_core=is_core)]
    run = runner(1, named=named)
    run.compare(rows)
    assert run.has_failed(rows) is (is_core or named)


def test_what_is_incomplete_is_kept_and_told_also_of_an_earlier_run(
    runner: Callable[..., Runner], tmp_path: Path
) -> None:
    def measure(run: Run) -> list[Figure]:
        raise Incomplete([Figure("PSS", 1.0, "MB", at=10)], "at 100: late")

    path, rows = tmp_path / "runs.jsonl", [Row("growth", measure)]
    first = runner(1, path)
    reason = "Barnabas here, Incomplete: at 100: late; Kafka 2.7.2, Incomplete: at 100: late"
    for run in (first, runner(1, path)):
        found = run.compare(rows)
        assert [each.at for each in found.results] == [10]
        assert found.left_out == {"growth": reason}
    assert first.has_failed(rows)


def test_in_every_pair_of_rounds_one_order_is_the_other_reversed() -> None:
    assert ["".join(in_turn("ab", number)) for number in range(4)] == ["ab", "ba", "ba", "ab"]
    assert ["".join(in_turn("abc", number)) for number in range(6)] == ["abc", "cba", "bca", "acb", "cab", "bac"]


@pytest.mark.parametrize("is_fresh", [False, True])
def test_of_one_round_not_all_rows_are_begun_by_the_same_system(runner: Callable[..., Runner], is_fresh: bool) -> None:
    firsts: list[str] = []

    def measure(run: Run) -> list[Figure]:
        firsts.append(run.cluster.contestant.version)
        return [Figure("seconds", 1.0, "s")]

    rows = [Row(name, measure, is_fresh=is_fresh) for name in "abcd"]
    runner(1).compare(rows)
    assert firsts[::2] == ["here", "2.7.2", "here", "2.7.2"]
    firsts.clear()
    runner(2).compare(rows[1:2])
    assert firsts == ["here", "2.7.2", "2.7.2", "here"], "in two rounds one order and its reverse"


def test_fresh_rows_and_small_blocks_come_first_and_those_that_restart_brokers_stand_apart() -> None:
    rows = [row("a"), row("b"), row("c", restarts=True), row("d", restarts=True), row("e", is_fresh=True)]
    assert [[each.name for each in block] for block in blocks(rows)] == [["e"], ["a", "b"], ["c", "d"]]


@pytest.mark.parametrize(
    ("rounds", "kind", "runs"), [(1, {}, 2), (2, {}, 3), (2, {"restarts": True}, 2), (2, {"is_fresh": True}, 2)]
)
def test_a_row_is_tried_before_its_first_round_unless_that_makes_the_brokers_new(
    rounds: int, kind: dict[str, bool], runs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "_SETTLE_S", 0)
    monkeypatch.setattr(comparison, "warm", lambda _: None)
    monkeypatch.setattr(comparison, "warm_again", lambda _: None)
    measured: list[str] = []

    def measure(run: Run) -> list[Figure]:
        measured.append(run.cluster.contestant.version)
        return [Figure("seconds", float(len(measured)), "s")]

    journal = Journal(tmp_path / "runs.jsonl", {})
    Runner(CONTESTANTS[:1], Plan(rounds), tmp_path, journal=journal, tell=lambda _: None).compare(
        [Row("a", measure, **kind)]
    )
    assert len(measured) == runs
    counted = [figures[0].value for figures in journal.runs("a")["here"]]
    assert counted == [float(number) for number in range(runs - rounds + 1, runs + 1)]


def test_of_rows_that_are_alike_the_first_is_tried_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "_SETTLE_S", 0)
    monkeypatch.setattr(comparison, "warm", lambda _: None)
    measured: list[str] = []

    def named(name: str, alike: str) -> Row:
        def measure(_: Run) -> list[Figure]:
            measured.append(name)
            return [Figure("seconds", 1.0, "s")]

        return Row(name, measure, alike=alike)

    rows = [named("a", "lz4"), named("b", "lz4"), named("c", "zstd"), named("d", ""), named("e", "")]
    journal = Journal(tmp_path / "runs.jsonl", {})
    Runner(CONTESTANTS[:1], Plan(1), tmp_path, journal=journal, tell=lambda _: None).compare(rows)
    assert measured == [*"aabccddee"]


def test_on_a_new_cluster_a_row_is_tried_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clusters: type[Cluster]
) -> None:
    monkeypatch.setattr(comparison, "_SETTLE_S", 0)
    monkeypatch.setattr(comparison, "warm", lambda _: None)
    measured: list[int] = []

    def measure(_: Run) -> list[Figure]:
        # The second run, which is the first that counts, breaks the cluster.
        measured.append(len(clusters.starts))
        monkeypatch.setattr(clusters, "is_whole", lambda _: len(measured) != 2)
        return [Figure("seconds", 1.0, "s")]

    journal = Journal(tmp_path / "runs.jsonl", {})
    Runner(CONTESTANTS[:1], Plan(2), tmp_path, journal=journal, tell=lambda _: None).compare([Row("a", measure)])
    assert measured == [1, 1, 2, 2]


def test_what_is_barnabas_own_is_told_to_barnabas_alone(runner: Callable[..., Runner], clusters: type[Cluster]) -> None:
    rows = [replace(row("a"), properties=(("both", "1"),), own_properties=(("ours", "2"),))]
    found = runner(1).compare(rows)
    assert clusters.told == [("here", {"both": "1", "ours": "2"}), ("2.7.2", {"both": "1"})]
    assert found.properties == {"a": {"all": {"both": "1"}, "Barnabas": {"ours": "2"}}}


def test_every_system_is_warmed_once_before_the_first_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    happened: list[str] = []

    def measure(run: Run) -> list[Figure]:
        happened.append(f"{run.cluster.contestant.version} runs")
        return [Figure("seconds", 1.0, "s")]

    monkeypatch.setattr(comparison, "_SETTLE_S", 0)
    monkeypatch.setattr(comparison, "warm", lambda cluster: happened.append(f"{cluster.contestant.version} is warmed"))
    told = Runner(CONTESTANTS, Plan(2), tmp_path, journal=Journal(tmp_path / "runs.jsonl", {}), tell=lambda _: None)
    told.compare([Row("a", measure)])
    tried_and_run = ["here runs"] * 2 + ["2.7.2 runs"] * 2
    assert happened == ["here is warmed", "2.7.2 is warmed", *tried_and_run, "2.7.2 runs", "here runs"]


def test_brokers_that_a_run_has_restarted_are_warmed_again_before_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[str] = []

    def restarting(name: str) -> Row:
        def measure(_: Run) -> list[Figure]:
            happened.append(name)
            return [Figure("seconds", 1.0, "s")]

        return Row(name, measure, restarts=True)

    monkeypatch.setattr(comparison, "_SETTLE_S", 0)
    monkeypatch.setattr(comparison, "warm", lambda _: happened.append("warmed"))
    monkeypatch.setattr(comparison, "warm_again", lambda _: happened.append("again"))
    told = Runner(CONTESTANTS[:1], Plan(2), tmp_path, journal=Journal(tmp_path / "runs.jsonl", {}), tell=lambda _: None)
    told.compare([restarting("a"), restarting("b")])
    assert happened == ["warmed", "a", "again", "b", "again", "a", "again", "b"]


@pytest.mark.parametrize(("brokers", "piece_s", "seconds"), [(1, 0.1, 60.0), (3, 0.1, 180.0), (1, 10.0, 200.0)])
def test_warming_takes_two_gigabytes_and_a_minute_a_broker(
    brokers: int, piece_s: float, seconds: float, tmp_path: Path
) -> None:
    now, sizes = [5.0], []

    def pass_through(_: object, shape: Shape) -> int:
        now[0] += piece_s
        sizes.append(shape.record_bytes)
        return 100_000_000

    warm(Cluster(CONTESTANTS[0], tmp_path, brokers=brokers), pass_through, lambda: now[0])
    assert len(sizes) * 100_000_000 >= 2_000_000_000
    assert now[0] - 5.0 == pytest.approx(seconds, abs=2 * piece_s)
    assert sizes.count(100) == sizes.count(1000)


def test_what_else_used_the_machine_and_how_fast_that_was_is_kept_of_each_run(runner: Callable[..., Runner]) -> None:
    (result,) = runner(3).compare([row("a")]).results
    for told in (result.elsewhere, result.loop_ms):
        assert {version: len(each) for version, each in told.items()} == {"here": 3, "2.7.2": 3}


@pytest.mark.parametrize(("scale", "warms"), [(1.0, False), (0.005, True)])
def test_of_a_smoke_nothing_is_judged(scale: float, warms: bool) -> None:
    assert Plan(5).judges
    assert not Plan(5, scale, warms=warms).judges


def test_a_smoke_says_of_each_aim_why_it_is_not_judged(runner: Callable[..., Runner]) -> None:
    aimed = replace(row("a"), targets={"seconds": Target(at_least=False, ratio=1.0)})
    found = runner(1).compare([aimed, row("b")])
    assert not found.judges
    assert [(each.met, each.unjudged) for each in found.results] == [(None, SMOKE), (None, "")]
    assert [each.ratio for each in found.results] == [None, None]
