import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.ids import BrokerId
from controller.placement import PlacementBroker, RackMissing, RackMode, place, place_more


class Fixed:
    """Dice that fall as told."""

    def __init__(self, *rolls: int) -> None:
        self._rolls = list(rolls)

    def randrange(self, stop: int, /) -> int:
        roll = self._rolls.pop(0)
        assert 0 <= roll < stop
        return roll


def brokers(count: int, racks: str = "") -> list[PlacementBroker]:
    """Brokers 0 to count - 1; the letters of `racks` are their racks."""
    return [PlacementBroker(BrokerId(each), racks[each] if racks else None) for each in range(count)]


def placed(count: int, *, racks: str = "", partitions: int, factor: int, start: int, shift: int) -> list[list[int]]:
    dice = Fixed(start, shift)
    assignment = place(brokers(count, racks), partitions=partitions, replication_factor=factor, random=dice)
    assert list(assignment) == list(range(partitions))
    return [list(replicas) for replicas in assignment.values()]


def test_the_first_replicas_go_round_and_the_followers_shift_after_each_round() -> None:
    # The table in the comment of Kafka's own AdminUtils: 10 partitions over 5 brokers.
    assert placed(5, partitions=10, factor=3, start=0, shift=0) == [
        [0, 1, 2],
        [1, 2, 3],
        [2, 3, 4],
        [3, 4, 0],
        [4, 0, 1],
        [0, 2, 3],
        [1, 3, 4],
        [2, 4, 0],
        [3, 0, 1],
        [4, 1, 2],
    ]


def test_the_start_and_the_first_shift_are_thrown() -> None:
    assert placed(3, partitions=3, factor=2, start=2, shift=1) == [[2, 1], [0, 2], [1, 0]]


def test_one_broker_leads_everything() -> None:
    assert placed(1, partitions=3, factor=1, start=0, shift=0) == [[0], [0], [0]]


def test_replicas_alternate_between_racks() -> None:
    # Racks a: 0, 1, 2 and b: 3, 4, 5, in turn 0 3 1 4 2 5.
    for replicas in placed(6, racks="aaabbb", partitions=12, factor=2, start=0, shift=0):
        assert len({replica // 3 for replica in replicas}) == 2


def test_with_fewer_racks_than_replicas_each_rack_is_used_before_one_is_used_twice() -> None:
    for replicas in placed(6, racks="aabbcc", partitions=6, factor=4, start=3, shift=5):
        assert {replica // 2 for replica in replicas[:3]} == {0, 1, 2}
        assert len(set(replicas)) == 4


def test_brokers_with_and_without_a_rack_do_not_mix_unless_racks_are_given_up() -> None:
    mixed = [PlacementBroker(BrokerId(0), "a"), PlacementBroker(BrokerId(1))]
    with pytest.raises(RackMissing):
        place(mixed, partitions=1, replication_factor=1, random=Fixed(0, 0))
    safe = place(mixed, partitions=2, replication_factor=2, random=Fixed(0, 0), rack_mode=RackMode.SAFE)
    assert safe == {0: (0, 1), 1: (1, 0)}


def test_more_partitions_go_on_where_the_round_stood() -> None:
    # Partition 0 stands on broker 1, so the round began there: 1 2 0, and the fourth is on 1 again.
    more = place_more(brokers(3), present=3, added=3, first_replicas=(BrokerId(1),))
    assert more == {3: (1,), 4: (2,), 5: (0,)}


def test_more_partitions_start_at_the_next_broker_when_the_first_one_is_gone() -> None:
    left = [PlacementBroker(BrokerId(each)) for each in (1, 5, 9)]
    assert place_more(left, present=1, added=1, first_replicas=(BrokerId(4),)) == {1: (9,)}
    assert place_more(left, present=1, added=1, first_replicas=(BrokerId(10),)) == {1: (5,)}


@given(
    count=st.integers(1, 9),
    rack_count=st.integers(0, 4),
    partitions=st.integers(1, 40),
    factor=st.integers(1, 9),
    seed=st.integers(0, 1000),
)
def test_placement_is_even_and_never_doubles(
    count: int, rack_count: int, partitions: int, factor: int, seed: int
) -> None:
    factor = min(factor, count)
    racks = "".join("abcd"[each % rack_count] for each in range(count)) if rack_count else ""
    dice = random.Random(seed)
    assignment = place(brokers(count, racks), partitions=partitions, replication_factor=factor, random=dice)
    leaders = [int(replicas[0]) for replicas in assignment.values()]
    assert all(len(set(replicas)) == factor for replicas in assignment.values())
    assert max(map(leaders.count, range(count))) - min(map(leaders.count, range(count))) <= 1
    if racks:
        wanted = min(factor, len(set(racks)))
        assert all(len({racks[replica] for replica in replicas}) == wanted for replicas in assignment.values())
