"""What every assignor is, and the order of members that all of them share. Pure.

The leader of a generation runs the assignor for everyone. Members of other clients take part as long as they know the
assignor by its name, so names, results and user data are Kafka's.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

from barnabas.client.group_protocol import Subscription
from barnabas.protocol.ids import TopicPartition

Assignment = dict[str, list[TopicPartition]]
"""Member id -> its partitions; every member is in it."""


class Assignor(Protocol):
    """A rule to divide partitions between the members of a group."""

    @property
    def name(self) -> str:
        """Under which the coordinator lets members vote for it."""
        ...

    @property
    def is_cooperative(self) -> bool:
        """Whether members keep what they have during a rebalance (KIP-429), and give up only what another one gets."""
        ...

    def user_data(self, owned: Iterable[TopicPartition], generation_id: int) -> bytes | None:
        """What a member that had `owned` since `generation_id` (-1: none) tells the leader beside its subscription."""
        ...

    def assign(self, partition_counts: Mapping[str, int], members: Mapping[str, Subscription]) -> Assignment:
        """Divide the partitions of the topics that are there; `members` are by member id, at least one."""
        ...


def java_order(text: str) -> bytes:
    """A sort key that orders strings as Java does, by their UTF-16 units."""
    return text.encode("utf-16-be", "surrogatepass")


def in_order(members: Iterable[str], subscriptions: Mapping[str, Subscription]) -> list[str]:
    """Member ids as Kafka sorts them: static members first, by instance id (KIP-345), then the others by member id."""

    def key(member_id: str) -> tuple[bool, bytes]:
        instance_id = subscriptions[member_id].group_instance_id
        return instance_id is None, java_order(member_id if instance_id is None else instance_id)

    return sorted(members, key=key)
