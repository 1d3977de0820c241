"""A group coordinator under a manual clock, with the shard's part done by hand: replay, timers, replies."""

from dataclasses import dataclass, field
from typing import Any, TypeVar

from barnabas.coordinator.group_coordinator import GroupCoordinator
from barnabas.coordinator.groups.settings import GroupSettings
from barnabas.coordinator.offsets.settings import OffsetSettings
from barnabas.coordinator.outcome import CoordinatorRecord, Outcome, ProducerStamp, Ticket
from barnabas.coordinator.timers import Timers
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.messages.delete_groups import DeletableGroupResult
from barnabas.protocol.messages.describe_groups import DescribedGroup
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from barnabas.protocol.messages.list_groups import ListedGroup
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

T = TypeVar("T")

DELAY_MS = 3_000
SESSION_MS = 10_000
REBALANCE_MS = 60_000
WALL_MS = 1_600_000_000_000
NEWEST = 7


class Parked:
    """What `Driven.answer` gives for a request that waits."""


PARKED = Parked()


@dataclass
class Driven:
    """Time stands still until `wait`. Every outcome's records are replayed and, unless `refuses`, kept in `log`."""

    settings: GroupSettings = field(default_factory=lambda: GroupSettings(initial_rebalance_delay_ms=DELAY_MS))
    offset_settings: OffsetSettings = field(default_factory=OffsetSettings)
    now_ms: int = 0
    wall_ms: int = WALL_MS
    log: list[tuple[CoordinatorRecord, ProducerStamp | None]] = field(default_factory=list)
    answers: dict[Ticket, Any] = field(default_factory=dict)
    asked_ms: dict[Ticket, int] = field(default_factory=dict)
    answered_ms: dict[Ticket, int] = field(default_factory=dict)
    refuses: ErrorCode | None = None
    """The log takes no record: nothing is replayed."""
    fails: ErrorCode | None = None
    """Records are replayed and stand in the log, but are not committed in time."""
    batches: list[list[CoordinatorRecord]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._tickets = 0
        self._uuids = 0
        self.machine = self._new_machine()
        self._timers = Timers()
        self._apply(self.machine.loaded(coordinator_epoch=0, now_ms=self.now_ms, wall_ms=self.wall_ms))

    def _new_machine(self) -> GroupCoordinator:
        return GroupCoordinator(self.settings, self.offset_settings, new_uuid=self._new_uuid)

    def _new_uuid(self) -> str:
        self._uuids += 1
        return f"uuid{self._uuids}"

    # The shard's part.

    def fail_over(self) -> None:
        """Another broker loads the log; who waits hears nothing more here."""
        for ticket in self.machine.unload():
            self._answered(ticket, ErrorCode.NOT_COORDINATOR)
        self.machine = self._new_machine()
        self._timers = Timers()
        for record, producer in self.log:
            self.machine.replay(record, producer)
        self._apply(self.machine.loaded(coordinator_epoch=1, now_ms=self.now_ms, wall_ms=self.wall_ms))

    def wait(self, milliseconds: int) -> None:
        """Let time pass; timers come due on the way."""
        end_ms = self.now_ms + milliseconds
        while (look_ms := self._timers.next_look_ms()) is not None and look_ms <= end_ms:
            self._pass(max(look_ms - self.now_ms, 0))
            while (key := self._timers.pop_due(self.now_ms)) is not None:
                self._apply(self.machine.on_timer(key, now_ms=self.now_ms, wall_ms=self.wall_ms))
        self._pass(end_ms - self.now_ms)

    def _pass(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        self.wall_ms += milliseconds

    def _apply(self, outcome: Outcome) -> None:
        for key, due_ms in outcome.timers:
            self._timers.set(key, due_ms)
        self.notes += outcome.notes
        replies = outcome.replies
        if outcome.records:
            self.batches.append(outcome.records)
        if outcome.records and self.refuses is not None:
            assert outcome.if_failed is not None, "a refusal would cost the machine"
            replies = outcome.if_failed(self.refuses)
        else:
            for record in outcome.records:
                self.machine.replay(record, outcome.producer)
                self.log.append((record, outcome.producer))
            if outcome.records and self.fails is not None:
                assert outcome.if_failed is not None
                replies = outcome.if_failed(self.fails)
        for ticket, response in replies:
            self._answered(ticket, response)

    def _answered(self, ticket: Ticket, response: Any) -> None:
        assert ticket not in self.answers, f"{ticket} is answered twice"
        self.answers[ticket] = response
        self.answered_ms[ticket] = self.now_ms

    def ticket(self) -> Ticket:
        self._tickets += 1
        ticket = Ticket(self._tickets)
        self.asked_ms[ticket] = self.now_ms
        return ticket

    @property
    def clock(self) -> dict[str, int]:
        return {"now_ms": self.now_ms, "wall_ms": self.wall_ms}

    def run(self, ticket: Ticket, outcome: Outcome) -> Any:
        self._apply(outcome)
        return self.answers.get(ticket, PARKED)

    # Requests.

    def join(
        self,
        member_id: str = "",
        *,
        instance: str | None = None,
        group: str = "g",
        protocols: tuple[tuple[str, bytes], ...] = (("range", b"m"),),
        version: int = NEWEST,
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        client: str = "client",
    ) -> Ticket:
        ticket = self.ticket()
        request = JoinGroupRequest(
            group,
            session_ms,
            rebalance_ms,
            member_id,
            instance,
            protocol_type,
            [JoinGroupRequestProtocol(name, metadata) for name, metadata in protocols],
        )
        self._apply(
            self.machine.join(
                ticket, request, version=version, client_id=client, client_host="/127.0.0.1", **self.clock
            )
        )
        return ticket

    def joined(self, ticket: Ticket) -> JoinGroupResponse:
        return self._answer(ticket, JoinGroupResponse)

    def join_error(self, *args: Any, **kwargs: Any) -> ErrorCode:
        return ErrorCode(self.joined(self.join(*args, **kwargs)).error_code)

    def new_member(self, **kwargs: Any) -> tuple[str, Ticket]:
        """A dynamic member comes, with the id that it was told to come back with."""
        told = self.joined(self.join(**kwargs))
        assert told.error_code == ErrorCode.MEMBER_ID_REQUIRED
        return told.member_id, self.join(told.member_id, **kwargs)

    def sync(
        self,
        member_id: str,
        generation_id: int,
        assignments: dict[str, bytes] | None = None,
        *,
        instance: str | None = None,
        group: str = "g",
        version: int = 5,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "range",
    ) -> Ticket:
        ticket = self.ticket()
        request = SyncGroupRequest(
            group,
            generation_id,
            member_id,
            instance,
            protocol_type,
            protocol_name,
            [SyncGroupRequestAssignment(name, data) for name, data in (assignments or {}).items()],
        )
        self._apply(self.machine.sync(ticket, request, version=version, **self.clock))
        return ticket

    def synced(self, ticket: Ticket) -> SyncGroupResponse:
        return self._answer(ticket, SyncGroupResponse)

    def sync_error(self, *args: Any, **kwargs: Any) -> ErrorCode:
        return ErrorCode(self.synced(self.sync(*args, **kwargs)).error_code)

    def heartbeat(
        self, member_id: str, generation_id: int, *, instance: str | None = None, group: str = "g"
    ) -> ErrorCode:
        return self.machine.heartbeat(HeartbeatRequest(group, generation_id, member_id, instance), self.now_ms)

    def leave(self, *members: tuple[str, str | None], group: str = "g", version: int = 4) -> LeaveGroupResponse:
        ticket = self.ticket()
        identities = [MemberIdentity(member_id, instance) for member_id, instance in members]
        request = LeaveGroupRequest(group, members[0][0], identities)
        self._apply(self.machine.leave(ticket, request, version=version, **self.clock))
        return self._answer(ticket, LeaveGroupResponse)

    def leave_errors(self, *members: tuple[str, str | None], group: str = "g") -> list[ErrorCode]:
        return [ErrorCode(each.error_code) for each in self.leave(*members, group=group).members]

    def describe(self, group: str = "g") -> DescribedGroup:
        ticket = self.ticket()
        self._apply(self.machine.describe(ticket, group))
        return self._answer(ticket, DescribedGroup)

    def state(self, group: str = "g") -> str:
        return self.describe(group).group_state

    def listed(self, *states: str) -> dict[str, str]:
        ticket = self.ticket()
        found: list[ListedGroup] = self.run(ticket, self.machine.list_groups(ticket, set(states)))
        return {each.group_id: each.group_state for each in found}

    def delete(self, group: str = "g") -> ErrorCode:
        ticket = self.ticket()
        self._apply(self.machine.delete_group(ticket, group, **self.clock))
        self.wait(0)
        return ErrorCode(self._answer(ticket, DeletableGroupResult).error_code)

    def commit(
        self,
        offset: int = 1,
        *,
        member_id: str = "",
        generation_id: int = -1,
        instance: str | None = None,
        group: str = "g",
        topics: dict[str, tuple[int, ...]] | None = None,
        accepted_us: int = 0,
    ) -> set[ErrorCode]:
        """The errors of all partitions."""
        ticket = self.ticket()
        request = OffsetCommitRequest(
            group,
            generation_id,
            member_id,
            instance,
            -1,
            [
                OffsetCommitRequestTopic(topic, [OffsetCommitRequestPartition(each, offset) for each in partitions])
                for topic, partitions in (topics or {"t": (0,)}).items()
            ],
        )
        response = self.run(ticket, self.machine.commit(ticket, request, **self.clock, accepted_us=accepted_us))
        return {ErrorCode(each.error_code) for topic in response.topics for each in topic.partitions}

    # Whole stories.

    def stable(self, size: int = 2, **kwargs: Any) -> list[str]:
        """A Stable group of dynamic members in generation 1, the leader first; each is assigned its own id."""
        members = [self.new_member(**kwargs) for _ in range(size)]
        self.wait(DELAY_MS)
        while self.state(kwargs.get("group", "g")) == "PreparingRebalance":
            self.wait(DELAY_MS)
        self.settle([member_id for member_id, _ in members], group=kwargs.get("group", "g"))
        return [member_id for member_id, _ in members]

    def settle(self, member_ids: list[str], *, group: str = "g") -> None:
        """All sync in the present generation, the leader last."""
        machine_group = self.machine._groups[group]
        order = sorted(member_ids, key=lambda each: each == machine_group.leader_id)
        assignments = {each: each.encode() for each in member_ids}
        tickets = [
            self.sync(
                each,
                machine_group.generation_id,
                assignments if each == machine_group.leader_id else None,
                group=group,
                protocol_type=machine_group.protocol_type,
                protocol_name=machine_group.protocol_name,
            )
            for each in order
        ]
        for each, ticket in zip(order, tickets, strict=True):
            assert self.synced(ticket).assignment == each.encode()

    def _answer(self, ticket: Ticket, kind: type[T]) -> T:
        answer = self.answers.get(ticket, PARKED)
        assert isinstance(answer, kind), f"{ticket}: {answer}"
        return answer

    def is_parked(self, ticket: Ticket) -> bool:
        return ticket not in self.answers
