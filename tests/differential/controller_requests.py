"""The requests of the corpus that the controller decides, by what they mean."""

from collections.abc import Mapping, Sequence

from barnabas.protocol.messages import alter_partition_reassignments as alter
from barnabas.protocol.messages import create_partitions, delete_records, delete_topics, elect_leaders, update_features
from barnabas.protocol.messages import list_partition_reassignments as listing

PREFERRED, UNCLEAN = 0, 1


def reassign(
    topics: Mapping[str, Mapping[int, Sequence[int] | None]], timeout_ms: int = 60_000
) -> alter.AlterPartitionReassignmentsRequest:
    """An AlterPartitionReassignments: the replicas of each partition, or None to cancel."""
    wanted = [
        alter.ReassignableTopic(
            name,
            [
                alter.ReassignablePartition(number, None if brokers is None else list(brokers))
                for number, brokers in found.items()
            ],
        )
        for name, found in topics.items()
    ]
    return alter.AlterPartitionReassignmentsRequest(timeout_ms, wanted)


def moves_of(topics: Mapping[str, Sequence[int]] | None) -> listing.ListPartitionReassignmentsRequest:
    """A ListPartitionReassignments of these partitions, or of all."""
    if topics is None:
        return listing.ListPartitionReassignmentsRequest(topics=None)
    found = [listing.ListPartitionReassignmentsTopics(name, list(numbers)) for name, numbers in topics.items()]
    return listing.ListPartitionReassignmentsRequest(topics=found)


def elect(
    topics: Mapping[str, Sequence[int]] | None, kind: int = PREFERRED, timeout_ms: int = 15_000
) -> elect_leaders.ElectLeadersRequest:
    """An ElectLeaders of these partitions, or of all."""
    found = topics and [elect_leaders.TopicPartitions(name, list(numbers)) for name, numbers in topics.items()]
    return elect_leaders.ElectLeadersRequest(kind, None if found is None else list(found), timeout_ms)


def grow(
    topic: str,
    count: int,
    assignments: Sequence[list[int]] | None = None,
    *,
    timeout_ms: int = 15_000,
    validate_only: bool = False,
) -> create_partitions.CreatePartitionsRequest:
    """A CreatePartitions of one topic; each assignment has the brokers of a new partition."""
    brokers = (
        None if assignments is None else [create_partitions.CreatePartitionsAssignment(one) for one in assignments]
    )
    wanted = create_partitions.CreatePartitionsTopic(topic, count, brokers)
    return create_partitions.CreatePartitionsRequest([wanted], timeout_ms, validate_only)


def delete(*names: str, timeout_ms: int = 15_000) -> delete_topics.DeleteTopicsRequest:
    return delete_topics.DeleteTopicsRequest(list(names), timeout_ms)


def delete_before(*wanted: tuple[str, int, int], timeout_ms: int = 15_000) -> delete_records.DeleteRecordsRequest:
    """A DeleteRecords of (topic, partition, offset), each a topic of its own. Leaders answer this one."""
    topics = [
        delete_records.DeleteRecordsTopic(topic, [delete_records.DeleteRecordsPartition(partition, offset)])
        for topic, partition, offset in wanted
    ]
    return delete_records.DeleteRecordsRequest(topics, timeout_ms)


def update(
    *updates: update_features.FeatureUpdateKey, timeout_ms: int = 15_000
) -> update_features.UpdateFeaturesRequest:
    return update_features.UpdateFeaturesRequest(timeout_ms, list(updates))
