"""The requests of the corpus by what they mean; a field that a version lacks is left at its default."""

from collections.abc import Mapping, Sequence

from barnabas.protocol.messages import (
    alter_configs,
    create_topics,
    describe_configs,
    fetch,
    incremental_alter_configs,
    list_offsets,
    metadata,
    produce,
)
from barnabas.protocol.messages import offset_for_leader_epoch as epochs

TOPIC = 2
BROKER = 4
LOGGER = 8

SET, DELETE, APPEND, SUBTRACT = range(4)


def produce_to(
    version: int,
    topic: str,
    records: bytes | None,
    *,
    partition: int = 0,
    acks: int = -1,
    timeout_ms: int = 15_000,
    transactional_id: str | None = None,
) -> produce.ProduceRequest:
    """A Produce of one partition."""
    return produce_many(
        version, {topic: {partition: records}}, acks=acks, timeout_ms=timeout_ms, transactional_id=transactional_id
    )


def produce_many(
    version: int,
    topics: dict[str, dict[int, bytes | None]],
    *,
    acks: int = -1,
    timeout_ms: int = 15_000,
    transactional_id: str | None = None,
) -> produce.ProduceRequest:
    return produce.ProduceRequest(
        transactional_id=transactional_id if version >= 3 else "",
        acks=acks,
        timeout_ms=timeout_ms,
        topics=[
            produce.TopicProduceData(name, [produce.PartitionProduceData(index, data) for index, data in found.items()])
            for name, found in topics.items()
        ],
    )


def fetch_partition(
    offset: int = 0,
    *,
    partition: int = 0,
    max_bytes: int = 1 << 20,
    leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
    log_start_offset: int = -1,
) -> fetch.FetchPartition:
    return fetch.FetchPartition(
        partition=partition,
        current_leader_epoch=leader_epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_fetched_epoch,
        log_start_offset=log_start_offset,
        partition_max_bytes=max_bytes,
    )


def fetch_from(
    topic: str,
    *partitions: fetch.FetchPartition,
    replica_id: int = -1,
    max_wait_ms: int = 0,
    min_bytes: int = 0,
    max_bytes: int = 50 << 20,
    isolation_level: int = 0,
    session: tuple[int, int] = (0, -1),
    rack_id: str = "",
) -> fetch.FetchRequest:
    """A Fetch of one topic; without partitions, of its partition 0 from the start. `session` is its id and epoch."""
    return fetch_topics(
        {topic: partitions or (fetch_partition(),)},
        replica_id=replica_id,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session=session,
        rack_id=rack_id,
    )


def fetch_topics(
    topics: Mapping[str, Sequence[fetch.FetchPartition]],
    *,
    replica_id: int = -1,
    max_wait_ms: int = 0,
    min_bytes: int = 0,
    max_bytes: int = 50 << 20,
    isolation_level: int = 0,
    session: tuple[int, int] = (0, -1),
    forgotten: Mapping[str, list[int]] | None = None,
    rack_id: str = "",
) -> fetch.FetchRequest:
    return fetch.FetchRequest(
        replica_id=replica_id,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session[0],
        session_epoch=session[1],
        topics=[fetch.FetchTopic(name, list(partitions)) for name, partitions in topics.items()],
        forgotten_topics_data=[fetch.ForgottenTopic(name, numbers) for name, numbers in (forgotten or {}).items()],
        rack_id=rack_id,
    )


def list_offsets_of(
    topic: str,
    *timestamps: int,
    partition: int = 0,
    replica_id: int = -1,
    isolation_level: int = 0,
    leader_epoch: int = -1,
    max_num_offsets: int = 1,
) -> list_offsets.ListOffsetRequest:
    """A ListOffsets of one partition; several timestamps ask for the partitions that follow."""
    return list_offsets.ListOffsetRequest(
        replica_id=replica_id,
        isolation_level=isolation_level,
        topics=[
            list_offsets.ListOffsetTopic(
                topic,
                [
                    list_offsets.ListOffsetPartition(
                        partition_index=partition + number,
                        current_leader_epoch=leader_epoch,
                        timestamp=timestamp,
                        max_num_offsets=max_num_offsets,
                    )
                    for number, timestamp in enumerate(timestamps)
                ],
            )
        ],
    )


def metadata_of(*topics: str, create: bool = False) -> metadata.MetadataRequest:
    """A Metadata request for version 4 or later; older ones create missing topics and cannot say so."""
    return metadata.MetadataRequest(
        topics=[metadata.MetadataRequestTopic(name) for name in topics], allow_auto_topic_creation=create
    )


def a_topic(
    name: str,
    partitions: int = 1,
    replication_factor: int = 1,
    *,
    configs: dict[str, str | None] | None = None,
    assignments: dict[int, list[int]] | None = None,
) -> create_topics.CreatableTopic:
    """A topic to create; with assignments the two numbers are -1 unless given."""
    return create_topics.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=[create_topics.CreatableReplicaAssignment(*one) for one in (assignments or {}).items()],
        configs=[create_topics.CreateableTopicConfig(key, value) for key, value in (configs or {}).items()],
    )


def create(
    *topics: create_topics.CreatableTopic, timeout_ms: int = 15_000, validate_only: bool = False
) -> create_topics.CreateTopicsRequest:
    return create_topics.CreateTopicsRequest(list(topics), timeout_ms, validate_only)


def describe(
    *resources: tuple[int, str, list[str] | None], synonyms: bool = False, documentation: bool = False
) -> describe_configs.DescribeConfigsRequest:
    """A DescribeConfigs of (type, name, keys or None for all)."""
    return describe_configs.DescribeConfigsRequest(
        [describe_configs.DescribeConfigsResource(*resource) for resource in resources], synonyms, documentation
    )


def epoch_end(
    topic: str, epoch: int, *, partition: int = 0, current_leader_epoch: int = -1, replica_id: int = -2
) -> epochs.OffsetForLeaderEpochRequest:
    asked = epochs.OffsetForLeaderPartition(partition, current_leader_epoch, epoch)
    return epochs.OffsetForLeaderEpochRequest(replica_id, [epochs.OffsetForLeaderTopic(topic, [asked])])


def alter(
    *resources: tuple[int, str, dict[str, str | None]], validate_only: bool = False
) -> alter_configs.AlterConfigsRequest:
    """An AlterConfigs request; a resource is its type, its name and all that shall be set."""
    wanted = [
        alter_configs.AlterConfigsResource(
            kind, name, [alter_configs.AlterableConfig(key, value) for key, value in settings.items()]
        )
        for kind, name, settings in resources
    ]
    return alter_configs.AlterConfigsRequest(wanted, validate_only)


def change(
    *resources: tuple[int, str, list[tuple[str, int, str | None]]], validate_only: bool = False
) -> incremental_alter_configs.IncrementalAlterConfigsRequest:
    """An IncrementalAlterConfigs request; a resource is its type, its name, and changes: key, operation, value."""
    wanted = [
        incremental_alter_configs.AlterConfigsResource(
            kind, name, [incremental_alter_configs.AlterableConfig(*each) for each in changes]
        )
        for kind, name, changes in resources
    ]
    return incremental_alter_configs.IncrementalAlterConfigsRequest(wanted, validate_only)
