"""Who waits for which offset."""

from hypothesis import given
from hypothesis import strategies as st

from replication.waiters import OffsetWaiters


def test_those_at_or_below_the_offset_are_done_in_order() -> None:
    waiters: OffsetWaiters[str] = OffsetWaiters()
    for offset, name in ((5, "b"), (3, "a"), (5, "c"), (9, "d")):
        waiters.add(offset, name)
    assert waiters.pop_reached(2) == []
    assert waiters.pop_reached(5) == ["a", "b", "c"]
    assert waiters.pop_all() == ["d"]
    assert len(waiters) == 0


@given(st.lists(st.tuples(st.integers(0, 50), st.integers())), st.lists(st.integers(0, 50)))
def test_everyone_is_done_exactly_once(wanted: list[tuple[int, int]], reached: list[int]) -> None:
    waiters: OffsetWaiters[tuple[int, int]] = OffsetWaiters()
    for end_offset, name in wanted:
        waiters.add(end_offset, (end_offset, name))
    done: list[tuple[int, int]] = []
    high = -1
    for offset in reached:
        high = max(high, offset)
        now = waiters.pop_reached(offset)
        assert all(end_offset <= offset for end_offset, _ in now)
        done += now
    assert sorted(done) == sorted(entry for entry in wanted if entry[0] <= high)
    assert sorted(done + waiters.pop_all()) == sorted(wanted)
