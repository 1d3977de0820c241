"""SyncGroup: what the leader assigns, who hears of it, and what happens when it cannot be stored."""

import pytest

from barnabas.coordinator.group_records import decode_group_value
from barnabas.protocol.error_code import ErrorCode
from tests.unit.coordinator.groups.driving import DELAY_MS, SESSION_MS, Driven


@pytest.fixture
def group() -> Driven:
    return Driven()


@pytest.fixture
def gathered(group: Driven) -> tuple[str, str]:
    """A leader and a follower of generation 1, which nobody has assigned yet."""
    leader, _ = group.new_member()
    follower, _ = group.new_member()
    group.wait(2 * DELAY_MS)
    return leader, follower


def test_followers_wait_for_what_the_leader_assigns(group: Driven, gathered: tuple[str, str]) -> None:
    leader, follower = gathered
    waiting = group.sync(follower, 1)
    assert group.is_parked(waiting)
    told = group.synced(group.sync(leader, 1, {leader: b"L", follower: b"F"}))
    assert (told.assignment, told.protocol_type, told.protocol_name) == (b"L", "consumer", "range")
    assert group.synced(waiting).assignment == b"F"
    assert group.state() == "Stable"


def test_who_asks_later_is_told_what_stands(group: Driven, gathered: tuple[str, str]) -> None:
    leader, follower = gathered
    group.sync(leader, 1, {follower: b"F"})
    for _ in range(2):
        assert group.synced(group.sync(follower, 1)).assignment == b"F"


def test_whom_the_leader_left_out_gets_nothing_and_who_is_no_member_is_left_out(
    group: Driven, gathered: tuple[str, str]
) -> None:
    leader, follower = gathered
    told = group.synced(group.sync(leader, 1, {follower: b"F", "stranger": b"S"}))
    assert (told.error_code, told.assignment) == (0, b"")
    assert [each.member_assignment for each in group.describe().members] == [b"", b"F"]


def test_an_assignment_from_a_follower_counts_for_nothing(group: Driven, gathered: tuple[str, str]) -> None:
    leader, follower = gathered
    waiting = group.sync(follower, 1, {leader: b"x", follower: b"x"})
    assert group.is_parked(waiting)
    group.sync(leader, 1, {follower: b"F"})
    assert group.synced(waiting).assignment == b"F"


def test_the_checks_come_in_kafkas_order(group: Driven, gathered: tuple[str, str]) -> None:
    leader, _ = gathered
    assert group.sync_error("x", 9, group="none", protocol_name=None) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert group.sync_error("x", 9, group="none") is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.sync_error("x", 9, protocol_name="x") is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.sync_error(leader, 9, protocol_name="x") is ErrorCode.ILLEGAL_GENERATION
    assert group.sync_error(leader, 1, protocol_name="x") is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert group.sync_error(leader, 1, protocol_type="x") is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert group.synced(group.sync(leader, 1, version=4, protocol_type=None, protocol_name=None)).error_code == 0
    group.join(leader)
    assert group.sync_error(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_client_that_tries_again_is_answered_on_its_new_request(group: Driven, gathered: tuple[str, str]) -> None:
    leader, follower = gathered
    first, second = group.sync(follower, 1), group.sync(follower, 1)
    assert group.synced(first).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    group.sync(leader, 1, {follower: b"F"})
    assert group.synced(second).assignment == b"F"


def test_a_session_does_not_end_while_its_member_waits_and_begins_anew_with_the_answer(
    group: Driven, gathered: tuple[str, str]
) -> None:
    leader, follower = gathered
    waiting = group.sync(follower, 1)
    for _ in range(3):
        group.wait(SESSION_MS - 1)
        group.heartbeat(leader, 1)
    group.sync(leader, 1)
    assert group.synced(waiting).error_code == 0
    group.wait(SESSION_MS - 1)
    assert len(group.describe().members) == 2
    group.wait(1)
    assert group.describe().members == []


def test_what_was_assigned_stands_in_the_log(group: Driven, gathered: tuple[str, str]) -> None:
    leader, follower = gathered
    group.settle([leader, follower])
    ((record,),) = group.batches
    assert record.value is not None
    stored = decode_group_value(record.value)
    assert (stored.protocol_type, stored.generation_id, stored.protocol_name) == ("consumer", 1, "range")
    assert (stored.leader_id, stored.current_state_timestamp_ms) == (leader, group.wall_ms)
    assert [(each.member_id, each.assignment) for each in stored.members] == [
        (leader, leader.encode()),
        (follower, follower.encode()),
    ]


@pytest.mark.parametrize(
    ("refused", "heard"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.MESSAGE_TOO_LARGE),
    ],
)
def test_where_the_log_refuses_it_all_hear_of_that_and_gather_again(
    group: Driven, gathered: tuple[str, str], refused: ErrorCode, heard: ErrorCode
) -> None:
    leader, follower = gathered
    waiting = group.sync(follower, 1)
    group.refuses = refused
    again = [group.sync(leader, 1, {leader: b"L", follower: b"F"}), waiting]
    assert {group.synced(each).error_code for each in again} == {heard}
    assert group.state() == "PreparingRebalance"
    assert group.heartbeat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    group.refuses = None
    tickets = [group.join(leader), group.join(follower)]
    assert [group.joined(each).generation_id for each in tickets] == [2, 2]
    group.settle([leader, follower])


def test_where_nobody_comes_back_after_a_refusal_the_group_becomes_empty(
    group: Driven, gathered: tuple[str, str]
) -> None:
    leader, _ = gathered
    group.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    group.sync(leader, 1)
    group.wait(60_000)
    assert group.state() == "Empty"


def test_after_a_refusal_nobody_is_waited_for_longer_than_a_rebalance(group: Driven, gathered: tuple[str, str]) -> None:
    leader, follower = gathered
    group.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    group.sync(leader, 1)
    group.refuses = None
    ticket = group.join(follower)
    for _ in range(12):
        assert group.is_parked(ticket)
        group.wait(5_000)
        group.heartbeat(leader, 1)
    assert group.joined(ticket).leader == follower


def test_after_a_refusal_members_have_a_whole_rebalance_to_come_back_however_long_the_leader_took(
    group: Driven, gathered: tuple[str, str]
) -> None:
    leader, follower = gathered
    for _ in range(8):
        group.wait(5_000)
        group.heartbeat(leader, 1)
        group.heartbeat(follower, 1)
    group.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    group.sync(leader, 1)
    group.refuses = None
    ticket = group.join(follower)
    for _ in range(12):
        assert group.is_parked(ticket)
        group.wait(5_000)
        group.heartbeat(leader, 1)
    assert group.joined(ticket).leader == follower


def test_where_it_is_not_committed_in_time_all_join_again_and_it_stands(
    group: Driven, gathered: tuple[str, str]
) -> None:
    leader, follower = gathered
    waiting = group.sync(follower, 1)
    group.fails = ErrorCode.REQUEST_TIMED_OUT
    again = [group.sync(leader, 1, {leader: b"L", follower: b"F"}), waiting]
    assert {group.synced(each).error_code for each in again} == {ErrorCode.REBALANCE_IN_PROGRESS}
    assert group.state() == "Stable"
    group.fails = None
    assert group.synced(group.sync(follower, 1)).assignment == b"F"
