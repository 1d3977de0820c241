"""Scripted plans on whole brokers: each holds on the shipped code, and fails where its bug is put back."""

import pytest

from barnabas.simulation.plan import run_plan
from tests.simulation.mutants.catalogue import PLANS
from tests.simulation.mutants.mutant import planted


@pytest.mark.parametrize("number", PLANS)
def test_a_plan_holds(number: int) -> None:
    plan = PLANS[number]
    tally = run_plan(plan.story, **plan.cluster)
    assert tally.passed, tally.violations


@pytest.mark.parametrize("number", PLANS)
def test_a_plan_shows_its_bug(number: int) -> None:
    plan = PLANS[number]
    with planted(plan.bug) as calls:
        tally = run_plan(plan.story, **plan.cluster)
    assert not tally.passed, plan.bug.title
    assert all(calls.values()), f"not called: {calls}"
