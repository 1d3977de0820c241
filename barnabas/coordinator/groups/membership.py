"""Heartbeat, LeaveGroup, and members of whom nothing is heard any longer. Pure."""

from collections.abc import Iterable

from barnabas.coordinator.groups.group import Group
from barnabas.coordinator.groups.joining import forget_pending_member
from barnabas.coordinator.groups.rebalancing import (
    maybe_complete_join,
    maybe_prepare_rebalance,
    remove_member,
)
from barnabas.coordinator.groups.responses import NO_MEMBER_ID
from barnabas.coordinator.groups.sessions import has_ended, hear_of
from barnabas.coordinator.groups.states import GroupState
from barnabas.coordinator.groups.turn import Turn, shown
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.leave_group import MemberIdentity, MemberResponse


def heartbeat(group: Group, request: HeartbeatRequest, now_ms: int) -> ErrorCode:
    """Keep a member, and tell it of a rebalance."""
    if group.is_fenced(request.member_id, request.group_instance_id):
        return ErrorCode.FENCED_INSTANCE_ID
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    hear_of(member, now_ms)
    gathers = group.state is GroupState.PREPARING_REBALANCE
    return ErrorCode.REBALANCE_IN_PROGRESS if gathers else ErrorCode.NONE


def leave(group: Group, identities: Iterable[MemberIdentity], turn: Turn) -> list[MemberResponse]:
    """Take members out, each by its member id or its instance id; the others gather once for all that left."""
    size = len(group.members)
    responses = [
        MemberResponse(each.member_id, each.group_instance_id, _leave_one(group, each, turn)) for each in identities
    ]
    if len(group.members) < size:
        maybe_prepare_rebalance(group, turn, f"{size - len(group.members)} of {size} members leave")
    maybe_complete_join(group, turn)
    return responses


def _leave_one(group: Group, identity: MemberIdentity, turn: Turn) -> ErrorCode:
    member_id, instance_id = identity.member_id, identity.group_instance_id
    if member_id != NO_MEMBER_ID and group.is_fenced(member_id, instance_id):
        return ErrorCode.FENCED_INSTANCE_ID
    if group.is_pending(member_id) and instance_id is None:
        forget_pending_member(group, member_id, turn)
        return ErrorCode.NONE
    member = group.member_of_instance(instance_id) or group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    remove_member(group, member, turn, "it leaves")
    return ErrorCode.NONE


def on_session_timer(group: Group, member_id: str, turn: Turn) -> None:
    """The member was not heard of in time. Its timer may have outlived its name (KAFKA-8896)."""
    member = group.members.get(member_id)
    if member is not None and (member.is_new or not member.is_waiting) and has_ended(group, member, turn):
        is_joining = member.is_waiting
        why = "it joined and was not heard of since" if is_joining else f"silent for {member.session_timeout_ms} ms"
        remove_member(group, member, turn, why)
        maybe_prepare_rebalance(group, turn, f"member {shown(member.member_id)} is gone")
        maybe_complete_join(group, turn)


def on_pending_member_timer(group: Group, member_id: str, turn: Turn) -> None:
    """Nobody came back with a member id that was given out: a rebalance does not wait for it."""
    forget_pending_member(group, member_id, turn)
    maybe_complete_join(group, turn)
