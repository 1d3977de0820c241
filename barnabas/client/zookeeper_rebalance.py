"""Who reads what in a group that is coordinated in ZooKeeper: the range rebalance of Kafka 0.7 and 0.8. Pure.

Every member computes the same from the same znodes: for each topic the partitions in numeric order and the streams of
all members that subscribe to it in the order of their names are cut into ranges, longer ones first.
"""

import re
from collections.abc import Collection, Mapping, Sequence

from barnabas.client.assignors.range_assignor import ranges
from barnabas.protocol.ids import TopicPartition
from zk_schema.payloads import ConsumerRegistration, SubscriptionPattern


def streams_of(registration: ConsumerRegistration, topics: Collection[str]) -> dict[str, int]:
    """How many streams a member has for each topic; a pattern that is no expression matches nothing."""
    if registration.pattern is SubscriptionPattern.STATIC:
        return dict(registration.subscription)
    wants_match = registration.pattern is SubscriptionPattern.WHITE_LIST
    streams: dict[str, int] = {}
    for expression, count in registration.subscription.items():
        try:
            compiled = re.compile(_as_expression(expression))
        except re.error:
            continue
        streams |= {topic: count for topic in topics if (compiled.fullmatch(topic) is not None) is wants_match}
    return streams


def owned_by(
    name: str, members: Mapping[str, ConsumerRegistration], partitions: Mapping[str, Sequence[int]]
) -> dict[TopicPartition, str]:
    """The partitions of member `name`, with the stream (`NAME-0`, `NAME-1`, …) that each belongs to."""
    wanted = {member: streams_of(registration, partitions) for member, registration in members.items()}
    owned: dict[TopicPartition, str] = {}
    for topic in wanted.get(name, {}):
        numbers = sorted(partitions.get(topic, ()))
        streams = sorted(
            f"{member}-{index}" for member, counts in wanted.items() for index in range(counts.get(topic, 0))
        )
        own = {f"{name}-{index}" for index in range(wanted[name][topic])}
        for stream, share in zip(streams, ranges(len(numbers), len(streams)) if streams else (), strict=True):
            if stream in own:
                owned |= {TopicPartition(topic, numbers[index]): stream for index in share}
    return owned


def _as_expression(text: str) -> str:
    """A filter as it may be written: commas for alternatives, quotes and blanks around it."""
    return text.strip().replace(",", "|").replace(" ", "").strip("\"'")
