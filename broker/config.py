"""A broker's configuration: read as Kafka 2.7 reads server.properties, checked, and given typed names.  [P]

`parse_properties` reads Kafka's file format, `resolve_broker_config` makes a `BrokerConfig` of it. Whatever cannot be
taken stops the start with a `ConfigError` that names the key, its value and what is allowed. What is taken and has no
effect (an unknown key, or a known one that does not act in this version and is not left at its default) is in
`warnings`, one line each, for whoever starts the broker to log.

The fields of a `BrokerConfig` bear the names of the keys with underscores; a key with several units has one field in
milliseconds. `values` holds every key's parsed value, `given` the texts as they were set, and `layers` tells
where each was set: in the file, or in ZooKeeper for all brokers or for this one (`broker.dynamic_config`).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import javaproperties

from barnabas.storage.log_config import RecordValidation
from broker.config_coordinators import CoordinatorSettings, coordinator_settings
from broker.config_keys import BROKER_KEYS, OTHER_SPELLINGS
from broker.config_keys.key import REQUIRED, ConfigError, ConfigKey, ConfigValue
from broker.config_listeners import Listeners, parse_pairs, resolve_control_listener, resolve_listeners

_HOST: Final = re.compile(r"([0-9a-zA-Z\-%._:]*)")
_LISTENER_KEY: Final = re.compile(r"listener\.name\.[^.]*\.(.*)")
_MS_PER_MINUTE: Final = 60_000
_MS_PER_HOUR: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class Layers:
    """Where texts come from; a later layer stands over the earlier ones. The last two stand in ZooKeeper (KIP-226)."""

    static: Mapping[str, str]
    of_all_brokers: Mapping[str, str]
    of_this_broker: Mapping[str, str]
    given: Mapping[str, str]
    """All of them together."""

    @classmethod
    def of(
        cls, static: Mapping[str, str], of_all_brokers: Mapping[str, str], of_this_broker: Mapping[str, str]
    ) -> "Layers":
        given = {**static, **of_all_brokers, **of_this_broker}
        return cls(*(MappingProxyType(dict(texts)) for texts in (static, of_all_brokers, of_this_broker, given)))

    def dynamic(self, name: str) -> str | None:
        """What ZooKeeper says of a key."""
        return self.of_this_broker.get(name, self.of_all_brokers.get(name))


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """What a broker was told. `broker_id` is -1 when it is to be looked up or generated."""

    layers: Layers
    values: Mapping[str, ConfigValue]
    host_name: str
    warnings: tuple[str, ...]

    broker_id: int
    broker_id_generation_enable: bool
    reserved_broker_max_id: int
    broker_rack: str | None

    zookeeper_connect: str
    zookeeper_session_timeout_ms: int
    zookeeper_connection_timeout_ms: int
    zookeeper_max_in_flight_requests: int

    listeners: Listeners
    control_host: str
    control_port: int
    controller_socket_timeout_ms: int
    controlled_shutdown_enable: bool
    controlled_shutdown_max_retries: int
    controlled_shutdown_retry_backoff_ms: int
    unclean_leader_election_enable: bool
    auto_leader_rebalance_enable: bool
    leader_imbalance_per_broker_percentage: int
    leader_imbalance_check_interval_seconds: int
    metrics_port: int | None
    socket_send_buffer_bytes: int
    socket_receive_buffer_bytes: int
    socket_request_max_bytes: int
    queued_max_request_bytes: int
    max_connections: int
    max_connections_per_ip: int
    max_connections_per_ip_overrides: Mapping[str, int]
    connections_max_idle_ms: int

    log_dirs: tuple[str, ...]
    log_retention_check_interval_ms: int
    log_flush_offset_checkpoint_interval_ms: int
    log_flush_start_offset_checkpoint_interval_ms: int
    replica_high_watermark_checkpoint_interval_ms: int
    num_recovery_threads_per_data_dir: int
    record_validation: RecordValidation

    num_partitions: int
    default_replication_factor: int
    min_insync_replicas: int
    auto_create_topics_enable: bool
    delete_topic_enable: bool
    transactional_id_expiration_ms: int
    transaction_max_timeout_ms: int
    max_incremental_fetch_session_cache_slots: int
    fetch_max_bytes: int
    num_replica_fetchers: int
    replica_moves_at_once: int
    replica_fetch_min_bytes: int
    replica_fetch_max_bytes: int
    replica_fetch_response_max_bytes: int
    replica_fetch_wait_max_ms: int
    replica_fetch_backoff_ms: int
    replica_socket_timeout_ms: int
    replica_socket_receive_buffer_bytes: int
    replica_lag_time_max_ms: int
    replica_selector: str | None
    last_replica_defence: bool
    coordinators: CoordinatorSettings

    @property
    def given(self) -> Mapping[str, str]:
        """Keys and texts as they were set."""
        return self.layers.given


def parse_properties(data: bytes) -> dict[str, str]:
    """The keys and texts of a properties file, the last of a repeated key.

    Raises:
        ConfigError: an escape in it is broken.
    """
    try:
        return dict(javaproperties.loads(data))
    except javaproperties.InvalidUEscapeError as error:
        raise ConfigError("the properties file", error.escape, "\\u and four hexadecimal digits") from error


def resolve_broker_config(
    static: Mapping[str, str],
    *,
    host_name: str = "localhost",
    of_all_brokers: Mapping[str, str] | None = None,
    of_this_broker: Mapping[str, str] | None = None,
) -> BrokerConfig:
    """The configuration that these keys and texts make on a machine of this name, under what ZooKeeper says.

    Raises:
        ConfigError: a required key is missing, or a value cannot be.
    """
    if "config.providers" in static:
        raise ConfigError("config.providers", static["config.providers"], "nothing in this version of Barnabas")
    layers = Layers.of(static, of_all_brokers or {}, of_this_broker or {})
    values = {key.name: _value(key, layers.given) for key in BROKER_KEYS.values()}
    config = _build(layers, values, host_name)
    _check_together(config, values)
    return config


def _value(key: ConfigKey, given: Mapping[str, str]) -> ConfigValue:
    text = given.get(key.name)
    if text is None:
        if key.default is REQUIRED:
            raise ConfigError(key.name, None, "a value: it has no default")
        return key.default
    value = key.parse(text)
    if value != key.default:
        key.require_served(value, text)
    return value


def _warn(given: Mapping[str, str], values: Mapping[str, ConfigValue]) -> Iterator[str]:
    for name in given:
        key = BROKER_KEYS.get(name)
        if key is None:
            match = _LISTENER_KEY.fullmatch(name)
            if match is not None:
                yield f"{name} is set but does not act in this version of Barnabas"
            else:
                yield f"{name} is set but is not a key that a broker knows"
        elif not key.acts and values[name] != key.default:
            yield f"{name} is set but does not act in this version of Barnabas"


class _Reader:
    """Typed access to parsed values. The types are those of the table."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, ConfigValue]) -> None:
        self._values = values

    def number(self, name: str) -> int:
        value = self._values[name]
        assert isinstance(value, int), name
        return value

    def flag(self, name: str) -> bool:
        value = self._values[name]
        assert isinstance(value, bool), name
        return value

    def text(self, name: str) -> str:
        value = self._values[name]
        assert isinstance(value, str), name
        return value

    def number_or(self, name: str, fallback: int) -> int:
        return fallback if self._values[name] is None else self.number(name)

    def text_or_none(self, name: str) -> str | None:
        return None if self._values[name] is None else self.text(name)


def _build(layers: Layers, values: Mapping[str, ConfigValue], host_name: str) -> BrokerConfig:
    read = _Reader(values)
    listeners = resolve_listeners(values, layers.given, host_name=host_name)
    control_host, control_port = resolve_control_listener(read.text_or_none("barnabas.control.listener"), listeners)
    session_timeout_ms = read.number("zookeeper.session.timeout.ms")
    metrics_port = read.number("barnabas.metrics.port")
    return BrokerConfig(
        layers=layers,
        values=MappingProxyType(dict(values)),
        host_name=host_name,
        warnings=tuple(_warn(layers.static, values)),
        broker_id=read.number("broker.id"),
        broker_id_generation_enable=read.flag("broker.id.generation.enable"),
        reserved_broker_max_id=read.number("reserved.broker.max.id"),
        broker_rack=read.text_or_none("broker.rack"),
        zookeeper_connect=read.text("zookeeper.connect"),
        zookeeper_session_timeout_ms=session_timeout_ms,
        zookeeper_connection_timeout_ms=read.number_or("zookeeper.connection.timeout.ms", session_timeout_ms),
        zookeeper_max_in_flight_requests=read.number("zookeeper.max.in.flight.requests"),
        listeners=listeners,
        control_host=control_host,
        control_port=control_port,
        controller_socket_timeout_ms=read.number("controller.socket.timeout.ms"),
        controlled_shutdown_enable=read.flag("controlled.shutdown.enable"),
        controlled_shutdown_max_retries=read.number("controlled.shutdown.max.retries"),
        controlled_shutdown_retry_backoff_ms=read.number("controlled.shutdown.retry.backoff.ms"),
        unclean_leader_election_enable=read.flag("unclean.leader.election.enable"),
        auto_leader_rebalance_enable=read.flag("auto.leader.rebalance.enable"),
        leader_imbalance_per_broker_percentage=read.number("leader.imbalance.per.broker.percentage"),
        leader_imbalance_check_interval_seconds=read.number("leader.imbalance.check.interval.seconds"),
        metrics_port=None if metrics_port < 0 else metrics_port,
        socket_send_buffer_bytes=read.number("socket.send.buffer.bytes"),
        socket_receive_buffer_bytes=read.number("socket.receive.buffer.bytes"),
        socket_request_max_bytes=read.number("socket.request.max.bytes"),
        queued_max_request_bytes=read.number("queued.max.request.bytes"),
        max_connections=read.number("max.connections"),
        max_connections_per_ip=read.number("max.connections.per.ip"),
        max_connections_per_ip_overrides=_connections_by_host(read.text("max.connections.per.ip.overrides")),
        connections_max_idle_ms=read.number("connections.max.idle.ms"),
        log_dirs=_directories(read),
        log_retention_check_interval_ms=read.number("log.retention.check.interval.ms"),
        log_flush_offset_checkpoint_interval_ms=read.number("log.flush.offset.checkpoint.interval.ms"),
        log_flush_start_offset_checkpoint_interval_ms=read.number("log.flush.start.offset.checkpoint.interval.ms"),
        replica_high_watermark_checkpoint_interval_ms=read.number("replica.high.watermark.checkpoint.interval.ms"),
        num_recovery_threads_per_data_dir=read.number("num.recovery.threads.per.data.dir"),
        record_validation=RecordValidation(read.text("barnabas.record.validation")),
        num_partitions=read.number("num.partitions"),
        default_replication_factor=read.number("default.replication.factor"),
        min_insync_replicas=read.number("min.insync.replicas"),
        auto_create_topics_enable=read.flag("auto.create.topics.enable"),
        delete_topic_enable=read.flag("delete.topic.enable"),
        transactional_id_expiration_ms=read.number("transactional.id.expiration.ms"),
        transaction_max_timeout_ms=read.number("transaction.max.timeout.ms"),
        max_incremental_fetch_session_cache_slots=read.number("max.incremental.fetch.session.cache.slots"),
        fetch_max_bytes=read.number("fetch.max.bytes"),
        replica_moves_at_once=read.number_or("num.replica.alter.log.dirs.threads", len(_directories(read))),
        num_replica_fetchers=read.number("num.replica.fetchers"),
        replica_fetch_min_bytes=read.number("replica.fetch.min.bytes"),
        replica_fetch_max_bytes=read.number("replica.fetch.max.bytes"),
        replica_fetch_response_max_bytes=read.number("replica.fetch.response.max.bytes"),
        replica_fetch_wait_max_ms=read.number("replica.fetch.wait.max.ms"),
        replica_fetch_backoff_ms=read.number("replica.fetch.backoff.ms"),
        replica_socket_timeout_ms=read.number("replica.socket.timeout.ms"),
        replica_socket_receive_buffer_bytes=read.number("replica.socket.receive.buffer.bytes"),
        replica_lag_time_max_ms=read.number("replica.lag.time.max.ms"),
        replica_selector=read.text_or_none("replica.selector.class"),
        last_replica_defence=read.flag("barnabas.last.replica.defence"),
        coordinators=coordinator_settings(values),
    )


def _directories(read: _Reader) -> tuple[str, ...]:
    text = read.text_or_none("log.dirs")
    key = "log.dirs" if text is not None else "log.dir"
    text = read.text("log.dir") if text is None else text
    directories = tuple(item.strip() for item in text.split(",") if item.strip())
    if not directories or len(set(directories)) != len(directories):
        raise ConfigError(key, text, "one or more different directories, separated by commas")
    return directories


def _connections_by_host(text: str) -> Mapping[str, int]:
    key = "max.connections.per.ip.overrides"
    limits = {}
    for host, limit in parse_pairs(key, text).items():
        if not limit.isdecimal() or not _HOST.fullmatch(host):
            raise ConfigError(key, text, "host:count, separated by commas")
        limits[host] = int(limit)
    return MappingProxyType(limits)


def roll_ms(values: Mapping[str, ConfigValue]) -> int:
    """Age at which a segment is closed."""
    return _in_ms(values, "log.roll.ms")


def roll_jitter_ms(values: Mapping[str, ConfigValue]) -> int:
    """What may be taken off it."""
    return _in_ms(values, "log.roll.jitter.ms")


def retention_ms(values: Mapping[str, ConfigValue]) -> int:
    """Age at which segments are deleted, -1 for never; every negative value means that."""
    return max(-1, _in_ms(values, "log.retention.ms"))


def flush_ms(values: Mapping[str, ConfigValue]) -> int:
    """Longest time that a record stays unflushed."""
    return _in_ms(values, "log.flush.interval.ms")


def _in_ms(values: Mapping[str, ConfigValue], name: str) -> int:
    """The strongest of a key's spellings that is set, in milliseconds."""
    for spelling in OTHER_SPELLINGS[name]:
        value = values[spelling]
        if value is not None:
            assert isinstance(value, int)
            if spelling.endswith(".hours"):
                return value * _MS_PER_HOUR
            return value * _MS_PER_MINUTE if spelling.endswith(".minutes") else value
    raise AssertionError(name)


def _check_together(config: BrokerConfig, values: Mapping[str, ConfigValue]) -> None:
    """What Kafka 2.7 asks of several keys at once, for those that act."""
    shown = str(config.broker_id)
    if not config.broker_id_generation_enable and config.broker_id < 0:
        raise ConfigError("broker.id", shown, "0 or more where broker.id.generation.enable is false")
    if config.broker_id < -1 or (
        config.broker_id_generation_enable and config.broker_id > config.reserved_broker_max_id
    ):
        raise ConfigError("broker.id", shown, f"-1 to reserved.broker.max.id, {config.reserved_broker_max_id}")
    _require(values, "log.roll.ms", passes=roll_ms(values) >= 1, allowed="1 or more")
    _require(values, "log.roll.jitter.ms", passes=roll_jitter_ms(values) >= 0, allowed="0 or more")
    _require(values, "log.retention.ms", passes=retention_ms(values) != 0, allowed="1 or more, or -1 for no bound")
    _require(values, "log.flush.interval.ms", passes=flush_ms(values) >= 0, allowed="0 or more")
    queued, frame = config.queued_max_request_bytes, config.socket_request_max_bytes
    if 0 < queued < frame:
        raise ConfigError("queued.max.request.bytes", str(queued), f"at least socket.request.max.bytes, {frame}")
    if config.max_connections_per_ip == 0 and not config.max_connections_per_ip_overrides:
        raise ConfigError("max.connections.per.ip", "0", "1 or more where max.connections.per.ip.overrides is not set")
    wait_ms = config.replica_fetch_wait_max_ms
    for name, bound_ms in (
        ("replica.socket.timeout.ms", config.replica_socket_timeout_ms),
        ("replica.lag.time.max.ms", config.replica_lag_time_max_ms),
    ):
        if wait_ms > bound_ms:
            raise ConfigError("replica.fetch.wait.max.ms", str(wait_ms), f"at most {name}, {bound_ms}")
    if config.num_replica_fetchers < 1:
        raise ConfigError("num.replica.fetchers", str(config.num_replica_fetchers), "1 or more")
    if config.replica_moves_at_once < 1:
        raise ConfigError("num.replica.alter.log.dirs.threads", str(config.replica_moves_at_once), "1 or more")
    if config.zookeeper_session_timeout_ms < 1:
        raise ConfigError("zookeeper.session.timeout.ms", str(config.zookeeper_session_timeout_ms), "1 or more")


def _require(values: Mapping[str, ConfigValue], name: str, *, passes: bool, allowed: str) -> None:
    """Name the spelling that was set when the rule on `name` does not hold."""
    if not passes:
        spelling = next(spelling for spelling in OTHER_SPELLINGS[name] if values[spelling] is not None)
        raise ConfigError(spelling, str(values[spelling]), allowed)
