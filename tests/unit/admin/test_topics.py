"""`barnabas topics` against a small cluster."""

import json

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey, TopicPartition
from barnabas.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from barnabas.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from barnabas.protocol.records import Record, build_batch
from tests.unit.admin.conftest import Run
from tests.unit.client.small_cluster import Asked, SmallCluster


def test_topics_are_listed(served: SmallCluster, on_cluster: Run) -> None:
    served.add_topic("words", 3)
    served.add_topic("__internal")
    assert on_cluster("topics", "list").lines == [
        "TOPIC       PARTITIONS  REPLICAS  INTERNAL",
        "__internal           1         1  yes",
        "words                3         1  no",
    ]
    listed = json.loads(on_cluster("topics", "list", "-o", "json").out)
    assert listed[1] == {"topic": "words", "partitions": 3, "replication_factor": 1, "internal": False}
    lines = on_cluster("topics", "list", "-o", "jsonl").lines
    assert [json.loads(line)["topic"] for line in lines] == ["__internal", "words"]


def test_an_empty_cluster_lists_nothing(on_cluster: Run) -> None:
    assert on_cluster("topics", "list", "-o", "json").out == b"[]\n"
    assert on_cluster("topics", "list", "-o", "jsonl").out == b""


def test_a_topic_is_described(served: SmallCluster, on_cluster: Run) -> None:
    served.add_topic("words", 2, **{"retention.ms": "60000"})
    served.logs[TopicPartition("words", 1)].append(build_batch([Record(0, 0, None, b"x")] * 3))
    lines = on_cluster("topics", "describe", "words", "--offsets").lines
    assert lines == [
        "words: partitions 2, replicas 1",
        "PARTITION  LEADER  EPOCH  REPLICAS  ISR  START  END",
        "        0       1      0  1         1        0    0",
        "        1       2      0  2         2        0    3",
        "",
        "KEY           VALUE  SOURCE",
        "retention.ms  60000  topic",
    ]
    (described,) = json.loads(on_cluster("topics", "describe", "words", "--all-configs", "-o", "json").out)
    assert [part["leader"] for part in described["partition_list"]] == [1, 2]
    assert [entry["name"] for entry in described["configs"]] == ["cleanup.policy", "retention.ms"]


def test_a_partition_without_a_leader_is_described(served: SmallCluster, on_cluster: Run) -> None:
    served.add_topic("words", 2)
    served.logs[TopicPartition("words", 0)].leader = -1
    ran = on_cluster("topics", "describe", "words", "--offsets", "-o", "jsonl")
    first, second = json.loads(ran.out)["partition_list"]
    assert (first["leader"], first["error"], first["end_offset"]) == (None, "LEADER_NOT_AVAILABLE", None)
    assert (second["leader"], second["error"], second["end_offset"]) == (2, None, 0)


def test_a_missing_topic_is_not_found(on_cluster: Run) -> None:
    ran = on_cluster("topics", "describe", "missing")
    assert (ran.status, ran.out) == (3, b"")
    assert "topic missing" in ran.err
    assert "hint: `barnabas topics list`" in ran.err


def test_topics_are_created_with_numbers_and_configuration(served: SmallCluster, on_cluster: Run) -> None:
    ran = on_cluster("topics", "create", "a", "b", "-p", "3", "-r", "1", "-c", "retention.ms=5", "-c", "x=a=b")
    assert (ran.status, ran.lines[1:]) == (0, ["a      created", "b      created"])
    assert served.configs["b"] == {"retention.ms": "5", "x": "a=b"}
    assert TopicPartition("a", 2) in served.logs


def test_without_numbers_the_brokers_choose(served: SmallCluster, on_cluster: Run) -> None:
    assert on_cluster("topics", "create", "a").status == 0
    (topic,) = served.asked[-1].request.topics
    assert (topic.num_partitions, topic.replication_factor) == (-1, -1)


def test_assignments_are_sent(served: SmallCluster, on_cluster: Run) -> None:
    assert on_cluster("topics", "create", "a", "--assign", "0:2,1", "--assign", "1:1").status == 0
    (topic,) = served.asked[-1].request.topics
    assert [(each.partition_index, each.broker_ids) for each in topic.assignments] == [(0, [2, 1]), (1, [1])]


def test_trying_creates_nothing(served: SmallCluster, on_cluster: Run) -> None:
    ran = on_cluster("topics", "create", "a", "--dry-run")
    assert ran.lines[1] == "a      could be created"
    assert served.configs == {}


def test_one_refusal_does_not_hide_the_others(served: SmallCluster, on_cluster: Run) -> None:
    served.add_topic("a")
    ran = on_cluster("topics", "create", "a", "b")
    assert ran.status == 1
    assert ran.lines[1:] == ["b      created"]
    assert "error: topic a: it is there (TOPIC_ALREADY_EXISTS)" in ran.err
    assert "--if-not-exists" in ran.err
    content = on_cluster("topics", "create", "a", "--if-not-exists")
    assert (content.status, content.lines[1]) == (0, "a      exists")


def test_what_takes_too_long_has_its_status(served: SmallCluster, on_cluster: Run) -> None:
    def slow(asked: Asked) -> CreateTopicsResponse | None:
        if asked.key is not ApiKey.CREATE_TOPICS:
            return None
        return CreateTopicsResponse(topics=[CreatableTopicResult("a", ErrorCode.REQUEST_TIMED_OUT, "too slow")])

    served.on_request = slow
    assert on_cluster("topics", "create", "a").status == 5


def test_deleting_asks_first(served: SmallCluster, on_cluster: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    served.add_topic("words")
    refused = on_cluster("topics", "delete", "words", stdin=b"n\n")
    assert refused.status == 1
    assert "words" in refused.err
    assert "words" in served.configs
    silent = on_cluster("topics", "delete", "words", stdin=b"")
    assert silent.status == 1
    assert "hint: --yes" in silent.err
    assert "words" in served.configs
    assert on_cluster("topics", "delete", "words", stdin=b"y\n").status == 0
    assert served.configs == {}


def test_deleting_what_is_missing(served: SmallCluster, on_cluster: Run) -> None:
    served.add_topic("words")
    ran = on_cluster("topics", "delete", "words", "missing", "--yes")
    assert (ran.status, ran.lines[1:]) == (3, ["words  deleted"])
    content = on_cluster("topics", "delete", "missing", "-y", "--if-exists")
    assert (content.status, content.lines[1]) == (0, "missing  not there")


def test_a_deletion_that_takes_long_is_said_to_go_on(served: SmallCluster, on_cluster: Run) -> None:
    def late(asked: Asked) -> DeleteTopicsResponse | None:
        if asked.key is not ApiKey.DELETE_TOPICS:
            return None
        results = [DeletableTopicResult(name, ErrorCode.REQUEST_TIMED_OUT) for name in asked.request.topic_names]
        return DeleteTopicsResponse(responses=results)

    served.on_request = late
    ran = on_cluster("topics", "delete", "words", "-y")
    assert ran.status == 5
    assert "hint: the deletion stands and goes on by itself" in ran.err


def test_every_failure_is_told(on_cluster: Run) -> None:
    ran = on_cluster("topics", "delete", "first", "second", "-y")
    assert (ran.status, ran.out) == (3, b"")
    assert "topic first" in ran.err
    assert "topic second" in ran.err


def test_partitions_are_added(served: SmallCluster, on_cluster: Run) -> None:
    served.add_topic("words", 2)
    assert on_cluster("topics", "add-partitions", "words", "--by", "2").lines[1] == "words  extended"
    assert on_cluster("topics", "add-partitions", "words", "--to", "6").status == 0
    assert sum(each.topic == "words" for each in served.logs) == 6
    ran = on_cluster("topics", "add-partitions", "words", "--to", "1")
    assert ran.status == 1
    assert "INVALID_PARTITIONS" in ran.err
    assert on_cluster("topics", "add-partitions", "words", "--to", "9", "--dry-run").status == 0
    assert sum(each.topic == "words" for each in served.logs) == 6


@pytest.mark.parametrize(
    "arguments",
    [
        ("topics", "create"),
        ("topics", "create", "a", "-p", "0"),
        ("topics", "create", "a", "-c", "nonsense"),
        ("topics", "create", "a", "--assign", "nonsense"),
        ("topics", "create", "a", "--assign", "0:1", "-p", "1"),
        ("topics", "add-partitions", "a"),
        ("topics", "add-partitions", "a", "--to", "1", "--by", "1"),
        ("topics", "list", "-o", "yaml"),
        ("topics", "nonsense"),
    ],
)
def test_wrong_usage_has_its_status(on_cluster: Run, arguments: tuple[str, ...]) -> None:
    ran = on_cluster(*arguments)
    assert ran.status == 2
    assert "Usage:" in ran.err
