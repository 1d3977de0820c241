"""What consumers of a group tell each other through the coordinator: subscriptions and assignments. Pure.

Both are bytes to the coordinator: a version (two bytes), then fields. Whoever reads takes the fields that it knows, so
a newer version may only append (KIP-429 added the partitions that a member owns, KIP-792 their generation, KIP-881 the
rack). Ours writes subscriptions of version 3 and assignments of version 1; members of Kafka 0.9 to 3.9 read them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final

from barnabas.protocol.compiler import decode, encode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.primitives import I32, NullableBytes, NullableStr, Str, TruncatedMessage, WireError
from barnabas.protocol.schema import field, message, struct

PROTOCOL_TYPE: Final = "consumer"
NO_GENERATION: Final = -1

_VERSION: Final = Struct(">h")


@struct
class TopicPartitions:
    """Partitions of one topic."""

    topic: Str = ""
    partitions: list[I32] = field(default_factory=list)


@message(versions=(0, 3))
class SubscriptionData:
    """A member's subscription as it travels."""

    topics: list[Str] = field(default_factory=list)
    user_data: NullableBytes = None
    owned_partitions: list[TopicPartitions] = field(default_factory=list, since=1, ignorable=True)
    generation_id: I32 = field(default=NO_GENERATION, since=2, ignorable=True)
    rack_id: NullableStr = field(default=None, since=3, ignorable=True)


@message(versions=(0, 1))
class AssignmentData:
    """What one member shall consume, as it travels."""

    assigned_partitions: list[TopicPartitions] = field(default_factory=list)
    user_data: NullableBytes = None


@dataclass(slots=True, frozen=True)
class Subscription:
    """What a member wants, and what it has: `owned` it was given in `generation_id`, -1 where it does not say which."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation_id: int = NO_GENERATION
    group_instance_id: str | None = None
    """The coordinator tells it, not the subscription's bytes."""


def encode_subscription(subscription: Subscription) -> bytes:
    """The bytes of JoinGroup's protocol metadata."""
    data = SubscriptionData(
        topics=list(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=by_topic(subscription.owned),
        generation_id=subscription.generation_id,
    )
    return _VERSION.pack(3) + encode(data, 3)


def decode_subscription(data: bytes, *, group_instance_id: str | None = None) -> Subscription:
    """Read a member's subscription of any version. Raises WireError."""
    found = decode(SubscriptionData, _version(data, newest=3), data, _VERSION.size)[0]
    return Subscription(
        topics=tuple(dict.fromkeys(found.topics)),
        user_data=None if found.user_data is None else bytes(found.user_data),
        owned=tuple(_flat(found.owned_partitions)),
        generation_id=found.generation_id,
        group_instance_id=group_instance_id,
    )


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """The bytes of SyncGroup's assignment."""
    return _VERSION.pack(1) + encode(AssignmentData(assigned_partitions=by_topic(partitions)), 1)


def decode_assignment(data: bytes) -> list[TopicPartition]:
    """Read an assignment of any version. Raises WireError."""
    return _flat(decode(AssignmentData, _version(data, newest=1), data, _VERSION.size)[0].assigned_partitions)


def by_topic(partitions: Iterable[TopicPartition]) -> list[TopicPartitions]:
    """Group partitions by their topics, both in the order given."""
    topics: dict[str, TopicPartitions] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, TopicPartitions(topic)).partitions.append(partition)
    return list(topics.values())


def wanted_topics(subscriptions: Mapping[str, Subscription]) -> Sequence[str]:
    """Every topic that some member subscribes to, sorted."""
    return sorted({topic for each in subscriptions.values() for topic in each.topics})


def _flat(topics: Iterable[TopicPartitions]) -> list[TopicPartition]:
    return [TopicPartition(each.topic, partition) for each in topics for partition in each.partitions]


def _version(data: bytes, *, newest: int) -> int:
    if len(data) < _VERSION.size:
        raise TruncatedMessage(f"{len(data)} bytes do not hold a version of the consumers' protocol")
    (version,) = _VERSION.unpack_from(data)
    if version < 0:
        raise WireError(f"version {version} of the consumers' protocol is not possible")
    return min(int(version), newest)
