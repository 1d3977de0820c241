"""Seeds that once failed, and a few new ones: whole clusters under faults, judged by invariants and histories."""

from pathlib import Path

import pytest

from barnabas.simulation.report import line
from barnabas.simulation.trial import run_seed

_REGRESSIONS = Path(__file__).parent / "regressions.txt"
_NEW_SEEDS = 3


def regressions() -> list[str]:
    lines = _REGRESSIONS.read_text().splitlines()
    return [line.split()[0] for line in lines if line.strip() and not line.startswith("#")]


@pytest.mark.parametrize("seed", regressions())
def test_what_failed_once_holds(seed):
    tally = run_seed(seed)
    assert tally.passed, line(tally)


@pytest.mark.parametrize("number", range(_NEW_SEEDS))
def test_new_seeds_hold(number, seed):
    tally = run_seed(f"{seed}.{number}")
    assert tally.passed, line(tally)
