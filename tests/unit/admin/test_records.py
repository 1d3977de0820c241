"""`barnabas records delete`, against a small cluster: each partition is asked of its leader."""

import json
from pathlib import Path
from typing import Any

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey, TopicPartition
from barnabas.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from tests.unit.admin.conftest import Run
from tests.unit.admin.replica_cluster import ReplicaCluster, Replicated
from tests.unit.client.small_cluster import Asked, SmallCluster

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


class Deleted:
    """What leaders were asked to give up: (broker, partition, offset)."""

    def __init__(self, served: SmallCluster) -> None:
        self.cluster = ReplicaCluster(served, {A: Replicated(1, [1, 2], [1, 2]), B: Replicated(2, [2, 1], [1, 2])})
        self.asked: list[tuple[int, int, int]] = []
        self.errors: dict[int, list[ErrorCode]] = {}
        self._rest = self.cluster.answer
        served.on_request = self.answer

    def answer(self, asked: Asked) -> Any:
        if asked.key is not ApiKey.DELETE_RECORDS:
            return self._rest(asked)
        topics = []
        for topic in asked.request.topics:
            results = []
            for part in topic.partitions:
                self.asked.append((asked.node_id, part.partition_index, part.offset))
                error = next(iter(self.errors.get(part.partition_index, [])), ErrorCode.NONE)
                self.errors[part.partition_index] = self.errors.get(part.partition_index, [])[1:]
                start = -1 if error else 77 if part.offset == -1 else part.offset
                results.append(DeleteRecordsPartitionResult(part.partition_index, start, error))
            topics.append(DeleteRecordsTopicResult(topic.name, results))
        return DeleteRecordsResponse(0, topics)


@pytest.fixture
def deleted(served: SmallCluster) -> Deleted:
    return Deleted(served)


def test_each_leader_is_asked_and_the_starts_are_shown(deleted: Deleted, on_cluster: Run) -> None:
    ran = on_cluster("records", "delete", "t", "--before", "5", "--yes")
    assert [line.split() for line in ran.lines] == [["TOPIC", "PARTITION", "START"], ["t", "0", "5"], ["t", "1", "5"]]
    assert sorted(deleted.asked) == [(1, 0, 5), (2, 1, 5)]
    ran = on_cluster("records", "delete", "t:1", "--before", "end", "-y", "-o", "json")
    assert json.loads(ran.out) == [{"topic": "t", "partition": 1, "low_watermark": 77}]
    assert deleted.asked[2:] == [(2, 1, -1)]


def test_the_file_of_kafkas_tool_is_read(deleted: Deleted, on_cluster: Run, tmp_path: Path) -> None:
    file = tmp_path / "offsets.json"
    file.write_text('{"version": 1, "partitions": [{"topic": "t", "partition": 1, "offset": 9}]}')
    assert on_cluster("records", "delete", "--offset-json-file", str(file), "-y").status == 0
    assert deleted.asked == [(2, 1, 9)]
    file.write_text('{"partitions": [{"topic": "t"}]}')
    assert on_cluster("records", "delete", "--offset-json-file", str(file), "-y").status == 2


def test_a_leader_that_leads_no_more_is_looked_for_again(deleted: Deleted, on_cluster: Run) -> None:
    deleted.errors = {1: [ErrorCode.NOT_LEADER_OR_FOLLOWER]}
    assert on_cluster("records", "delete", "t", "--before", "5", "-y").status == 0
    assert sorted(deleted.asked) == [(1, 0, 5), (2, 1, 5), (2, 1, 5)]


def test_what_is_refused_is_told_and_the_rest_is_done(deleted: Deleted, on_cluster: Run) -> None:
    deleted.errors = {0: [ErrorCode.POLICY_VIOLATION]}
    ran = on_cluster("records", "delete", "t", "--before", "5", "-y")
    assert (ran.status, len(ran.lines)) == (1, 2)
    assert "POLICY_VIOLATION" in ran.err


def test_a_topic_that_is_only_compacted_gets_a_hint(deleted: Deleted, on_cluster: Run) -> None:
    deleted.errors = {0: [ErrorCode.POLICY_VIOLATION]}
    ran = on_cluster("records", "delete", "t:0", "--before", "5", "-y")
    assert (ran.status, "cleanup.policy" in ran.err.partition("hint: ")[2]) == (1, True)


def test_a_partition_that_there_is_not_is_not_found_at_once(deleted: Deleted, on_cluster: Run, tmp_path: Path) -> None:
    file = tmp_path / "offsets.json"
    file.write_text('{"partitions": [{"topic": "t", "partition": 7, "offset": 9}]}')
    for arguments in (["t:7", "--before", "5"], ["t", "t:7", "--before", "5"], ["--offset-json-file", str(file)]):
        ran = on_cluster("records", "delete", *arguments, "-y")
        assert (ran.status, "t has partitions 0 to 1, not 7" in ran.err) == (3, True)
    assert on_cluster("records", "delete", "nothere:0", "--before", "5", "-y").status == 3
    assert deleted.asked == []


def test_nothing_is_deleted_unasked(deleted: Deleted, on_cluster: Run) -> None:
    assert on_cluster("records", "delete", "t", "--before", "5", stdin=b"n\n").status == 1
    for wrong in (["t"], ["--before", "5"], ["t", "--before", "x"], ["t", "--before", "-5"]):
        assert on_cluster("records", "delete", *wrong, "-y").status == 2
    assert deleted.asked == []
