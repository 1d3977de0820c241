"""What a row of a broker's life looks at."""

import os
import time

import pytest

from bench.side_by_side.contestants import led_in_turn
from bench.side_by_side.rows.life import GreatestMemory, ends_of_leader, gaps_of, outage, without_writes
from bench.systems import System


def test_memory_that_was_given_back_counts() -> None:
    with GreatestMemory(System("this", 0, (os.getpid(),))) as memory:
        held = bytearray(os.urandom(1) * 200_000_000)
        while memory.pss_bytes < len(held):
            assert held[0] == held[-1], "it is in use"
        del held
    assert memory.pss_bytes > 200_000_000


@pytest.mark.parametrize(("partitions", "brokers", "ends"), [(30, 3, [0, 27]), (3000, 3, [0, 2997]), (2, 3, [0])])
def test_the_first_and_the_last_partition_of_a_leader(partitions: int, brokers: int, ends: list[int]) -> None:
    assert ends_of_leader(partitions, brokers) == ends
    led_by = led_in_turn(brokers, partitions, 1, first_leader=2)
    assert {tuple(led_by[number]) for number in ends} == {(2,)}
    assert not [number for number, (leader,) in led_by.items() if leader == 2 and not ends[0] <= number <= ends[-1]]


class Scripted:
    """A writer whose records are acknowledged at these seconds after it was made."""

    def __init__(self, *seconds: float) -> None:
        self.began_s = time.perf_counter()
        self._seconds = iter(seconds)

    def until_written(self) -> float:
        return self.began_s + next(self._seconds)


def test_gaps_go_from_one_acknowledged_record_to_the_next_and_writing_goes_on() -> None:
    writer = Scripted(0.6, 0.7, 1.9, 9.0, 10.5)
    gaps = gaps_of(writer, 10.0, lambda: False)
    assert [end - begin for begin, end in gaps] == pytest.approx([0.6, 0.1, 1.2, 7.1, 1.5], abs=0.05)


def test_writing_goes_on_while_the_broker_does() -> None:
    writer = Scripted(5.0, 10.5, 20.0, 21.0)
    ends = iter((True, True, False))
    assert len(gaps_of(writer, 10.0, lambda: next(ends))) == 4
    assert len(gaps_of(Scripted(60.0, 119.0, 121.0), 10.0, lambda: True)) == 3


def test_a_second_stall_counts_as_the_first_does_and_short_waits_do_not() -> None:
    gaps = [(0.0, 0.01), (0.01, 6.01), (6.01, 6.05), (6.05, 7.55), (7.55, 7.64)]
    assert without_writes(gaps) == pytest.approx(7.5)


def test_where_no_gap_is_long_the_longest_counts() -> None:
    assert without_writes([(0.0, 0.01), (0.01, 0.06), (0.06, 0.08)]) == pytest.approx(0.05)


def test_of_a_broker_that_was_killed_counts_what_comes_after_its_session() -> None:
    gaps = [(1.0, 1.5), (2.0, 6.0), (6.1, 7.0)]
    beyond, whole = outage(gaps, "waiting", is_killed=True, session_ended_s=5.0)
    assert (beyond.name, beyond.value) == ("without writes beyond the session", pytest.approx(1.9))
    assert (whole.name, whole.value) == ("time without writes", pytest.approx(5.4))


def test_a_broker_that_is_asked_to_stop_has_no_session_to_wait_for() -> None:
    (whole,) = outage([(1.0, 1.5), (2.0, 6.0)], "waiting", is_killed=False, session_ended_s=5.0)
    assert (whole.name, whole.value) == ("time without writes", pytest.approx(4.5))
