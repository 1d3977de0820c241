"""Dividing partitions as evenly as subscriptions allow while moving few of them. Pure.

The result is optimal: no chain of moves (one member gives a partition to a second, the second one to a third, …) makes
a member with n partitions give one away so that another with at most n - 2 has one more. Kafka's sticky assignors look
at single moves only: where subscriptions differ theirs may be less even, where all are equal the counts are the same.

Chains are looked for in the graph of members and topics, not of partitions: each topic is looked at once, as all who
subscribe to it can be reached through it.
"""

from collections.abc import Mapping, Sequence

from barnabas.client.assignors.assignor import Assignment, java_order
from barnabas.protocol.ids import TopicPartition

_Hop = tuple[str, str, str]
"""A member that gives, the topic of which it gives a partition, the member that takes."""


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
        self._held: dict[str, dict[str, list[int]]] = {member: {} for member in self._members}
        self._loads = dict.fromkeys(self._members, 0)
        self._divide(partition_counts)
        self._level()

    def assignment(self) -> Assignment:
        return {
            member: [TopicPartition(topic, each) for topic in sorted(held) for each in sorted(held[topic])]
            for member, held in self._held.items()
        }

    def _divide(self, partition_counts: Mapping[str, int]) -> None:
        """Leave what is owned where it is, and give each other partition to who has least, scarce topics first."""
        homeless: list[TopicPartition] = []
        for topic, subscribers in sorted(self._subscribers.items(), key=lambda each: (len(each[1]), each[0])):
            allowed = frozenset(subscribers)
            for partition in range(partition_counts[topic]):
                owner = self._owners.get(TopicPartition(topic, partition))
                if owner in allowed:
                    assert owner is not None
                    self._give(owner, topic, partition)
                else:
                    homeless.append(TopicPartition(topic, partition))
        for topic, partition in homeless:
            self._give(min(self._subscribers[topic], key=self._loads.__getitem__), topic, partition)

    def _give(self, member: str, topic: str, partition: int) -> None:
        self._held[member].setdefault(topic, []).append(partition)
        self._loads[member] += 1

    def _level(self) -> None:
        """Move partitions along chains until none makes the division more even.

        Who has most gives first: nobody gives more than it would take back.
        """
        while chain := self._next_chain():
            for giver, topic, taker in chain:
                self._move(giver, topic, taker)

    def _next_chain(self) -> list[_Hop]:
        settled: set[str] = set()
        for source in sorted(self._members, key=lambda each: -self._loads[each]):
            if source in settled:
                continue
            arrived = self._reach(source)
            target = min(arrived, key=self._loads.__getitem__)
            if self._loads[target] <= self._loads[source] - 2:
                return _chain(arrived, target)
            # None of these has more than the source, and none reaches further.
            settled |= arrived.keys()
        return []

    def _reach(self, source: str) -> dict[str, _Hop | None]:
        """Who can be given a partition through chains from `source`, each by the last hop of a shortest one."""
        arrived: dict[str, _Hop | None] = {source: None}
        seen_topics: set[str] = set()
        for member in (queue := [source]):
            for topic in sorted(self._held[member]):
                if topic in seen_topics or not self._held[member][topic]:
                    continue
                seen_topics.add(topic)
                for taker in self._subscribers[topic]:
                    if taker not in arrived:
                        arrived[taker] = (member, topic, taker)
                        queue.append(taker)
        return arrived

    def _move(self, giver: str, topic: str, taker: str) -> None:
        """Move the partition that is missed least: one that goes home, then one that is new here, then the last."""
        held = self._held[giver][topic]

        def willingness(partition: int) -> tuple[bool, bool, int]:
            owner = self._owners.get(TopicPartition(topic, partition))
            return owner == taker, owner != giver, partition

        partition = max(held, key=willingness)
        held.remove(partition)
        self._loads[giver] -= 1
        self._give(taker, topic, partition)


def _chain(arrived: Mapping[str, _Hop | None], target: str) -> list[_Hop]:
    """The hops to `target`, its own first: who gives has taken nothing yet."""
    chain: list[_Hop] = []
    while (hop := arrived[target]) is not None:
        chain.append(hop)
        target = hop[0]
    return chain
