"""Scripted plans on whole brokers: each holds on the shipped code, and fails where its bug is put back."""

import pytest

from barnabas.simulation.plan import run_plan
from tests.simulation.mutants.catalogue import OTHER_PLANS, PLANS
from tests.simulation.mutants.mutant import Plan, planted

ALL: dict[int | str, Plan] = {**PLANS, **OTHER_PLANS}


@pytest.mark.parametrize("name", ALL)
def test_a_plan_holds(name: int | str) -> None:
    plan = ALL[name]
    tally = run_plan(plan.story, **plan.cluster)
    assert tally.passed, tally.violations


@pytest.mark.parametrize("name", ALL)
def test_a_plan_shows_its_bug(name: int | str) -> None:
    plan = ALL[name]
    with planted(plan.bug) as calls:
        tally = run_plan(plan.story, **plan.cluster)
    assert not tally.passed, plan.bug.title
    assert all(calls.values()), f"not called: {calls}"
