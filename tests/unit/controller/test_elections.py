import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.ids import BrokerId, ControllerEpoch, LeaderEpoch
from controller.elections import elect, elect_first
from controller.state import Leadership

EPOCH = ControllerEpoch(9)


def ids(numbers: Sequence[int]) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, numbers))


def led(leader: int, isr: Sequence[int]) -> Leadership:
    return Leadership(BrokerId(leader), LeaderEpoch(4), ids(isr), ControllerEpoch(3))


def elected(
    replicas: Sequence[int], present: Leadership, live: Sequence[int], *, unclean: bool = False
) -> tuple[int, list[int]] | None:
    leadership = elect(ids(replicas), present, ids(live), EPOCH, unclean=unclean)
    if leadership is None:
        return None
    assert (leadership.leader_epoch, leadership.controller_epoch) == (5, EPOCH)
    return leadership.leader, list(leadership.isr)


def test_a_new_partition_is_led_by_its_first_live_replica_and_all_live_ones_are_in_sync() -> None:
    assert elect_first(ids([3, 1, 2]), ids([1, 2]), EPOCH) == Leadership(
        BrokerId(1), LeaderEpoch(0), ids([1, 2]), EPOCH
    )


def test_a_new_partition_without_a_live_replica_gets_nothing() -> None:
    assert elect_first(ids([3]), ids([1, 2]), EPOCH) is None


@pytest.mark.parametrize(
    ("present", "live", "after"),
    [
        pytest.param(led(1, [1, 2, 3]), [1, 2, 3], None, id="nothing happened"),
        pytest.param(led(1, [1, 2, 3]), [1, 2, 3, 7], None, id="somebody else came"),
        pytest.param(led(1, [1, 2, 3]), [2, 3], (2, [2, 3]), id="the leader went"),
        pytest.param(led(2, [3, 2, 1]), [1, 3], (1, [3, 1]), id="the assignment chooses, not the order in sync"),
        pytest.param(led(1, [1, 3]), [2, 3], (3, [3]), id="who is not in sync does not lead"),
        pytest.param(led(1, [1, 2, 3]), [1, 3], (1, [1, 3]), id="a follower went"),
        pytest.param(led(1, [1, 2]), [3], (-1, [1, 2]), id="nobody in sync is left: one of them is waited for"),
        pytest.param(led(1, [1]), [2, 3], (-1, [1]), id="the last in sync went"),
        pytest.param(led(-1, [1]), [2, 3], None, id="still nobody"),
        pytest.param(led(-1, [1, 2]), [3], None, id="still nobody of two"),
        pytest.param(led(-1, [1]), [1, 2], (1, [1]), id="the last in sync came back"),
        pytest.param(led(-1, [2]), [], None, id="no broker at all"),
    ],
)
def test_the_offline_election(present: Leadership, live: list[int], after: tuple[int, list[int]] | None) -> None:
    assert elected([1, 2, 3], present, live) == after


def test_an_unclean_election_takes_the_first_live_replica_alone() -> None:
    assert elected([1, 2, 3], led(-1, [1]), [2, 3], unclean=True) == (2, [2])
    assert elected([1, 2, 3], led(1, [1]), [4], unclean=True) == (-1, [1])
    assert elected([1, 2, 3], led(1, [1, 3]), [2, 3], unclean=True) == (3, [3])


@pytest.mark.parametrize(
    ("present", "given", "after"),
    [
        pytest.param(led(1, [1, 2, 3]), {"stale": [1]}, (2, [2, 3]), id="a leader that restarted"),
        pytest.param(led(1, [1, 2, 3]), {"stale": [2]}, (1, [1, 3]), id="a follower that restarted"),
        pytest.param(led(1, [1, 2]), {"stale": [1, 2]}, (1, [1]), id="all: the leader leads on"),
        pytest.param(led(-1, [3, 2]), {"stale": [2, 3]}, (2, [2]), id="all, without a leader"),
        pytest.param(led(-1, [2, 3]), {"stale": [2, 3], "doubtful": [2]}, (3, [3]), id="one that lost nothing"),
        pytest.param(led(-1, [2, 3]), {"stale": [2, 3], "doubtful": [2, 3]}, None, id="none that lost nothing"),
        pytest.param(led(2, [2]), {"stale": [2], "doubtful": [2]}, (-1, [2]), id="the last one is doubtful"),
        pytest.param(led(2, [2]), {"stale": [2], "doubtful": [2], "best": 1}, (1, [1]), id="the best log is known"),
        pytest.param(
            led(-1, [2]), {"stale": [2], "doubtful": [2], "unclean": True}, (2, [2]), id="unclean: in sync first"
        ),
        pytest.param(led(9, [9, 1, 2]), {"leaving": [1]}, (2, [1, 2]), id="who leaves is not chosen"),
        pytest.param(led(9, [9, 1]), {"leaving": [1]}, (1, [1]), id="but rather than nobody"),
        pytest.param(led(1, [1, 2]), {"leaving": [1]}, None, id="who leaves leads on"),
    ],
)
def test_the_offline_election_after_restarts(
    present: Leadership, given: dict[str, Any], after: tuple[int, list[int]] | None
) -> None:
    leadership = elect(ids([1, 2, 3]), present, ids([1, 2, 3]), EPOCH, **given)
    assert (None if leadership is None else (leadership.leader, list(leadership.isr))) == after
    assert leadership is None or leadership.leader_epoch == 5


REPLICAS = st.permutations([1, 2, 3, 4]).flatmap(lambda all_: st.integers(1, 4).map(lambda count: all_[:count]))


@given(replicas=REPLICAS, seed=st.randoms(use_true_random=False), live=st.sets(st.integers(1, 5)))
def test_an_election_is_clean_final_and_never_empties_the_in_sync_set(
    replicas: list[int], seed: random.Random, live: set[int]
) -> None:
    isr = seed.sample(replicas, seed.randint(1, len(replicas)))
    present = led(seed.choice([*isr, -1]), isr)
    after = elect(ids(replicas), present, ids(sorted(live)), EPOCH)
    now = after or present
    assert set(now.isr) <= set(isr)
    assert now.isr
    assert (now.leader == -1) == (not live & set(isr))
    assert now.leader == -1 or now.leader in live & set(now.isr)
    assert elect(ids(replicas), now, ids(sorted(live)), EPOCH) is None
