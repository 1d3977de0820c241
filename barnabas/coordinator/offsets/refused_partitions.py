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
_Answered = TypeVar("_Answered", OffsetCommitResponseTopic, TxnOffsetCommitResponseTopic, OffsetDeleteResponseTopic)


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
        if len(partitions) == len(topic.partitions) > 0:
            known.append(topic)
        elif partitions:
            known.append(replace(topic, partitions=partitions))
    return known, list(refused)


def add_refused_commits(
    topics: list[OffsetCommitResponseTopic], refused: Iterable[TopicPartition], error: ErrorCode
) -> None:
    """Give OffsetCommit's answer an error for each of them, under the topics that it has where it has them."""
    _add(topics, refused, error, OffsetCommitResponseTopic, OffsetCommitResponsePartition)


def add_refused_commits_in_transaction(
    topics: list[TxnOffsetCommitResponseTopic], refused: Iterable[TopicPartition], error: ErrorCode
) -> None:
    """The same for TxnOffsetCommit."""
    _add(topics, refused, error, TxnOffsetCommitResponseTopic, TxnOffsetCommitResponsePartition)


def add_refused_deletions(
    topics: list[OffsetDeleteResponseTopic], refused: Iterable[TopicPartition], error: ErrorCode
) -> None:
    """The same for OffsetDelete."""
    _add(topics, refused, error, OffsetDeleteResponseTopic, OffsetDeleteResponsePartition)


def _add(
    topics: list[_Answered],
    refused: Iterable[TopicPartition],
    error: ErrorCode,
    make_topic: Callable[[str, list[Any]], _Answered],
    make_partition: Callable[[int, int], Any],
) -> None:
    known = {topic.name: topic for topic in topics}
    for name, partition in refused:
        if name not in known:
            known[name] = make_topic(name, [])
            topics.append(known[name])
        known[name].partitions.append(make_partition(partition, error.value))
