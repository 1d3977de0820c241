"""The command `barnabas pipeline`, with jobs of the test's own."""

import errno
import json
import logging
import os
import sys
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

from barnabas.admin import failures
from barnabas.admin.main import main
from barnabas.pipeline.jobs.catalogue import JOBS, JobEntry
from barnabas.pipeline.jobs.config import ConfigError
from barnabas.pipeline.jobs.job import JobFailed, Run


class CountConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    upto: int


def count(run: Run[CountConfig]) -> None:
    if run.config.upto < 0:
        raise JobFailed(f"upto={run.config.upto}: nothing can be counted; give 0 or more")
    if run.config.upto > 1000:
        error = ConfigError(f"upto = {run.config.upto}: it is more than 1000")
        raise JobFailed(str(error)) from error
    logging.getLogger("barnabas.pipeline.count").info("counted to %d", run.config.upto)
    run.report.add("numbers", run.config.upto)


@pytest.fixture(autouse=True)
def jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("jobs_of_a_test")
    module.CountConfig, module.count = CountConfig, count  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(JOBS, "count", JobEntry(module.__name__, "CountConfig", "count", "Count up to a number."))
    monkeypatch.setitem(JOBS, "lacking", JobEntry("library_that_lacks", "Config", "run", "Needs more."))


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "count.toml"
    path.write_text("upto = 3\n")
    return path


def test_a_job_runs_and_reports(config: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    assert main(["pipeline", "count", str(config), "--set", "upto=5", "--report", str(report)]) == failures.OK
    document = json.loads(report.read_text())
    assert (document["job"], document["counts"], document["config"]) == ("count", {"numbers": 5}, {"upto": 5})


def test_a_job_that_fails_says_why(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "count", str(config), "--set", "upto=-1"]) == failures.FAILED
    assert capsys.readouterr().err == "error: upto=-1: nothing can be counted; give 0 or more\n"


def test_steps_are_told_when_asked_for(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root, ours = logging.getLogger(), logging.getLogger("barnabas")
    handlers, level = root.handlers[:], ours.level
    root.handlers.clear()
    try:
        assert main(["pipeline", "count", str(config)]) == failures.OK
        assert capsys.readouterr().err == ""
        assert main(["pipeline", "count", str(config), "--verbose"]) == failures.OK
        assert "INFO barnabas.pipeline.count: counted to 3" in capsys.readouterr().err
    finally:
        root.handlers[:] = handlers
        ours.setLevel(level)


def test_a_key_that_is_not_known_is_a_matter_of_usage(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "count", str(config), "--set", "up_to=1"]) == failures.USAGE
    assert "unknown field `up_to`" in capsys.readouterr().err


def test_what_a_job_finds_in_its_configuration_is_a_matter_of_usage_too(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pipeline", "count", str(config), "--set", "upto=1001"]) == failures.USAGE
    assert capsys.readouterr().err == "error: upto = 1001: it is more than 1000\n"


def test_a_report_that_cannot_be_written_is_told_before_the_work(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = config / "report.json"
    assert main(["pipeline", "count", str(config), "--set", "upto=-1", "--report", str(report)]) == failures.FAILED
    assert capsys.readouterr().err == f"error: no report can be written to {report}: {os.strerror(errno.ENOTDIR)}\n"
    report = tmp_path / "reports" / "report.json"
    assert main(["pipeline", "count", str(config), "--report", str(report)]) == failures.OK
    assert [each.name for each in report.parent.iterdir()] == ["report.json"]


def test_a_configuration_that_is_not_there_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "count", "nowhere.toml"]) == failures.USAGE
    assert "nowhere.toml" in capsys.readouterr().err


def test_help_names_the_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "--help"]) == failures.OK
    assert "Count up to a number." in capsys.readouterr().out


def test_a_library_that_is_missing_is_told_with_the_extra(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Missing:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "library_that_lacks":
                raise ModuleNotFoundError("no deltalake", name="deltalake")

    monkeypatch.setattr(sys, "meta_path", [Missing(), *sys.meta_path])
    assert main(["pipeline", "lacking", str(config)]) == failures.FAILED
    error = capsys.readouterr().err
    assert "the pipeline needs deltalake" in error
    assert "pip install 'barnabas[pipeline]'" in error
