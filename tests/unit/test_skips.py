"""The rule on skips and the run's seed, tried on a small project of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.skips import BadAllowedSkips, parse_allowed_skips, refusal
from tests.support.tally import Tally, read_report, tally_directories

ROOT = Path(__file__).parents[2]
ROW = '[[skip]]\nid = "tests/test_it.py::test_allowed"\nreason = "no such device"\ndate = 2026-11-21\n'
TESTS = """
import random
import pytest
from hypothesis import given, strategies as st

def test_passes(): pass
def test_allowed(): pytest.skip("no device")
def test_skipped_in_its_body(): pytest.skip("not today")
@pytest.fixture
def device(): pytest.skip("no device")
def test_skipped_by_a_fixture(device): pass
@pytest.mark.xfail
def test_expected_to_fail(): assert False
def test_draws(seed): assert seed == -1
@given(st.integers())
def test_property(n): assert n < 10
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\naddopts = --import-mode=importlib --strict-markers -p tests.conftest\n"
    )
    (tmp_path / "tests" / "allowed_skips.toml").write_text(ROW)
    (tmp_path / "tests" / "test_it.py").write_text(TESTS)
    return tmp_path


def run(project: Path, *arguments: str, ci: bool) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "CI"))}
    environment |= {"PYTHONPATH": str(ROOT), "CI": "true" if ci else "", "BARNABAS_SEED": "77"}
    command = [sys.executable, "-m", "pytest", "--rootdir", str(project), *arguments, str(project / "tests")]
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)


def test_a_skip_fails_the_run_in_ci_unless_a_row_allows_it(project: Path) -> None:
    ran = run(project, "-k", "not draws and not property", "--junitxml=report.xml", ci=True)
    assert ran.returncode == 1, ran.stdout
    for name in ("test_skipped_in_its_body", "test_skipped_by_a_fixture", "test_expected_to_fail"):
        assert f"{name} was skipped" in ran.stdout
    assert "test_allowed was skipped" not in ran.stdout
    assert "skipped: tests/test_it.py::test_allowed (no such device; since 2026-11-21)" in ran.stdout
    tally = read_report((project / "report.xml").read_text())
    assert (tally.passed, tally.failed, tally.skipped) == (1, 3, 1)


def test_the_rule_holds_across_workers(project: Path) -> None:
    ran = run(project, "-n", "2", "-k", "skipped_in_its_body", ci=True)
    assert ran.returncode == 1, ran.stdout
    assert "test_skipped_in_its_body was skipped (" in ran.stdout
    assert "1 failed" in ran.stdout


def test_a_module_that_skips_itself_fails_the_run_in_ci(project: Path) -> None:
    (project / "tests" / "test_it.py").write_text("import pytest\npytest.importorskip('no_such_module')\n")
    assert "1 error" in run(project, ci=True).stdout
    assert "1 skipped" in run(project, ci=False).stdout


def test_skips_are_free_outside_of_ci(project: Path) -> None:
    ran = run(project, "-k", "skipped or allowed", ci=False)
    assert ran.returncode == 0, ran.stdout
    assert "not skipped here" not in ran.stdout


def test_a_failure_that_drew_shows_the_seed(project: Path) -> None:
    ran = run(project, "-q", "-k", "draws or property", ci=False)
    assert ran.returncode == 1
    assert "BARNABAS_SEED=77 .venv/bin/pytest 'tests/test_it.py::test_draws'" in ran.stdout
    assert "BARNABAS_SEED=77 .venv/bin/pytest 'tests/test_it.py::test_property'" in ran.stdout
    assert "@reproduce_failure" in ran.stdout


def test_an_id_that_no_second_process_would_give_is_refused(project: Path) -> None:
    odd = "import pytest\n@pytest.mark.parametrize('f', [lambda: 1], ids=repr)\ndef test_it(f): pass\n"
    (project / "tests" / "test_it.py").write_text(odd)
    ran = run(project, ci=False)
    assert ran.returncode != 0
    assert "an address in a test's id" in ran.stdout + ran.stderr


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (ROW * 2, "stands there twice"),
        (ROW.replace('reason = "no such device"\n', ""), "needs id, reason and date"),
        (ROW.replace("2026-11-21", '"lately"'), "TOML date"),
        (ROW.replace("::test_allowed", ""), "a whole test id"),
        ("".join(ROW.replace("allowed", f"allowed_{n}") for n in range(11)), "at most 10"),
    ],
)
def test_a_bad_row_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(BadAllowedSkips, match=complaint):
        parse_allowed_skips(text)


def test_a_row_allows_one_test_and_not_its_neighbours() -> None:
    allowed = parse_allowed_skips(ROW)
    assert refusal("tests/test_it.py::test_allowed", "r", allowed) is None
    assert refusal("tests/test_it.py::test_allowed[2]", "r", allowed) is not None


def test_a_tally_counts_errors_as_failures_and_wants_a_report(tmp_path: Path) -> None:
    xml = '<testsuites><testsuite errors="1" failures="2" skipped="3" tests="10" time="1.5"/></testsuites>'
    assert read_report(xml) == Tally(passed=4, failed=3, skipped=3, seconds=1.5)
    assert tally_directories([tmp_path])[2] is False
    (tmp_path / "quick.xml").write_text(xml.replace('errors="1" failures="2"', 'errors="0" failures="0"'))
    lines, total, well = tally_directories([tmp_path])
    assert (str(total), well) == ("7 passed, 0 failed, 3 skipped", True)
    assert lines == [f"{tmp_path.name}/quick: 7 passed, 0 failed, 3 skipped in 2 s"]
