import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.coordinator.groups.states import MOVES, GroupState
from barnabas.coordinator.groups.subscription import loses_partitions, subscribed_topics
from barnabas.coordinator.groups.voting import choose_protocol


def test_a_member_votes_for_its_first_protocol_that_all_know() -> None:
    assert choose_protocol([["sticky", "range"], ["range"], ["roundrobin", "range"]]) == "range"


def test_most_votes_win() -> None:
    assert choose_protocol([["a", "b"], ["b", "a"], ["b", "a"]]) == "b"


def test_of_two_with_as_many_votes_the_one_voted_for_first_wins() -> None:
    assert choose_protocol([["b", "a"], ["a", "b"]]) == "b"


def test_a_protocol_that_is_named_twice_is_one() -> None:
    assert choose_protocol([["a", "a", "b"], ["b", "a"], ["b", "a"]]) == "b"


@given(st.lists(st.lists(st.sampled_from("abcd")).map(lambda names: [*names, "common"]), min_size=1))
def test_what_is_chosen_is_known_to_all(ballots: list[list[str]]) -> None:
    chosen = choose_protocol(ballots)
    assert all(chosen in ballot for ballot in ballots)


@pytest.mark.parametrize("state", GroupState)
def test_a_group_can_die_in_any_state_and_then_stays_dead(state: GroupState) -> None:
    assert (GroupState.DEAD in MOVES[state]) is (state is not GroupState.DEAD)
    assert not MOVES[GroupState.DEAD]


def test_topics_are_read_from_any_version_of_a_subscription() -> None:
    version_0 = b"\0\0" + b"\0\0\0\2" + b"\0\1a" + b"\0\3bcd" + b"\xff\xff\xff\xff"
    version_9 = b"\0\x09" + version_0[2:] + b"whatever comes later"
    assert subscribed_topics(version_0) == subscribed_topics(version_9) == {"a", "bcd"}
    assert subscribed_topics(b"\0\0\0\0\0\0") == set()


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"\0\0\0\0\0\1",
        b"\0\0\0\0\0\1\0\5abc",
        b"\0\0\0\0\0\1\xff\xffabc",
        b"\0\0\xff\xff\xff\xff",
        b"\0\0\x7f\xff\xff\xff",
        b"\xff\xff\0\0\0\0",
        b"\0\0\0\0\0\1\0\1\xff",
    ],
)
def test_what_is_no_subscription_tells_nothing(metadata: bytes) -> None:
    assert subscribed_topics(metadata) is None


@given(st.binary(max_size=60))
def test_no_bytes_break_the_reader_of_subscriptions(metadata: bytes) -> None:
    subscribed_topics(metadata)


_PARTITIONS = b"\0\0\0\2" + b"\0\1a" + b"\0\0\0\2\0\0\0\0\0\0\0\1" + b"\0\1b" + b"\0\0\0\1\0\0\0\0"
_FEWER = b"\0\0\0\1" + b"\0\1a" + b"\0\0\0\1\0\0\0\1"
_TOPICS = b"\0\0\0\1" + b"\0\1a"
_NO_DATA = b"\xff\xff\xff\xff"


def test_what_is_owned_and_not_assigned_is_lost_in_any_version_that_tells_it() -> None:
    for metadata in (
        b"\0\1" + _TOPICS + _NO_DATA + _PARTITIONS,
        b"\0\1" + _TOPICS + b"\0\0\0\2ud" + _PARTITIONS,
        b"\0\x09" + _TOPICS + _NO_DATA + _PARTITIONS + b"whatever comes later",
    ):
        assert not loses_partitions(metadata, b"\0\0" + _PARTITIONS + _NO_DATA)
        assert loses_partitions(metadata, b"\0\x09" + _FEWER + _NO_DATA + b"whatever comes later")
        assert loses_partitions(metadata, b""), "the leader had nothing to say"


def test_who_owns_less_than_it_is_assigned_or_does_not_tell_loses_nothing() -> None:
    assert not loses_partitions(b"\0\1" + _TOPICS + _NO_DATA + _FEWER, b"\0\1" + _PARTITIONS)
    assert not loses_partitions(b"\0\1" + _TOPICS + _NO_DATA + b"\0\0\0\0", b"")
    assert not loses_partitions(b"\0\0" + _TOPICS + _NO_DATA + _PARTITIONS, b""), "version 0 ends before"


def test_of_what_cannot_be_read_nothing_is_lost() -> None:
    metadata = b"\0\1" + _TOPICS + _NO_DATA + _PARTITIONS
    assert not any(loses_partitions(metadata[:size], b"") for size in range(len(metadata)))
    assert not any(loses_partitions(metadata, (b"\0\0" + _FEWER)[:size]) for size in range(1, 2 + len(_FEWER)))


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_no_bytes_break_the_reader_of_what_is_owned_and_assigned(metadata: bytes, assignment: bytes) -> None:
    loses_partitions(metadata, assignment)
