"""A rebalance: the members gather, then there is a new generation. Pure.

It begins when somebody joins, leaves or changes, and is over when all known members wait for it, or after the longest
of their rebalance timeouts. A group that was Empty gathers for group.initial.rebalance.delay.ms instead, and longer
while more members keep coming to a group that never had a generation (KIP-134).

Not in Kafka 2.7: a generation whose leader does not say who consumes what within the rebalance timeout is given up, and
whoever has not asked for its assignment leaves the group (KAFKA-12890, fixed in 3.0). Else the others would wait as
long as the leader sends heartbeats.
"""

from barnabas.coordinator.group_records import encode_group_key, encode_group_value
from barnabas.coordinator.groups.group import Group
from barnabas.coordinator.groups.member import Member
from barnabas.coordinator.groups.responses import NO_MEMBER_ID, fail_join, fail_sync, joined
from barnabas.coordinator.groups.sessions import end_session, restart_session
from barnabas.coordinator.groups.states import GroupState
from barnabas.coordinator.groups.stored import to_metadata
from barnabas.coordinator.groups.turn import RebalanceTimer, Turn, shown
from barnabas.coordinator.outcome import CoordinatorRecord
from barnabas.protocol.error_code import ErrorCode

_LAST_GENERATION = 2**31 - 1


def maybe_prepare_rebalance(group: Group, turn: Turn, why: str) -> None:
    """Have the members gather, unless they do already."""
    if group.state is not GroupState.PREPARING_REBALANCE:
        prepare_rebalance(group, turn, why)


def prepare_rebalance(group: Group, turn: Turn, why: str) -> None:
    """Begin. Who waits for an assignment has to join again; `maybe_complete_join` looks whether all are there."""
    turn.note(group.group_id, f"preparing to rebalance in state {group.state}, generation {group.generation_id}: {why}")
    if group.state is GroupState.COMPLETING_REBALANCE:
        for member in group.members.values():
            if fail_sync(member, ErrorCode.REBALANCE_IN_PROGRESS, turn):
                restart_session(group, member, turn)
    was_empty = group.state is GroupState.EMPTY
    group.move_to(GroupState.PREPARING_REBALANCE, turn.wall_ms)
    group.came_during_delay = False
    delay_ms = group.rebalance_timeout_ms
    if was_empty:
        delay_ms = turn.settings.initial_rebalance_delay_ms
        group.initial_delay_left_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
    turn.set_timer(RebalanceTimer(group.group_id), delay_ms)


def maybe_complete_join(group: Group, turn: Turn) -> None:
    """Form the next generation if all have gathered. The initial delay is waited out all the same."""
    is_gathering = group.state is GroupState.PREPARING_REBALANCE and group.initial_delay_left_ms is None
    if is_gathering and group.has_gathered:
        _complete_join(group, turn)


def on_rebalance_timer(group: Group, turn: Turn) -> None:
    """Time is up, for the present delay at least."""
    if group.state is GroupState.PREPARING_REBALANCE:
        left_ms = group.initial_delay_left_ms
        if left_ms and group.came_during_delay:
            group.came_during_delay = False
            delay_ms = min(turn.settings.initial_rebalance_delay_ms, left_ms)
            group.initial_delay_left_ms = left_ms - delay_ms
            turn.set_timer(RebalanceTimer(group.group_id), delay_ms)
        else:
            _complete_join(group, turn)
    elif group.state is GroupState.COMPLETING_REBALANCE:
        _give_up_generation(group, turn)


def remove_member(group: Group, member: Member, turn: Turn, why: str) -> None:
    """The member is out; what it waits for is answered, so that its client joins again if it is still there."""
    turn.note(group.group_id, f"member {shown(member.member_id)} is removed: {why}")
    fail_join(group, member, ErrorCode.UNKNOWN_MEMBER_ID, turn, told_id=NO_MEMBER_ID)
    fail_sync(member, ErrorCode.UNKNOWN_MEMBER_ID, turn)
    end_session(group, member, turn)
    group.remove(member)


def _complete_join(group: Group, turn: Turn) -> None:
    for member in list(group.members.values()):
        if member.join is None and member.group_instance_id is None:
            remove_member(group, member, turn, f"it did not join again within {group.rebalance_timeout_ms} ms")
    group.initial_delay_left_ms = None
    if group.members and not group.awaiting_join:
        # Static members that have not come: they stay until their sessions end.
        turn.set_timer(RebalanceTimer(group.group_id), group.rebalance_timeout_ms)
        return
    group.generation_id = group.generation_id % _LAST_GENERATION + 1
    if group.members:
        _form_generation(group, turn)
    else:
        _become_empty(group, turn)


def _form_generation(group: Group, turn: Turn) -> None:
    assert group.leader_id is not None, f"group {group.group_id} has members and no leader"
    if group.members[group.leader_id].join is None:
        group.leader_id = next(member.member_id for member in group.members.values() if member.join is not None)
    group.protocol_name = group.choose_protocol()
    group.learn_subscriptions()
    group.move_to(GroupState.COMPLETING_REBALANCE, turn.wall_ms)
    how = f"protocol {shown(group.protocol_name)}, leader {shown(group.leader_id)}"
    turn.note(group.group_id, f"stabilized generation {group.generation_id} with {len(group.members)} members, {how}")
    turn.set_timer(RebalanceTimer(group.group_id), group.rebalance_timeout_ms)
    for member in group.members.values():
        waiting = group.take_join(member)
        member.owes_sync = waiting is not None
        if waiting is not None:
            member.is_new = False
            turn.reply(waiting.ticket, joined(group, member))
            restart_session(group, member, turn)


def _become_empty(group: Group, turn: Turn) -> None:
    """Nobody is left. That is written down, so that offsets begin to age and nobody waits for who is long gone.

    If it cannot be written, the last generation becomes active again after a failover and its sessions end there:
    nobody needs to hear of that.
    """
    group.protocol_name = None
    group.learn_subscriptions()
    group.move_to(GroupState.EMPTY, turn.wall_ms)
    turn.note(group.group_id, f"empty with generation {group.generation_id}")
    turn.cancel_timer(RebalanceTimer(group.group_id))
    outcome = turn.outcome
    value = encode_group_value(to_metadata(group, {}, turn.wall_ms))
    outcome.records.append(CoordinatorRecord(encode_group_key(group.group_id), value))
    assert outcome.if_failed is None, f"group {group.group_id}: two answers to a failure"
    outcome.if_failed = lambda _: outcome.replies


def _give_up_generation(group: Group, turn: Turn) -> None:
    for member in list(group.members.values()):
        if member.owes_sync:
            remove_member(group, member, turn, "it did not ask for its assignment in time")
    prepare_rebalance(group, turn, f"no assignments within {group.rebalance_timeout_ms} ms")
    maybe_complete_join(group, turn)
