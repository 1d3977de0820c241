"""Partitions of a request about offsets that its coordinator shall not see: those that do not exist.

Works on OffsetCommit, TxnOffsetCommit and OffsetDelete alike: each asks by topics that have a `name` and `partitions`,
and answers each partition with an error. Where nothing is left Kafka answers without asking the coordinator.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

from barnabas.coordinator.offsets.committed import TopicPartition
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequestTopic,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from barnabas.protocol.messages.offset_delete import (
    OffsetDeleteRequestTopic,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

Asked = TypeVar("Asked", OffsetCommitRequestTopic, TxnOffsetCommitRequestTopic, OffsetDeleteRequestTopic)
_Answered = TypeVar("_Answered")


def split(topics: Iterable[Asked], is_known: Callable[[str, int], bool]) -> tuple[list[Asked], list[TopicPartition]]:
    """The topics with the partitions that are known, and the partitions that are not, each once."""
    known: list[Asked] = []
    refused: dict[TopicPartition, None] = {}
    for topic in topics:
        partitions: list[Any] = []
        for each in topic.partitions:
            if is_known(topic.name, each.partition_index):
                partitions.append(each)
            else:
                refused[topic.name, each.partition_index] = None
        if partitions:
            known.append(replace(topic, partitions=partitions))
    return known, list(refused)


def refused_commits(refused: Iterable[TopicPartition], error: ErrorCode) -> list[OffsetCommitResponseTopic]:
    """What OffsetCommit answers of them, for the end of its response's topics."""
    return _answers(refused, error, OffsetCommitResponseTopic, OffsetCommitResponsePartition)


def refused_commits_in_transaction(
    refused: Iterable[TopicPartition], error: ErrorCode
) -> list[TxnOffsetCommitResponseTopic]:
    """What TxnOffsetCommit answers of them."""
    return _answers(refused, error, TxnOffsetCommitResponseTopic, TxnOffsetCommitResponsePartition)


def refused_deletions(refused: Iterable[TopicPartition], error: ErrorCode) -> list[OffsetDeleteResponseTopic]:
    """What OffsetDelete answers of them."""
    return _answers(refused, error, OffsetDeleteResponseTopic, OffsetDeleteResponsePartition)


def _answers(
    refused: Iterable[TopicPartition],
    error: ErrorCode,
    make_topic: Callable[[str, list[Any]], _Answered],
    make_partition: Callable[[int, int], Any],
) -> list[_Answered]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in refused:
        by_topic.setdefault(topic, []).append(partition)
    return [
        make_topic(topic, [make_partition(each, error.value) for each in partitions])
        for topic, partitions in by_topic.items()
    ]
