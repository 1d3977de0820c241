"""The side of a fetch session that fetches: what each request names."""

from hypothesis import given
from hypothesis import strategies as st

from barnabas.client.fetch_session import FetcherSession, FetchRound, Position
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import LeaderEpoch, TopicPartition

A, B, C = (TopicPartition("t", number) for number in range(3))


def at(offset: int, *, start: int = 0, epoch: int = 0) -> Position:
    return Position(offset, start, LeaderEpoch(epoch))


def session(**wanted: int) -> FetcherSession:
    made = FetcherSession()
    for name, offset in wanted.items():
        made.want({"a": A, "b": B, "c": C}[name], at(offset))
    return made


def established(**wanted: int) -> FetcherSession:
    made = session(**wanted)
    made.next_round()
    made.on_answer(ErrorCode.NONE, 77)
    return made


def ids(round_: FetchRound) -> tuple[int, int]:
    return round_.session_id, round_.session_epoch


def test_the_first_request_names_everything() -> None:
    first = session(a=1, b=2).next_round()
    assert ids(first) == (0, 0)
    assert first.named == {A: at(1), B: at(2)}


def test_an_idle_request_names_nothing() -> None:
    fetching = established(a=1, b=2)
    second = fetching.next_round()
    assert (ids(second), second.named, second.forgotten) == ((77, 1), {}, [])
    fetching.on_answer(ErrorCode.NONE, 77)
    assert ids(fetching.next_round()) == (77, 2)


def test_what_changed_is_named_once() -> None:
    fetching = established(a=1, b=2)
    fetching.want(B, at(5))
    assert fetching.next_round().named == {B: at(5)}
    fetching.on_answer(ErrorCode.NONE, 77)
    assert fetching.next_round().named == {}


def test_what_was_dropped_is_named_again_though_it_is_wanted_from_the_same_offset() -> None:
    fetching = established(a=1, b=2)
    fetching.name_again(B)
    fetching.want(B, at(2))
    assert fetching.next_round().named == {B: at(2)}
    fetching.on_answer(ErrorCode.NONE, 77)
    fetching.name_again(B)
    fetching.leave_out(B)
    round_ = fetching.next_round()
    assert (round_.named, round_.forgotten) == ({}, [B])


def test_a_start_or_an_epoch_that_changed_is_named() -> None:
    fetching = established(a=1, b=2)
    fetching.want(A, at(1, start=1))
    fetching.want(B, at(2, epoch=3))
    assert fetching.next_round().named == {A: at(1, start=1), B: at(2, epoch=3)}


def test_what_is_left_out_is_forgotten_once_and_named_when_it_comes_back() -> None:
    fetching = established(a=1, b=2)
    fetching.leave_out(A)
    round_ = fetching.next_round()
    assert (round_.named, round_.forgotten) == ({}, [A])
    fetching.on_answer(ErrorCode.NONE, 77)
    assert fetching.next_round().forgotten == []
    fetching.on_answer(ErrorCode.NONE, 77)
    fetching.want(A, at(1))
    assert fetching.next_round().named == {A: at(1)}


def test_what_comes_and_goes_between_two_requests_is_not_told() -> None:
    fetching = established(a=1)
    fetching.want(C, at(0))
    fetching.leave_out(C)
    round_ = fetching.next_round()
    assert (round_.named, round_.forgotten) == ({}, [])


def test_what_goes_and_comes_back_is_named_as_its_last_answer_may_have_been_dropped_meanwhile() -> None:
    fetching = established(a=1, b=2)
    fetching.leave_out(A)
    assert fetching.asked(A) != at(1)
    fetching.want(A, at(1))
    round_ = fetching.next_round()
    assert (round_.named, round_.forgotten) == ({A: at(1)}, [])


def test_a_change_while_a_request_is_under_way_is_told_by_the_next() -> None:
    fetching = established(a=1)
    fetching.next_round()
    fetching.want(A, at(4))
    fetching.on_answer(ErrorCode.NONE, 77)
    assert fetching.next_round().named == {A: at(4)}


def test_a_forgotten_session_begins_anew() -> None:
    fetching = established(a=1, b=2)
    fetching.leave_out(B)
    fetching.next_round()
    fetching.on_answer(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)
    round_ = fetching.next_round()
    assert (ids(round_), round_.named, round_.forgotten) == ((0, 0), {A: at(1)}, [])


def test_a_session_out_of_step_is_closed_by_the_one_that_replaces_it() -> None:
    fetching = established(a=1)
    fetching.next_round()
    fetching.on_answer(ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0)
    round_ = fetching.next_round()
    assert (ids(round_), round_.named) == ((77, 0), {A: at(1)})


def test_after_a_lost_connection_everything_is_named() -> None:
    fetching = established(a=1)
    fetching.want(A, at(9))
    fetching.next_round()
    fetching.on_failure()
    round_ = fetching.next_round()
    assert (ids(round_), round_.named) == ((77, 0), {A: at(9)})


def test_without_room_at_the_leader_each_request_names_everything() -> None:
    fetching = session(a=1)
    for _ in range(3):
        round_ = fetching.next_round()
        assert (ids(round_), round_.named) == ((0, 0), {A: at(1)})
        fetching.on_answer(ErrorCode.NONE, 0)


def test_a_session_that_the_leader_gives_up_while_it_runs_is_left() -> None:
    fetching = established(a=1)
    fetching.next_round()
    fetching.on_answer(ErrorCode.NONE, 0)
    assert ids(fetching.next_round()) == (0, 0)


def test_the_epoch_begins_again_after_the_greatest() -> None:
    fetching = established(a=1)
    fetching._epoch = 2**31 - 1
    assert ids(fetching.next_round()) == (77, 2**31 - 1)
    fetching.on_answer(ErrorCode.NONE, 77)
    assert ids(fetching.next_round()) == (77, 1)


def test_requests_are_grouped_by_topic() -> None:
    fetching = FetcherSession()
    for topic_partition in (A, TopicPartition("u", 0), B):
        fetching.want(topic_partition, at(3, start=2, epoch=5))
    topics = fetching.next_round().topics(100)
    assert [(topic.topic, [each.partition for each in topic.partitions]) for topic in topics] == [
        ("t", [0, 1]),
        ("u", [0]),
    ]
    first = topics[0].partitions[0]
    assert (first.fetch_offset, first.log_start_offset, first.current_leader_epoch) == (3, 2, 5)
    assert (first.partition_max_bytes, first.last_fetched_epoch) == (100, -1)


moves = st.lists(
    st.one_of(
        st.tuples(st.sampled_from([A, B, C]), st.one_of(st.none(), st.integers(0, 3))),
        st.sampled_from(["round", "lost", "forgotten", "no room"]),
    ),
    max_size=40,
)


@given(moves)
def test_after_each_request_the_leader_knows_exactly_what_is_wanted(history: list[object]) -> None:
    fetching = FetcherSession()
    wanted: dict[TopicPartition, Position] = {}
    told: dict[TopicPartition, Position] = {}
    for move in history:
        if isinstance(move, tuple):
            topic_partition, offset = move
            if offset is None:
                fetching.leave_out(topic_partition)
                wanted.pop(topic_partition, None)
            else:
                fetching.want(topic_partition, at(offset))
                wanted[topic_partition] = at(offset)
            continue
        round_ = fetching.next_round()
        if round_.session_epoch == 0:
            told = {}
        told |= round_.named
        for gone in round_.forgotten:
            del told[gone]
        assert told == wanted
        if move == "lost":
            fetching.on_failure()
        elif move == "forgotten":
            fetching.on_answer(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)
        else:
            fetching.on_answer(ErrorCode.NONE, 0 if move == "no room" else 7)
