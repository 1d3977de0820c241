"""The range rebalance of groups in ZooKeeper, as every member computes it for itself."""

import random

from barnabas.client.zookeeper_rebalance import owned_by, streams_of
from barnabas.protocol.ids import TopicPartition
from zk_schema.payloads import ConsumerRegistration, SubscriptionPattern


def test_ranges_go_to_streams_in_the_order_of_their_names() -> None:
    members = {"b": ConsumerRegistration({"t": 1}), "a": ConsumerRegistration({"t": 2, "u": 1})}
    partitions = {"t": [0, 1, 2, 3], "u": [0]}
    t = [TopicPartition("t", number) for number in range(4)]
    assert owned_by("a", members, partitions) == {
        t[0]: "a-0", t[1]: "a-0", t[2]: "a-1", TopicPartition("u", 0): "a-0"
    }  # fmt: skip
    assert owned_by("b", members, partitions) == {t[3]: "b-0"}


def test_who_is_not_registered_or_reads_nothing_owns_nothing() -> None:
    assert owned_by("a", {"b": ConsumerRegistration({"t": 1})}, {"t": [0]}) == {}
    assert owned_by("a", {"a": ConsumerRegistration({"t": 0})}, {"t": [0]}) == {}
    assert owned_by("a", {"a": ConsumerRegistration({"t": 1})}, {}) == {}


def test_patterns_are_matched_against_whole_names() -> None:
    topics = ["logs", "logs-old", "metrics"]
    white = ConsumerRegistration({"logs, metrics": 2}, SubscriptionPattern.WHITE_LIST)
    assert streams_of(white, topics) == {"logs": 2, "metrics": 2}
    black = ConsumerRegistration({"logs": 1}, SubscriptionPattern.BLACK_LIST)
    assert streams_of(black, topics) == {"logs-old": 1, "metrics": 1}
    assert streams_of(ConsumerRegistration({"(": 1}, SubscriptionPattern.WHITE_LIST), topics) == {}


def test_every_partition_that_somebody_wants_has_one_owner(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(100):
        partitions = {f"t{index}": list(range(dice.randint(0, 9))) for index in range(3)}
        members = {
            f"m{index}": ConsumerRegistration(
                {topic: dice.randint(0, 3) for topic in dice.sample(sorted(partitions), 2)}
            )
            for index in range(dice.randint(1, 5))
        }
        owned = [each for name in members for each in owned_by(name, members, partitions)]
        wanted = {topic for each in members.values() for topic, count in each.subscription.items() if count}
        assert sorted(owned) == sorted(TopicPartition(topic, each) for topic in wanted for each in partitions[topic])
