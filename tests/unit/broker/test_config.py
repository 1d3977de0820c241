"""A broker's configuration: the file, the rules between keys, what stops the start and what only warns."""

import pytest

from barnabas.storage.log_config import RecordValidation
from broker.config import (
    BrokerConfig,
    flush_ms,
    parse_properties,
    resolve_broker_config,
    retention_ms,
    roll_jitter_ms,
    roll_ms,
)
from broker.config_keys.key import ConfigError


def config(**given: str) -> BrokerConfig:
    """Keyword names stand for keys: `log_dirs` for log.dirs."""
    texts = {name.replace("_", "."): text for name, text in given.items()}
    return resolve_broker_config({"zookeeper.connect": "localhost:2181"} | texts)


def refusal(**given: str) -> ConfigError:
    with pytest.raises(ConfigError) as refused:
        config(**given)
    return refused.value


def test_a_properties_file_is_read_as_java_reads_it() -> None:
    data = b"# a comment\n! another\na = 1 \nb:2\nc\\ d 3\\\n   4\na=5\ne=caf\\u00e9\nf\n"
    assert parse_properties(data) == {"a": "5", "b": "2", "c d": "34", "e": "café", "f": ""}


def test_a_broken_escape_in_the_file_stops_the_start() -> None:
    with pytest.raises(ConfigError):
        parse_properties(b"a=\\u12\n")


def test_zookeeper_connect_is_required() -> None:
    with pytest.raises(ConfigError) as refused:
        resolve_broker_config({})
    assert refused.value.key == "zookeeper.connect"


def test_the_defaults_are_those_of_kafka() -> None:
    resolved = config()
    assert resolved.warnings == ()
    assert resolved.broker_id == -1
    assert resolved.zookeeper_connection_timeout_ms == resolved.zookeeper_session_timeout_ms == 18_000
    assert resolved.socket_request_max_bytes == 104_857_600
    assert resolved.max_connections == 2**31 - 1
    assert resolved.connections_max_idle_ms == 600_000
    assert resolved.fetch_max_bytes == 57_671_680
    assert resolved.log_dirs == ("/tmp/kafka-logs",)
    assert resolved.auto_create_topics_enable
    assert resolved.delete_topic_enable
    assert resolved.metrics_port is None
    assert resolved.record_validation is RecordValidation.HEADER
    assert retention_ms(resolved.values) == roll_ms(resolved.values) == 7 * 24 * 3_600_000
    assert flush_ms(resolved.values) == 2**63 - 1


def test_kafkas_own_server_properties_are_taken() -> None:
    shipped = b"""
broker.id=0
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kafka-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
zookeeper.connect=localhost:2181
zookeeper.connection.timeout.ms=18000
group.initial.rebalance.delay.ms=0
"""
    resolved = resolve_broker_config(parse_properties(shipped))
    assert resolved.broker_id == 0
    assert resolved.warnings == ()


def test_an_unknown_key_warns_and_is_kept() -> None:
    resolved = config(no_such_key="1")
    assert resolved.warnings == ("no.such.key is set but is not a key that a broker knows",)
    assert resolved.given["no.such.key"] == "1"


def test_a_key_of_a_listener_is_known_and_does_not_act() -> None:
    (warning,) = config(listener_name_internal_max_connections="5").warnings
    assert warning.startswith("listener.name.internal.max.connections is set but does not act")


def test_a_key_that_does_not_act_warns_only_off_its_default() -> None:
    assert config(background_threads="10").warnings == ()
    (warning,) = config(background_threads="2").warnings
    assert warning.startswith("background.threads ")


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"log_cleaner_threads": "2"}, "log.cleaner.threads"),
        ({"log_cleaner_io_buffer_load_factor": "1"}, "log.cleaner.io.buffer.load.factor"),
        ({"compression_type": "none"}, "compression.type"),
        ({"log_message_format_version": "0.12.0"}, "log.message.format.version"),
        ({"authorizer_class_name": "kafka.security.authorizer.AclAuthorizer"}, "authorizer.class.name"),
        ({"zookeeper_set_acl": "true"}, "zookeeper.set.acl"),
        ({"log_preallocate": "true"}, "log.preallocate"),
        ({"create_topic_policy_class_name": "a.B"}, "create.topic.policy.class.name"),
        ({"alter_config_policy_class_name": "a.B"}, "alter.config.policy.class.name"),
        ({"zookeeper_ssl_client_enable": "true"}, "zookeeper.ssl.client.enable"),
        ({"config_providers": "file"}, "config.providers"),
    ],
)
def test_a_value_that_would_not_act_as_written_stops_the_start(given: dict[str, str], key: str) -> None:
    assert refusal(**given).key == key


def test_values_that_say_what_is_the_case_anyhow_are_taken() -> None:
    resolved = config(
        log_cleanup_policy="delete",
        compression_type="producer",
        log_message_format_version="2.6",
        zookeeper_set_acl="false",
    )
    assert resolved.warnings == ()


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"log_segment_bytes": "13"}, "log.segment.bytes"),
        ({"broker_id": "1001"}, "broker.id"),
        ({"broker_id": "-2"}, "broker.id"),
        ({"broker_id_generation_enable": "false"}, "broker.id"),
        ({"log_roll_ms": "0"}, "log.roll.ms"),
        ({"log_roll_hours": "0"}, "log.roll.hours"),
        ({"log_roll_jitter_ms": "-1"}, "log.roll.jitter.ms"),
        ({"log_retention_minutes": "0"}, "log.retention.minutes"),
        ({"log_retention_hours": "0"}, "log.retention.hours"),
        ({"log_flush_interval_ms": "-1"}, "log.flush.interval.ms"),
        ({"queued_max_request_bytes": "1000"}, "queued.max.request.bytes"),
        ({"max_connections_per_ip": "0"}, "max.connections.per.ip"),
        ({"max_connections_per_ip_overrides": "127.0.0.1"}, "max.connections.per.ip.overrides"),
        ({"max_connections_per_ip_overrides": "127.0.0.1:-1"}, "max.connections.per.ip.overrides"),
        ({"max_connections_per_ip_overrides": "a b:1"}, "max.connections.per.ip.overrides"),
        ({"log_dirs": " , "}, "log.dirs"),
        ({"log_dirs": "/a,/a"}, "log.dirs"),
        ({"barnabas_metrics_port": "65536"}, "barnabas.metrics.port"),
        ({"barnabas_record_validation": "some"}, "barnabas.record.validation"),
        ({"inter_broker_protocol_version": "9.9"}, "inter.broker.protocol.version"),
        ({"zookeeper_session_timeout_ms": "0"}, "zookeeper.session.timeout.ms"),
    ],
)
def test_a_bad_value_stops_the_start_and_names_its_key(given: dict[str, str], key: str) -> None:
    assert refusal(**given).key == key


def test_the_finest_unit_of_a_time_wins() -> None:
    assert retention_ms(config(log_retention_hours="2").values) == 7_200_000
    assert retention_ms(config(log_retention_hours="2", log_retention_minutes="3").values) == 180_000
    assert retention_ms(config(log_retention_minutes="3", log_retention_ms="4").values) == 4
    assert retention_ms(config(log_retention_ms="-5").values) == -1
    assert roll_ms(config(log_roll_hours="1").values) == 3_600_000
    assert roll_ms(config(log_roll_hours="1", log_roll_ms="9").values) == 9
    assert roll_jitter_ms(config(log_roll_jitter_hours="1").values) == 3_600_000
    assert flush_ms(config(log_flush_scheduler_interval_ms="7").values) == 7
    assert flush_ms(config(log_flush_scheduler_interval_ms="7", log_flush_interval_ms="8").values) == 8


def test_log_dirs_stand_before_log_dir() -> None:
    assert config(log_dir="/c").log_dirs == ("/c",)
    assert config(log_dir="/c", log_dirs="/a, /b").log_dirs == ("/a", "/b")


def test_connections_by_address_are_read_with_the_last_colon() -> None:
    resolved = config(max_connections_per_ip_overrides="127.0.0.1:5, ::1:6")
    assert dict(resolved.max_connections_per_ip_overrides) == {"127.0.0.1": 5, "::1": 6}


def test_a_metrics_port_is_off_unless_set() -> None:
    assert config(barnabas_metrics_port="0").metrics_port == 0
    assert config(barnabas_metrics_port="-1").metrics_port is None
