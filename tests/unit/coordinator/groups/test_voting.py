import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.coordinator.groups.states import MOVES, GroupState
from barnabas.coordinator.groups.subscription import subscribed_topics
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
