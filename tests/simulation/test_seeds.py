"""What failed once, and a few new seeds: whole clusters under faults, judged by invariants and histories."""

from pathlib import Path

import pytest

from barnabas.simulation import script
from barnabas.simulation.report import line
from barnabas.simulation.trial import run_drawn, run_seed

_SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.json"))
_NEW_SEEDS = 3


@pytest.mark.parametrize("path", _SCRIPTS, ids=lambda path: path.stem)
def test_what_failed_once_holds(path: Path) -> None:
    tally = run_drawn(*script.loads(path.read_text()))
    assert tally.passed, line(tally)


def test_every_script_says_what_it_showed() -> None:
    assert all(script.title_of(path.read_text()) for path in _SCRIPTS)


@pytest.mark.parametrize("number", range(_NEW_SEEDS))
def test_new_seeds_hold(number, seed):
    tally = run_seed(f"{seed}.{number}")
    assert tally.passed, line(tally)
