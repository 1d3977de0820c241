"""The rules of a reassignment, values in and values out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.ids import BrokerId, ControllerEpoch, LeaderEpoch
from controller.reassignment import (
    confine,
    find_fault,
    is_complete,
    leaving,
    origin_of,
    target_of,
    toward,
    would_lose_records,
)
from controller.state import Assignment, Leadership

EPOCH = ControllerEpoch(9)
REPLICAS = st.permutations([1, 2, 3, 4, 5]).flatmap(lambda ids: st.integers(1, 5).map(lambda count: b(*ids[:count])))


def b(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, numbers))


def led(leader: int, epoch: int, isr: tuple[BrokerId, ...]) -> Leadership:
    return Leadership(BrokerId(leader), LeaderEpoch(epoch), isr, ControllerEpoch(3))


def test_the_target_comes_first_then_what_was_there() -> None:
    assert toward(Assignment(b(1, 2, 3)), b(4, 3, 5)) == Assignment(b(4, 3, 5, 1, 2), b(4, 5), b(1, 2))


def test_another_target_replaces_the_first_and_keeps_the_origin() -> None:
    moving = toward(Assignment(b(1, 2, 3)), b(4, 5, 6))
    assert toward(moving, b(6, 7)) == Assignment(b(6, 7, 1, 2, 3), b(6, 7), b(1, 2, 3))
    assert leaving(moving, toward(moving, b(6, 7))) == b(4, 5)


def test_a_cancellation_is_a_move_back() -> None:
    moving = toward(Assignment(b(3, 1, 2)), b(2, 5))
    assert toward(moving, origin_of(moving)).is_moving is False
    assert set(origin_of(moving)) == {1, 2, 3}


def test_another_order_of_the_same_replicas_moves_nothing() -> None:
    assert toward(Assignment(b(1, 2, 3)), b(3, 2, 1)) == Assignment(b(3, 2, 1))


@given(present=REPLICAS, first=REPLICAS, second=REPLICAS)
def test_whatever_is_asked_the_target_is_what_was_asked_last(
    present: tuple[BrokerId, ...], first: tuple[BrokerId, ...], second: tuple[BrokerId, ...]
) -> None:
    moving = toward(toward(Assignment(present), first), second)
    assert target_of(moving) == second
    assert set(origin_of(moving)) == set(present)
    assert set(moving.replicas) == set(present) | set(second)
    assert moving.is_moving == (set(present) != set(second))


@pytest.mark.parametrize(
    ("target", "fault"),
    [
        (b(), "empty"),
        (b(4, 4), "twice"),
        (b(4, -1), "invalid"),
        (b(1, 6), "[6] are not alive"),
    ],
)
def test_a_target_that_cannot_be_is_refused(target: tuple[BrokerId, ...], fault: str) -> None:
    told = find_fault(Assignment(b(1, 2, 3)), target, live=b(1, 4, 5))
    assert fault in (told or "")


def test_dead_replicas_that_are_there_already_may_stay_or_go() -> None:
    assert find_fault(Assignment(b(1, 2, 3)), b(1, 2, 4), live=b(1, 4)) is None


def test_it_is_complete_when_the_whole_target_is_in_sync_and_lives() -> None:
    moving = toward(Assignment(b(1, 2)), b(3, 4))
    assert is_complete(moving, led(1, 0, b(1, 2, 3, 4)), b(1, 2, 3, 4))
    assert is_complete(moving, led(3, 0, b(4, 3)), b(3, 4))
    assert not is_complete(moving, led(1, 0, b(1, 2, 3)), b(1, 2, 3, 4))
    assert not is_complete(moving, led(-1, 0, b(3, 4)), b(3))
    assert not is_complete(moving, None, b(3, 4))


def test_the_leader_stays_if_it_may_and_the_epoch_rises_in_any_case() -> None:
    present = led(2, 5, b(1, 2, 3))
    assert confine(present, b(3, 2), b(1, 2, 3), EPOCH) == Leadership(BrokerId(2), LeaderEpoch(6), b(2, 3), EPOCH)
    assert confine(present, b(1, 2, 3), b(1, 2, 3), EPOCH).leader_epoch == 6


def test_a_leader_that_leaves_is_followed_by_the_first_of_the_target_that_is_in_sync_and_lives() -> None:
    present = led(1, 5, b(1, 4, 5))
    assert confine(present, b(3, 4, 5), b(1, 3, 5), EPOCH) == Leadership(BrokerId(5), LeaderEpoch(6), b(4, 5), EPOCH)
    assert confine(present, b(3, 4, 5), b(1, 3), EPOCH) == Leadership(BrokerId(-1), LeaderEpoch(6), b(4, 5), EPOCH)


def test_the_whole_in_sync_set_cannot_leave() -> None:
    moving = toward(Assignment(b(1, 2)), b(3, 4))
    back = toward(moving, b(1, 2))
    assert would_lose_records(led(3, 5, b(3)), back)
    assert not would_lose_records(led(3, 5, b(3, 1)), back)
    assert not would_lose_records(None, back)
