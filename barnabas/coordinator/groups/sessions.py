"""When a member counts as gone: it has not been heard of for its session timeout. Pure.

While a request of a member is parked it cannot send another, and its session does not end; it begins anew with the
reply. Who joins for the first time is the exception: its client may have gone without a word, so it is waited for
NEW_MEMBER_JOIN_TIMEOUT_MS only (KAFKA-7610).
"""

from barnabas.coordinator.groups.group import Group
from barnabas.coordinator.groups.member import Member
from barnabas.coordinator.groups.settings import NEW_MEMBER_JOIN_TIMEOUT_MS
from barnabas.coordinator.groups.turn import SessionTimer, Turn


def restart_session(group: Group, member: Member, turn: Turn) -> None:
    """The member was heard of, or was answered."""
    key = SessionTimer(group.group_id, member.member_id)
    if member.join is not None and member.is_new:
        turn.set_timer(key, NEW_MEMBER_JOIN_TIMEOUT_MS)
    elif member.is_waiting:
        turn.cancel_timer(key)
    else:
        turn.set_timer(key, member.session_timeout_ms)


def end_session(group: Group, member: Member, turn: Turn) -> None:
    """The member is gone, or goes by another member id from now on."""
    turn.cancel_timer(SessionTimer(group.group_id, member.member_id))


def hear_of(group: Group, member: Member, turn: Turn) -> None:
    """The member has sent something. What it waits for meanwhile keeps its own deadline."""
    if not member.is_waiting:
        restart_session(group, member, turn)
