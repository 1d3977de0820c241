"""Answers to JoinGroup and SyncGroup, for who asks now and for who waits. Pure."""

from barnabas.coordinator.groups.group import Group
from barnabas.coordinator.groups.member import Member, Waiting
from barnabas.coordinator.groups.sessions import restart_session
from barnabas.coordinator.groups.turn import Turn
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from barnabas.protocol.messages.sync_group import SyncGroupResponse

NO_MEMBER_ID = ""
_NULL_PROTOCOL_SINCE = 7


def join_error(version: int, member_id: str, error: ErrorCode) -> JoinGroupResponse:
    """Before version 7 a protocol name could not be null (KIP-559)."""
    name = None if version >= _NULL_PROTOCOL_SINCE else ""
    return JoinGroupResponse(error_code=error, protocol_name=name, member_id=member_id)


def joined(group: Group, member: Member, *, leader_id: str | None = None) -> JoinGroupResponse:
    """The present generation as one member is told of it; only its leader learns who else there is.

    `leader_id` is told in place of the leader where the member must not take itself for one.
    """
    told = group.leader_id if leader_id is None else leader_id
    assert told is not None, f"group {group.group_id} has members and no leader"
    return JoinGroupResponse(
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=told,
        member_id=member.member_id,
        members=_everybody(group) if told == member.member_id else [],
    )


def _everybody(group: Group) -> list[JoinGroupResponseMember]:
    assert group.protocol_name is not None, f"group {group.group_id} has formed no generation"
    return [
        JoinGroupResponseMember(each.member_id, each.group_instance_id, each.metadata(group.protocol_name))
        for each in group.members.values()
    ]


def synced(group: Group, assignment: bytes) -> SyncGroupResponse:
    """What one member consumes in the present generation."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=assignment
    )


def sync_error(error: ErrorCode) -> SyncGroupResponse:
    """Without an assignment."""
    return SyncGroupResponse(error_code=error)


def fail_join(group: Group, member: Member, error: ErrorCode, turn: Turn, *, told_id: str) -> None:
    """Answer a parked JoinGroup, if there is one; `told_id` is the member id that the client hears."""
    waiting = group.take_join(member)
    if waiting is not None:
        turn.reply(waiting.ticket, join_error(waiting.version, told_id, error))


def fail_sync(member: Member, error: ErrorCode, turn: Turn) -> bool:
    """Answer a parked SyncGroup, and say whether there was one."""
    ticket, member.sync = member.sync, None
    if ticket is not None:
        turn.reply(ticket, sync_error(error))
    return ticket is not None


def park_join(group: Group, member: Member, waiting: Waiting, turn: Turn) -> None:
    """The member waits for the next generation; an earlier request of it, of a client that tries again, does not."""
    fail_join(group, member, ErrorCode.REBALANCE_IN_PROGRESS, turn, told_id=member.member_id)
    group.park_join(member, waiting)
    restart_session(group, member, turn)
