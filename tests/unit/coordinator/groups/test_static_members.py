"""Members with an instance id (KIP-345): who they are, who is fenced, and when nobody else has to notice a restart."""

import pytest

from barnabas.client.group_protocol import Subscription, encode_assignment, encode_subscription
from barnabas.coordinator.groups.settings import GroupSettings
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from tests.unit.coordinator.groups.driving import DELAY_MS, REBALANCE_MS, SESSION_MS, Driven

FENCED = ErrorCode.FENCED_INSTANCE_ID


@pytest.fixture
def group() -> Driven:
    return Driven()


def two_static(group: Driven) -> tuple[str, str]:
    first, second = group.join(instance="i1"), group.join(instance="i2")
    group.wait(2 * DELAY_MS)
    leader, follower = group.joined(first).member_id, group.joined(second).member_id
    group.settle([leader, follower])
    return leader, follower


def test_a_restarted_follower_goes_on_without_a_rebalance(group: Driven) -> None:
    leader, follower = two_static(group)
    told = group.joined(group.join(instance="i2"))
    assert (told.error_code, told.generation_id, told.leader, told.members) == (0, 1, leader, [])
    assert told.member_id not in ("", follower)
    assert group.state() == "Stable"
    assert group.synced(group.sync(told.member_id, 1, instance="i2")).assignment == follower.encode()


def test_a_restarted_leader_is_told_its_old_id_so_that_it_does_not_assign(group: Driven) -> None:
    leader, _ = two_static(group)
    told = group.joined(group.join(instance="i1"))
    assert (told.leader, told.members) == (leader, [])
    assert told.member_id != leader
    assert group.synced(group.sync(told.member_id, 1, instance="i1")).assignment == leader.encode()
    # It leads all the same: when it joins again with its new id it starts a rebalance.
    assert group.is_parked(group.join(told.member_id, instance="i1"))


def test_a_restart_stands_in_the_log(group: Driven) -> None:
    # KAFKA-10284: else the new member is fenced by its own old id after the next failover.
    leader, follower = two_static(group)
    new_leader = group.joined(group.join(instance="i1")).member_id
    group.fail_over()
    assert [each.member_id for each in group.describe().members] == [new_leader, follower]
    assert group.heartbeat(new_leader, 1, instance="i1") is ErrorCode.NONE
    assert group.heartbeat(leader, 1, instance="i1") is FENCED
    assert group.is_parked(group.join(new_leader, instance="i1")), "it leads"


def test_a_restart_that_the_log_refuses_has_not_happened(group: Driven) -> None:
    leader, follower = two_static(group)
    group.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    told = group.joined(group.join(instance="i1", protocols=(("other", b""), ("range", b"n")), session_ms=20_000))
    assert (told.error_code, told.member_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    assert group.heartbeat(leader, 1, instance="i1") is ErrorCode.NONE
    assert [each.member_id for each in group.describe().members] == [leader, follower]
    assert group.join_error(leader, instance="i1", protocols=(("other", b""),)) is (
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    )


def test_a_session_ends_of_which_nothing_was_heard_since_the_log_refused_its_restart(group: Driven) -> None:
    leader, follower = two_static(group)
    group.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    group.join(instance="i1", session_ms=20_000)
    group.wait(SESSION_MS - 1)
    assert [each.member_id for each in group.describe().members] == [leader, follower]
    group.wait(1)
    assert group.describe().members == []


def test_a_restart_that_is_not_committed_in_time_has_happened(group: Driven) -> None:
    leader, _ = two_static(group)
    group.fails = ErrorCode.REQUEST_TIMED_OUT
    assert group.join_error(instance="i1") is ErrorCode.REBALANCE_IN_PROGRESS
    assert group.heartbeat(leader, 1, instance="i1") is FENCED


def test_a_restart_that_changes_the_choice_of_protocol_starts_a_rebalance(group: Driven) -> None:
    both = (("range", b""), ("sticky", b""))
    tickets = [group.join(instance=each, protocols=both) for each in ("i1", "i2", "i3")]
    group.wait(2 * DELAY_MS)
    group.settle([group.joined(each).member_id for each in tickets])
    group.join(instance="i2", protocols=both[::-1])
    assert group.state() == "Stable"
    ticket = group.join(instance="i3", protocols=both[::-1])
    assert group.is_parked(ticket)
    assert group.state() == "PreparingRebalance"


def test_the_old_id_is_fenced_wherever_it_shows_up(group: Driven) -> None:
    leader, follower = two_static(group)
    group.join(instance="i2")
    assert group.join_error(follower, instance="i2") is FENCED
    assert group.sync_error(follower, 1, instance="i2") is FENCED
    assert group.heartbeat(follower, 1, instance="i2") is FENCED
    assert group.leave_errors((follower, "i2")) == [FENCED]
    assert group.commit(member_id=follower, generation_id=1, instance="i2") == {FENCED}
    assert group.heartbeat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.heartbeat(leader, 1, instance="i2") is FENCED, "its neighbour's instance is not its own"


def test_who_waits_under_the_old_id_for_a_generation_is_fenced_at_once(group: Driven) -> None:
    ticket = group.join(instance="i1")
    old_id = group.describe().members[0].member_id
    again = group.join(instance="i1")
    told = group.joined(ticket)
    assert (told.error_code, told.member_id) == (FENCED, old_id)
    group.wait(DELAY_MS)
    assert len(group.joined(again).members) == 1


def test_who_waits_under_the_old_id_for_an_assignment_is_fenced_and_the_group_gathers_again(group: Driven) -> None:
    # KAFKA-9801: the leader has been told the old id, and would give the partitions to nobody.
    first, second = group.join(instance="i1"), group.join(instance="i2")
    group.wait(2 * DELAY_MS)
    leader, follower = group.joined(first).member_id, group.joined(second).member_id
    ticket = group.sync(follower, 1, instance="i2")
    again = group.join(instance="i2")
    assert group.synced(ticket).error_code == FENCED
    assert group.state() == "PreparingRebalance"
    group.join(leader, instance="i1")
    new_id = group.joined(again).member_id
    assert group.joined(again).generation_id == 2
    group.settle([leader, new_id])


def test_an_unknown_instance_with_a_member_id_has_to_begin_anew(group: Driven) -> None:
    leader, _ = two_static(group)
    assert group.join_error(leader, instance="other") is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.join_error("other", instance="other") is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_id_given_to_a_dynamic_member_is_no_static_members(group: Driven) -> None:
    told = group.joined(group.join()).member_id
    assert group.join_error(told, instance="i1") is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.leave_errors((told, "i1")) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert group.leave_errors((told, None)) == [ErrorCode.NONE]


def test_a_static_member_may_be_taken_out_by_its_instance_alone(group: Driven) -> None:
    _, follower = two_static(group)
    response = group.leave(("", "i2"), ("", "i9"))
    assert [(each.group_instance_id, each.error_code) for each in response.members] == [
        ("i2", 0),
        ("i9", ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    assert group.heartbeat(follower, 1, instance="i2") is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.state() == "PreparingRebalance"


def test_a_session_that_ends_after_a_restart_is_the_new_members(group: Driven) -> None:
    leader, follower = two_static(group)
    group.wait(SESSION_MS - 1)
    group.heartbeat(leader, 1, instance="i1")
    new_id = group.joined(group.join(instance="i2")).member_id
    # KAFKA-8896: the timer of the old id finds nobody.
    group.wait(2)
    assert [each.member_id for each in group.describe().members] == [leader, new_id]
    group.wait(SESSION_MS)
    assert new_id not in [each.member_id for each in group.describe().members]
    assert follower != new_id


def test_the_session_of_the_old_id_ends_nobodys(group: Driven) -> None:
    # KAFKA-8896, too: the new member has been heard of.
    leader, _ = two_static(group)
    new_id = group.joined(group.join(instance="i2")).member_id
    for _ in range(3):
        group.wait(SESSION_MS - 1)
        assert group.heartbeat(leader, 1, instance="i1") is ErrorCode.NONE
        assert group.heartbeat(new_id, 1, instance="i2") is ErrorCode.NONE


def test_timeouts_that_a_restart_changes_count(group: Driven) -> None:
    leader, _ = two_static(group)
    new_id = group.joined(group.join(instance="i2", session_ms=20_000)).member_id
    for _ in range(3):
        group.wait(SESSION_MS - 1)
        group.heartbeat(leader, 1, instance="i1")
        if _ == 0:
            assert new_id in [each.member_id for each in group.describe().members]
    assert new_id not in [each.member_id for each in group.describe().members]


def test_a_restart_is_no_additional_member() -> None:
    group = Driven(GroupSettings(initial_rebalance_delay_ms=DELAY_MS, max_size=2))
    two_static(group)
    assert group.joined(group.join(instance="i2")).error_code == 0
    assert group.join_error(instance="i3") is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_member_restarted_during_its_first_rebalance_is_waited_for_as_a_new_one(group: Driven) -> None:
    leader, _ = group.stable(1)[0], None
    group.join(instance="i1")
    again = group.join(instance="i1")
    for _ in range(4):
        group.wait(SESSION_MS - 1)
        group.heartbeat(leader, 1)
    assert group.is_parked(again), "its session does not end while it waits"
    group.wait(REBALANCE_MS)
    assert group.joined(again).generation_id == 2


KEPT, MOVES = TopicPartition("t", 0), TopicPartition("t", 1)


def owning(*partitions: TopicPartition) -> tuple[tuple[str, bytes], ...]:
    return (("cooperative-sticky", encode_subscription(Subscription(topics=("t",), owned=partitions))),)


def half_rebalanced(group: Driven, *, protocol_type: str = "consumer") -> tuple[str, str]:
    """A static leader that owns two partitions is to give one of them up, and a member that waits for that."""
    first = group.join(instance="i1", protocols=owning(KEPT, MOVES), protocol_type=protocol_type)
    second = group.join(instance="i2", protocols=owning(), protocol_type=protocol_type)
    group.wait(2 * DELAY_MS)
    leader, follower = group.joined(first).member_id, group.joined(second).member_id
    parts = {leader: encode_assignment([KEPT]), follower: encode_assignment([])}
    group.sync(leader, 1, parts, instance="i1", protocol_type=protocol_type, protocol_name="cooperative-sticky")
    assert group.state() == "Stable"
    return leader, follower


@pytest.mark.parametrize("moved", [False, True], ids=["same coordinator", "new coordinator"])
def test_who_is_started_again_before_it_joined_for_the_second_time_starts_the_next_rebalance(
    group: Driven, *, moved: bool
) -> None:
    # KIP-429: it does not know that it gave something up, and nobody else would ask for the generation that divides it.
    _, follower = half_rebalanced(group)
    if moved:
        group.fail_over()
    again = group.join(instance="i1", protocols=owning())
    assert group.is_parked(again)
    assert group.heartbeat(follower, 1, instance="i2") is ErrorCode.REBALANCE_IN_PROGRESS
    group.join(follower, instance="i2", protocols=owning())
    assert group.joined(again).generation_id == 2
    # Nothing is owed any more.
    group.settle([group.joined(again).member_id, follower])
    assert group.joined(group.join(instance="i1", protocols=owning())).generation_id == 2
    assert group.state() == "Stable"


def test_who_waits_for_what_another_gives_up_is_started_again_without_a_rebalance(group: Driven) -> None:
    half_rebalanced(group)
    assert group.joined(group.join(instance="i2", protocols=owning())).generation_id == 1
    assert group.state() == "Stable"


def test_what_members_of_another_kind_tell_each_other_is_not_looked_into(group: Driven) -> None:
    half_rebalanced(group, protocol_type="connect")
    told = group.joined(group.join(instance="i1", protocols=owning(), protocol_type="connect"))
    assert (told.error_code, told.generation_id) == (0, 1)
    assert group.state() == "Stable"


def test_who_does_not_know_the_former_protocol_any_more_may_be_started_again_in_the_rebalance(group: Driven) -> None:
    both = (("range", b""), ("sticky", b""))
    tickets = [group.join(instance=each, protocols=both) for each in ("i1", "i2")]
    group.wait(2 * DELAY_MS)
    leader, follower = (group.joined(each).member_id for each in tickets)
    group.settle([leader, follower])
    group.join(leader, instance="i1", protocols=both[1:])
    again = group.join(instance="i1", protocols=both[1:])
    group.join(follower, instance="i2", protocols=both)
    assert (group.joined(again).generation_id, group.joined(again).protocol_name) == (2, "sticky")
