"""Who is let into a group, under which member id, and which error says why not."""

import pytest

from barnabas.coordinator.groups.settings import NEW_MEMBER_JOIN_TIMEOUT_MS, GroupSettings
from barnabas.protocol.error_code import ErrorCode
from tests.unit.coordinator.groups.driving import DELAY_MS, REBALANCE_MS, SESSION_MS, Driven


@pytest.fixture
def group() -> Driven:
    return Driven()


def small(size: int) -> Driven:
    return Driven(GroupSettings(initial_rebalance_delay_ms=DELAY_MS, max_size=size))


def test_a_dynamic_member_has_to_come_back_with_the_id_that_it_is_given(group: Driven) -> None:
    told = group.joined(group.join(client="me"))
    assert (told.error_code, told.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "me-uuid1")
    assert (told.generation_id, told.leader, told.protocol_name) == (-1, "", None)
    assert group.state() == "Empty"
    ticket = group.join(told.member_id)
    assert group.is_parked(ticket)
    assert group.state() == "PreparingRebalance"


def test_before_version_4_a_member_is_in_at_once(group: Driven) -> None:
    assert group.is_parked(group.join(version=3))
    assert [each.member_id for each in group.describe().members] == ["client-uuid1"]


def test_before_version_7_a_protocol_name_is_empty_and_not_null(group: Driven) -> None:
    assert group.joined(group.join(version=6)).protocol_name == ""
    assert group.joined(group.join(version=7)).protocol_name is None


def test_a_static_member_is_in_at_once_under_an_id_made_of_its_instance(group: Driven) -> None:
    assert group.is_parked(group.join(instance="i1"))
    (member,) = group.describe().members
    assert (member.member_id, member.group_instance_id) == ("i1-uuid1", "i1")


def test_an_id_that_nobody_comes_back_with_is_forgotten_with_its_group(group: Driven) -> None:
    told = group.joined(group.join(session_ms=8_000)).member_id
    group.wait(7_999)
    assert group.listed() == {"g": "Empty"}
    group.wait(1)
    assert group.listed() == {}
    assert group.join_error(told) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_id_can_be_come_back_with_once(group: Driven) -> None:
    member_id, first = group.new_member()
    group.wait(SESSION_MS)
    assert group.joined(first).member_id == member_id, "the timer of the given id did not remove the member"


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001, -1])
def test_a_session_timeout_out_of_bounds_is_refused(group: Driven, session_ms: int) -> None:
    assert group.join_error(session_ms=session_ms) is ErrorCode.INVALID_SESSION_TIMEOUT
    assert group.listed() == {}


def test_the_checks_come_in_kafkas_order(group: Driven) -> None:
    assert group.join_error("gone", session_ms=1) is ErrorCode.INVALID_SESSION_TIMEOUT
    assert group.join_error("gone", protocols=()) is ErrorCode.UNKNOWN_MEMBER_ID
    group.stable(1)
    assert group.join_error("gone", protocol_type="connect") is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert group.join_error("gone") is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(("protocol_type", "protocols"), [("", (("range", b""),)), ("consumer", ())])
def test_a_member_without_protocols_makes_no_group(
    group: Driven, protocol_type: str, protocols: tuple[tuple[str, bytes], ...]
) -> None:
    assert group.join_error(protocol_type=protocol_type, protocols=protocols) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert group.listed() == {}


def test_who_knows_no_protocol_that_all_know_is_refused(group: Driven) -> None:
    group.new_member(protocols=(("a", b""), ("b", b"")))
    group.new_member(protocols=(("b", b""), ("c", b"")))
    assert group.join_error(protocols=(("a", b""), ("c", b""))) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert group.join_error(protocols=(("c", b""), ("b", b""))) is ErrorCode.MEMBER_ID_REQUIRED


@pytest.mark.parametrize("protocol_type", ["connect", "sr"])
def test_groups_of_other_kinds_of_members_work_alike(group: Driven, protocol_type: str) -> None:
    group.stable(2, protocol_type=protocol_type, protocols=(("v0", b"\xff"),))
    described = group.describe()
    assert (described.group_state, described.protocol_type, described.protocol_data) == ("Stable", protocol_type, "v0")
    assert group.join_error() is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_an_empty_group_may_become_one_of_another_kind(group: Driven) -> None:
    leader, follower = group.stable()
    group.leave((leader, None), (follower, None))
    group.stable(1, protocol_type="connect", protocols=(("v0", b""),))
    assert group.describe().protocol_type == "connect"


def test_only_the_leader_is_told_who_else_there_is(group: Driven) -> None:
    leader, first = group.new_member(protocols=(("range", b"one"),))
    follower, second = group.new_member(protocols=(("other", b""), ("range", b"two")))
    group.wait(2 * DELAY_MS)
    told = group.joined(first)
    assert (told.generation_id, told.protocol_type, told.protocol_name) == (1, "consumer", "range")
    assert told.leader == leader == told.member_id
    assert [(each.member_id, each.metadata) for each in told.members] == [(leader, b"one"), (follower, b"two")]
    assert (group.joined(second).leader, group.joined(second).members) == (leader, [])


def test_a_follower_that_missed_the_answer_is_told_again(group: Driven) -> None:
    leader, follower = group.stable()
    again = group.joined(group.join(follower))
    assert (again.error_code, again.generation_id, again.leader, again.members) == (0, 1, leader, [])
    assert group.state() == "Stable"


def test_in_an_unsettled_generation_the_leader_too_is_told_again(group: Driven) -> None:
    leader, _ = group.new_member()
    follower, _ = group.new_member()
    group.wait(2 * DELAY_MS)
    assert group.state() == "CompletingRebalance"
    again = group.joined(group.join(leader))
    assert [each.member_id for each in again.members] == [leader, follower]
    assert group.joined(group.join(follower)).generation_id == 1


@pytest.mark.parametrize("settled", [True, False])
def test_changed_metadata_starts_a_rebalance(group: Driven, settled: bool) -> None:
    if settled:
        _, follower = group.stable()
    else:
        group.new_member()
        follower, _ = group.new_member()
        group.wait(2 * DELAY_MS)
    assert group.is_parked(group.join(follower, protocols=(("range", b"other"),)))
    assert group.state() == "PreparingRebalance"


def test_a_leader_that_joins_again_starts_a_rebalance(group: Driven) -> None:
    leader, _ = group.stable()
    assert group.is_parked(group.join(leader))
    assert group.state() == "PreparingRebalance"


def test_a_client_that_tries_again_is_answered_on_its_new_request(group: Driven) -> None:
    member_id, first = group.new_member()
    second = group.join(member_id)
    assert group.joined(first).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    group.wait(DELAY_MS)
    assert group.joined(second).generation_id == 1


def test_a_new_member_is_waited_for_for_five_minutes_and_then_holds_nobody_up(group: Driven) -> None:
    # KAFKA-9752: its client may be gone, and the rebalance has to come to its end all the same.
    (leader,) = group.stable(1, rebalance_ms=1_800_000)
    _, newcomer = group.new_member(rebalance_ms=1_800_000)
    for _ in range(NEW_MEMBER_JOIN_TIMEOUT_MS // 5_000):
        assert group.is_parked(newcomer)
        group.wait(5_000)
        assert group.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    told = group.joined(newcomer)
    assert (told.error_code, told.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
    assert group.joined(group.join(leader)).generation_id == 2


def test_a_new_member_is_waited_for_no_longer_whatever_is_sent_in_its_name(group: Driven) -> None:
    (leader,) = group.stable(1, rebalance_ms=1_800_000)
    member_id, newcomer = group.new_member(rebalance_ms=1_800_000)
    for _ in range(NEW_MEMBER_JOIN_TIMEOUT_MS // 5_000):
        assert group.heartbeat(member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS
        group.wait(5_000)
        group.heartbeat(leader, 1)
    assert group.joined(newcomer).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_that_only_waits_for_a_new_member_that_is_gone_goes_on_without_it(group: Driven) -> None:
    (leader,) = group.stable(1, rebalance_ms=1_800_000)
    group.new_member(rebalance_ms=1_800_000)
    group.wait(5_000)
    group.heartbeat(leader, 1)
    group.join(session_ms=400_000)  # Somebody who was given an id, and is waited for.
    ticket = group.join(leader, rebalance_ms=1_800_000)
    group.wait(NEW_MEMBER_JOIN_TIMEOUT_MS)
    assert group.is_parked(ticket)
    assert len(group.describe().members) == 1
    group.wait(105_000)
    assert len(group.joined(ticket).members) == 1


def test_a_group_takes_no_more_members_than_it_may_have() -> None:
    group = small(2)
    ids = [group.joined(group.join()).member_id for _ in range(3)]
    tickets = [group.join(each) for each in ids]
    told = group.joined(tickets[2])
    assert (told.error_code, told.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    group.wait(2 * DELAY_MS)
    assert [group.joined(each).generation_id for each in tickets[:2]] == [1, 1]
    group.settle(ids[:2])
    assert group.join_error() is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert group.joined(group.join(ids[1])).error_code == 0, "who is in may go on"


def test_after_a_load_a_group_that_is_too_large_keeps_the_first_to_come_back() -> None:
    group = small(2)
    leader, follower = group.stable()
    group.settings = GroupSettings(initial_rebalance_delay_ms=DELAY_MS, max_size=1)
    group.fail_over()
    assert group.state() == "PreparingRebalance"
    back = group.join(follower)
    assert group.is_parked(back)
    assert group.join_error(leader) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert group.joined(back).leader == follower


def test_texts_that_the_log_cannot_hold_are_refused(group: Driven) -> None:
    long = "é" * 20_000
    assert group.join_error(instance=long) is ErrorCode.INVALID_REQUEST
    assert group.join_error(protocols=((long, b""),)) is ErrorCode.INVALID_REQUEST
    assert group.join_error(protocol_type=long) is ErrorCode.INVALID_REQUEST
    # Client ids fit, and leave no room for the rest of a member id.
    group.stable(1, client="ü" * 16_000)


def test_before_version_1_the_session_timeout_bounds_a_rebalance(group: Driven) -> None:
    ticket = group.join(version=0, rebalance_ms=-1)
    group.wait(DELAY_MS)
    old = group.joined(ticket).member_id
    group.settle([old])
    _, newcomer = group.new_member(rebalance_ms=0)
    for _ in range(2):
        group.wait(SESSION_MS // 2 - 1)
        assert group.heartbeat(old, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert group.is_parked(newcomer)
    group.wait(2)
    assert group.joined(newcomer).generation_id == 2


def test_a_rebalance_waits_for_who_was_given_an_id_and_no_longer_than_its_session(group: Driven) -> None:
    leader, follower = group.stable()
    group.join(session_ms=30_000)
    tickets = [group.join(leader), group.join(follower)]
    group.wait(29_999)
    assert all(map(group.is_parked, tickets))
    group.wait(1)
    assert [group.joined(each).generation_id for each in tickets] == [2, 2]


def test_rebalance_timeouts_are_the_longest_of_the_members(group: Driven) -> None:
    members = [group.new_member(rebalance_ms=each, session_ms=200_000)[0] for each in (20_000, REBALANCE_MS, 30_000)]
    group.wait(2 * DELAY_MS)
    group.settle(members)
    ticket = group.join(members[0], rebalance_ms=20_000, session_ms=200_000)
    group.wait(REBALANCE_MS - 1)
    assert group.is_parked(ticket)
    group.wait(1)
    assert [each.member_id for each in group.joined(ticket).members] == [members[0]]
