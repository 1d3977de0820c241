import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.launcher import compiled, compiling
from barnabas.launcher.compiled import COPY, STAMP, compiled_modules, digest, is_current, own_root, packages_root

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
        ("small/sums.py", SUMS.replace("+", "-")),
        # Neither the time nor the size tells of it.
        ("small/other.py", ""),
        ("pyproject.toml", PROJECT + "\n"),
    ],
)
def test_a_copy_of_other_sources_is_not_used(checkout, name: str, text: str) -> None:
    with_copy(checkout)
    (checkout / name).write_text(text)
    assert not is_current(checkout)


def test_a_copy_for_another_interpreter_is_not_used(checkout, monkeypatch) -> None:
    with_copy(checkout)
    monkeypatch.setattr(compiled.sysconfig, "get_config_var", lambda name: ".cpython-399.so")
    assert not is_current(checkout)


def test_without_a_compiler_it_says_so_and_fails_unless_that_is_all_right(checkout, monkeypatch, capsys) -> None:
    monkeypatch.setattr(compiling, "own_root", lambda: checkout)
    monkeypatch.setenv("CC", "no-such-compiler")
    assert compiling.main([]) == compiling.EXIT_NO_COMPILER
    assert "a C compiler" in capsys.readouterr().err
    assert compiling.main(["--if-possible"]) == 0
    assert not (checkout / COPY).exists()


def test_what_cannot_be_compiled_leaves_no_copy_and_says_why(checkout, monkeypatch, capsys) -> None:
    needs_compiler()
    monkeypatch.setattr(compiling, "own_root", lambda: checkout)
    (checkout / "small" / "sums.py").write_text("def sum_of(a: int) -> str:\n    return a\n")
    assert compiling.main([]) == compiling.EXIT_FAILED
    assert "Incompatible return value" in capsys.readouterr().err
    assert sorted(one.name for one in checkout.iterdir()) == ["LICENSE", "README.md", "pyproject.toml", "small"]


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
