"""When a member counts as gone: it has not been heard of for its session timeout. Pure.

While a request of a member is parked it cannot send another, and its session does not end; it begins anew with the
reply. Who joins for the first time is the exception: its client may have gone without a word, so it is waited for
NEW_MEMBER_JOIN_TIMEOUT_MS only (KAFKA-7610).

A member that waits for nothing always has a timer. A heartbeat moves only `session_ends_ms`: the timer comes due at the
time that it was set for and is then set for the rest, as hardly any session ever ends.
"""

from barnabas.coordinator.groups.group import Group
from barnabas.coordinator.groups.member import Member
from barnabas.coordinator.groups.settings import NEW_MEMBER_JOIN_TIMEOUT_MS
from barnabas.coordinator.groups.turn import SessionTimer, Turn


def restart_session(group: Group, member: Member, turn: Turn) -> None:
    """The member was heard of, or was answered."""
    key = SessionTimer(group.group_id, member.member_id)
    if member.is_waiting and not (member.join is not None and member.is_new):
        turn.cancel_timer(key)
        return
    delay_ms = NEW_MEMBER_JOIN_TIMEOUT_MS if member.is_waiting else member.session_timeout_ms
    member.session_ends_ms = turn.now_ms + delay_ms
    turn.set_timer(key, delay_ms)


def end_session(group: Group, member: Member, turn: Turn) -> None:
    """The member is gone, or goes by another member id from now on."""
    turn.cancel_timer(SessionTimer(group.group_id, member.member_id))


def hear_of(member: Member, now_ms: int) -> None:
    """The member has sent something. What it waits for meanwhile keeps its own deadline."""
    if not member.is_waiting:
        member.session_ends_ms = now_ms + member.session_timeout_ms


def has_ended(group: Group, member: Member, turn: Turn) -> bool:
    """Whether the member, whose timer came due, has not been heard of since that was set. Else it is set anew."""
    left_ms = member.session_ends_ms - turn.now_ms
    if left_ms > 0:
        turn.set_timer(SessionTimer(group.group_id, member.member_id), left_ms)
    return left_ms <= 0
