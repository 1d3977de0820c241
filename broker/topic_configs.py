"""A topic's own settings over the broker's: checked when a topic is made, resolved when one of its logs is opened.

What a client asks for is refused by name when it is unknown, broken or does not act in this version. What stands in
ZooKeeper was written by somebody else and must not stop a partition: such a value is left out, the broker's stands in
its place, and a warning says so.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from barnabas.protocol.batch import Codec
from barnabas.storage.log_config import LogConfig, TimestampType
from broker.config import BrokerConfig, flush_ms, retention_ms, roll_jitter_ms, roll_ms
from broker.config_keys import TOPIC_KEYS
from broker.config_keys.key import ConfigError, ConfigValue, full_protocol_version, message_format_of
from broker.dynamic_config import DynamicConfig
from replication.settings import TopicSettings
from zk_schema import paths
from zk_schema.json_text import InvalidPayload
from zk_schema.payloads import EntityConfig
from zk_schema.port import ZooKeeper

log = logging.getLogger(__name__)

_COMPRESSIONS: Final[Mapping[str, Codec | None]] = {
    "producer": None,
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
_AT_ONCE: Final = 100
_LEAST_INDEX_BYTES: Final = 4
"""What a log takes. No entry fits into fewer than eight bytes, so any smaller size means the same."""


class TopicConfigRefused(Exception):
    """A topic may not have this configuration; peers are answered INVALID_CONFIG with the text."""


class TopicValueInvalid(TopicConfigRefused):
    """A value is not one of its key's; who changes a topic is answered INVALID_REQUEST, as by Kafka."""


def check_topic_config(overrides: Mapping[str, str]) -> None:
    """Refuse what Kafka 2.7 would refuse, then what does not act in this version.

    Raises:
        TopicConfigRefused: naming the key.
    """
    for name in overrides:
        if name not in TOPIC_KEYS:
            raise TopicConfigRefused(f"Unknown topic config name: {name}")
    try:
        values = {name: TOPIC_KEYS[name].parse(text) for name, text in overrides.items()}
    except ConfigError as error:
        raise TopicValueInvalid(f"Invalid topic config: {error}.") from error
    _check_lags(values)
    for name, text in overrides.items():
        key = TOPIC_KEYS[name]
        if not key.acts:
            raise TopicConfigRefused(f"Topic config {name} does not act in this version of Barnabas.")
        try:
            key.require_served(values[name], text)
        except ConfigError as error:
            raise TopicConfigRefused(f"Invalid topic config: {error}.") from error


def check_topic_change(wanted: Mapping[str, str], changed: Collection[str]) -> None:
    """Whether a topic may set `wanted`, in which the keys of `changed` are new, others, or gone.

    Raises:
        TopicConfigRefused: naming the key.
    """
    check_topic_config({name: text for name, text in wanted.items() if name in changed})
    # What was there before may be of another version of us, or of Kafka; it is left out where it cannot be.
    values, _ = _parsed(wanted)
    _check_lags(values)


def _check_lags(values: Mapping[str, ConfigValue]) -> None:
    lags = [values.get(name, TOPIC_KEYS[name].default) for name in ("min.compaction.lag.ms", "max.compaction.lag.ms")]
    minimum, maximum = lags
    assert isinstance(minimum, int)
    assert isinstance(maximum, int)
    if minimum > maximum:
        message = f"Topic config min.compaction.lag.ms ({minimum}) is greater than max.compaction.lag.ms ({maximum})."
        raise TopicConfigRefused(message)


def default_topic_values(config: BrokerConfig) -> dict[str, ConfigValue]:
    """Every topic key as it is for a topic that sets nothing."""
    broker = config.values
    values = {key.name: broker[key.broker_key] if key.broker_key else key.default for key in TOPIC_KEYS.values()}
    values["segment.ms"] = roll_ms(broker)
    values["segment.jitter.ms"] = roll_jitter_ms(broker)
    values["retention.ms"] = retention_ms(broker)
    values["flush.ms"] = flush_ms(broker)
    values["message.format.version"] = full_protocol_version(str(broker["log.message.format.version"]))
    return values  # type: ignore[return-value]


def topic_values(config: BrokerConfig, overrides: Mapping[str, str]) -> tuple[dict[str, ConfigValue], list[str]]:
    """Every topic key as it is with these overrides, and why some of them were left out."""
    values, left_out = _parsed(overrides)
    return default_topic_values(config) | values, left_out


def _parsed(overrides: Mapping[str, str]) -> tuple[dict[str, ConfigValue], list[str]]:
    values = {}
    left_out = []
    for name, text in overrides.items():
        key = TOPIC_KEYS.get(name)
        if key is None:
            left_out.append(f"{name} is not a key that a topic knows")
            continue
        try:
            values[name] = key.parse(text)
        except ConfigError as error:
            left_out.append(str(error))
    return values, left_out


def resolve_topic(config: BrokerConfig, overrides: Mapping[str, str]) -> tuple[TopicSettings, list[str]]:
    """What a topic with these overrides acts on, and why some of them were left out."""
    served = {}
    left_out = []
    for name, text in overrides.items():
        try:
            check_topic_config({name: text})
            served[name] = text
        except TopicConfigRefused as error:
            left_out.append(str(error))
    values, _ = topic_values(config, served)
    settings = TopicSettings(
        _log_config(config, values),
        _number(values, "min.insync.replicas"),
        _texts(values, "leader.replication.throttled.replicas"),
        _texts(values, "follower.replication.throttled.replicas"),
    )
    return settings, left_out


def _log_config(config: BrokerConfig, values: Mapping[str, ConfigValue]) -> LogConfig:
    policy = values["cleanup.policy"]
    assert isinstance(policy, list)
    return LogConfig(
        segment_bytes=_number(values, "segment.bytes"),
        segment_ms=_number(values, "segment.ms"),
        segment_jitter_ms=_number(values, "segment.jitter.ms"),
        segment_index_bytes=max(_number(values, "segment.index.bytes"), _LEAST_INDEX_BYTES),
        index_interval_bytes=_number(values, "index.interval.bytes"),
        retention_ms=_number(values, "retention.ms"),
        retention_bytes=_number(values, "retention.bytes"),
        max_message_bytes=_number(values, "max.message.bytes"),
        # Kafka takes 0 as it takes 1: every append is flushed.
        flush_messages=max(1, _number(values, "flush.messages")),
        flush_ms=_number(values, "flush.ms"),
        file_delete_delay_ms=_number(values, "file.delete.delay.ms"),
        message_timestamp_type=TimestampType(str(values["message.timestamp.type"])),
        message_timestamp_difference_max_ms=_number(values, "message.timestamp.difference.max.ms"),
        delete="delete" in policy,
        compact="compact" in policy,
        min_cleanable_dirty_ratio=_fraction(values, "min.cleanable.dirty.ratio"),
        min_compaction_lag_ms=_number(values, "min.compaction.lag.ms"),
        max_compaction_lag_ms=_number(values, "max.compaction.lag.ms"),
        delete_retention_ms=_number(values, "delete.retention.ms"),
        message_format=message_format_of(str(values["message.format.version"])),
        compression=_COMPRESSIONS[str(values["compression.type"]).lower()],
        message_downconversion_enable=values["message.downconversion.enable"] is True,
        record_validation=config.record_validation,
    )


def _texts(values: Mapping[str, ConfigValue], name: str) -> tuple[str, ...]:
    value = values[name]
    assert isinstance(value, list), name
    return tuple(value)


def _fraction(values: Mapping[str, ConfigValue], name: str) -> float:
    value = values[name]
    assert isinstance(value, float), name
    return value


def _number(values: Mapping[str, ConfigValue], name: str) -> int:
    value = values[name]
    assert isinstance(value, int), name
    return value


class TopicConfigs:
    """Reads what topics set for themselves, from ZooKeeper."""

    def __init__(self, dynamic_config: DynamicConfig, zk: ZooKeeper) -> None:
        self._dynamic_config = dynamic_config
        self._zk = zk

    async def overrides(self, topic: str) -> dict[str, str]:
        """Keys and texts in /config/topics, none when there is no such znode.

        Raises:
            InvalidPayload: what stands there is no configuration.
            ZooKeeperError: ZooKeeper cannot be asked.
        """
        znode = await self._zk.get(paths.topic_config(topic))
        return {} if znode is None else dict(EntityConfig.decode(znode.data).config)

    async def settings(self, topic: str) -> TopicSettings:
        """What the topic's partitions act on. Raises ZooKeeperError."""
        try:
            overrides = await self.overrides(topic)
        except InvalidPayload as error:
            log.warning("topic %s: its configuration cannot be read, the broker's stands: %s", topic, error)
            overrides = {}
        settings, left_out = resolve_topic(self._dynamic_config.current, overrides)
        for reason in left_out:
            log.warning("topic %s: the broker's setting stands: %s", topic, reason)
        return settings

    async def settings_of(self, topics: Iterable[str]) -> dict[str, TopicSettings]:
        """The same of many topics, asked for together. Raises ZooKeeperError."""
        found: dict[str, TopicSettings] = {}
        names = list(topics)
        for first in range(0, len(names), _AT_ONCE):
            some = names[first : first + _AT_ONCE]
            found.update(zip(some, await asyncio.gather(*map(self.settings, some)), strict=True))
        return found
