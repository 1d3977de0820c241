"""Many clients drive one group at random, under a manual clock, with a log that fails and a coordinator that moves.

After every step: a partition has one owner in a generation, the leader is a member, who waits is answered in bounded
time, who is not heard of is no member, and no committed offset goes back.
"""

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from barnabas.coordinator.group_records import decode_group_value
from barnabas.coordinator.groups.group import Group
from barnabas.coordinator.groups.settings import NEW_MEMBER_JOIN_TIMEOUT_MS, GroupSettings
from barnabas.coordinator.groups.states import GroupState
from barnabas.coordinator.groups.stored import to_metadata
from barnabas.coordinator.outcome import Ticket
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.messages.join_group import JoinGroupResponse
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest
from barnabas.protocol.messages.sync_group import SyncGroupResponse
from tests.unit.coordinator.groups.driving import DELAY_MS, Driven

PARTITIONS = 6
SESSION_MS = 10_000
REBALANCE_MS = 25_000
PROTOCOLS = (("range", b"r"), ("sticky", b"s"), ("range", b"x"))
CHOICES = ((PROTOCOLS[0],), (PROTOCOLS[0], PROTOCOLS[1]), (PROTOCOLS[1], PROTOCOLS[0]), (PROTOCOLS[2], PROTOCOLS[1]))


@dataclass
class Client:
    number: int
    instance: str | None
    version: int
    member_id: str = ""
    generation_id: int = -1
    told: JoinGroupResponse | None = None
    join: Ticket | None = None
    sync: Ticket | None = None
    wants: str = "join"
    protocols: tuple[tuple[str, bytes], ...] = CHOICES[0]


class GroupWalk(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.driven = Driven(GroupSettings(initial_rebalance_delay_ms=DELAY_MS, max_size=4))
        self.clients = [
            Client(number, f"i{number}" if number < 2 else None, 7 if number % 2 else 3) for number in range(6)
        ]
        self.owners: dict[tuple[int, int], int] = {}
        self.leaders: dict[tuple[int, int], str] = {}
        self.loads = 0
        self.collected = 0
        self.syncing: dict[Ticket, str] = {}
        self.heard_ms: dict[str, int] = {}
        """By member id, when the coordinator has last heard of it or answered it."""
        self.next_offset = 0
        self.acked_offset = 0
        self.loaded_ms = 0

    client = st.integers(0, 5)

    # What clients do.

    @rule(who=client, choice=st.sampled_from(CHOICES), fresh=st.booleans())
    def joins(self, who: int, choice: tuple[tuple[str, bytes], ...], fresh: bool) -> None:
        client = self.clients[who]
        if fresh:
            client.member_id, client.generation_id = "", -1
        client.protocols = choice
        client.join = self.driven.join(
            client.member_id,
            instance=client.instance,
            protocols=choice,
            version=client.version if client.instance is None else 7,
            session_ms=SESSION_MS,
            rebalance_ms=REBALANCE_MS,
        )
        self._collect()

    @rule(who=client)
    def syncs(self, who: int) -> None:
        client = self.clients[who]
        told = client.told
        assignments: dict[str, bytes] = {}
        if told is not None and told.members:
            names = [each.member_id for each in told.members]
            for partition in range(PARTITIONS):
                name = names[partition % len(names)]
                assignments[name] = assignments.get(name, b"") + bytes([partition])
        client.sync = self.driven.sync(
            client.member_id,
            client.generation_id,
            assignments,
            instance=client.instance,
            version=4,
            protocol_type=None,
            protocol_name=None,
        )
        self.syncing[client.sync] = client.member_id
        self._collect()

    @rule(who=client)
    def beats(self, who: int) -> None:
        client = self.clients[who]
        error = self.driven.heartbeat(client.member_id, client.generation_id, instance=client.instance)
        assert error in {
            ErrorCode.NONE,
            ErrorCode.REBALANCE_IN_PROGRESS,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.FENCED_INSTANCE_ID,
        }
        if error in {ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS}:
            self.heard_ms[client.member_id] = self.driven.now_ms
        if error is not ErrorCode.NONE:
            client.wants = "join"
        if error in {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID}:
            client.member_id = ""
        self._collect()

    @rule(who=client)
    def leaves(self, who: int) -> None:
        client = self.clients[who]
        self.driven.leave((client.member_id, client.instance))
        client.member_id, client.told, client.wants = "", None, "join"
        self._collect()

    @rule(who=client)
    def commits(self, who: int) -> None:
        client = self.clients[who]
        self.next_offset += 1
        (error,) = self.driven.commit(
            self.next_offset,
            member_id=client.member_id,
            generation_id=client.generation_id,
            instance=client.instance,
        )
        if error is ErrorCode.NONE:
            self.acked_offset = self.next_offset
            self.heard_ms[client.member_id] = self.driven.now_ms
        elif error is ErrorCode.COORDINATOR_NOT_AVAILABLE:
            self.heard_ms[client.member_id] = self.driven.now_ms

    # What the world does.

    @rule(milliseconds=st.sampled_from([1, 500, DELAY_MS, SESSION_MS // 2, SESSION_MS, REBALANCE_MS]))
    def time_passes(self, milliseconds: int) -> None:
        self.driven.wait(milliseconds)
        self._collect()

    @rule(refuses=st.sampled_from([False, False, True]))
    def the_log_refuses(self, refuses: bool) -> None:
        self.driven.refuses = ErrorCode.NOT_ENOUGH_REPLICAS if refuses else None

    @rule()
    def the_coordinator_moves(self) -> None:
        self.driven.fail_over()
        self.loads += 1
        self.loaded_ms = self.driven.now_ms
        self._collect()

    @rule(who=st.sets(client, min_size=1), rounds=st.integers(1, 12))
    def clients_behave(self, who: set[int], rounds: int) -> None:
        """Some do for a while what clients do: join, sync, send heartbeats, join again when they are told to."""
        for _ in range(rounds):
            for number in who:
                self._behave(self.clients[number])
            self.time_passes(1_000)

    def _behave(self, client: Client) -> None:
        if client.join is not None or client.sync is not None:
            return
        if client.wants == "sync":
            self.syncs(client.number)
        elif client.wants == "join":
            self.joins(client.number, client.protocols, fresh=False)
        else:
            self.beats(client.number)

    def _collect(self) -> None:
        """Clients hear their answers; what went to a request that its client gave up begins a session all the same."""
        for ticket in list(self.driven.answers)[self.collected :]:
            response = self.driven.answers[ticket]
            if isinstance(response, JoinGroupResponse | SyncGroupResponse):
                name = response.member_id if isinstance(response, JoinGroupResponse) else self.syncing[ticket]
                self.heard_ms[name] = self.driven.answered_ms[ticket]
            self.collected += 1
            if getattr(response, "error_code", 0) == ErrorCode.COORDINATOR_NOT_AVAILABLE:
                self._take_back()
        for client in self.clients:
            if client.join in self.driven.answers:
                self._hear_joined(client, client.join)
            if client.sync in self.driven.answers:
                self._hear_synced(client, client.sync)

    def _take_back(self) -> None:
        """The log refused that an instance started again: its old member id was heard of by that."""
        for member in self.group.members.values() if self.group is not None else ():
            if member.group_instance_id is not None:
                self.heard_ms[member.member_id] = self.driven.now_ms

    def _hear_joined(self, client: Client, ticket: Ticket) -> None:
        client.join, client.wants = None, "join"
        response = self.driven.answers[ticket]
        if not isinstance(response, JoinGroupResponse):
            return
        if response.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            client.member_id = response.member_id
        elif response.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            client.member_id = ""
        if response.error_code == ErrorCode.NONE:
            client.told, client.wants = response, "sync"
            client.generation_id = response.generation_id
            if response.members:
                assert response.leader == response.member_id
                assert response.member_id in [each.member_id for each in response.members]
                leader = self.leaders.setdefault((self.loads, response.generation_id), response.leader)
                assert leader == response.leader, "two members assign in one generation"

    def _hear_synced(self, client: Client, ticket: Ticket) -> None:
        client.sync, client.wants = None, "join"
        response = self.driven.answers[ticket]
        if not isinstance(response, SyncGroupResponse) or response.error_code:
            return
        client.wants = "heartbeat"
        for partition in response.assignment:
            owner = self.owners.setdefault((client.generation_id, partition), client.number)
            assert owner == client.number, f"partition {partition} has two owners in {client.generation_id}"

    # What must hold.

    @property
    def group(self) -> Group | None:
        return self.driven.machine._groups.get("g")

    @invariant()
    def the_group_is_sound(self) -> None:
        group = self.group
        if group is None:
            return
        members = group.members
        assert (group.leader_id in members) if members else group.leader_id is None
        assert all(key == each.member_id for key, each in members.items())
        assert group.awaiting_join == sum(each.join is not None for each in members.values())
        assert set(group._member_of_instance.items()) == {
            (each.group_instance_id, each.member_id) for each in members.values() if each.group_instance_id is not None
        }
        assert not (group.pending_members & set(members))
        counts: dict[str, int] = {}
        for each in members.values():
            for name in dict(each.protocols):
                counts[name] = counts.get(name, 0) + 1
        assert group._supporters == counts
        assert not members or len(members) in counts.values(), "no protocol is known to all"
        assert (not members) if group.state is GroupState.EMPTY else True
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            assert members
            assert group.protocol_name is not None
            assert not group.awaiting_join
        if group.state is not GroupState.COMPLETING_REBALANCE:
            assert all(each.sync is None for each in members.values())
        if group.state is GroupState.STABLE:
            assert len(members) <= 4

    @invariant()
    def who_waits_is_answered_in_bounded_time(self) -> None:
        driven = self.driven
        waiting = [ticket for ticket in driven.asked_ms if ticket not in driven.answers]
        for ticket in waiting:
            assert driven.now_ms - driven.asked_ms[ticket] <= REBALANCE_MS + DELAY_MS
        assert set(waiting) == set(driven.machine.unload())

    @invariant()
    def who_is_not_heard_of_is_no_member(self) -> None:
        group = self.group
        for member in group.members.values() if group is not None else ():
            silent_ms = self.driven.now_ms - max(self.heard_ms.get(member.member_id, 0), self.loaded_ms)
            if member.is_new:
                assert silent_ms <= NEW_MEMBER_JOIN_TIMEOUT_MS
            elif not member.is_waiting:
                assert silent_ms < SESSION_MS, f"{member.member_id} was last heard of {silent_ms} ms ago"

    @invariant()
    def no_committed_offset_goes_back(self) -> None:
        ticket = self.driven.ticket()
        response = self.driven.run(ticket, self.driven.machine.fetch(ticket, OffsetFetchRequest("g", None)))
        found = [each.committed_offset for topic in response.topics for each in topic.partitions]
        assert found == ([self.acked_offset] if self.acked_offset else [])

    @invariant()
    def a_stable_group_stands_in_the_log_as_it_is(self) -> None:
        group = self.group
        if group is None or group.state is not GroupState.STABLE:
            return
        value = next(record.value for record, _ in reversed(self.driven.log) if record.key[:2] == b"\0\2")
        assert value is not None
        assignments = {each.member_id: each.assignment for each in group.members.values()}
        stored = decode_group_value(value)
        assert stored == to_metadata(group, assignments, stored.current_state_timestamp_ms)


TestGroupWalk = GroupWalk.TestCase
TestGroupWalk.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
