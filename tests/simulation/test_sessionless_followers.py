"""Followers that the leader keeps no fetch session for, because it keeps none or has no room."""

from barnabas.simulation.plan import run_plan
from tests.simulation.mutants import stories

WITHOUT_SESSIONS = {"auto.leader.rebalance.enable": "false", "max.incremental.fetch.session.cache.slots": "0"}


def test_what_an_earlier_life_of_a_follower_had_does_not_bring_it_into_the_in_sync_set() -> None:
    tally = run_plan(stories.a_request_outlives_its_broker, settings=WITHOUT_SESSIONS)
    assert tally.violations == []
    assert tally.converged
