"""Drawn seeds of whole brokers find the bugs that are put back.

`make test` hunts those that a few seeds show. With BARNABAS_MUTANT_SEEDS=n all are hunted from three starts that the
run's seed draws, in at most n seeds each.
"""

import os
from random import Random

import pytest

from tests.simulation.mutants.catalogue import CLUSTER
from tests.simulation.mutants.hunting import BIASES, hunt

LONG = int(os.environ.get("BARNABAS_MUTANT_SEEDS", "0"))
QUICK = (7, 21, 32)
QUICK_SEEDS = 40
CASES = [(number, start) for number in CLUSTER for start in range(3)] if LONG else [(number, -1) for number in QUICK]


def test_every_mutant_has_its_bias() -> None:
    assert set(BIASES) == set(CLUSTER)


@pytest.mark.parametrize(("number", "start"), CASES)
def test_seeds_show_the_bug(number: int, start: int, seed: int) -> None:
    first = str(Random(f"{seed}/{number}/{start}").getrandbits(32)) if LONG else f"mutant-{number}"
    found = hunt(number, first, most=LONG or QUICK_SEEDS, tell=print)
    assert found.killer is not None, f"{CLUSTER[number].title}: not in {found.tried} seeds, {found.calls}"
    assert all(found.calls.values()), f"not called: {found.calls}"
