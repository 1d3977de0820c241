"""What is known of one group, and the counts that go with it. Pure.

Of this the log holds one generation at a time: `stored.py` tells it from the rest, which dies with the coordinator.
Invariants: the leader is a member, and there is one whenever there are members; an instance id stands for one member;
all members know at least one protocol in common; a Stable group has a protocol.
"""

from collections.abc import Iterator

from barnabas.coordinator.groups.member import Member, Protocols, Waiting
from barnabas.coordinator.groups.states import MOVES, GroupState
from barnabas.coordinator.groups.subscription import CONSUMER, subscribed_topics
from barnabas.coordinator.groups.voting import choose_protocol
from barnabas.coordinator.outcome import Ticket


class Group:
    """See the module. Rules change `generation_id`, `protocol_name` and what else stands open; counts are kept here."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.state_since_ms: int | None = None
        """Wall clock; None where the log does not tell."""
        self.generation_id = 0
        """0 until a first generation was formed: then nothing of the group itself stands in the log."""
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        """By member id, in the order in which they came."""
        self.pending_members: set[str] = set()
        """Member ids that were given out and not yet come back with (KIP-394)."""
        self.subscribed_topics: frozenset[str] | None = None
        """What the members of the generation consume; None where that cannot be known."""
        self.initial_delay_left_ms: int | None = None
        """While a group that was Empty gathers: by how much the present delay may be prolonged in all."""
        self.came_during_delay = False
        self.replays = 0
        """How many records of this group were replayed: a handler sees by it whether its own was."""
        self._member_of_instance: dict[str, str] = {}
        self._supporters: dict[str, int] = {}
        self._awaiting_join = 0

    def move_to(self, state: GroupState, wall_ms: int) -> None:
        """A legal move, no other: see `states.MOVES`."""
        assert state in MOVES[self.state], f"group {self.group_id}: {self.state} to {state}"
        self.state = state
        self.state_since_ms = wall_ms

    # Members.

    def add(self, member: Member, protocol_type: str) -> None:
        """Take in somebody new, who waits for nothing yet; the first one sets the protocol type and leads."""
        assert member.member_id not in self.members, f"group {self.group_id}: {member.member_id} is a member"
        assert member.join is None, f"group {self.group_id}: {member.member_id} waits before it came"
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.member_id] = member
        self._count(member.protocols, 1)
        if member.group_instance_id is not None:
            self._member_of_instance[member.group_instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id

    def remove(self, member: Member) -> None:
        """Nothing may be parked for it any longer."""
        assert not member.is_waiting, f"group {self.group_id}: {member.member_id} waits"
        del self.members[member.member_id]
        self._count(member.protocols, -1)
        instance = member.group_instance_id
        if instance is not None and self._member_of_instance.get(instance) == member.member_id:
            del self._member_of_instance[instance]
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self.members), None)

    def rename(self, member: Member, member_id: str) -> None:
        """The instance goes on under another member id, at its place and with all that it has."""
        assert member.group_instance_id is not None, f"group {self.group_id}: {member.member_id} is no static member"
        old_id = member.member_id
        member.member_id = member_id
        self.members = {each.member_id: each for each in self.members.values()}
        self._member_of_instance[member.group_instance_id] = member_id
        if self.leader_id == old_id:
            self.leader_id = member_id

    def set_protocols(self, member: Member, protocols: Protocols) -> None:
        self._count(member.protocols, -1)
        member.protocols = protocols
        self._count(protocols, 1)

    def member_of_instance(self, group_instance_id: str | None) -> Member | None:
        """Who goes by an instance id."""
        if group_instance_id is None:
            return None
        member_id = self._member_of_instance.get(group_instance_id)
        return None if member_id is None else self.members[member_id]

    def is_fenced(self, member_id: str, group_instance_id: str | None) -> bool:
        """Whether somebody else goes by this instance id now."""
        holder = self.member_of_instance(group_instance_id)
        return holder is not None and holder.member_id != member_id

    def is_pending(self, member_id: str) -> bool:
        return member_id in self.pending_members

    # Who waits.

    def park_join(self, member: Member, waiting: Waiting) -> None:
        assert member.join is None, f"group {self.group_id}: {member.member_id} waits already"
        member.join = waiting
        self._awaiting_join += 1

    def take_join(self, member: Member) -> Waiting | None:
        """The request that waits, for its answer: it waits no more."""
        waiting = member.join
        if waiting is not None:
            member.join = None
            self._awaiting_join -= 1
        return waiting

    @property
    def awaiting_join(self) -> int:
        """How many members wait for the next generation."""
        return self._awaiting_join

    @property
    def has_gathered(self) -> bool:
        """Whether all wait for the next generation, and nobody is still to come."""
        return self._awaiting_join == len(self.members) and not self.pending_members

    def tickets(self) -> Iterator[Ticket]:
        """All requests that are parked."""
        for member in self.members.values():
            if member.join is not None:
                yield member.join.ticket
            if member.sync is not None:
                yield member.sync

    # Protocols.

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest that a member asks for."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def can_take(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether somebody with these protocols fits in: one of them is known to all members.

        Who joins anew while being a member is measured against its own former protocols too, as with Kafka.
        """
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and protocols)
        size = len(self.members)
        return protocol_type == self.protocol_type and any(
            self._supporters.get(name, 0) == size for name, _ in protocols
        )

    def choose_protocol(self) -> str:
        return choose_protocol([[name for name, _ in member.protocols] for member in self.members.values()])

    def learn_subscriptions(self) -> None:
        """Look into the metadata of a group of consumers for the topics that they want."""
        self.subscribed_topics = self._subscriptions()

    def _subscriptions(self) -> frozenset[str] | None:
        if self.protocol_type != CONSUMER:
            return None
        topics: frozenset[str] = frozenset()
        if not self.members:
            return topics
        if self.protocol_name is None:
            return None
        for member in self.members.values():
            wanted = subscribed_topics(member.metadata(self.protocol_name))
            if wanted is None:
                return None
            topics |= wanted
        return topics

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member may be consuming the topic: where that cannot be known, it may."""
        return self.subscribed_topics is None or topic in self.subscribed_topics

    @property
    def has_consumers(self) -> bool:
        """Whether its members, as far as it has any, are consumers in Kafka's own sense."""
        return self.protocol_type == CONSUMER

    def _count(self, protocols: Protocols, step: int) -> None:
        for name in dict(protocols):
            count = self._supporters.get(name, 0) + step
            if count:
                self._supporters[name] = count
            else:
                del self._supporters[name]
