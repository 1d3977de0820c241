"""One module per API: its versions, behaviour and handler. `ALL` is what the broker serves."""

from typing import Final

from broker.handlers import (
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    api_versions,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    elect_leaders,
    fetch,
    incremental_alter_configs,
    init_producer_id,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_for_leader_epoch,
    produce,
    update_features,
)
from broker.registry import Handler

ALL: Final[tuple[Handler, ...]] = (
    produce.API,
    fetch.API,
    list_offsets.API,
    metadata.API,
    api_versions.API,
    create_topics.API,
    delete_topics.API,
    delete_records.API,
    init_producer_id.API,
    offset_for_leader_epoch.API,
    describe_configs.API,
    alter_configs.API,
    incremental_alter_configs.API,
    describe_log_dirs.API,
    alter_replica_log_dirs.API,
    create_partitions.API,
    elect_leaders.API,
    alter_partition_reassignments.API,
    list_partition_reassignments.API,
    update_features.API,
    describe_cluster.API,
)
