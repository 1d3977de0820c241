"""The rules of KIP-227: who gets a session, what an epoch must be, who makes room."""

import random

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerEpoch, TopicPartition
from broker.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    FetchPlan,
    FetchSession,
    FetchSessions,
    FollowerLine,
    WantedPartition,
)
from tests.support.clock import ManualClock


def wanted(*numbers: int, offset: int = 0) -> list[WantedPartition]:
    return [WantedPartition(TopicPartition("t", number), fetch_offset=offset, max_bytes=100) for number in numbers]


class Client:
    """Sends what a client of one cache sends."""

    def __init__(self, sessions: FetchSessions) -> None:
        self.sessions = sessions

    def fetch(
        self,
        session_id: int,
        epoch: int,
        partitions: list[WantedPartition],
        forgotten: tuple[int, ...] = (),
        *,
        follower: bool = False,
    ) -> FetchPlan:
        return self.sessions.plan(
            session_id=session_id,
            session_epoch=epoch,
            wanted=partitions,
            forgotten=[TopicPartition("t", number) for number in forgotten],
            is_follower=follower,
        )

    def begin(self, *numbers: int, follower: bool = False) -> FetchPlan:
        return self.fetch(0, INITIAL_EPOCH, wanted(*numbers), follower=follower)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def client(clock: ManualClock) -> Client:
    return Client(FetchSessions(max_slots=2, clock=clock, rng=random.Random(1)))


def test_a_first_fetch_opens_a_session_and_the_next_names_only_what_changed(client: Client) -> None:
    first = client.begin(0, 1)
    assert first.session_id > 0
    assert not first.is_incremental
    second = client.fetch(first.session_id, 1, wanted(1, offset=5))
    assert second.is_incremental
    assert second.session is first.session
    assert [partition.fetch_offset for partition in session_of(second).partitions.values()] == [0, 5]


def test_an_unknown_session_and_a_wrong_epoch_are_told_apart(client: Client) -> None:
    session_id = client.begin(0).session_id
    assert client.fetch(session_id + 1, 1, []).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert client.fetch(session_id, 2, []).error is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert client.fetch(session_id, 1, []).error is ErrorCode.NONE


def test_the_epoch_wraps_to_one(client: Client) -> None:
    plan = client.begin(0)
    assert plan.session is not None
    plan.session.epoch = 2**31 - 1
    assert client.fetch(plan.session_id, 2**31 - 1, []).error is ErrorCode.NONE
    assert plan.session.epoch == 1


def test_the_final_epoch_closes_the_session(client: Client) -> None:
    session_id = client.begin(0).session_id
    assert client.fetch(session_id, FINAL_EPOCH, wanted(0)).session is None
    assert client.fetch(session_id, 1, []).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert client.sessions.cached_partitions == 0


def test_a_session_that_forgot_everything_is_closed(client: Client) -> None:
    session_id = client.begin(0, 1).session_id
    assert client.fetch(session_id, 1, [], (0, 1)).session is None
    assert len(client.sessions) == 0


class Parked:
    """A request that waits, and writes down what it is told."""

    def __init__(self) -> None:
        self.heard: list[TopicPartition] = []
        self.interruptions = 0

    def partition_changed(self, topic_partition: TopicPartition) -> None:
        self.heard.append(topic_partition)

    def interrupted(self) -> None:
        self.interruptions += 1


class Replica:
    """What a session watches."""

    def __init__(self) -> None:
        self.watchers: list[FetchSession] = []

    def watch(self, watcher: FetchSession) -> None:
        self.watchers.append(watcher)

    def unwatch(self, watcher: FetchSession) -> None:
        self.watchers.remove(watcher)


def session_of(plan: FetchPlan) -> FetchSession:
    assert plan.session is not None
    return plan.session


def test_a_change_wakes_the_parked_request_and_makes_the_partition_dirty(client: Client) -> None:
    session, parked = session_of(client.begin(0, 1)), Parked()
    session.dirty.clear()
    session.park(parked)
    session.partition_changed(TopicPartition("t", 1))
    session.partition_changed(TopicPartition("t", 9))
    assert parked.heard == [TopicPartition("t", 1)]
    assert list(session.dirty) == [TopicPartition("t", 1)]
    session.unpark(parked)
    session.partition_changed(TopicPartition("t", 0))
    assert parked.heard == [TopicPartition("t", 1)]


def test_a_second_request_that_parks_interrupts_the_first_and_is_not_unparked_by_it(client: Client) -> None:
    session, first, second = session_of(client.begin(0)), Parked(), Parked()
    session.park(first)
    session.park(second)
    session.unpark(first)
    session.partition_changed(TopicPartition("t", 0))
    assert (first.heard, first.interruptions) == ([], 1)
    assert (second.heard, second.interruptions) == ([TopicPartition("t", 0)], 0)


def test_a_replica_is_watched_once_and_its_successor_in_its_place(client: Client) -> None:
    session, old, new = session_of(client.begin(0)), Replica(), Replica()
    for _ in range(2):
        session.watch(TopicPartition("t", 0), old)
    assert old.watchers == [session]
    session.watch(TopicPartition("t", 0), new)
    assert (old.watchers, new.watchers) == ([], [session])
    session.stop_watching(TopicPartition("t", 0))
    session.stop_watching(TopicPartition("t", 0))
    assert new.watchers == []


def test_forgetting_a_partition_stops_watching_it(client: Client) -> None:
    session, replicas = session_of(client.begin(0, 1)), [Replica(), Replica()]
    for number, replica in enumerate(replicas):
        session.watch(TopicPartition("t", number), replica)
    client.fetch(session.session_id, 1, [], (0,))
    assert [replica.watchers for replica in replicas] == [[], [session]]


def test_a_session_that_is_closed_watches_nothing_any_more_and_interrupts_who_waits(client: Client) -> None:
    session, replica, parked = session_of(client.begin(0)), Replica(), Parked()
    session.watch(TopicPartition("t", 0), replica)
    session.park(parked)
    client.fetch(session.session_id, FINAL_EPOCH, [])
    assert replica.watchers == []
    assert parked.interruptions == 1
    # The request that was parked reads once more.
    session.watch(TopicPartition("t", 0), replica)
    assert replica.watchers == []


def test_who_would_wait_in_a_session_that_is_closed_is_answered(client: Client) -> None:
    session, parked = session_of(client.begin(0)), Parked()
    client.fetch(session.session_id, FINAL_EPOCH, [])
    session.park(parked)
    assert parked.interruptions == 1


def test_a_partition_that_is_named_again_gets_its_new_limit(client: Client) -> None:
    session_id = client.begin(0, 1).session_id
    narrower = WantedPartition(TopicPartition("t", 0), fetch_offset=0, max_bytes=7)
    plan = client.fetch(session_id, 1, [narrower])
    assert [partition.max_bytes for partition in session_of(plan).partitions.values()] == [7, 100]


def test_the_first_epoch_with_the_id_of_a_session_opens_another_and_closes_it(client: Client) -> None:
    old = client.begin(0).session_id
    new = client.fetch(old, INITIAL_EPOCH, wanted(1, 2)).session_id
    assert client.fetch(old, 1, []).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert client.fetch(new, 1, []).error is ErrorCode.NONE
    assert (len(client.sessions), client.sessions.cached_partitions) == (1, 2)


def test_a_full_cache_serves_newcomers_without_a_session(client: Client) -> None:
    client.begin(0)
    client.begin(1)
    assert client.begin(2).session is None


def test_a_session_that_rested_two_minutes_gives_way(client: Client, clock: ManualClock) -> None:
    oldest = client.begin(0).session_id
    client.begin(1)
    clock.advance(120_001)
    assert client.begin(2).session is not None
    assert client.fetch(oldest, 1, []).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_the_session_that_rested_longest_gives_way_and_not_the_oldest(client: Client, clock: ManualClock) -> None:
    used, resting = client.begin(0).session_id, client.begin(1).session_id
    clock.advance(60_001)
    client.fetch(used, 1, [])
    clock.advance(60_001)
    assert client.begin(2).session is not None
    assert client.fetch(used, 2, []).error is ErrorCode.NONE
    assert client.fetch(resting, 1, []).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_the_partitions_of_all_sessions_are_counted(client: Client) -> None:
    first, second = client.begin(0, 1).session_id, client.begin(0, 1, 2).session_id
    assert client.sessions.cached_partitions == 5
    client.fetch(first, 1, wanted(1, 2, 3))
    assert client.sessions.cached_partitions == 7
    client.fetch(first, 2, [], (0, 9))
    assert client.sessions.cached_partitions == 6
    client.fetch(second, FINAL_EPOCH, [])
    assert client.sessions.cached_partitions == 3


def test_an_old_small_session_gives_way_to_a_larger_one_only(client: Client, clock: ManualClock) -> None:
    first, second = client.begin(0, 1, 2), client.begin(3, 4)
    for epoch in (1, 2):
        clock.advance(60_001)
        client.fetch(first.session_id, epoch, [])
        client.fetch(second.session_id, epoch, [])
    assert client.begin(5).session is None
    assert client.begin(5, 6, 7).session is not None
    assert client.fetch(second.session_id, 3, []).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert client.fetch(first.session_id, 3, []).error is ErrorCode.NONE


def test_a_follower_displaces_a_young_client_but_a_client_no_follower(client: Client) -> None:
    client.begin(0)
    client.begin(1)
    assert client.begin(2, follower=True).session is not None
    assert client.begin(3, follower=True).session is not None
    assert client.begin(4, 5, 6).session is None


def test_a_followers_session_ends_with_the_registration_of_its_broker(clock: ManualClock) -> None:
    sessions = FetchSessions(max_slots=2, clock=clock, rng=random.Random(1))

    def ask(session_id: int, epoch: int, broker_epoch: int | None) -> FetchPlan:
        registered = None if broker_epoch is None else BrokerEpoch(broker_epoch)
        return sessions.plan(
            session_id=session_id,
            session_epoch=epoch,
            wanted=wanted(0),
            forgotten=(),
            is_follower=True,
            broker_epoch=registered,
        )

    begun = ask(0, INITIAL_EPOCH, 7)
    assert ask(begun.session_id, 1, 7).is_incremental
    assert ask(begun.session_id, 2, 8).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(sessions) == 0
    unknown = ask(0, INITIAL_EPOCH, None)
    assert ask(unknown.session_id, 1, None).is_incremental
    assert ask(unknown.session_id, 2, 8).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def many(name: str, count: int) -> list[WantedPartition]:
    return [WantedPartition(TopicPartition(name, number), fetch_offset=0, max_bytes=100) for number in range(count)]


def test_clients_with_many_partitions_make_way_for_a_follower_and_those_at_rest_first(clock: ManualClock) -> None:
    client = Client(FetchSessions(max_slots=100, clock=clock, rng=random.Random(1)))
    first = client.fetch(0, INITIAL_EPOCH, many("a", 100_000)).session_id
    second = client.fetch(0, INITIAL_EPOCH, many("b", 150_000)).session_id
    client.fetch(first, 1, [])
    assert client.begin(0).session is None, "no client for another"
    follower = client.begin(0, follower=True)
    assert follower.session is not None
    assert client.fetch(second, 1, []).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert client.fetch(first, 2, []).error is ErrorCode.NONE
    assert client.fetch(follower.session_id, 1, many("c", 200_000), follower=True).is_incremental
    assert client.fetch(first, 3, []).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert client.fetch(follower.session_id, 2, many("d", 50_000), follower=True).session is None, "nor for itself"
    assert client.sessions.cached_partitions == 0


def test_a_follower_without_a_session_is_known_by_the_second_request_of_a_connection() -> None:
    line, seven, eight = FollowerLine(), BrokerEpoch(7), BrokerEpoch(8)
    assert [line.proves(1, seven), line.proves(1, seven), line.proves(1, seven)] == [False, True, True]
    assert [line.proves(1, eight), line.proves(1, eight)] == [False, True], "what came first may be of the life before"
    assert [line.proves(2, eight), line.proves(1, eight)] == [False, False]
    assert [FollowerLine().proves(1, eight)] == [False]
