"""Partitions that do not exist are answered beside those that the coordinator sees."""

from collections.abc import Iterable
from typing import Any

from barnabas.coordinator.offsets.refused_partitions import (
    add_refused_commits,
    add_refused_commits_in_transaction,
    add_refused_deletions,
    split,
)
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from barnabas.protocol.messages.offset_delete import (
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponseTopic,
)
from barnabas.protocol.messages.txn_offset_commit import TxnOffsetCommitResponseTopic


def test_known_partitions_go_on_with_all_that_was_said_of_them() -> None:
    partitions = [OffsetCommitRequestPartition(0, 5, committed_metadata="m"), OffsetCommitRequestPartition(9, 6)]
    topics = [OffsetCommitRequestTopic("t", partitions), OffsetCommitRequestTopic("x", partitions[:1])]
    known, refused = split(topics, lambda topic, partition: (topic, partition) == ("t", 0))
    assert known == [OffsetCommitRequestTopic("t", partitions[:1])]
    assert refused == [("t", 9), ("x", 0)]
    assert len(topics[0].partitions) == 2


def test_the_others_are_answered_once_each() -> None:
    topics = [OffsetDeleteRequestTopic("t", [OffsetDeleteRequestPartition(each) for each in (1, 1, 2)])] * 2
    assert split(topics, lambda topic, partition: False) == ([], [("t", 1), ("t", 2)])


def test_an_answer_names_each_topic_once() -> None:
    refused = [("t", 1), ("u", 0), ("t", 2)]
    commits = [OffsetCommitResponseTopic("t", [OffsetCommitResponsePartition(0, 0)])]
    add_refused_commits(commits, refused, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    in_transaction: list[TxnOffsetCommitResponseTopic] = []
    add_refused_commits_in_transaction(in_transaction, refused, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    deletions = [OffsetDeleteResponseTopic("u", [])]
    add_refused_deletions(deletions, refused, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def told(topics: Iterable[Any]) -> dict[str, list[tuple[int, int]]]:
        return {topic.name: [(each.partition_index, each.error_code) for each in topic.partitions] for topic in topics}

    assert told(commits) == {"t": [(0, 0), (1, 3), (2, 3)], "u": [(0, 3)]}
    assert told(in_transaction) == told(deletions) == {"t": [(1, 3), (2, 3)], "u": [(0, 3)]}
    assert [topic.name for topic in deletions] == ["u", "t"]
