"""Partitions that do not exist are answered beside those that the coordinator sees."""

from barnabas.coordinator.offsets.refused_partitions import (
    refused_commits,
    refused_commits_in_transaction,
    refused_deletions,
    split,
)
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from barnabas.protocol.messages.offset_delete import OffsetDeleteRequestPartition, OffsetDeleteRequestTopic


def test_known_partitions_go_on_with_all_that_was_said_of_them() -> None:
    partitions = [OffsetCommitRequestPartition(0, 5, committed_metadata="m"), OffsetCommitRequestPartition(9, 6)]
    topics = [OffsetCommitRequestTopic("t", partitions), OffsetCommitRequestTopic("x", partitions[:1])]
    known, refused = split(topics, lambda topic, partition: (topic, partition) == ("t", 0))
    assert known == [OffsetCommitRequestTopic("t", partitions[:1])]
    assert refused == [("t", 9), ("x", 0)]
    assert len(topics[0].partitions) == 2


def test_the_others_are_answered_once_each() -> None:
    topics = [OffsetDeleteRequestTopic("t", [OffsetDeleteRequestPartition(each) for each in (1, 1, 2)])] * 2
    known, refused = split(topics, lambda topic, partition: False)
    assert (known, refused) == ([], [("t", 1), ("t", 2)])
    for answers in (refused_commits, refused_commits_in_transaction, refused_deletions):
        (topic,) = answers(refused, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        assert topic.name == "t"  # type: ignore[attr-defined]
        assert [(each.partition_index, each.error_code) for each in topic.partitions] == [(1, 3), (2, 3)]  # type: ignore[attr-defined]
