"""Assignors: Kafka's examples, evenness, few moves, claims that contradict each other."""

import random
import time
from itertools import chain

import pytest

from barnabas.client.assignors.assignor import Assignment, Assignor
from barnabas.client.assignors.range_assignor import RangeAssignor
from barnabas.client.assignors.round_robin_assignor import RoundRobinAssignor
from barnabas.client.assignors.sticky_assignor import (
    Claim,
    CooperativeStickyAssignor,
    StickyAssignor,
    StickyUserData,
    newest_owners,
)
from barnabas.client.group_protocol import (
    Subscription,
    TopicPartitions,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from barnabas.protocol.compiler import encode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.primitives import WireError

STICKY = [StickyAssignor(), CooperativeStickyAssignor()]
COUNTS = {"t0": 3, "t1": 3}


def parts(text: str) -> list[TopicPartition]:
    """`t0p0 t1p2` as partitions."""
    return [TopicPartition(topic, int(number)) for topic, number in (each.split("p") for each in text.split())]


def member(*topics: str, instance: str | None = None) -> Subscription:
    return Subscription(topics, group_instance_id=instance)


def rejoined(assignor: Assignor, assignment: Assignment, *topics: str, generation: int = 1) -> dict[str, Subscription]:
    """The same members once more, who have what they were given."""
    return {
        member_id: Subscription(
            topics, assignor.user_data(owned, generation), tuple(owned) if assignor.is_cooperative else (), generation
        )
        for member_id, owned in assignment.items()
    }


def test_range_gives_neighbours_topic_by_topic() -> None:
    members = {"c1": member("t0", "t1"), "c0": member("t0", "t1")}
    assert RangeAssignor().assign(COUNTS, members) == {"c0": parts("t0p0 t0p1 t1p0 t1p1"), "c1": parts("t0p2 t1p2")}


def test_range_orders_static_members_by_instance_before_the_others() -> None:
    members = {"a": member("t0"), "z": member("t0", instance="i1"), "b": member("t0", instance="i2")}
    assert RangeAssignor().assign({"t0": 4}, members) == {
        "z": parts("t0p0 t0p1"),
        "b": parts("t0p2"),
        "a": parts("t0p3"),
    }


def test_members_are_ordered_by_utf_16_units_as_in_java() -> None:
    members = {"\uffee": member("t0"), "\U0001f600": member("t0")}
    assert RangeAssignor().assign({"t0": 1}, members) == {"\U0001f600": parts("t0p0"), "\uffee": []}


def test_round_robin_skips_members_that_do_not_subscribe() -> None:
    members = {"c0": member("t0"), "c1": member("t0", "t1"), "c2": member("t0", "t1", "t2")}
    found = RoundRobinAssignor().assign({"t0": 1, "t1": 2, "t2": 3}, members)
    assert found == {"c0": parts("t0p0"), "c1": parts("t1p0"), "c2": parts("t1p1 t2p0 t2p1 t2p2")}


@pytest.mark.parametrize("assignor", [RangeAssignor(), RoundRobinAssignor(), *STICKY], ids=lambda each: str(each.name))
def test_topics_that_are_not_there_give_nothing(assignor: Assignor) -> None:
    assert assignor.assign({}, {"a": member("t0"), "b": member()}) == {"a": [], "b": []}


@pytest.mark.parametrize("assignor", STICKY, ids=lambda each: str(each.name))
def test_a_division_is_even_and_complete_and_the_next_one_moves_nothing(assignor: Assignor) -> None:
    members = {each: member("t0", "t1") for each in "abcd"}
    found = assignor.assign(COUNTS, members)
    assert sorted(map(len, found.values())) == [1, 1, 2, 2]
    assert sorted(chain.from_iterable(found.values())) == parts("t0p0 t0p1 t0p2 t1p0 t1p1 t1p2")
    assert assignor.assign(COUNTS, rejoined(assignor, found, "t0", "t1")) == found


def test_a_new_member_gets_its_share_and_nothing_else_moves() -> None:
    assignor = StickyAssignor()
    before = {"a": parts("t0p0 t0p1 t0p2"), "b": parts("t1p0 t1p1 t1p2")}
    after = assignor.assign(COUNTS, rejoined(assignor, before, "t0", "t1") | {"c": member("t0", "t1")})
    assert after == {"a": parts("t0p0 t0p1"), "b": parts("t1p0 t1p1"), "c": parts("t0p2 t1p2")}


def test_a_cooperative_group_gives_away_only_what_was_given_up() -> None:
    assignor = CooperativeStickyAssignor()
    before = {"a": parts("t0p0 t0p1 t0p2"), "b": parts("t1p0 t1p1 t1p2")}
    first = assignor.assign(COUNTS, rejoined(assignor, before, "t0", "t1") | {"c": member("t0", "t1")})
    assert first == {"a": parts("t0p0 t0p1"), "b": parts("t1p0 t1p1"), "c": []}
    second = assignor.assign(COUNTS, rejoined(assignor, first, "t0", "t1", generation=2))
    assert second == first | {"c": parts("t0p2 t1p2")}


def test_chains_of_moves_even_out_what_no_single_move_does() -> None:
    owners = {"a": parts("t0p0 t0p1 t0p2"), "b": parts("t1p0 t1p1"), "c": parts("t2p0")}
    topics = {"a": ("t0",), "b": ("t0", "t1"), "c": ("t1", "t2")}
    assignor = StickyAssignor()
    members = {each: Subscription(topics[each], assignor.user_data(owners[each], 1)) for each in owners}
    found = assignor.assign({"t0": 3, "t1": 2, "t2": 1}, members)
    assert sorted(map(len, found.values())) == [2, 2, 2]


@pytest.mark.parametrize("topics", [1, 100])
def test_many_newcomers_get_their_share_of_one_rich_member_at_once(topics: int) -> None:
    assignor = StickyAssignor()
    counts = {f"t{number}": 10_000 // topics for number in range(topics)}
    every = [TopicPartition(name, number) for name, count in counts.items() for number in range(count)]
    members = rejoined(assignor, {"rich": every}, *counts)
    members |= {f"new{number}": member(*counts) for number in range(200)}
    began_s = time.process_time()
    found = assignor.assign(counts, members)
    assert time.process_time() - began_s < 3  # 0.3 on a quiet machine; looking at everybody for each move takes minutes
    assert {*map(len, found.values())} == {49, 50}
    assert sorted(chain.from_iterable(found.values())) == sorted(every)
    assert assignor.assign(counts, rejoined(assignor, found, *counts)) == found


def test_a_partition_that_came_on_the_way_is_passed_on_rather_than_an_old_one() -> None:
    """Chains that were found before are looked for again when a member has something new to give."""
    owners = {"a": parts("t0p0 t0p1 t1p0 t1p2"), "b": [], "c": [], "d": [], "e": parts("t1p1 t1p3 t2p0 t2p1")}
    every = ("t0", "t1", "t2")
    topics = {"a": every, "b": every, "c": ("t2",), "d": ("t1",), "e": every}
    assignor = StickyAssignor()
    members = {each: Subscription(topics[each], assignor.user_data(owners[each], 1)) for each in owners}
    found = assignor.assign({"t0": 2, "t1": 4, "t2": 2}, members)
    assert sorted(map(len, found.values())) == [1, 1, 2, 2, 2]
    assert sum(each not in owners[name] for name, partitions in found.items() for each in partitions) == 4


def test_the_newest_generation_wins_and_equal_claims_cancel_each_other() -> None:
    claims = {
        "old": Claim(tuple(parts("t0p0 t0p1")), 3),
        "new": Claim(tuple(parts("t0p0 t0p2")), 4),
        "too": Claim(tuple(parts("t0p2")), 4),
    }
    assert newest_owners(claims) == {TopicPartition("t0", 0): "new", TopicPartition("t0", 1): "old"}


def test_a_cooperative_member_with_an_old_claim_holds_up_nobody_who_has_the_partition() -> None:
    members = {
        "old": Subscription(("t0",), None, tuple(parts("t0p0")), 3),
        "new": Subscription(("t0",), None, tuple(parts("t0p0 t0p1")), 4),
    }
    found = CooperativeStickyAssignor().assign({"t0": 2}, members)
    assert found == {"old": [], "new": parts("t0p0")}  # t0p1 moves to the old one once the new one has given it up


def test_user_data_of_the_first_version_and_rubbish_are_read_as_kafka_reads_them() -> None:
    had = StickyUserData([TopicPartitions("t0", [1])])
    members = {
        "a": Subscription(("t0",), encode(had, 0)),
        "b": Subscription(("t0",), b"rubbish"),
        "c": Subscription(("t0",), None),
    }
    assert TopicPartition("t0", 1) in StickyAssignor().assign({"t0": 3}, members)["a"]


@pytest.mark.parametrize("version", [0, 1, 2, 3, 9])
def test_subscriptions_of_every_version_are_read_as_far_as_they_are_known(version: int) -> None:
    ours = Subscription(("t0", "t1"), b"data", tuple(parts("t0p0 t1p1")), 5)
    data = bytearray(encode_subscription(ours))
    data[:2] = version.to_bytes(2, "big")
    found = decode_subscription(bytes(data) + b"more", group_instance_id="i")
    assert (found.topics, found.user_data, found.group_instance_id) == (ours.topics, ours.user_data, "i")
    assert found.owned == (ours.owned if version >= 1 else ())
    assert found.generation_id == (5 if version >= 2 else -1)


def test_assignments_come_back_as_they_were() -> None:
    assert decode_assignment(encode_assignment(parts("t0p0 t1p1 t0p2"))) == parts("t0p0 t0p2 t1p1")
    with pytest.raises(WireError):
        decode_assignment(b"\x00")


def test_whatever_members_claim_the_division_is_complete_even_and_allowed(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(200):
        topics = {f"t{index}": dice.randint(1, 6) for index in range(dice.randint(1, 4))}
        every = [TopicPartition(name, number) for name, count in topics.items() for number in range(count)]
        members = {
            f"m{index}": Subscription(
                tuple(dice.sample(sorted(topics), dice.randint(1, len(topics)))),
                None,
                tuple(dice.sample(every, dice.randint(0, len(every)))),
                dice.randint(-1, 3),
            )
            for index in range(dice.randint(1, 6))
        }
        members = {
            each: Subscription(m.topics, StickyAssignor().user_data(m.owned, m.generation_id), m.owned, m.generation_id)
            for each, m in members.items()
        }
        found = StickyAssignor().assign(topics, members)
        given = chain.from_iterable(found.values())
        wanted = {topic for each in members.values() for topic in each.topics}
        assert sorted(given) == sorted(each for each in every if each.topic in wanted)
        for member_id, partitions in found.items():
            assert all(each.topic in members[member_id].topics for each in partitions)
            for each in partitions:
                takers = [other for other, m in members.items() if each.topic in m.topics]
                assert min(len(found[other]) for other in takers) >= len(partitions) - 1
        cooperative = CooperativeStickyAssignor().assign(topics, members)
        for member_id, partitions in cooperative.items():
            for each in partitions:
                claimants = [other for other, m in members.items() if each in m.owned]
                assert not claimants or member_id in claimants
