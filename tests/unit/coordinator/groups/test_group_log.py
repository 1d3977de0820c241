"""What of groups stands in the log, and what a coordinator makes of it that did not write it."""

import pytest

from barnabas.coordinator.group_records import (
    GroupMetadata,
    MemberMetadata,
    encode_group_key,
    encode_group_value,
)
from barnabas.coordinator.groups.group import Group
from barnabas.coordinator.groups.settings import GroupSettings
from barnabas.coordinator.outcome import CoordinatorRecord
from barnabas.protocol.error_code import ErrorCode
from tests.unit.coordinator.groups.driving import DELAY_MS, SESSION_MS, Driven


@pytest.fixture
def group() -> Driven:
    return Driven()


def stored(*members: MemberMetadata, protocol: str | None = "range", leader: str | None = "a") -> CoordinatorRecord:
    metadata = GroupMetadata("consumer", 7, protocol, leader, 123, members)
    return CoordinatorRecord(encode_group_key("g"), encode_group_value(metadata))


def member(member_id: str, instance: str | None = None) -> MemberMetadata:
    return MemberMetadata(member_id, instance, "client", "/10.0.0.1", 60_000, 10_000, b"said", b"got")


def test_members_go_on_after_a_failover_and_are_given_their_session_to_be_heard_of(group: Driven) -> None:
    leader, follower = group.stable()
    before = group.describe()
    group.fail_over()
    assert group.describe() == before
    group.wait(SESSION_MS - 1)
    assert group.heartbeat(leader, 1) is ErrorCode.NONE
    group.wait(1)
    assert [each.member_id for each in group.describe().members] == [leader]
    assert group.heartbeat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_who_waits_at_a_failover_is_named_for_its_answer(group: Driven) -> None:
    leader, follower = group.stable()
    joining = group.join(leader)
    group.fail_over()
    assert group.answers[joining] is ErrorCode.NOT_COORDINATOR
    group.join(leader)
    group.join(follower)
    syncing = group.sync(follower, 2)
    group.fail_over()
    assert group.answers[syncing] is ErrorCode.NOT_COORDINATOR


def test_a_generation_that_was_not_assigned_is_forgotten_with_its_coordinator(group: Driven) -> None:
    leader, follower = group.stable()
    group.join(leader)
    group.join(follower)
    assert group.state() == "CompletingRebalance"
    group.fail_over()
    assert group.state() == "Stable"
    assert group.sync_error(leader, 2) is ErrorCode.ILLEGAL_GENERATION
    assert group.is_parked(group.join(leader))


def test_after_a_failover_members_are_known_by_the_protocol_that_was_chosen(group: Driven) -> None:
    both = (("sticky", b"s"), ("range", b"r"))
    group.stable(2, protocols=both)
    group.fail_over()
    assert group.join_error(protocols=both[1:]) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert group.join_error(protocols=both) is ErrorCode.MEMBER_ID_REQUIRED


def test_the_last_record_of_a_group_counts(group: Driven) -> None:
    machine = group.machine
    machine.replay(stored(member("a", "i1"), member("b")), None)
    machine.replay(stored(member("b"), member("c", "i1"), leader="c"), None)
    assert [each.member_id for each in group.describe().members] == ["b", "c"]
    assert group.heartbeat("c", 7, instance="i1") is ErrorCode.NONE
    assert group.heartbeat("a", 7, instance="i1") is ErrorCode.FENCED_INSTANCE_ID
    assert group.is_parked(group.join("c", instance="i1", protocols=(("range", b"said"),)))
    machine.replay(CoordinatorRecord(encode_group_key("g"), None), None)
    assert group.listed() == {}


def test_a_group_in_the_log_without_its_leader_has_another(group: Driven) -> None:
    group.machine.replay(stored(member("a"), leader="gone"), None)
    told = group.joined(group.join("a", protocols=(("range", b"said"),)))
    assert (told.generation_id, told.leader) == (8, "a"), "as when a leader joins again"


@pytest.mark.parametrize(
    "record",
    [
        stored(member("a"), protocol=None),
        stored(member("a"), member("a")),
        stored(member("a", "i"), member("b", "i")),
        CoordinatorRecord(encode_group_key("g"), b"\0\x03"),
        CoordinatorRecord(b"\0\x63", b""),
    ],
)
def test_a_record_that_cannot_be_a_group_changes_nothing(group: Driven, record: CoordinatorRecord) -> None:
    group.machine.replay(stored(member("b")), None)
    before = group.describe()
    with pytest.raises(ValueError, match=r".+"):
        group.machine.replay(record, None)
    assert group.describe() == before


def test_a_record_without_a_time_leaves_it_open(group: Driven) -> None:
    metadata = GroupMetadata("consumer", 7, None, None, -1, ())
    group.machine.replay(CoordinatorRecord(encode_group_key("g"), encode_group_value(metadata)), None)
    assert group.machine._groups["g"].state_since_ms is None
    assert group.state() == "Empty"


def test_a_machine_that_has_lived_and_one_that_was_loaded_know_the_same() -> None:
    group = Driven(GroupSettings(initial_rebalance_delay_ms=DELAY_MS))
    tickets = [group.join(instance=each) for each in ("i1", "i2")]
    group.wait(2 * DELAY_MS)
    group.settle([group.joined(each).member_id for each in tickets])
    group.join(instance="i1")
    group.stable(2, group="h")
    group.commit(group="simple")
    lived = _known(group)
    group.fail_over()
    assert _known(group) == lived


def _known(group: Driven) -> list[object]:
    def of(each: Group) -> object:
        members = [(*_fields(member), member.assignment) for member in each.members.values()]
        return each.group_id, each.generation_id, each.protocol_name, each.leader_id, each.state, members

    return [of(each) for each in group.machine._groups.values()] + [group.listed()]


def _fields(each: object) -> tuple[object, ...]:
    names = ("member_id", "group_instance_id", "client_id", "session_timeout_ms", "rebalance_timeout_ms", "protocols")
    return tuple(getattr(each, name) for name in names)


def test_clocks_of_two_coordinators_that_differ_change_nothing(group: Driven) -> None:
    # The wall clock goes back by an hour at a failover (kafkajs #302): sessions and rebalances do not look at it.
    leader, follower = group.stable()
    group.wall_ms -= 3_600_000
    group.fail_over()
    tickets = [group.join(leader), group.join(follower)]
    assert [group.joined(each).generation_id for each in tickets] == [2, 2]
    group.settle([leader, follower])
    group.leave((leader, None), (follower, None))
    assert group.state() == "Empty"
