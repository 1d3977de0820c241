"""Every order of a few actions on two replicas: all holds, and a bug that is put back is found by the shortest way."""

from collections.abc import Mapping

import pytest

from barnabas.simulation.replica_model import ReplicaModel
from barnabas.simulation.replica_search import BUDGET, search
from tests.simulation.mutants.catalogue import MODEL
from tests.simulation.mutants.mutant import planted

_NOTHING: Mapping[str, int] = dict.fromkeys((name for name, bound in BUDGET.items() if bound is not None), 0)
CRASHES = {**BUDGET, **_NOTHING, "learn": 0, "append": 1, "crash": 1, "restart": 1, "expire": 1, "register": 1}
ELECTIONS = {**BUDGET, **_NOTHING, "learn": 0, "append": 2, "prefer": 1, "move": 1}
IN_SYNC_CHANGES = {**BUDGET, **_NOTHING, "learn": 0, "append": 1, "check_lag": 1, "tick": 1, "expire": 1}
_MOST = 60_000


def a_model(min_in_sync: int) -> ReplicaModel:
    return ReplicaModel(brokers=2, min_in_sync=min_in_sync, most_records=2)


@pytest.mark.parametrize("min_in_sync", [1, 2])
@pytest.mark.parametrize("budget", [CRASHES, ELECTIONS, IN_SYNC_CHANGES], ids=["crashes", "elections", "in-sync"])
def test_whatever_the_order_the_rules_hold(budget: Mapping[str, int | None], min_in_sync: int) -> None:
    found = search(a_model(min_in_sync), most_states=_MOST, budget=budget)
    assert found.path is None, found
    assert found.is_complete
    assert found.states > 300


@pytest.mark.parametrize(("number", "actions"), [(2, 7), (3, 10), (7, 6), (19, 3)])
def test_the_shortest_way_to_a_bug_is_found(number: int, actions: int) -> None:
    with planted(MODEL[number]):
        found = search(a_model(2), most_states=_MOST, budget=ELECTIONS)
    assert found.path is not None
    assert len(found.path) == actions, found.path
