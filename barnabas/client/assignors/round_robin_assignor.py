"""Round robin: all partitions of all topics in turn to the members in turn. Pure."""

from collections.abc import Iterable, Mapping
from itertools import cycle
from typing import Final

from barnabas.client.assignors.assignor import Assignment, in_order
from barnabas.client.group_protocol import Subscription, wanted_topics
from barnabas.protocol.ids import TopicPartition


class RoundRobinAssignor:
    """The next partition goes to the next member that subscribes to its topic."""

    name: Final = "roundrobin"
    is_cooperative: Final = False

    def user_data(self, owned: Iterable[TopicPartition], generation_id: int) -> bytes | None:  # noqa: ARG002
        return None

    def assign(self, partition_counts: Mapping[str, int], members: Mapping[str, Subscription]) -> Assignment:
        assignment: Assignment = {member_id: [] for member_id in members}
        topics = {member_id: frozenset(each.topics) for member_id, each in members.items()}
        turns = cycle(in_order(members, members))
        for topic in wanted_topics(members):
            for partition in range(partition_counts.get(topic, 0)):
                # Somebody subscribes to it, or it would not be wanted.
                taker = next(member_id for member_id in turns if topic in topics[member_id])
                assignment[taker].append(TopicPartition(topic, partition))
        return assignment
