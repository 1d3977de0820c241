"""Drawn seeds of whole brokers find the bugs that are put back.

`make test` hunts those that a few seeds show. With BARNABAS_MUTANT_SEEDS=n all are hunted from three starts that the
run's seed draws, in at most n seeds each.
"""

import os
from random import Random

import pytest

from tests.simulation.mutants.catalogue import HUNTED
from tests.simulation.mutants.hunting import BIASES, hunt

LONG = int(os.environ.get("BARNABAS_MUTANT_SEEDS", "0"))
QUICK: dict[int | str, int] = {
    1: 0,
    3: 0,
    4: 20,
    5: 17,
    7: 0,
    8: 0,
    9: 0,
    19: 100,
    21: 1,
    22: 0,
    27: 70,
    32: 0,
    53: 0,
    55: 5,
    "open": 5,
    "pending": 1,
    "leadership": 0,
    "in-sync set": 2,
    "last value": 0,
}
"""From which of its seeds on each is hunted: near the first that shows it, as long as draws stay what they are."""
QUICK_SEEDS = 40
CASES = [(number, start) for number in HUNTED for start in range(3)] if LONG else [(number, -1) for number in QUICK]


def test_every_mutant_has_its_bias() -> None:
    assert set(BIASES) == set(HUNTED)


@pytest.mark.parametrize(("number", "start"), CASES)
def test_seeds_show_the_bug(number: int | str, start: int, seed: int) -> None:
    first = str(Random(f"{seed}/{number}/{start}").getrandbits(32)) if LONG else f"mutant-{number}"
    found = hunt(number, first, most=LONG or QUICK_SEEDS, first=0 if LONG else QUICK[number], tell=print)
    assert found.killer is not None, f"{HUNTED[number].title}: not in {found.tried} seeds, {found.calls}"
    assert all(found.calls.values()), f"not called: {found.calls}"
