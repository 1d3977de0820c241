"""Walks of the small model: the shipped rules hold, and each bug that is put back is found.

Walks are drawn from their seeds alone, so it is known which seeds find a bug: from 0 on each is found within `ENOUGH`.
"""

import os
from random import Random

import pytest

from barnabas.simulation.replica_walk import Found, walk
from tests.simulation.mutants.catalogue import MODEL
from tests.simulation.mutants.mutant import planted

WALKS = int(os.environ.get("BARNABAS_WALKS", "3000"))
ENOUGH = 20_000


def first_found(seeds: range) -> Found | None:
    return next((found for seed in seeds if (found := walk(seed)) is not None), None)


def test_the_shipped_rules_hold_where_bugs_are_found() -> None:
    assert first_found(range(WALKS)) is None


def test_the_shipped_rules_hold_from_anywhere(seed: int) -> None:
    first = Random(seed).getrandbits(40)
    assert first_found(range(first, first + WALKS)) is None


@pytest.mark.parametrize("number", MODEL)
def test_a_bug_that_is_put_back_is_found(number: int) -> None:
    with planted(MODEL[number]) as calls:
        assert first_found(range(ENOUGH)) is not None, MODEL[number].title
    assert all(calls.values()), f"not called: {calls}"


def test_a_walk_is_the_same_twice() -> None:
    def lines() -> list[str]:
        told: list[str] = []
        walk(7, trace=told.append)
        return told

    assert lines() == lines()
    assert len(set(lines())) > 100
