"""How long members gather, who is in the next generation, and who leads it."""

import pytest

from barnabas.coordinator.groups.settings import GroupSettings
from barnabas.protocol.error_code import ErrorCode
from tests.unit.coordinator.groups.driving import DELAY_MS, REBALANCE_MS, SESSION_MS, Driven


@pytest.fixture
def group() -> Driven:
    return Driven()


def test_a_new_group_waits_for_more_members(group: Driven) -> None:
    _, ticket = group.new_member()
    group.wait(DELAY_MS - 1)
    assert group.is_parked(ticket)
    group.wait(1)
    assert group.joined(ticket).generation_id == 1


def test_while_members_come_to_a_new_group_it_waits_longer(group: Driven) -> None:
    tickets = [group.new_member()[1]]
    for _ in range(3):
        group.wait(DELAY_MS - 1)
        tickets.append(group.new_member()[1])
        group.wait(1)
    assert all(map(group.is_parked, tickets))
    group.wait(DELAY_MS)
    assert {group.joined(each).generation_id for each in tickets} == {1}


def test_it_waits_no_longer_than_the_first_members_rebalance_timeout(group: Driven) -> None:
    first = group.new_member(rebalance_ms=7_000)[1]
    for _ in range(7):
        group.wait(999)
        group.new_member()
        assert group.is_parked(first)
    group.wait(7)
    assert group.joined(first).generation_id == 1


def test_a_group_that_is_empty_again_waits_the_delay_once(group: Driven) -> None:
    (member_id,) = group.stable(1)
    group.leave((member_id, None))
    _, first = group.new_member()
    group.wait(DELAY_MS - 1)
    group.new_member()
    group.wait(1)
    assert group.joined(first).generation_id == 3


def test_without_a_delay_the_first_member_is_answered_at_once() -> None:
    group = Driven(GroupSettings(initial_rebalance_delay_ms=0))
    _, ticket = group.new_member()
    group.wait(0)
    assert group.joined(ticket).generation_id == 1


def test_a_rebalance_is_over_when_all_members_have_come(group: Driven) -> None:
    leader, follower = group.stable()
    newcomer, waiting = group.new_member()
    assert group.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    first = group.join(leader)
    assert group.is_parked(first)
    last = group.join(follower)
    assert {group.joined(each).generation_id for each in (waiting, first, last)} == {2}
    assert [each.member_id for each in group.joined(first).members] == [leader, follower, newcomer]


def test_each_step_of_a_rebalance_is_a_line_of_the_log(group: Driven) -> None:
    leader, follower = group.stable()
    assert group.notes == [
        f"group g: preparing to rebalance in state Empty, generation 0: member {leader} joins",
        f"group g: stabilized generation 1 with 2 members, protocol range, leader {leader}",
        "group g: assignments of generation 1 received from its leader",
    ]
    group.notes.clear()
    group.wait(SESSION_MS - 1)
    group.heartbeat(leader, 1)
    group.wait(1)
    group.leave((leader, None))
    assert group.notes == [
        f"group g: member {follower} is removed: silent for {SESSION_MS} ms",
        f"group g: preparing to rebalance in state Stable, generation 1: member {follower} is gone",
        f"group g: member {leader} is removed: it leaves",
        "group g: empty with generation 2",
    ]


def test_a_line_of_the_log_has_room_for_no_endless_name(group: Driven) -> None:
    group.stable(1, group="g" * 30_000, client="c" * 8_000)
    assert max(map(len, group.notes)) < 1_000


def test_who_does_not_come_in_time_is_out_and_another_leads(group: Driven) -> None:
    leader, follower = group.stable(session_ms=200_000)
    ticket = group.join(follower, protocols=(("range", b"new"),), session_ms=200_000)
    group.wait(REBALANCE_MS - 1)
    assert group.is_parked(ticket)
    group.wait(1)
    told = group.joined(ticket)
    assert (told.generation_id, told.leader) == (2, follower)
    assert [(each.member_id, each.metadata) for each in told.members] == [(follower, b"new")]
    assert group.heartbeat(leader, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_static_members_that_do_not_come_stay_and_lead_no_more(group: Driven) -> None:
    first = group.join(instance="i1", session_ms=200_000)
    second = group.join(instance="i2", session_ms=200_000)
    group.wait(2 * DELAY_MS)
    i1, i2 = group.joined(first).member_id, group.joined(second).member_id
    group.settle([i1, i2])
    ticket = group.join(i2, instance="i2", protocols=(("range", b"new"),), session_ms=200_000)
    group.wait(REBALANCE_MS)
    told = group.joined(ticket)
    assert (told.leader, [each.member_id for each in told.members]) == (i2, [i1, i2])


def test_a_static_member_that_does_not_come_has_its_session_counted_on(group: Driven) -> None:
    first = group.join(instance="i1", session_ms=70_000)
    second = group.join(instance="i2", session_ms=200_000)
    group.wait(2 * DELAY_MS)
    i1, i2 = group.joined(first).member_id, group.joined(second).member_id
    group.settle([i1, i2])
    group.join(i2, instance="i2", protocols=(("range", b"new"),), session_ms=200_000)
    group.wait(REBALANCE_MS)
    assert group.state() == "CompletingRebalance"
    group.wait(10_000)
    assert [each.member_id for each in group.describe().members] == [i2]


def test_where_only_static_members_are_left_the_first_to_come_is_not_waited_for_longer_than_a_rebalance(
    group: Driven,
) -> None:
    tickets = [group.join(instance=each, session_ms=400_000) for each in ("i1", "i2", "i3")]
    group.wait(2 * DELAY_MS)
    i1, i2, i3 = (group.joined(each).member_id for each in tickets)
    group.settle([i1, i2, i3])
    group.leave((i1, "i1"))
    group.wait(2 * REBALANCE_MS)
    assert group.state() == "PreparingRebalance"
    ticket = group.join(i3, instance="i3", session_ms=400_000)
    group.wait(REBALANCE_MS)
    assert group.joined(ticket).leader == i3
    assert [each.member_id for each in group.joined(ticket).members] == [i2, i3]


def test_when_the_last_member_goes_the_group_is_empty_in_a_new_generation(group: Driven) -> None:
    leader, follower = group.stable()
    group.leave((leader, None))
    assert group.state() == "PreparingRebalance"
    group.leave((follower, None))
    described = group.describe()
    assert (described.group_state, described.protocol_type, described.members) == ("Empty", "consumer", [])
    group.fail_over()
    assert group.state() == "Empty"
    group.wait(0)
    assert group.joined(_join_and_wait(group)).generation_id == 3


def _join_and_wait(group: Driven) -> int:
    _, ticket = group.new_member()
    group.wait(DELAY_MS)
    return ticket


def test_a_member_that_goes_during_the_initial_delay_does_not_end_it(group: Driven) -> None:
    member_id, ticket = group.new_member()
    group.leave((member_id, None))
    assert group.joined(ticket).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.state() == "PreparingRebalance"
    _, other = group.new_member()
    group.wait(2 * DELAY_MS)
    assert group.joined(other).generation_id == 1


def test_who_waits_for_an_assignment_has_to_join_again_when_somebody_comes(group: Driven) -> None:
    leader, _ = group.new_member()
    follower, _ = group.new_member()
    group.wait(2 * DELAY_MS)
    ticket = group.sync(follower, 1)
    assert group.is_parked(ticket)
    group.join(leader, protocols=(("range", b"new"),))
    assert group.synced(ticket).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    # Its session begins anew, as nothing was heard of it while it waited.
    group.wait(SESSION_MS - 1)
    assert follower in [each.member_id for each in group.describe().members]
    group.wait(1)
    assert follower not in [each.member_id for each in group.describe().members]


def test_a_leader_that_never_assigns_is_not_waited_for_beyond_the_rebalance_timeout(group: Driven) -> None:
    leader, _ = group.new_member()
    follower, _ = group.new_member()
    group.wait(2 * DELAY_MS)
    ticket = group.sync(follower, 1)
    for _ in range(REBALANCE_MS // 5_000 - 1):
        group.wait(5_000)
        assert group.heartbeat(leader, 1) is ErrorCode.NONE
    assert group.is_parked(ticket)
    group.wait(5_000)
    assert group.synced(ticket).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.heartbeat(leader, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    told = group.joined(group.join(follower))
    assert (told.generation_id, told.leader) == (2, follower)


def test_a_static_member_that_was_not_told_of_a_generation_owes_it_nothing(group: Driven) -> None:
    tickets = [group.join(instance=each, session_ms=400_000) for each in ("i1", "i2")]
    group.wait(2 * DELAY_MS)
    i1, i2 = (group.joined(each).member_id for each in tickets)
    group.settle([i1, i2])
    leading = group.join(i2, instance="i2", protocols=(("range", b"new"),), session_ms=400_000)
    group.wait(REBALANCE_MS)
    assert group.joined(leading).leader == i2
    group.wait(REBALANCE_MS)
    assert [each.member_id for each in group.describe().members] == [i1]


def test_cooperative_members_rebalance_as_often_as_they_like(group: Driven) -> None:
    # The first round takes partitions away, the second gives them out (KIP-429): two plain rebalances.
    protocols = (("cooperative-sticky", b"owns nothing"), ("range", b""))
    leader, _ = group.new_member(protocols=protocols)
    group.wait(DELAY_MS)
    group.settle([leader])
    for generation_id in (2, 3, 4):
        owns = (("cooperative-sticky", b"owns %d" % generation_id), ("range", b""))
        told = group.joined(group.join(leader, protocols=owns))
        assert (told.generation_id, told.protocol_name) == (generation_id, "cooperative-sticky")
        assert told.members[0].metadata == b"owns %d" % generation_id
        group.settle([leader])
        assert group.describe().members[0].member_assignment == leader.encode()


def test_generations_begin_anew_after_the_last_number(group: Driven) -> None:
    (leader,) = group.stable(1)
    group.machine._groups["g"].generation_id = 2**31 - 1
    assert group.joined(group.join(leader)).generation_id == 1
