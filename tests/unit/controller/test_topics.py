import random
import tracemalloc
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerId
from controller.placement import PlacementBroker
from controller.topics import (
    TopicRefused,
    check_collision,
    check_topic_name,
    creation_ops,
    decide_creation,
    decide_growth,
    deletion_ops,
    growth_ops,
)
from zk_schema.ops import Create, Set
from zk_schema.payloads import TopicAssignment

BROKERS = [PlacementBroker(BrokerId(each)) for each in (1, 2, 3)]


def created(name: str = "t", manual: Mapping[int, Sequence[int]] | None = None, **given: Any) -> dict[int, list[int]]:
    values: dict[str, Any] = {
        "num_partitions": -1,
        "replication_factor": -1,
        "existing": [],
        "brokers": BROKERS,
        "default_num_partitions": 2,
        "default_replication_factor": 1,
        "random": random.Random(1),
    }
    assignment = decide_creation(name, manual=manual or {}, **(values | given))
    return {number: list(replicas) for number, replicas in assignment.items()}


def refused(error: ErrorCode, *, names: str = ".", **given: Any) -> None:
    with pytest.raises(TopicRefused, match=names) as refusal:
        created(**given)
    assert refusal.value.error is error
    assert refusal.value.message.endswith(".")


def grown(total: int, manual: Sequence[Sequence[int]] | None = None, **given: Any) -> dict[int, list[int]]:
    present = given.pop("present", {0: (2,), 1: (3,)})
    assignment = decide_growth("t", present=present, total=total, manual=manual, **({"brokers": BROKERS} | given))
    return {number: list(replicas) for number, replicas in assignment.items()}


def refused_growth(error: ErrorCode, *, names: str = ".", total: int, **given: Any) -> None:
    with pytest.raises(TopicRefused, match=names) as refusal:
        grown(total, **given)
    assert refusal.value.error is error


@pytest.mark.parametrize("name", ["a", "Z9._-", "...", "__consumer_offsets", "x" * 249])
def test_a_legal_name_passes(name: str) -> None:
    check_topic_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "a/b", "ä", "a\n", "a:b", "日"])
def test_an_illegal_name_is_refused(name: str) -> None:
    with pytest.raises(TopicRefused) as refusal:
        check_topic_name(name)
    assert refusal.value.error is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_names_that_differ_in_dots_and_underscores_collide() -> None:
    check_collision("a.b", ["a.b", "a.c", "ab"])
    with pytest.raises(TopicRefused, match=r"a_b, a_b_c|a_b") as refusal:
        check_collision("a.b", ["x", "a_b"])
    assert refusal.value.error is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_defaults_stand_in_for_minus_one() -> None:
    assert [len(replicas) for replicas in created().values()] == [1, 1]
    assert [len(replicas) for replicas in created(num_partitions=4, replication_factor=3).values()] == [3, 3, 3, 3]


def test_a_manual_assignment_is_taken_as_it_is_even_of_unknown_brokers() -> None:
    assert created(manual={1: [9, 1], 0: [2, 3]}) == {0: [2, 3], 1: [9, 1]}


def test_the_checks_of_a_creation_come_in_kafkas_order() -> None:
    bad_name = "a b"
    refused(ErrorCode.TOPIC_ALREADY_EXISTS, name=bad_name, existing=[bad_name], num_partitions=0)
    refused(ErrorCode.INVALID_REQUEST, name=bad_name, num_partitions=0, manual={0: [1, 1]})
    refused(ErrorCode.INVALID_PARTITIONS, name=bad_name, num_partitions=0, replication_factor=9)
    refused(ErrorCode.INVALID_REPLICATION_FACTOR, name=bad_name, replication_factor=9)
    refused(ErrorCode.INVALID_TOPIC_EXCEPTION, name=bad_name, manual={0: [1, 1]})
    refused(ErrorCode.INVALID_TOPIC_EXCEPTION, name="a.b", existing=["a_b"], manual={0: [1, 1]}, names="collides")
    refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, manual={0: [1, 1]})


def test_a_topic_that_is_refused_for_its_name_is_not_placed() -> None:
    tracemalloc.start()
    refused(ErrorCode.INVALID_TOPIC_EXCEPTION, name="no/topic", num_partitions=50_000)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 100_000


@pytest.mark.parametrize("factor", [0, -2, 4])
def test_a_replication_factor_must_fit_the_brokers(factor: int) -> None:
    refused(ErrorCode.INVALID_REPLICATION_FACTOR, replication_factor=factor)


@pytest.mark.parametrize("manual", [{0: [1, 1]}, {0: [1], 1: [1, 2]}, {0: [1], 2: [1]}, {1: [1]}, {-1: [1]}, {0: []}])
def test_a_crooked_assignment_is_refused(manual: dict[int, list[int]]) -> None:
    refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, manual=manual)


def test_a_topic_grows_round_the_brokers() -> None:
    assert grown(5) == {2: [1], 3: [2], 4: [3]}


def test_a_topic_grows_by_a_manual_assignment() -> None:
    assert grown(4, [[1], [1]]) == {2: [1], 3: [1]}


def test_a_topic_does_not_shrink_or_stand_still() -> None:
    refused_growth(ErrorCode.INVALID_PARTITIONS, total=2, names="already has 2")
    refused_growth(ErrorCode.INVALID_PARTITIONS, total=1, names="more than the 1")


@pytest.mark.parametrize("manual", [[], [[1]], [[1], [1], [1]], [[1], [7]], [[1], []], [[1], [2, 2]], [[1], [2, 3]]])
def test_a_crooked_growth_is_refused(manual: list[list[int]]) -> None:
    refused_growth(ErrorCode.INVALID_REPLICA_ASSIGNMENT, total=4, manual=manual)


def test_growth_needs_as_many_brokers_as_replicas() -> None:
    given: dict[str, Any] = {"present": {0: (1, 2)}, "total": 2}
    refused_growth(ErrorCode.INVALID_REPLICATION_FACTOR, brokers=BROKERS[:1], **given)


def test_mixed_racks_refuse_an_automatic_placement() -> None:
    mixed = [*BROKERS, PlacementBroker(BrokerId(4), "a")]
    refused(ErrorCode.UNKNOWN_SERVER_ERROR, brokers=mixed)
    refused_growth(ErrorCode.UNKNOWN_SERVER_ERROR, total=3, brokers=mixed)


def test_a_topic_is_made_with_its_configuration_in_one_multi() -> None:
    config, topic = creation_ops("t", {0: [BrokerId(1)]}, {"retention.ms": "5"})
    assert config == Create("/config/topics/t", b'{"version":1,"config":{"retention.ms":"5"}}')
    assert isinstance(topic, Create)
    assert topic.path == "/brokers/topics/t"
    assert TopicAssignment.decode(topic.data or b"").partitions == {0: (1,)}


def test_a_configuration_left_by_an_earlier_topic_is_replaced() -> None:
    config, _ = creation_ops("t", {0: [BrokerId(1)]}, {}, config_exists=True)
    assert config == Set("/config/topics/t", b'{"version":1,"config":{}}')


def test_growth_keeps_what_stands_and_names_the_version_it_read() -> None:
    present = TopicAssignment({0: (BrokerId(1),)}, topic_id="id")
    (operation,) = growth_ops("t", present, {1: [BrokerId(2)]}, version=7)
    assert isinstance(operation, Set)
    assert (operation.path, operation.version) == ("/brokers/topics/t", 7)
    written = TopicAssignment.decode(operation.data)
    assert (written.partitions, written.topic_id) == ({0: (1,), 1: (2,)}, "id")


def test_a_deletion_is_asked_for_by_a_znode() -> None:
    assert deletion_ops("t") == [Create("/admin/delete_topics/t", b"")]
