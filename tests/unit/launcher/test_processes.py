import signal
import sys
from pathlib import Path

from barnabas.launcher.processes import LocalProcess, identify, is_alive, send_signal, stop, wait_for_end

WAITS = "import signal; print('up', flush=True); signal.pause()"
IGNORES = (
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True)\nwhile True: signal.pause()"
)


def started(tmp_path: Path, program: str) -> LocalProcess:
    """A process that has said that it is up."""
    process = LocalProcess([sys.executable, "-c", program], log_file=tmp_path / "log")
    while "up" not in process.log_tail():
        assert not process.wait(0.01), process.log_tail()
    return process


def is_stopped(task: Path) -> bool:
    text = (task / "stat").read_text()
    return text[text.rindex(")") + 2] == "T"


def test_a_running_process_is_known_by_pid_and_start(tmp_path: Path) -> None:
    process = started(tmp_path, WAITS)
    assert identify(process.pid) == process.identity
    assert is_alive(process.identity)
    assert not process.wait(0)
    process.kill()
    assert process.return_code == -signal.SIGKILL
    assert not is_alive(process.identity)


def test_a_dead_process_that_nobody_reaped_counts_as_gone(tmp_path: Path) -> None:
    process = started(tmp_path, WAITS)
    assert send_signal(process.identity, signal.SIGKILL)
    assert wait_for_end(process.identity, 5)
    assert identify(process.pid) is None
    process.kill()


def test_a_recycled_pid_is_not_touched(tmp_path: Path) -> None:
    process = started(tmp_path, WAITS)
    earlier = type(process.identity)(process.pid, process.identity.start_ticks - 1, process.identity.boot_id)
    assert not is_alive(earlier)
    assert not send_signal(earlier, signal.SIGKILL)
    assert stop(earlier, grace_s=0)
    assert process.return_code is None
    process.kill()


def test_a_process_that_ignores_the_request_to_end_is_killed(tmp_path: Path) -> None:
    process = started(tmp_path, IGNORES)
    assert not stop(process.identity, grace_s=0.05)
    assert process.wait(5)
    assert process.return_code == -signal.SIGKILL


def test_a_paused_process_can_be_asked_to_end(tmp_path: Path) -> None:
    process = started(tmp_path, WAITS)
    process.pause()
    assert all(is_stopped(task) for task in Path(f"/proc/{process.pid}/task").iterdir())
    assert process.stop(grace_s=5)
    assert process.return_code == -signal.SIGTERM


def test_the_log_tail_shows_only_what_this_process_wrote(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("of an earlier one\n")
    process = started(tmp_path, WAITS)
    process.kill()
    assert process.log_tail() == "up"
    assert (tmp_path / "log").read_text() == "of an earlier one\nup\n"
