"""Dividing partitions as evenly as subscriptions allow while moving few of them. Pure.

The result is optimal: no chain of moves (one member gives a partition to a second, the second one to a third, …) makes
a member with n partitions give one away so that another with at most n - 2 has one more. Kafka's sticky assignors look
at single moves only: where subscriptions differ theirs may be less even, where all are equal the counts are the same.

Chains are looked for in the graph of members and topics, not of partitions: each topic is looked at once, as all who
subscribe to it can be reached through it. What was found from a member is used again until an edge came or went that
makes a difference to it, so that a group with many newcomers costs about one look at its members for each move.
"""

from bisect import insort
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

from barnabas.client.assignors.assignor import Assignment, java_order
from barnabas.protocol.ids import TopicPartition

_MOST_REMEMBERED: Final = 200_000
"""Members in all that are remembered as reachable from others."""

_Hop = tuple[str, str, str]
"""A member that gives, the topic of which it gives a partition, the member that takes."""

_Held = dict[str | None, list[int]]
"""Partitions of one topic that a member has, ascending, by who had them before."""


class _Edge(NamedTuple):
    """A member began or ceased to have partitions of a topic: to give some of them away."""

    member: str
    topic: str
    is_new: bool


class _Reach:
    """Who can be given a partition through chains from a member, each by the last hop of a shortest chain."""

    __slots__ = ("_deepest", "_depths", "_used", "arrived", "covered", "is_complete", "seen_edges")

    def __init__(self, source: str) -> None:
        self.arrived: dict[str, _Hop | None] = {source: None}
        self.covered: dict[str, int] = {}
        """By topic: all its subscribers are at most one hop further away than this."""
        self.is_complete = False
        """Everybody has arrived, and not every topic needed to be looked at."""
        self.seen_edges = 0
        self._depths = {source: 0}
        self._deepest = 0
        self._used: set[tuple[str, str]] = set()

    def cover(self, member: str, topic: str, subscribers: Sequence[str]) -> list[str]:
        """The member can give partitions of the topic; returns who can be given something by that and could not."""
        depth = self._depths[member]
        self.covered[topic] = depth
        new = [taker for taker in subscribers if taker not in self.arrived]
        if new:
            self._used.add((member, topic))
            self._deepest = depth + 1
            for taker in new:
                self.arrived[taker] = (member, topic, taker)
                self._depths[taker] = depth + 1
        return new

    def outlives(self, edges: Sequence[_Edge]) -> bool:
        """Whether chains lead from here to the same members, and no other one is as short by now."""
        for member, topic, is_new in edges[self.seen_edges :]:
            if not is_new:
                if (member, topic) in self._used:
                    return False
            elif member in self.arrived:
                depth = self._depths[member]
                covered = self.covered.get(topic)
                if covered is None and self.is_complete:
                    covered = self._deepest - 1
                if covered is None or depth <= covered:
                    return False
        self.seen_edges = len(edges)
        return True

    def chain(self, target: str) -> list[_Hop]:
        """The hops to `target`, its own first: who gives has taken nothing yet."""
        hops: list[_Hop] = []
        while (hop := self.arrived[target]) is not None:
            hops.append(hop)
            target = hop[0]
        return hops


class Balance:
    """Partitions on their way to a balanced division; made for one division."""

    def __init__(
        self,
        partition_counts: Mapping[str, int],
        topics_of: Mapping[str, Sequence[str]],
        owners: Mapping[TopicPartition, str],
    ) -> None:
        """`topics_of` are the members' subscriptions, `owners` who had a partition before; both by member id."""
        self._members = sorted(topics_of, key=java_order)
        self._owners = owners
        self._subscribers: dict[str, list[str]] = {}
        for member in self._members:
            for topic in dict.fromkeys(topics_of[member]):
                if topic in partition_counts:
                    self._subscribers.setdefault(topic, []).append(member)
        self._held: dict[str, dict[str, _Held]] = {member: {} for member in self._members}
        self._loads = dict.fromkeys(self._members, 0)
        self._edges: list[_Edge] = []
        self._reaches: dict[str, _Reach] = {}
        self._divide(partition_counts)
        self._edges.clear()
        self._level()

    def assignment(self) -> Assignment:
        return {
            member: [
                TopicPartition(topic, each)
                for topic in sorted(held)
                for each in sorted(chain.from_iterable(held[topic].values()))
            ]
            for member, held in self._held.items()
        }

    def _divide(self, partition_counts: Mapping[str, int]) -> None:
        """Leave what is owned where it is, and give each other partition to who has least, scarce topics first."""
        homeless: list[tuple[str, int, str | None]] = []
        for topic, subscribers in sorted(self._subscribers.items(), key=lambda each: (len(each[1]), each[0])):
            allowed = frozenset(subscribers)
            for partition in range(partition_counts[topic]):
                owner = self._owners.get(TopicPartition(topic, partition))
                if owner in allowed:
                    assert owner is not None
                    self._give(owner, topic, partition, owner)
                else:
                    homeless.append((topic, partition, owner))
        for topic, partition, owner in homeless:
            self._give(min(self._subscribers[topic], key=self._loads.__getitem__), topic, partition, owner)

    def _give(self, member: str, topic: str, partition: int, owner: str | None) -> None:
        held = self._held[member].get(topic)
        if held is None:
            held = self._held[member][topic] = {}
            self._edges.append(_Edge(member, topic, is_new=True))
        insort(held.setdefault(owner, []), partition)
        self._loads[member] += 1

    def _level(self) -> None:
        """Move partitions along chains until none makes the division more even.

        Who has most gives first: nobody gives more than it would take back. Where it can reach nobody with two less,
        neither it nor any whom it reaches will ever move again: none of these has more, and none reaches further.
        """
        unsettled = dict.fromkeys(self._members)
        while unsettled:
            source = max(unsettled, key=self._loads.__getitem__)
            reach = self._reach(source)
            target = min(reach.arrived, key=self._loads.__getitem__)
            if self._loads[target] <= self._loads[source] - 2:
                for giver, topic, taker in reach.chain(target):
                    self._move(giver, topic, taker)
            else:
                for member in reach.arrived:
                    unsettled.pop(member, None)

    def _reach(self, source: str) -> _Reach:
        known = self._reaches.get(source)
        if known is not None and known.outlives(self._edges):
            return known
        if len(self._reaches) * len(self._members) > _MOST_REMEMBERED:
            self._reaches.clear()
        reach = self._reaches[source] = self._explore(source)
        return reach

    def _explore(self, source: str) -> _Reach:
        reach = _Reach(source)
        reach.seen_edges = len(self._edges)
        for member in (queue := [source]):
            for topic in sorted(self._held[member]):
                if topic not in reach.covered:
                    queue += reach.cover(member, topic, self._subscribers[topic])
                    if len(reach.arrived) == len(self._members):
                        reach.is_complete = True
                        return reach
        return reach

    def _move(self, giver: str, topic: str, taker: str) -> None:
        """Move the partition that is missed least: one that goes home, then one that is new here, then the last."""
        held = self._held[giver][topic]
        owner: str | None = taker
        if taker not in held:
            new_here = [each for each in held if each != giver]
            owner = max(new_here, key=lambda each: held[each][-1]) if new_here else giver
        partition = held[owner].pop()
        if not held[owner]:
            del held[owner]
        if not held:
            del self._held[giver][topic]
            self._edges.append(_Edge(giver, topic, is_new=False))
        self._loads[giver] -= 1
        self._give(taker, topic, partition, owner)
