"""JoinGroup: who is let into a group, and who of its members starts a rebalance. Pure.

A client that has no member id is given one; from version 4 on it has to come back with it before it counts, so that a
client that tries again does not leave a member behind at each try (KIP-394). A static member is known by its instance
id: without a member id it takes the place of whoever went by that before, and where the group is Stable and would
choose the same protocol nobody else notices (KIP-345). That is written down at once (KAFKA-10284).

Three differences to Kafka 2.7: a static member that comes back is no additional one for group.max.size, timeouts that
a member changes count, and a consumer that is started again before it joined for the second time in a cooperative
rebalance (KIP-429) starts the next one. It does not know that it has to, and what it gave up would have no owner.
"""

from collections.abc import Callable
from dataclasses import dataclass

from barnabas.coordinator.group_records import encode_group_key, encode_group_value
from barnabas.coordinator.groups.group import Group
from barnabas.coordinator.groups.member import Member, Protocols, Waiting
from barnabas.coordinator.groups.rebalancing import (
    maybe_complete_join,
    maybe_prepare_rebalance,
    remove_member,
)
from barnabas.coordinator.groups.responses import NO_MEMBER_ID, fail_join, fail_sync, join_error, joined, park_join
from barnabas.coordinator.groups.sessions import end_session, hear_of, restart_session
from barnabas.coordinator.groups.states import GroupState
from barnabas.coordinator.groups.stored import to_metadata
from barnabas.coordinator.groups.subscription import loses_partitions
from barnabas.coordinator.groups.turn import PendingMemberTimer, SessionTimer, Turn, shown
from barnabas.coordinator.outcome import CoordinatorRecord, Replies, coordinator_error
from barnabas.protocol.error_code import ErrorCode

_MEMBER_ID_REQUIRED_SINCE = 4
_LONGEST_PREFIX = 8000
"""Characters of a client id that go into a member id: with the rest it fits the 32767 bytes of a protocol's string."""


@dataclass(frozen=True, slots=True)
class Joiner:
    """What a JoinGroup request and its connection say of who joins."""

    waiting: Waiting
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols


def join(group: Group, joiner: Joiner, turn: Turn, *, new_uuid: Callable[[], str]) -> None:
    """Answer, or park the request until the next generation is formed."""
    if not _has_room(group, joiner, turn):
        _turn_away(group, joiner, turn)
    elif not group.can_take(joiner.protocol_type, joiner.protocols):
        _refuse(joiner, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, turn)
    elif joiner.member_id == NO_MEMBER_ID:
        _join_without_id(group, joiner, turn, new_uuid)
    else:
        _join_with_id(group, joiner, turn)
    maybe_complete_join(group, turn)


def forget_pending_member(group: Group, member_id: str, turn: Turn) -> None:
    """Nobody comes back with this member id, or somebody has."""
    if group.is_pending(member_id):
        group.pending_members.remove(member_id)
        turn.cancel_timer(PendingMemberTimer(group.group_id, member_id))


def _has_room(group: Group, joiner: Joiner, turn: Turn) -> bool:
    """In a rebalance the first to come stay, so that a lower limit drops the last of the present members."""
    known = group.members.get(joiner.member_id)
    if joiner.member_id == NO_MEMBER_ID:
        known = group.member_of_instance(joiner.group_instance_id)
    if group.state is GroupState.EMPTY:
        return True
    if group.state is GroupState.PREPARING_REBALANCE:
        is_in = known is not None and known.join is not None
        return is_in or group.awaiting_join < turn.settings.max_size
    return known is not None or len(group.members) < turn.settings.max_size


def _turn_away(group: Group, joiner: Joiner, turn: Turn) -> None:
    forget_pending_member(group, joiner.member_id, turn)
    member = group.members.get(joiner.member_id)
    if member is not None:
        remove_member(group, member, turn, f"the group has its {turn.settings.max_size} members")
    version = joiner.waiting.version
    turn.reply(joiner.waiting.ticket, join_error(version, NO_MEMBER_ID, ErrorCode.GROUP_MAX_SIZE_REACHED))


def _refuse(joiner: Joiner, error: ErrorCode, turn: Turn) -> None:
    turn.reply(joiner.waiting.ticket, join_error(joiner.waiting.version, joiner.member_id, error))


def _join_without_id(group: Group, joiner: Joiner, turn: Turn, new_uuid: Callable[[], str]) -> None:
    instance_id = joiner.group_instance_id
    prefix = joiner.client_id if instance_id is None else instance_id
    member_id = f"{prefix[:_LONGEST_PREFIX]}-{new_uuid()}"
    holder = group.member_of_instance(instance_id)
    if holder is not None:
        _replace_instance(group, holder, joiner, member_id, turn)
    elif instance_id is None and joiner.waiting.version >= _MEMBER_ID_REQUIRED_SINCE:
        group.pending_members.add(member_id)
        turn.set_timer(PendingMemberTimer(group.group_id, member_id), joiner.session_timeout_ms)
        response = join_error(joiner.waiting.version, member_id, ErrorCode.MEMBER_ID_REQUIRED)
        turn.reply(joiner.waiting.ticket, response)
    else:
        _add_member(group, joiner, member_id, turn)


def _join_with_id(group: Group, joiner: Joiner, turn: Turn) -> None:
    instance_id = joiner.group_instance_id
    member = group.members.get(joiner.member_id)
    if group.is_pending(joiner.member_id) and instance_id is None:
        _add_member(group, joiner, joiner.member_id, turn)
    elif group.is_fenced(joiner.member_id, instance_id):
        _refuse(joiner, ErrorCode.FENCED_INSTANCE_ID, turn)
    elif member is None or (instance_id is not None and group.member_of_instance(instance_id) is None):
        _refuse(joiner, ErrorCode.UNKNOWN_MEMBER_ID, turn)
    elif _has_news(group, member, joiner):
        _take_over(group, member, joiner)
        park_join(group, member, joiner.waiting, turn)
        maybe_prepare_rebalance(group, turn, f"member {shown(member.member_id)} joins again")
    else:
        turn.reply(joiner.waiting.ticket, joined(group, member))


def _has_news(group: Group, member: Member, joiner: Joiner) -> bool:
    """Whether a member that joins again wants a rebalance, and has not just missed the answer to its last request.

    The leader of a Stable group does: it knows what its metadata does not show, as new partitions.
    """
    if group.state is GroupState.PREPARING_REBALANCE:
        return True
    is_leader_at_rest = group.state is GroupState.STABLE and group.leader_id == member.member_id
    return is_leader_at_rest or member.protocols != joiner.protocols


def _add_member(group: Group, joiner: Joiner, member_id: str, turn: Turn) -> None:
    if group.state is GroupState.PREPARING_REBALANCE and not group.generation_id:
        group.came_during_delay = True
    member = Member(
        member_id,
        joiner.group_instance_id,
        joiner.client_id,
        joiner.client_host,
        joiner.session_timeout_ms,
        joiner.rebalance_timeout_ms,
        joiner.protocols,
        is_new=True,
    )
    forget_pending_member(group, member_id, turn)
    group.add(member, joiner.protocol_type)
    park_join(group, member, joiner.waiting, turn)
    maybe_prepare_rebalance(group, turn, f"member {shown(member_id)} joins")


def _take_over(group: Group, member: Member, joiner: Joiner) -> None:
    group.set_protocols(member, joiner.protocols)
    member.client_id = joiner.client_id
    member.client_host = joiner.client_host
    member.session_timeout_ms = joiner.session_timeout_ms
    member.rebalance_timeout_ms = joiner.rebalance_timeout_ms


def _replace_instance(group: Group, holder: Member, joiner: Joiner, member_id: str, turn: Turn) -> None:
    """The instance was started again: whoever still waits under the old member id is fenced."""
    fail_join(group, holder, ErrorCode.FENCED_INSTANCE_ID, turn, told_id=holder.member_id)
    fail_sync(holder, ErrorCode.FENCED_INSTANCE_ID, turn)
    end_session(group, holder, turn)
    before = Joiner(
        joiner.waiting,
        holder.member_id,
        holder.group_instance_id,
        holder.client_id,
        holder.client_host,
        holder.session_timeout_ms,
        holder.rebalance_timeout_ms,
        joiner.protocol_type,
        holder.protocols,
    )
    leader_id = group.leader_id
    owes_join = _owes_join(group, holder)
    group.rename(holder, member_id)
    _take_over(group, holder, joiner)
    if group.state is GroupState.STABLE and group.choose_protocol() == group.protocol_name and not owes_join:
        # The leader of before is told, by its old member id: a group at rest would not take an assignment from it.
        turn.reply(joiner.waiting.ticket, joined(group, holder, leader_id=leader_id))
        restart_session(group, holder, turn)
        _store_replacement(group, holder, before, turn)
    else:
        # Where the leader assigns already it does so to the old member id (KAFKA-9801).
        park_join(group, holder, joiner.waiting, turn)
        maybe_prepare_rebalance(group, turn, f"static member {shown(member_id)} was started again")


def _owes_join(group: Group, member: Member) -> bool:
    """Whether others wait for a member of a Stable group to give up partitions and join again (KIP-429)."""
    name = group.protocol_name
    if group.state is not GroupState.STABLE or name is None or not group.has_consumers:
        return False
    return loses_partitions(member.metadata(name), member.assignment)


def _store_replacement(group: Group, holder: Member, before: Joiner, turn: Turn) -> None:
    assignments = {member.member_id: member.assignment for member in group.members.values()}
    value = encode_group_value(to_metadata(group, assignments, turn.wall_ms))
    turn.outcome.records.append(CoordinatorRecord(encode_group_key(group.group_id), value))
    # If the log refuses the record the old member id is the one whose session goes on.
    turn.set_timer(SessionTimer(group.group_id, before.member_id), before.session_timeout_ms)
    replays = group.replays

    def take_back(error: ErrorCode) -> Replies:
        if group.replays == replays:
            group.rename(holder, before.member_id)
            _take_over(group, holder, before)
            hear_of(holder, turn.now_ms)
        code = coordinator_error(error, timed_out=ErrorCode.REBALANCE_IN_PROGRESS)
        return [(before.waiting.ticket, join_error(before.waiting.version, NO_MEMBER_ID, code))]

    turn.outcome.if_failed = take_back
