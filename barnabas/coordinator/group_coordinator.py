"""All groups of one partition of `__consumer_offsets`: their members, and what they have committed. Pure.

Requests find their group here; what becomes of them is decided in `groups/` and `offsets/`. A group exists while it has
members, offsets, or a record in the log, or while somebody was told to come back with a member id. Groups that only
have offsets have nothing but those.

The checks are Kafka 2.7's and in its order. A refused request changes nothing, not even by making a group.
"""

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterator
from typing import Final

from barnabas.coordinator.group_records import GroupKey, OffsetKey, decode_group_value, decode_key
from barnabas.coordinator.group_requests import (
    commit_refusal,
    is_storable,
    leave_response,
    refuse_all_leaving,
    to_identities,
    to_joiner,
    txn_commit_refusal,
)
from barnabas.coordinator.group_sweeps import Piece, end_of_group, expired, first_piece, of_deleted_partitions, sweep
from barnabas.coordinator.groups.description import describe, describe_unknown, list_entry
from barnabas.coordinator.groups.group import Group
from barnabas.coordinator.groups.joining import forget_pending_member, join
from barnabas.coordinator.groups.membership import heartbeat, leave, on_pending_member_timer, on_session_timer
from barnabas.coordinator.groups.rebalancing import on_rebalance_timer, prepare_rebalance
from barnabas.coordinator.groups.responses import NO_MEMBER_ID, join_error, sync_error
from barnabas.coordinator.groups.sessions import hear_of, restart_session
from barnabas.coordinator.groups.settings import GroupSettings
from barnabas.coordinator.groups.states import GroupState
from barnabas.coordinator.groups.stored import apply_metadata
from barnabas.coordinator.groups.syncing import sync
from barnabas.coordinator.groups.turn import (
    DeletionTimer,
    ExpiryTimer,
    PendingMemberTimer,
    RebalanceTimer,
    SessionTimer,
    SweepTimer,
    Turn,
)
from barnabas.coordinator.offsets.commits import (
    commit_in_transaction,
    commit_offsets,
    refuse_commit,
    refuse_commit_in_transaction,
)
from barnabas.coordinator.offsets.committed import AllOffsets, TopicPartition
from barnabas.coordinator.offsets.deletion import (
    deletable_partitions,
    delete_response,
    leaves_nothing,
    refuse_delete,
    tombstones,
)
from barnabas.coordinator.offsets.fetching import fetch_offsets
from barnabas.coordinator.offsets.settings import OffsetSettings
from barnabas.coordinator.outcome import CoordinatorRecord, Outcome, ProducerStamp, Replies, Ticket, coordinator_error
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.messages.delete_groups import DeletableGroupResult
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest
from barnabas.protocol.messages.leave_group import LeaveGroupRequest
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest
from barnabas.protocol.messages.offset_delete import OffsetDeleteRequest
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest
from barnabas.protocol.messages.sync_group import SyncGroupRequest
from barnabas.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

FORGOTTEN: Final = "forgotten, as it has neither members nor offsets"
"""What the operator's log says of such a group. Who joins it later begins it anew, in generation 1."""

_PROTOCOL_IS_NAMED_SINCE: Final = 5


class GroupCoordinator:
    """A `Machine`. Requests come with the version that they were sent in where that decides anything."""

    def __init__(
        self, settings: GroupSettings, offset_settings: OffsetSettings, *, new_uuid: Callable[[], str]
    ) -> None:
        self._settings = settings
        self._offset_settings = offset_settings
        self._new_uuid = new_uuid
        self._groups: dict[str, Group] = {}
        self._offsets = AllOffsets()
        self._sweeps: deque[Iterator[Piece]] = deque()
        self._deletions: dict[str, list[Ticket]] = {}
        """Groups whose offsets go piece by piece, and who waits for that."""

    # The log.

    def replay(self, record: CoordinatorRecord, producer: ProducerStamp | None) -> None:
        """See `Machine`."""
        key = decode_key(record.key)
        if isinstance(key, OffsetKey):
            self._offsets.replay(key, record.value, producer)
        else:
            self._replay_group(key, record.value)

    def replay_marker(self, producer_id: int, *, commit: bool) -> None:
        """See `Machine`."""
        self._offsets.replay_marker(producer_id, commit=commit)

    def _replay_group(self, key: GroupKey, value: bytes | None) -> None:
        if value is None:
            self._groups.pop(key.group_id, None)
            return
        group = self._groups.get(key.group_id) or Group(key.group_id)
        apply_metadata(group, decode_group_value(value))
        self._groups[key.group_id] = group

    def loaded(self, *, coordinator_epoch: int, now_ms: int, wall_ms: int) -> Outcome:  # noqa: ARG002 - see `Machine`.
        """Members are given their session timeout to be heard of; too large groups have to gather again."""
        turn = self._turn(now_ms, wall_ms)
        for group in self._groups.values():
            if len(group.members) > self._settings.max_size:
                prepare_rebalance(group, turn, f"it has {len(group.members)} members, {self._settings.max_size} may be")
            for member in group.members.values():
                restart_session(group, member, turn)
        turn.set_timer(ExpiryTimer(), self._offset_settings.check_interval_ms)
        return turn.outcome

    def unload(self) -> list[Ticket]:
        """See `Machine`."""
        tickets = [ticket for group in self._groups.values() for ticket in group.tickets()]
        return tickets + [ticket for waiting in self._deletions.values() for ticket in waiting]

    def contents(self) -> str:
        """See `Machine`."""
        members = sum(len(group.members) for group in self._groups.values())
        groups = len({*self._groups, *self._offsets.group_ids()})
        return f"{groups} groups with {members} members and {len(self._offsets)} committed offsets"

    def on_timer(self, key: Hashable, *, now_ms: int, wall_ms: int) -> Outcome:
        """See `Machine`."""
        turn = self._turn(now_ms, wall_ms)
        match key:
            case SessionTimer() if group := self._groups.get(key.group_id):
                on_session_timer(group, key.member_id, turn)
            case PendingMemberTimer() if group := self._groups.get(key.group_id):
                on_pending_member_timer(group, key.member_id, turn)
                self._forget_if_unused(group)
            case RebalanceTimer() if group := self._groups.get(key.group_id):
                on_rebalance_timer(group, turn)
            case ExpiryTimer():
                retention_ms = self._offset_settings.retention_ms
                self._begin_sweep(
                    sweep(self._groups, self._offsets, expired(retention_ms=retention_ms, wall_ms=wall_ms)), turn
                )
                turn.set_timer(key, self._offset_settings.check_interval_ms)
            case SweepTimer():
                self._go_on_sweeping(turn)
            case DeletionTimer():
                self._go_on_deleting(key.group_id, turn)
        return turn.outcome

    # Membership.

    def join(
        self,
        ticket: Ticket,
        request: JoinGroupRequest,
        *,
        version: int,
        client_id: str,
        client_host: str,
        now_ms: int,
        wall_ms: int,
    ) -> Outcome:
        """JoinGroup. `client_host` is what DescribeGroups shows, with Kafka's slash in front."""
        turn = self._turn(now_ms, wall_ms)
        group = self._groups.get(request.group_id)
        error = self._join_refusal(request, group)
        if error is not ErrorCode.NONE:
            turn.reply(ticket, join_error(version, request.member_id, error))
            return turn.outcome
        group = group or Group(request.group_id)
        joiner = to_joiner(ticket, request, version=version, client_id=client_id, client_host=client_host)
        join(group, joiner, turn, new_uuid=self._new_uuid)
        if group.members or group.pending_members:
            self._groups[group.group_id] = group
        return turn.outcome

    def _join_refusal(self, request: JoinGroupRequest, group: Group | None) -> ErrorCode:
        settings = self._settings
        if not settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        if request.group_id in self._deletions:
            # As Kafka says of a group that is dead: part of its offsets has gone, and nobody shall find the rest.
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if group is None and request.member_id != NO_MEMBER_ID:
            return ErrorCode.UNKNOWN_MEMBER_ID
        texts = (request.group_instance_id or "", request.protocol_type, *(each.name for each in request.protocols))
        return ErrorCode.NONE if all(map(is_storable, texts)) else ErrorCode.INVALID_REQUEST

    def sync(self, ticket: Ticket, request: SyncGroupRequest, *, version: int, now_ms: int, wall_ms: int) -> Outcome:
        """SyncGroup."""
        turn = self._turn(now_ms, wall_ms)
        is_named = request.protocol_type is not None and request.protocol_name is not None
        group = self._groups.get(request.group_id)
        if version >= _PROTOCOL_IS_NAMED_SINCE and not is_named:
            turn.reply(ticket, sync_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        elif group is None:
            turn.reply(ticket, sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
        else:
            sync(group, request, ticket, turn)
        return turn.outcome

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> ErrorCode:
        """Heartbeat. It writes nothing and tells nothing that stands in the log alone, so that it is answered at once:
        it is what most requests are.
        """
        group = self._groups.get(request.group_id)
        return ErrorCode.UNKNOWN_MEMBER_ID if group is None else heartbeat(group, request, now_ms)

    def leave(self, ticket: Ticket, request: LeaveGroupRequest, *, version: int, now_ms: int, wall_ms: int) -> Outcome:
        """LeaveGroup."""
        turn = self._turn(now_ms, wall_ms)
        identities = to_identities(request, version)
        group = self._groups.get(request.group_id)
        if group is None:
            turn.reply(ticket, leave_response(version, refuse_all_leaving(identities)))
        else:
            turn.reply(ticket, leave_response(version, leave(group, identities, turn)))
            self._forget_if_unused(group)
        return turn.outcome

    # Groups as a whole.

    def describe(self, ticket: Ticket, group_id: str) -> Outcome:
        """DescribeGroups for one group: its reply is a DescribedGroup."""
        group = self._find(group_id)
        return Outcome(replies=[(ticket, describe_unknown(group_id) if group is None else describe(group))])

    def list_groups(self, ticket: Ticket, states: Collection[str]) -> Outcome:
        """ListGroups: its reply is a list of ListedGroup; no states means all."""
        simple = (Group(group_id) for group_id in self._offsets.group_ids() if group_id not in self._groups)
        groups = [*self._groups.values(), *simple]
        found = [list_entry(group) for group in groups if not states or group.state in states]
        return Outcome(replies=[(ticket, found)])

    def delete_group(self, ticket: Ticket, group_id: str, *, now_ms: int, wall_ms: int) -> Outcome:
        """DeleteGroups for one group: its reply is a DeletableGroupResult."""
        turn = self._turn(now_ms, wall_ms)
        if self._find(group_id) is None:
            turn.reply(ticket, DeletableGroupResult(group_id, ErrorCode.GROUP_ID_NOT_FOUND))
            return turn.outcome
        self._deletions.setdefault(group_id, []).append(ticket)
        self._go_on_deleting(group_id, turn)
        return turn.outcome

    def count_by_state(self) -> dict[GroupState, int]:
        """How many groups are in each state."""
        counts = dict.fromkeys(GroupState, 0)
        for group in self._groups.values():
            counts[group.state] += 1
        counts[GroupState.EMPTY] += sum(group_id not in self._groups for group_id in self._offsets.group_ids())
        return counts

    def count_offsets(self) -> int:
        """How many offsets are committed."""
        return len(self._offsets)

    # Offsets.

    def commit(
        self, ticket: Ticket, request: OffsetCommitRequest, *, now_ms: int, wall_ms: int, accepted_us: int = 0
    ) -> Outcome:
        """OffsetCommit, version 1 and later, over a connection that was accepted at that time.

        A member that had no answer asks again over another connection and goes on there; what comes over the older one
        after that is late, and would take back what was committed since.
        """
        group = self._groups.get(request.group_id)
        member = None if group is None else group.members.get(request.member_id)
        if not is_storable(request.group_id):
            error = ErrorCode.INVALID_GROUP_ID
        else:
            error = commit_refusal(self._find(request.group_id), request)
        if error is ErrorCode.NONE and member is not None and accepted_us < member.accepted_us:
            error = ErrorCode.REQUEST_TIMED_OUT
        if error is not ErrorCode.NONE:
            return Outcome(replies=[(ticket, refuse_commit(request, error))])
        outcome = commit_offsets(ticket, request, settings=self._offset_settings, wall_ms=wall_ms)
        if member is not None:
            member.accepted_us = accepted_us
            hear_of(member, now_ms)
        return outcome

    def commit_in_transaction(self, ticket: Ticket, request: TxnOffsetCommitRequest, *, wall_ms: int) -> Outcome:
        """TxnOffsetCommit."""
        error = txn_commit_refusal(self._find(request.group_id), request)
        if error is not ErrorCode.NONE:
            return Outcome(replies=[(ticket, refuse_commit_in_transaction(request, error))])
        return commit_in_transaction(ticket, request, settings=self._offset_settings, wall_ms=wall_ms)

    def fetch(self, ticket: Ticket, request: OffsetFetchRequest) -> Outcome:
        """OffsetFetch, version 1 and later: whatever state the group is in."""
        return Outcome(replies=[(ticket, fetch_offsets(request, self._offsets.of(request.group_id)))])

    def delete_offsets(self, ticket: Ticket, request: OffsetDeleteRequest) -> Outcome:
        """OffsetDelete."""
        group = self._find(request.group_id)
        error = ErrorCode.NONE
        if group is None:
            error = ErrorCode.GROUP_ID_NOT_FOUND
        elif group.state is not GroupState.EMPTY and not group.has_consumers:
            error = ErrorCode.NON_EMPTY_GROUP
        if group is None or error is not ErrorCode.NONE:
            return Outcome(replies=[(ticket, refuse_delete(error))])
        is_subscribed = _nobody_is_subscribed if group.state is GroupState.EMPTY else group.is_subscribed
        partitions = deletable_partitions(request, is_subscribed)
        offsets = self._offsets.of(request.group_id)
        records = [] if offsets is None else tombstones(offsets, partitions)
        if records and offsets is not None and leaves_nothing(offsets, partitions):
            records += end_of_group(group.group_id, group)

        def failed(log_error: ErrorCode) -> Replies:
            return [(ticket, refuse_delete(coordinator_error(log_error)))]

        reply = delete_response(request, is_subscribed)
        return Outcome(records=records, is_divisible=True, replies=[(ticket, reply)], if_failed=failed)

    def on_partitions_deleted(self, partitions: Collection[TopicPartition], *, now_ms: int, wall_ms: int) -> Outcome:
        """Topics were deleted: no group has offsets of them any longer."""
        turn = self._turn(now_ms, wall_ms)
        self._begin_sweep(sweep(self._groups, self._offsets, of_deleted_partitions(frozenset(partitions))), turn)
        return turn.outcome

    # Work in pieces.

    def _begin_sweep(self, pieces: Iterator[Piece], turn: Turn) -> None:
        self._sweeps.append(pieces)
        if len(self._sweeps) == 1:
            turn.set_timer(SweepTimer(), 0)

    def _go_on_sweeping(self, turn: Turn) -> None:
        piece = next(self._sweeps[0], None) if self._sweeps else None
        if piece is None and self._sweeps:
            self._sweeps.popleft()
        if piece:
            for key in (decode_key(record.key) for record in piece):
                if isinstance(key, GroupKey):
                    turn.note(key.group_id, FORGOTTEN)
            turn.outcome.records += piece
            turn.outcome.is_divisible = True
            # What the log refuses now is found again by the next sweep.
            turn.outcome.if_failed = lambda _: []
        if self._sweeps:
            turn.set_timer(SweepTimer(), 0)

    def _go_on_deleting(self, group_id: str, turn: Turn) -> None:
        """The next piece of a group's offsets; with the last one goes the group, if nobody has joined meanwhile."""
        tickets = self._deletions.get(group_id)
        if not tickets:
            return
        group = self._groups.get(group_id)
        error = ErrorCode.NONE
        if group is not None and group.state is not GroupState.EMPTY:
            error = ErrorCode.NON_EMPTY_GROUP
        offsets = self._offsets.of(group_id)
        if error is ErrorCode.NONE and offsets is not None:
            piece, is_last = first_piece(offsets)
            turn.outcome.records += piece
            turn.outcome.is_divisible = True
            turn.outcome.if_failed = lambda log_error: self._end_deletion(group_id, coordinator_error(log_error))
            if not is_last:
                turn.set_timer(DeletionTimer(group_id), 0)
                return
        if error is ErrorCode.NONE and group is not None:
            for member_id in list(group.pending_members):
                forget_pending_member(group, member_id, turn)
            turn.outcome.records += end_of_group(group_id, group)
            self._forget_if_unused(group)
        replies = self._end_deletion(group_id, error)
        turn.outcome.replies += replies

        def failed(log_error: ErrorCode) -> Replies:
            code = coordinator_error(log_error)
            return [(ticket, DeletableGroupResult(group_id, code)) for ticket, _ in replies]

        turn.outcome.if_failed = failed

    def _end_deletion(self, group_id: str, error: ErrorCode) -> Replies:
        return [(ticket, DeletableGroupResult(group_id, error)) for ticket in self._deletions.pop(group_id, [])]

    # Finding groups.

    def _find(self, group_id: str) -> Group | None:
        """The group, as an empty one where there are only offsets."""
        group = self._groups.get(group_id)
        if group is None and self._offsets.of(group_id) is not None:
            return Group(group_id)
        return group

    def _forget_if_unused(self, group: Group) -> None:
        """A group that nobody joined in the end was never written down."""
        is_empty = group.state is GroupState.EMPTY and not group.pending_members
        if is_empty and not group.generation_id:
            self._groups.pop(group.group_id, None)

    def _turn(self, now_ms: int, wall_ms: int) -> Turn:
        return Turn(now_ms, wall_ms, self._settings)


def _nobody_is_subscribed(_: str) -> bool:
    return False
