"""What a topic may set, and what its logs then act on."""

import pytest

from barnabas.protocol.batch import Codec
from barnabas.storage.log_config import LogConfig, RecordValidation, TimestampType
from broker.config import BrokerConfig, resolve_broker_config
from broker.topic_configs import TopicConfigRefused, check_topic_config, resolve_topic


def config(**given: str) -> BrokerConfig:
    texts = {name.replace("_", "."): text for name, text in given.items()}
    return resolve_broker_config({"zookeeper.connect": "z"} | texts)


def test_a_topic_that_sets_nothing_has_kafkas_defaults() -> None:
    settings, left_out = resolve_topic(config(), {})
    assert settings.log == LogConfig()
    assert settings.min_insync_replicas == 1
    assert left_out == []


def test_every_acting_broker_key_reaches_the_log() -> None:
    given = {
        "log_segment_bytes": "1000",
        "log_roll_hours": "1",
        "log_roll_jitter_ms": "3",
        "log_index_size_max_bytes": "80",
        "log_index_interval_bytes": "5",
        "log_retention_minutes": "1",
        "log_retention_bytes": "7",
        "message_max_bytes": "8",
        "log_flush_interval_messages": "9",
        "log_flush_interval_ms": "10",
        "log_segment_delete_delay_ms": "11",
        "log_message_timestamp_type": "LogAppendTime",
        "log_message_timestamp_difference_max_ms": "12",
        "barnabas_record_validation": "full",
        "min_insync_replicas": "2",
    }
    settings, _ = resolve_topic(config(**given), {})
    assert settings.min_insync_replicas == 2
    assert settings.log == LogConfig(
        segment_bytes=1000,
        segment_ms=3_600_000,
        segment_jitter_ms=3,
        segment_index_bytes=80,
        index_interval_bytes=5,
        retention_ms=60_000,
        retention_bytes=7,
        max_message_bytes=8,
        flush_messages=9,
        flush_ms=10,
        file_delete_delay_ms=11,
        message_timestamp_type=TimestampType.LOG_APPEND_TIME,
        message_timestamp_difference_max_ms=12,
        record_validation=RecordValidation.FULL,
    )


def test_every_acting_topic_key_stands_before_the_brokers() -> None:
    overrides = {
        "segment.bytes": "1000",
        "segment.ms": "2",
        "segment.jitter.ms": "3",
        "segment.index.bytes": "80",
        "index.interval.bytes": "5",
        "retention.ms": "-1",
        "retention.bytes": "7",
        "max.message.bytes": "8",
        "flush.messages": "1",
        "flush.ms": "10",
        "file.delete.delay.ms": "11",
        "preallocate": "false",
        "message.timestamp.type": "LogAppendTime",
        "message.timestamp.difference.max.ms": "12",
        "min.insync.replicas": "2",
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.25",
        "min.compaction.lag.ms": "13",
        "max.compaction.lag.ms": "14",
        "delete.retention.ms": "15",
        "compression.type": "lz4",
        "unclean.leader.election.enable": "false",
        "message.format.version": "0.10.2",
        "message.downconversion.enable": "false",
    }
    check_topic_config(overrides)
    settings, left_out = resolve_topic(config(log_retention_hours="1", message_max_bytes="99"), overrides)
    assert left_out == []
    assert settings.min_insync_replicas == 2
    assert settings.log == LogConfig(
        segment_bytes=1000,
        segment_ms=2,
        segment_jitter_ms=3,
        segment_index_bytes=80,
        index_interval_bytes=5,
        retention_ms=-1,
        retention_bytes=7,
        max_message_bytes=8,
        flush_messages=1,
        flush_ms=10,
        file_delete_delay_ms=11,
        message_timestamp_type=TimestampType.LOG_APPEND_TIME,
        message_timestamp_difference_max_ms=12,
        message_format=1,
        compression=Codec.LZ4,
        message_downconversion_enable=False,
        delete=False,
        compact=True,
        min_cleanable_dirty_ratio=0.25,
        min_compaction_lag_ms=13,
        max_compaction_lag_ms=14,
        delete_retention_ms=15,
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("no.such.key", "1"),
        ("segment.bytes", "13"),
        ("segment.bytes", "many"),
        ("cleanup.policy", "shred"),
        ("compression.type", "GZIP"),
        ("preallocate", "true"),
        ("message.format.version", "0.12.0"),
        ("delete.retention.ms", "-1"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("min.compaction.lag.ms", "-1"),
        ("max.compaction.lag.ms", "0"),
    ],
)
def test_what_a_topic_may_not_set_is_refused_by_name(name: str, text: str) -> None:
    with pytest.raises(TopicConfigRefused) as refused:
        check_topic_config({name: text})
    assert name in str(refused.value)


def test_an_index_too_small_for_an_entry_is_taken_as_one_that_holds_none() -> None:
    check_topic_config({"segment.index.bytes": "0"})
    settings, left_out = resolve_topic(config(), {"segment.index.bytes": "0"})
    assert (settings.log.segment_index_bytes, left_out) == (4, [])


def test_lags_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(TopicConfigRefused, match="greater"):
        check_topic_config({"min.compaction.lag.ms": "2", "max.compaction.lag.ms": "1"})


def test_what_stands_in_zookeeper_and_cannot_be_is_left_out_and_told() -> None:
    overrides = {"retention.ms": "5", "segment.bytes": "x", "cleanup.policy": "shred", "no.such.key": "1"}
    settings, left_out = resolve_topic(config(), overrides)
    assert settings.log == LogConfig(retention_ms=5)
    assert len(left_out) == 3
