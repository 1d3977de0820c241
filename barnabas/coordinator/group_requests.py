"""What requests about groups say, whatever version they came in, and when a group does not let a commit pass. Pure."""

from collections.abc import Sequence
from typing import Final

from barnabas.coordinator.groups.group import Group
from barnabas.coordinator.groups.joining import Joiner
from barnabas.coordinator.groups.member import Waiting
from barnabas.coordinator.groups.responses import NO_MEMBER_ID
from barnabas.coordinator.groups.states import GroupState
from barnabas.coordinator.outcome import Ticket
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.messages.join_group import JoinGroupRequest
from barnabas.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest
from barnabas.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

_REBALANCE_TIMEOUT_SINCE: Final = 1
_SEVERAL_LEAVE_SINCE: Final = 3
_MOST_BYTES: Final = 32767
_BYTES_OF_A_CHARACTER: Final = 4


def is_storable(text: str) -> bool:
    """Whether a text fits a string of the log: flexible versions of requests have room for longer ones."""
    return len(text) * _BYTES_OF_A_CHARACTER <= _MOST_BYTES or len(text.encode()) <= _MOST_BYTES


def is_group_id(group_id: str) -> bool:
    """Whether a group can have members under this name; offsets can do without any name."""
    return bool(group_id) and is_storable(group_id)


def to_joiner(ticket: Ticket, request: JoinGroupRequest, *, version: int, client_id: str, client_host: str) -> Joiner:
    """Before version 1 the session timeout is that of a rebalance as well (KIP-62)."""
    has_own_timeout = version >= _REBALANCE_TIMEOUT_SINCE
    return Joiner(
        waiting=Waiting(ticket, version),
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        client_id=client_id,
        client_host=client_host,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms if has_own_timeout else request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=tuple((each.name, each.metadata) for each in request.protocols),
    )


def to_identities(request: LeaveGroupRequest, version: int) -> list[MemberIdentity]:
    """Before version 3 one member leaves, by its member id (KIP-345)."""
    return request.members if version >= _SEVERAL_LEAVE_SINCE else [MemberIdentity(request.member_id)]


def refuse_all_leaving(identities: Sequence[MemberIdentity]) -> list[MemberResponse]:
    """Of a group that is not there nobody can leave."""
    return [MemberResponse(each.member_id, each.group_instance_id, ErrorCode.UNKNOWN_MEMBER_ID) for each in identities]


def leave_response(
    version: int, members: list[MemberResponse], *, error: ErrorCode = ErrorCode.NONE
) -> LeaveGroupResponse:
    """Before version 3 the member's error is that of the response."""
    if version >= _SEVERAL_LEAVE_SINCE:
        return LeaveGroupResponse(error_code=error, members=members)
    errors = (error, *(each.error_code for each in members))
    return LeaveGroupResponse(error_code=next(filter(None, errors), ErrorCode.NONE))


def commit_refusal(group: Group | None, request: OffsetCommitRequest) -> ErrorCode:
    """Why a group does not take offsets from this member, or NONE.

    Without a generation they come from somebody who uses the group for offsets alone, which only an Empty one allows.
    Members may commit for the generation that ends, not for one whose assignments they do not know yet.
    """
    if group is None:
        return ErrorCode.NONE if request.generation_id < 0 else ErrorCode.ILLEGAL_GENERATION
    if group.is_fenced(request.member_id, request.group_instance_id):
        return ErrorCode.FENCED_INSTANCE_ID
    if request.generation_id < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.NONE
    if request.member_id not in group.members:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    completes = group.state is GroupState.COMPLETING_REBALANCE
    return ErrorCode.REBALANCE_IN_PROGRESS if completes else ErrorCode.NONE


def txn_commit_refusal(group: Group | None, request: TxnOffsetCommitRequest) -> ErrorCode:
    """Why a group does not take a transaction's offsets, or NONE: what the request says of the member is held against
    the group, and before version 3 it says nothing (KIP-447).
    """
    members = {} if group is None else group.members
    generation_id = 0 if group is None else group.generation_id
    if group is not None and group.is_fenced(request.member_id, request.group_instance_id):
        return ErrorCode.FENCED_INSTANCE_ID
    if request.member_id != NO_MEMBER_ID and request.member_id not in members:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if request.generation_id >= 0 and request.generation_id != generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.NONE
