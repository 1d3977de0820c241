"""Where replicas should go, and plans as files."""

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.admin.reassignment_plan import InvalidPlan, Plan, decide_plan, document_of, moves_of, read_plan
from barnabas.protocol.ids import TopicPartition


def of(*replicas: tuple[int, ...]) -> Plan:
    return {TopicPartition("t", number): ids for number, ids in enumerate(replicas)}


def without_racks(*brokers: int) -> dict[int, str | None]:
    return dict.fromkeys(brokers)


def test_what_is_well_placed_stays() -> None:
    present = of((1, 2), (2, 3), (3, 1))
    assert decide_plan(present, without_racks(1, 2, 3)) == present


def test_a_broker_that_leaves_gives_its_replicas_to_those_that_carry_least() -> None:
    plan = decide_plan(of((1, 2), (2, 3), (3, 1)), without_racks(1, 2, 4))
    assert Counter(broker for ids in plan.values() for broker in ids) == {1: 2, 2: 2, 4: 2}
    assert [len(set(new) - set(old)) for new, old in zip(plan.values(), [(1, 2), (2, 3), (3, 1)], strict=True)] == [
        0, 1, 1,
    ]  # fmt: skip


def test_fewer_replicas_keep_their_racks() -> None:
    racks = {1: "a", 2: "a", 3: "b"}
    plan = decide_plan(of(*[(1, 2, 3)] * 3), racks, replication_factor=2)
    assert all({racks[broker] for broker in ids} == {"a", "b"} for ids in plan.values()), plan


def test_a_new_broker_gets_its_share_and_no_more_moves() -> None:
    present = of(*[(1, 2)] * 6)
    plan = decide_plan(present, without_racks(1, 2, 3))
    assert Counter(broker for ids in plan.values() for broker in ids) == {1: 4, 2: 4, 3: 4}
    assert sum(len(move.adding) for move in moves_of(plan, present)) == 4


def test_preferred_leaders_are_spread() -> None:
    plan = decide_plan(of(*[(1, 2)] * 4), without_racks(1, 2))
    assert Counter(ids[0] for ids in plan.values()) == {1: 2, 2: 2}


def test_a_new_replica_goes_to_a_rack_that_has_none_yet() -> None:
    plan = decide_plan(of((1,)), {1: "a", 2: "a", 3: "b"}, replication_factor=2)
    assert plan == of((1, 3))


def test_there_may_be_fewer_replicas_but_not_more_than_brokers() -> None:
    assert decide_plan(of((1, 2, 3)), without_racks(1, 2, 3), replication_factor=1) == of((1,))
    with pytest.raises(InvalidPlan, match="4 replicas do not fit on 3 brokers"):
        decide_plan(of((1,)), without_racks(1, 2, 3), replication_factor=4)


@given(
    present=st.lists(
        st.permutations([1, 2, 3, 4]).flatmap(lambda ids: st.integers(1, 3).map(lambda n: tuple(ids[:n])))
    ),
    brokers=st.sets(st.integers(1, 6), min_size=3),
)
def test_every_plan_has_as_many_different_replicas_and_no_broker_much_more_than_its_share(
    present: list[tuple[int, ...]], brokers: set[int]
) -> None:
    plan = decide_plan(of(*present), without_racks(*brokers))
    assert [len(set(ids)) for ids in plan.values()] == [len(ids) for ids in present]
    carried = Counter(broker for ids in plan.values() for broker in ids)
    assert set(carried) <= brokers
    if all(set(ids) <= brokers for ids in present):
        assert all(len(set(new) - set(old)) <= 1 for new, old in zip(plan.values(), present, strict=True))
    before = Counter(broker for ids in present for broker in ids)
    share = -(-sum(map(len, present)) // len(brokers))
    assert all(count <= max(share + 1, before[broker]) for broker, count in carried.items())


def test_a_plan_is_written_and_read_as_kafkas_tool_does() -> None:
    plan = of((1, 2), (3,))
    text = json.dumps(document_of(plan))
    assert json.loads(text)["partitions"][0] == {"topic": "t", "partition": 0, "replicas": [1, 2]}
    assert read_plan(text) == plan
    with_directories = '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1],"log_dirs":["any"]}]}'
    assert read_plan(with_directories) == of((1,))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"partitions":[{"topic":"t"}]}',
        '{"partitions":[{"topic":"t","partition":"0","replicas":[1]}]}',
        '{"partitions":[{"topic":"t","partition":0,"replicas":[true]}]}',
        '{"partitions":[{"topic":7,"partition":0,"replicas":[1]}]}',
        '{"partitions":[{"topic":"t","partition":0,"replicas":[1]},{"topic":"t","partition":0,"replicas":[2]}]}',
    ],
)
def test_what_is_no_plan_is_refused(text: str) -> None:
    with pytest.raises(InvalidPlan):
        read_plan(text)


def test_a_plan_for_what_does_not_exist_is_refused() -> None:
    with pytest.raises(InvalidPlan, match="there is no t-1"):
        moves_of(of((1,), (2,)), of((1,)))
