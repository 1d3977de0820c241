"""SyncGroup: the leader says who consumes what, everybody learns its own part. Pure.

What the leader says is stored before anybody hears of it; then the group is Stable. Assignments for who is no member
are dropped, members that the leader left out get an empty one.
"""

from barnabas.coordinator.group_records import encode_group_key, encode_group_value
from barnabas.coordinator.groups.group import Group
from barnabas.coordinator.groups.member import Member
from barnabas.coordinator.groups.responses import fail_sync, sync_error, synced
from barnabas.coordinator.groups.sessions import hear_of, restart_session
from barnabas.coordinator.groups.states import GroupState
from barnabas.coordinator.groups.stored import to_metadata
from barnabas.coordinator.groups.turn import RebalanceTimer, Turn
from barnabas.coordinator.outcome import CoordinatorRecord, Replies, Ticket, coordinator_error
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.messages.sync_group import SyncGroupRequest


def sync(group: Group, request: SyncGroupRequest, ticket: Ticket, turn: Turn) -> None:
    """Answer, or park the request until the leader has assigned."""
    error = _refusal(group, request)
    if error is not ErrorCode.NONE:
        turn.reply(ticket, sync_error(error))
        return
    member = group.members[request.member_id]
    if group.state is GroupState.STABLE:
        member.owes_sync = False
        turn.reply(ticket, synced(group, member.assignment))
        hear_of(member, turn.now_ms)
    else:
        _park_sync(group, member, ticket, turn)
        if group.leader_id == member.member_id:
            _store_assignments(group, request, turn)


def _refusal(group: Group, request: SyncGroupRequest) -> ErrorCode:
    """In Kafka's order of checks."""
    if group.is_fenced(request.member_id, request.group_instance_id):
        return ErrorCode.FENCED_INSTANCE_ID
    if request.member_id not in group.members:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if request.protocol_type not in (None, group.protocol_type):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.protocol_name not in (None, group.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _park_sync(group: Group, member: Member, ticket: Ticket, turn: Turn) -> None:
    """An earlier request of the member, of a client that tries again, waits no longer."""
    fail_sync(member, ErrorCode.REBALANCE_IN_PROGRESS, turn)
    member.sync = ticket
    member.owes_sync = False
    restart_session(group, member, turn)


def _store_assignments(group: Group, request: SyncGroupRequest, turn: Turn) -> None:
    turn.note(group.group_id, f"assignments of generation {group.generation_id} received from its leader")
    assignments = {each.member_id: each.assignment for each in request.assignments}
    earlier = list(turn.outcome.replies)
    value = encode_group_value(to_metadata(group, assignments, turn.wall_ms))
    turn.outcome.records.append(CoordinatorRecord(encode_group_key(group.group_id), value))
    waiting: list[Ticket] = []
    for member in group.members.values():
        ticket, member.sync = member.sync, None
        if ticket is not None:
            waiting.append(ticket)
            turn.reply(ticket, synced(group, assignments.get(member.member_id, b"")))
            restart_session(group, member, turn)
    # It counts if the log refuses the record and the members have to gather again.
    turn.set_timer(RebalanceTimer(group.group_id), group.rebalance_timeout_ms)
    replays = group.replays

    def give_up(error: ErrorCode) -> Replies:
        if group.replays == replays:
            group.move_to(GroupState.PREPARING_REBALANCE, turn.wall_ms)
        code = coordinator_error(error, timed_out=ErrorCode.REBALANCE_IN_PROGRESS)
        return [*earlier, *((ticket, sync_error(code)) for ticket in waiting)]

    turn.outcome.if_failed = give_up
