"""One module per API: its versions, behaviour and handler. `ALL` is what the broker serves."""

from typing import Final

from broker.handlers import (
    api_versions,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_configs,
    describe_log_dirs,
    fetch,
    init_producer_id,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
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
    describe_log_dirs.API,
    create_partitions.API,
)
