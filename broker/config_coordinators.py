"""What the configuration says of groups, their offsets, and transactions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from barnabas.coordinator.groups.settings import GroupSettings
from barnabas.coordinator.offsets.settings import OffsetSettings
from barnabas.coordinator.shard_settings import ShardSettings
from barnabas.coordinator.transactions.transaction_coordinator import TransactionSettings
from barnabas.protocol.batch import Codec
from broker.config_keys.key import ConfigValue

_MINUTE_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class CoordinatorSettings:
    """Kafka's keys under their own names, and what the machines are given of them."""

    groups: GroupSettings
    offsets: OffsetSettings
    transactions: TransactionSettings
    offsets_shard: ShardSettings
    transactions_shard: ShardSettings
    offsets_commit_required_acks: int
    offsets_topic_num_partitions: int
    offsets_topic_replication_factor: int
    offsets_topic_segment_bytes: int
    transaction_state_log_num_partitions: int
    transaction_state_log_replication_factor: int
    transaction_state_log_segment_bytes: int
    transaction_state_log_min_isr: int


def coordinator_settings(values: Mapping[str, ConfigValue]) -> CoordinatorSettings:
    """The settings that these values make; they are the types of their keys."""

    def number(name: str) -> int:
        value = values[name]
        assert isinstance(value, int), name
        return value

    return CoordinatorSettings(
        groups=GroupSettings(
            min_session_timeout_ms=number("group.min.session.timeout.ms"),
            max_session_timeout_ms=number("group.max.session.timeout.ms"),
            max_size=number("group.max.size"),
            initial_rebalance_delay_ms=number("group.initial.rebalance.delay.ms"),
        ),
        offsets=OffsetSettings(
            metadata_max_bytes=number("offset.metadata.max.bytes"),
            retention_ms=number("offsets.retention.minutes") * _MINUTE_MS,
            check_interval_ms=number("offsets.retention.check.interval.ms"),
        ),
        transactions=TransactionSettings(
            timeout_sweep_ms=number("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
            expiration_ms=number("transactional.id.expiration.ms"),
            expiration_sweep_ms=number("transaction.remove.expired.transaction.cleanup.interval.ms"),
        ),
        offsets_shard=ShardSettings(
            commit_timeout_ms=number("offsets.commit.timeout.ms"),
            load_buffer_bytes=number("offsets.load.buffer.size"),
            codec=Codec(number("offsets.topic.compression.codec")),
        ),
        transactions_shard=ShardSettings(load_buffer_bytes=number("transaction.state.log.load.buffer.size")),
        offsets_commit_required_acks=number("offsets.commit.required.acks"),
        offsets_topic_num_partitions=number("offsets.topic.num.partitions"),
        offsets_topic_replication_factor=number("offsets.topic.replication.factor"),
        offsets_topic_segment_bytes=number("offsets.topic.segment.bytes"),
        transaction_state_log_num_partitions=number("transaction.state.log.num.partitions"),
        transaction_state_log_replication_factor=number("transaction.state.log.replication.factor"),
        transaction_state_log_segment_bytes=number("transaction.state.log.segment.bytes"),
        transaction_state_log_min_isr=number("transaction.state.log.min.isr"),
    )
