import fcntl
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from barnabas.launcher import compiled, compiling
from barnabas.launcher.broker_process import start_broker
from barnabas.launcher.compiled import COPY, STAMP, compiled_modules, digest, is_current, packages_root
from barnabas.runtime.packages import own_root

PROJECT = """
[project]
name = "small"
version = "1"

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[tool.hatch.build.targets.wheel]
only-include = ["small"]

[tool.hatch.build.targets.wheel.hooks.mypyc]
enable-by-default = false
include = ["/small/sums.py"]
"""
SUMS = "def sum_of(a: int, b: int) -> int:\n    return a + b\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "small").mkdir()
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "constraints.txt").write_text("mypy==1\n")
    (tmp_path / "README.md").write_text("small\n")
    (tmp_path / "LICENSE").write_text("none\n")
    (tmp_path / "small" / "__init__.py").write_text("")
    (tmp_path / "small" / "sums.py").write_text(SUMS)
    return tmp_path


def with_copy(root: Path) -> Path:
    (root / COPY).mkdir()
    (root / COPY / STAMP).write_text(digest(root))
    return root


def test_a_checkout_without_a_copy_runs_from_itself(checkout, monkeypatch) -> None:
    monkeypatch.setattr(compiled, "own_root", lambda: checkout)
    assert not is_current(checkout)
    assert packages_root() == checkout


def test_a_copy_is_used_while_its_sources_are_those_of_the_checkout(checkout, monkeypatch) -> None:
    monkeypatch.setattr(compiled, "own_root", lambda: with_copy(checkout))
    assert packages_root() == checkout / COPY


@pytest.mark.parametrize(
    ("name", "text"),
    [
        # The size does not tell of it.
        ("small/sums.py", SUMS.replace("+", "-")),
        ("small/other.py", ""),
        ("small/table.xml", "<table/>"),
        ("pyproject.toml", PROJECT + "\n"),
        ("pyproject.toml", "[half"),
        ("constraints.txt", "mypy==2\n"),
    ],
)
def test_a_copy_of_other_sources_is_not_used(checkout, name: str, text: str) -> None:
    with_copy(checkout)
    (checkout / name).write_text(text)
    assert not is_current(checkout)


def test_what_python_and_the_compiler_leave_beside_the_sources_is_none(checkout) -> None:
    with_copy(checkout)
    (checkout / "small" / "__pycache__").mkdir()
    (checkout / "small" / "__pycache__" / "sums.cpython-311.pyc").write_text("")
    (checkout / "small" / "other.cpython-311.so").write_text("")
    assert is_current(checkout)


def test_a_file_in_the_place_of_the_copy_is_none(checkout) -> None:
    (checkout / COPY).write_text("")
    assert not is_current(checkout)


def test_a_broker_that_is_started_takes_its_packages_from_the_copy(checkout, monkeypatch) -> None:
    monkeypatch.setattr(compiled, "own_root", lambda: checkout)
    (with_copy(checkout) / COPY / "broker").mkdir()
    (checkout / COPY / "broker" / "__init__.py").write_text("")
    (checkout / COPY / "broker" / "main.py").write_text("print('this one')\n")
    process = start_broker(checkout, 1, {})
    process.wait(20)
    assert "this one" in process.log_tail()


def test_a_copy_for_another_interpreter_is_not_used(checkout, monkeypatch) -> None:
    with_copy(checkout)
    monkeypatch.setattr(compiled.sysconfig, "get_config_var", lambda name: ".cpython-399.so")
    assert not is_current(checkout)


def test_without_a_compiler_it_says_so_and_fails_unless_that_is_all_right(checkout, monkeypatch, capsys) -> None:
    monkeypatch.setattr(compiling, "own_root", lambda: checkout)
    monkeypatch.setenv("CC", "no-such-compiler --fast")
    assert compiling.main([]) == compiling.EXIT_NO_COMPILER
    assert "a C compiler (no-such-compiler)" in capsys.readouterr().err
    assert compiling.main(["--if-possible"]) == 0
    assert not (checkout / COPY).exists()


def test_a_compiler_that_finds_no_headers_is_none(checkout, monkeypatch, capsys) -> None:
    needs_compiler()
    monkeypatch.setattr(compiling, "own_root", lambda: checkout)
    monkeypatch.setenv("CC", "cc -nostdinc")
    assert compiling.main(["--if-possible"]) == 0
    assert "something that cc -nostdinc" in capsys.readouterr().err


def test_an_empty_name_of_a_compiler_stands_for_the_usual_one(monkeypatch) -> None:
    needs_compiler()
    monkeypatch.setenv("CC", "")
    assert compiling.what_is_missing() is None


def test_an_extension_beside_its_source_is_refused(checkout, monkeypatch, capsys) -> None:
    monkeypatch.setattr(compiling, "own_root", lambda: with_copy(checkout))
    stray = checkout / "small" / "sums.cpython-311.so"
    stray.write_text("")
    assert compiling.main([]) == compiling.EXIT_FAILED
    assert str(stray) in capsys.readouterr().err


def test_whether_a_copy_is_up_to_date_can_be_asked(checkout, monkeypatch) -> None:
    monkeypatch.setattr(compiling, "own_root", lambda: checkout)
    assert compiling.main(["--check"]) == compiling.EXIT_FAILED
    with_copy(checkout)
    assert compiling.main(["--check"]) == 0


def test_copies_are_made_one_after_the_other_and_what_a_killed_process_left_goes(checkout, monkeypatch) -> None:
    needs_compiler()
    monkeypatch.setattr(compiling, "own_root", lambda: checkout)
    (checkout / f"{COPY}-left" / "copy").mkdir(parents=True)
    made = []
    monkeypatch.setattr(compiling, "make_copy", lambda root: made.append(with_copy(root)))
    with (checkout / f"{COPY}-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        others = [threading.Thread(target=compiling.make_alone, args=(checkout,)) for _ in range(2)]
        for other in others:
            other.start()
        assert made == []
    for other in others:
        other.join(20)
    assert made == [checkout]
    assert not (checkout / f"{COPY}-left").exists()


AS_A_PROGRAM = """
import sys
from pathlib import Path
from barnabas.launcher import compiling
compiling.own_root = lambda: Path(sys.argv[1])
sys.executable = sys.argv[2]
"""
COMPILES = "sys.exit(compiling.main([]))"
ENDS_AS_IT_STARTS = """
import os, signal, subprocess
class Starting(subprocess.Popen):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        if kwargs.get("start_new_session"):
            Path(sys.argv[1], "pids").write_text(str(self.pid))
            signal.raise_signal(signal.SIGTERM)
subprocess.Popen = Starting
"""


@pytest.mark.parametrize("as_it_starts", [False, True], ids=["as it runs", "as it starts"])
def test_a_compiler_ends_with_the_process_that_started_it(checkout, as_it_starts) -> None:
    needs_compiler()
    slow, pids = checkout / "slow", checkout / "pids"
    os.mkfifo(pids)
    slow.write_text("#!/bin/sh\n" + ("" if as_it_starts else f"echo $$ > {pids}\n") + "exec sleep 60\n")
    slow.chmod(0o755)
    program_text = AS_A_PROGRAM + (ENDS_AS_IT_STARTS if as_it_starts else "") + COMPILES
    with subprocess.Popen([sys.executable, "-c", program_text, str(checkout), str(slow)], cwd=own_root()) as program:
        pid = int(pids.read_text())
        if not as_it_starts:
            program.send_signal(signal.SIGTERM)
        assert program.wait(20) == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert list(checkout.glob(f"{COPY}*")) == [checkout / f"{COPY}-lock"]


def test_what_cannot_be_compiled_leaves_no_copy_and_says_why(checkout, monkeypatch, capsys) -> None:
    needs_compiler()
    monkeypatch.setattr(compiling, "own_root", lambda: checkout)
    (checkout / "small" / "sums.py").write_text("def sum_of(a: int) -> str:\n    return a\n")
    assert compiling.main([]) == compiling.EXIT_FAILED
    assert "Incompatible return value" in capsys.readouterr().err
    assert list(checkout.glob(f"{COPY}*")) == [checkout / f"{COPY}-lock"]


def test_a_copy_is_made_once_and_anew_when_a_source_changed(checkout, monkeypatch) -> None:
    needs_compiler()
    monkeypatch.setattr(compiling, "own_root", lambda: checkout)
    assert compiling.main([]) == 0
    assert is_current(checkout)
    assert in_copy(checkout, "small.sums.sum_of(2, 3), small.sums.__file__[-3:]") == "5 .so"
    made = (checkout / COPY / STAMP).stat().st_mtime_ns
    assert compiling.main([]) == 0
    assert (checkout / COPY / STAMP).stat().st_mtime_ns == made
    (checkout / "small" / "sums.py").write_text(SUMS.replace("+", "-"))
    assert compiling.main([]) == 0
    assert in_copy(checkout, "small.sums.sum_of(2, 3)") == "-1"


def needs_compiler() -> None:
    if (missing := compiling.what_is_missing()) is not None:
        pytest.skip(f"{missing} is not here")


def in_copy(root: Path, expression: str) -> str:
    program = f"import small.sums; print({expression})"
    ran = subprocess.run([sys.executable, "-c", program], cwd=root / COPY, capture_output=True, text=True, check=True)
    return ran.stdout.strip()


def test_what_is_compiled_exists() -> None:
    root = own_root()
    assert [name for name in compiled_modules(root) if not (root / name).is_file()] == []
