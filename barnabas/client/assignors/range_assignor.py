"""Range: each topic for itself, neighbouring partitions to neighbouring members. Pure."""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Final

from barnabas.client.assignors.assignor import Assignment, in_order
from barnabas.client.group_protocol import Subscription
from barnabas.protocol.ids import TopicPartition


class RangeAssignor:
    """Of n partitions and m members each member gets n // m of a topic, the first n % m members one more."""

    name: Final = "range"
    is_cooperative: Final = False

    def user_data(self, owned: Iterable[TopicPartition], generation_id: int) -> bytes | None:  # noqa: ARG002
        return None

    def assign(self, partition_counts: Mapping[str, int], members: Mapping[str, Subscription]) -> Assignment:
        assignment: Assignment = {member_id: [] for member_id in members}
        subscribers: dict[str, list[str]] = {}
        for member_id, subscription in members.items():
            for topic in subscription.topics:
                subscribers.setdefault(topic, []).append(member_id)
        for topic in sorted(subscribers):
            ordered = in_order(subscribers[topic], members)
            for member_id, partitions in zip(
                ordered, ranges(partition_counts.get(topic, 0), len(ordered)), strict=True
            ):
                assignment[member_id] += [TopicPartition(topic, partition) for partition in partitions]
        return assignment


def ranges(partitions: int, takers: int) -> list[range]:
    """Cut 0 to `partitions` into as many ranges as there are takers; the first ones are longer by one where need be."""
    each, longer = divmod(partitions, takers)
    starts = [each * index + min(index, longer) for index in range(takers + 1)]
    return [range(start, end) for start, end in pairwise(starts)]
