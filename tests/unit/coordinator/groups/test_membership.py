"""Heartbeats, leaving, sessions; how a group is described, listed and deleted."""

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.messages.describe_groups import DescribedGroupMember
from tests.unit.coordinator.groups.driving import DELAY_MS, SESSION_MS, Driven


@pytest.fixture
def group() -> Driven:
    return Driven()


def test_heartbeats_say_what_state_the_group_is_in(group: Driven) -> None:
    assert group.heartbeat("x", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    leader, _ = group.new_member()
    group.wait(DELAY_MS)
    assert group.state() == "CompletingRebalance"
    assert group.heartbeat(leader, 1) is ErrorCode.NONE
    group.settle([leader])
    assert group.heartbeat("x", 9) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.heartbeat(leader, 0) is ErrorCode.ILLEGAL_GENERATION
    assert group.heartbeat(leader, 1) is ErrorCode.NONE
    group.new_member()
    assert group.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_that_is_heard_of_stays_and_one_that_is_not_is_out(group: Driven) -> None:
    leader, _ = group.stable()
    for _ in range(3):
        group.wait(SESSION_MS - 1)
        assert group.heartbeat(leader, 1) is not ErrorCode.UNKNOWN_MEMBER_ID
        if _ == 0:
            assert len(group.describe().members) == 2
    assert [each.member_id for each in group.describe().members] == [leader]
    assert group.state() == "PreparingRebalance"
    assert group.joined(group.join(leader)).generation_id == 2


@pytest.mark.parametrize("what", ["heartbeat", "commit", "sync"])
def test_whatever_a_member_sends_keeps_its_session(group: Driven, what: str) -> None:
    (member,) = group.stable(1)
    for _ in range(3):
        group.wait(SESSION_MS - 1)
        if what == "heartbeat":
            group.heartbeat(member, 1)
        elif what == "commit":
            assert group.commit(member_id=member, generation_id=1) == {ErrorCode.NONE}
        else:
            group.sync(member, 1)
    assert group.state() == "Stable"
    group.wait(SESSION_MS)
    assert group.state() == "Empty"


def test_what_is_refused_keeps_no_session(group: Driven) -> None:
    (member,) = group.stable(1)
    group.wait(SESSION_MS - 1)
    group.heartbeat(member, 7)
    group.commit(member_id=member, generation_id=7)
    group.wait(1)
    assert group.state() == "Empty"


def test_leaving_is_answered_by_member(group: Driven) -> None:
    leader, follower = group.stable()
    pending = group.joined(group.join()).member_id
    errors = group.leave_errors((follower, None), ("x", None), (follower, None), (pending, None), (leader, "i"))
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert errors == [ErrorCode.NONE, unknown, unknown, ErrorCode.NONE, ErrorCode.NONE]
    assert group.state() == "Empty"
    assert group.leave_errors(("x", None), ("y", "i"), group="none") == [unknown, unknown]


def test_before_version_3_one_member_leaves_and_its_error_is_the_answers(group: Driven) -> None:
    leader, follower = group.stable()
    assert group.leave((follower, None), version=2).error_code == 0
    assert group.leave((follower, None), version=2).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert [each.member_id for each in group.describe().members] == [leader]


def test_several_that_leave_are_one_rebalance(group: Driven) -> None:
    members = group.stable(3)
    waiting = group.join(members[0])
    group.leave((members[1], None), (members[2], None))
    assert group.joined(waiting).generation_id == 2
    group.leave((members[0], None))
    assert group.describe().group_state == "Empty"


def test_who_waits_when_it_is_taken_out_is_told(group: Driven) -> None:
    leader, follower = group.stable()
    waiting = group.join(follower, protocols=(("range", b"new"),))
    group.leave((follower, None))
    told = group.joined(waiting)
    assert (told.error_code, told.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
    assert group.joined(group.join(leader)).generation_id == 2
    joiner, joining = group.new_member()
    group.join(leader)
    assert group.joined(joining).generation_id == 3
    syncing = group.sync(joiner, 3)
    group.leave((joiner, None))
    assert group.synced(syncing).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_leaving_an_initial_gathering_lets_it_go_on(group: Driven) -> None:
    pending = group.joined(group.join()).member_id
    assert group.leave_errors((pending, None)) == [ErrorCode.NONE]
    assert group.listed() == {}


def test_leaving_is_answered_even_if_the_empty_group_cannot_be_stored(group: Driven) -> None:
    (member,) = group.stable(1)
    group.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    assert group.leave_errors((member, None)) == [ErrorCode.NONE]
    assert group.state() == "Empty"
    # After a failover its last generation is back, and its session ends there.
    group.refuses = None
    group.fail_over()
    assert group.state() == "Stable"
    group.wait(SESSION_MS)
    assert group.state() == "Empty"


def test_a_group_at_rest_is_described_with_what_its_members_said_and_got(group: Driven) -> None:
    leader, follower = group.stable()
    described = group.describe()
    assert (described.group_state, described.protocol_type, described.protocol_data) == ("Stable", "consumer", "range")
    assert described.members == [
        DescribedGroupMember(each, None, "client", "/127.0.0.1", b"m", each.encode()) for each in (leader, follower)
    ]


def test_a_group_in_motion_is_described_without(group: Driven) -> None:
    leader, follower = group.stable()
    group.join(leader)
    described = group.describe()
    assert (described.group_state, described.protocol_data) == ("PreparingRebalance", "")
    assert described.members == [
        DescribedGroupMember(each, None, "client", "/127.0.0.1", b"", b"") for each in (leader, follower)
    ]


def test_an_unknown_group_is_described_as_dead_without_an_error(group: Driven) -> None:
    described = group.describe("none")
    assert (described.error_code, described.group_state, described.protocol_type) == (0, "Dead", "")


def test_groups_are_listed_by_state(group: Driven) -> None:
    group.stable(1, group="stable")
    group.new_member(group="gathering")
    group.commit(group="simple")
    states = {"stable": "Stable", "gathering": "PreparingRebalance", "simple": "Empty"}
    assert group.listed() == states
    assert group.listed("Empty", "Stable") == {name: states[name] for name in ("stable", "simple")}
    assert group.listed("Nonsense") == {}
    assert {state: count for state, count in group.machine.count_by_state().items() if count} == {
        "Stable": 1,
        "PreparingRebalance": 1,
        "Empty": 1,
    }


def test_only_an_empty_group_can_be_deleted(group: Driven) -> None:
    assert group.delete() is ErrorCode.GROUP_ID_NOT_FOUND
    (member,) = group.stable(1)
    assert group.delete() is ErrorCode.NON_EMPTY_GROUP
    group.leave((member, None))
    assert group.delete() is ErrorCode.NONE
    assert group.delete() is ErrorCode.GROUP_ID_NOT_FOUND
    group.fail_over()
    assert group.listed() == {}


def test_who_was_given_an_id_in_a_deleted_group_has_to_begin_anew(group: Driven) -> None:
    told = group.joined(group.join()).member_id
    assert group.delete() is ErrorCode.NONE
    assert group.join_error(told) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.batches == [], "it never stood in the log"


def test_a_deletion_that_the_log_refuses_has_not_happened(group: Driven) -> None:
    (member,) = group.stable(1)
    group.leave((member, None))
    group.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    assert group.delete() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    group.refuses = None
    assert group.listed() == {"g": "Empty"}
    assert group.delete() is ErrorCode.NONE
