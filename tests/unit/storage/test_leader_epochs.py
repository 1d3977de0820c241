"""The rules of the leader epoch cache (KIP-101, KIP-279)."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.storage.checkpoints import CorruptCheckpoint
from barnabas.storage.leader_epochs import EpochEntry, LeaderEpochs


def epochs(*entries):
    return LeaderEpochs(EpochEntry(*entry) for entry in entries)


def listed(cache):
    return [tuple(entry) for entry in cache.entries]


def test_the_same_epoch_keeps_its_first_start():
    cache = epochs((1, 5))
    assert not cache.assign(1, start_offset=9)
    assert listed(cache) == [(1, 5)]


def test_a_new_entry_removes_those_that_are_later_in_epoch_or_offset():
    cache = epochs((1, 0), (2, 5), (4, 9))
    assert cache.assign(3, start_offset=7)
    assert listed(cache) == [(1, 0), (2, 5), (3, 7)]
    assert cache.assign(5, start_offset=5)
    assert listed(cache) == [(1, 0), (5, 5)]
    assert cache.latest_epoch == 5


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),
        (0, (0, 10)),  # before the first: as if it ended where the first began
        (2, (2, 20)),
        (3, (2, 20)),  # unknown: the greatest below it
        (4, (4, 30)),
        (7, (7, 99)),  # the latest ends where the log ends
        (8, (-1, -1)),  # not known here yet
    ],
)
def test_the_end_of_an_epoch_is_where_the_next_begins(asked, answer):
    cache = epochs((2, 10), (4, 20), (7, 30))
    assert tuple(cache.end_offset_for(asked, log_end_offset=99)) == answer


def test_an_empty_cache_knows_nothing():
    assert tuple(epochs().end_offset_for(3, log_end_offset=9)) == (-1, -1)
    assert (epochs().earliest, epochs().latest, epochs().latest_epoch) == (None, None, -1)


def test_truncation_at_the_end_removes_what_begins_there_or_later():
    cache = epochs((1, 0), (2, 5), (3, 9))
    assert cache.truncate_from_end(5)
    assert listed(cache) == [(1, 0)]
    assert cache.latest_epoch == 1
    assert not cache.truncate_from_end(5)


def test_truncation_at_the_start_folds_what_ended_before():
    cache = epochs((1, 0), (2, 5), (3, 9))
    assert cache.truncate_from_start(7)
    assert listed(cache) == [(2, 7), (3, 9)]
    assert cache.truncate_from_start(9)
    assert listed(cache) == [(3, 9)]
    assert not cache.truncate_from_start(9)
    assert not cache.truncate_from_start(2)


def test_the_checkpoint_is_kafkas_text():
    assert epochs((1, 0), (20, 55)).encode() == b"0\n2\n1 0\n20 55\n"
    assert listed(LeaderEpochs.decode(b"0\n2\n1 0\n20 55\n")) == [(1, 0), (20, 55)]
    assert LeaderEpochs.decode(b"0\n0\n").entries == ()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"1\n0\n",
        b"0\n",
        b"0\n2\n1 0\n",
        b"0\n1\n1\n",
        b"0\n1\n-1 0\n",
        b"0\n2\n2 0\n1 5\n",
        b"0\nx\n",
        b"\xff\n0\n",
    ],
)
def test_a_damaged_checkpoint_is_refused(data):
    with pytest.raises(CorruptCheckpoint):
        LeaderEpochs.decode(data)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 50))))
def test_epochs_and_starts_always_rise_and_survive_a_round_trip(assigned):
    cache = LeaderEpochs()
    for epoch, start in assigned:
        cache.assign(epoch, start_offset=start)
        entries = listed(cache)
        assert all(a[0] < b[0] and a[1] < b[1] for a, b in itertools.pairwise(entries))
        assert cache.latest_epoch == (entries[-1][0] if entries else -1)
    assert listed(LeaderEpochs.decode(cache.encode())) == listed(cache)


def test_of_two_logs_the_one_that_saw_more_of_an_epoch_knows_better_where_it_began():
    ours, theirs = [EpochEntry(0, 0), EpochEntry(2, 9)], [EpochEntry(0, 3), EpochEntry(1, 5), EpochEntry(2, 7)]
    known = (EpochEntry(0, 0), EpochEntry(1, 5), EpochEntry(2, 7))
    assert LeaderEpochs.of_either(ours, theirs).entries == known
    assert LeaderEpochs.of_either(theirs, ours).entries == known
    assert LeaderEpochs.of_either(ours, []).entries == tuple(ours)
