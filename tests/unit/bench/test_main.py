"""What the command lists and prints, and the status that it ends with."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.side_by_side import __main__ as command
from bench.side_by_side import comparison
from bench.side_by_side.__main__ import all_rows, main
from bench.side_by_side.contestants import Contestant
from bench.side_by_side.figures import Figure
from bench.side_by_side.row import Row, Run
from tests.support.kafka_jars import JarsNotAvailable
from tests.unit.bench.fake_clusters import CONTESTANTS, Cluster


@pytest.fixture(autouse=True)
def nothing_real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No brokers, no Java, and results go elsewhere."""
    monkeypatch.setattr(comparison, "RunningCluster", Cluster)
    monkeypatch.setattr(comparison.os, "sync", lambda: None)
    monkeypatch.setattr(command, "RESULTS", tmp_path / "one" / "two" / "results")
    (tmp_path / "one" / "two").mkdir(parents=True)
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho java 17\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))


def run(*arguments: str, fails: bool = False) -> int:
    def measure(_: Run) -> list[Figure]:
        if fails:
            raise ConnectionError("closed")
        return [Figure("seconds", 1.0, "s")]

    rows = [Row("a row", measure)]
    return main(arguments, rows_of=lambda _, full: rows, systems_of=lambda _: CONTESTANTS)


@pytest.mark.parametrize(("fails", "status"), [(False, 0), (True, 1)])
def test_a_run_that_failed_is_in_the_status(fails: bool, status: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--smoke", fails=fails) == status
    table = capsys.readouterr().out
    assert "A smoke run, of tiny loads on cold systems: nothing is judged." in table
    assert ("Left out: a row: Barnabas here, 0 of 1 rounds: ConnectionError: closed" in table) is fails


def test_a_smoke_writes_its_results_too_but_not_where_they_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[tuple[Path, list[str]]] = []

    def draw(_: object, stem: Path) -> None:
        rows = json.loads(stem.with_suffix(".json").read_text())["rows"]
        written.append((stem, [row["row"] for row in rows]))

    monkeypatch.setattr(command, "draw", draw)
    assert run("--smoke") == 0
    ((stem, rows),) = written
    assert rows == ["a row"]
    assert not stem.parent.exists()
    assert list((tmp_path / "one" / "two").iterdir()) == []


def test_what_was_typed_is_told_so_that_it_can_be_typed_again(capsys: pytest.CaptureFixture[str]) -> None:
    run("--smoke", "--row", "a row; in two words")
    table = capsys.readouterr().out
    assert "; 1 round; `python -m bench.side_by_side --smoke --row 'a row; in two words'`" in table


def test_without_kafkas_jars_nothing_could_be_run(capsys: pytest.CaptureFixture[str]) -> None:
    def systems_of(_: Sequence[str]) -> list[Contestant]:
        raise JarsNotAvailable("no network")

    assert main(["--smoke"], systems_of=systems_of) == 2
    assert capsys.readouterr().err == "Kafka cannot be run here: no network\n"


def test_a_name_that_no_row_has_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    for names in (["--row", "no such"], ["--row", "latency", "--row", "no such"], ["--list", "--row", "no such"]):
        assert main(names) == 2
        assert capsys.readouterr() == ("", "no row has no such in its name\n")


def test_no_round_is_too_few(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--rounds", "0"])
    assert "--rounds 0: at least 1" in capsys.readouterr().err


def test_a_journal_of_another_commit_ends_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal = tmp_path / "runs.jsonl"
    journal.write_text(json.dumps({"origin": {"barnabas": "another"}}) + "\n")
    assert run("--resume", str(journal)) == 2
    assert "'another'" in capsys.readouterr().err


def test_of_what_is_not_committed_no_run_is_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "_first_line", lambda *_: "abc-dirty")
    assert run("--resume", str(tmp_path / "runs.jsonl")) == 2
    assert "abc-dirty: what is not committed" in capsys.readouterr().err


def test_a_smoke_goes_on_with_no_journal(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        run("--smoke", "--resume", str(tmp_path / "runs.jsonl"))


def test_all_rows_are_listed_and_the_core_ones_marked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {line[6:] for line in lines} == {row.name for row in all_rows()}
    assert {line[6:] for line in lines if line.startswith("core  ")} == {row.name for row in all_rows() if row.is_core}


def test_rows_that_are_searched_are_listed_whether_they_are_core_or_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "--row", "at rest"]) == 0
    assert capsys.readouterr().out == "core  at rest with 30 partitions\n      at rest with 3,000 partitions\n"
