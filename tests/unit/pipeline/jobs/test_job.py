"""How runs end, and what they leave."""

import io
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from barnabas.pipeline.jobs.job import JobFailed, Run, carry_out
from barnabas.pipeline.jobs.progress import Progress
from barnabas.pipeline.jobs.report import Status, write_report
from tests.support.clock import ManualClock


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def new_run() -> Run[dict[str, Any]]:
    return Run("words", {"topics": ["a"]}, progress=Progress(io.StringIO()))


def test_a_run_leaves_what_it_counted_and_told(tmp_path: Path) -> None:
    def work(run: Run[Any]) -> None:
        run.report.add("rows", 3)
        run.report.add("rows", 4)
        run.report.tell("table", "/lake/words")
        run.report.add_batch({"batch": 0, "rows": 7})

    path = tmp_path / "reports" / "run.json"
    assert carry_out(new_run(), work, path) is Status.SUCCEEDED
    document = json.loads(path.read_text())
    assert (document["job"], document["status"], document["error"]) == ("words", "succeeded", None)
    assert document["counts"] == {"rows": 7}
    assert document["facts"] == {"table": "/lake/words"}
    assert document["batches"] == [{"batch": 0, "rows": 7}]
    assert document["config"] == {"topics": ["a"]}
    assert document["started"] <= document["ended"]
    assert document["ended"].endswith("+00:00")


def test_a_run_that_fails_leaves_why(tmp_path: Path) -> None:
    def work(run: Run[Any]) -> None:
        run.report.add("rows", 1)
        raise JobFailed("the lake is full")

    path = tmp_path / "run.json"
    with pytest.raises(JobFailed):
        carry_out(new_run(), work, path)
    document = json.loads(path.read_text())
    assert (document["status"], document["error"]) == ("failed", "JobFailed: the lake is full")
    assert document["counts"] == {"rows": 1}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_asks_the_work_to_end(tmp_path: Path, number: signal.Signals) -> None:
    before = signal.getsignal(number)

    def work(run: Run[Any]) -> None:
        os.kill(os.getpid(), number)
        assert run.stopping.wait(5)

    path = tmp_path / "run.json"
    assert carry_out(new_run(), work, path) is Status.STOPPED
    assert json.loads(path.read_text())["status"] == "stopped"
    assert signal.getsignal(number) is before


def test_a_second_signal_interrupts(tmp_path: Path) -> None:
    def work(run: Run[Any]) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        assert run.stopping.wait(5)
        os.kill(os.getpid(), signal.SIGINT)
        signal.pause()

    with pytest.raises(KeyboardInterrupt):
        carry_out(new_run(), work, tmp_path / "run.json")
    assert json.loads((tmp_path / "run.json").read_text())["error"] == "interrupted"


def test_a_report_takes_the_place_of_the_former_one_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    write_report(path, {"run": 1})
    with pytest.raises(TypeError):
        write_report(path, {"run": object()})
    assert json.loads(path.read_text()) == {"run": 1}
    assert [each.name for each in tmp_path.iterdir()] == ["run.json"]
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask


def test_progress_in_a_file_is_a_line_in_ten_seconds_and_the_last_one() -> None:
    stream, clock = io.StringIO(), ManualClock()
    progress = Progress(stream, clock)
    for number in range(25):
        progress.show(f"{number} rows")
        clock.advance(1_000)
    progress.end()
    progress.end()
    assert stream.getvalue() == "0 rows\n10 rows\n20 rows\n24 rows\n"


def test_progress_on_a_terminal_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "12")
    stream, clock = Terminal(), ManualClock()
    progress = Progress(stream, clock)
    for number in range(3):
        progress.show(f"{number} rows of very many")
        clock.advance(60)
    progress.say("a batch is late")
    progress.end()
    progress.show("done")
    progress.end()
    clear = "\r\x1b[2K"
    assert stream.getvalue() == (f"{clear}0 rows of v{clear}2 rows of v{clear}a batch is late\n{clear}done\n")


def test_results_go_to_standard_output_below_the_progress(capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.StringIO()
    progress = Progress(stream, ManualClock())
    progress.show("1 row")
    progress.show("2 rows")
    progress.result("topic  rows\nwords     2")
    assert stream.getvalue() == "1 row\n2 rows\n"
    assert capsys.readouterr().out == "topic  rows\nwords     2\n"
