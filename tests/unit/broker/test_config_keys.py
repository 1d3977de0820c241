"""The table of keys: parsing as Kafka does, rules, what acts."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.config_keys import BROKER_KEYS, OTHER_SPELLINGS, TOPIC_KEYS
from broker.config_keys.key import (
    BOOLEAN,
    CLASS,
    DOUBLE,
    INT,
    LIST,
    LONG,
    LOW,
    PASSWORD,
    REQUIRED,
    SHORT,
    STRING,
    ConfigError,
    ConfigKey,
    ConfigType,
    full_protocol_version,
    render_value,
)


def key_of(kind: ConfigType) -> ConfigKey:
    return ConfigKey("a.key", kind, None, LOW, "A key.")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (BOOLEAN, " TRUE ", True),
        (BOOLEAN, "false", False),
        (INT, "+7", 7),
        (INT, "\t-2147483648\n", -(2**31)),
        (SHORT, "32767", 32767),
        (LONG, "9223372036854775807", 2**63 - 1),
        (DOUBLE, "1e3", 1000.0),
        (DOUBLE, ".5f", 0.5),
        (LIST, " a , b,c", ["a", "b", "c"]),
        (LIST, "a,", ["a", ""]),
        (LIST, "  ", []),
        (STRING, " x y ", "x y"),
        (CLASS, "a.B", "a.B"),
        (PASSWORD, " s ", "s"),
    ],
)
def test_a_text_is_parsed_as_java_would(kind: ConfigType, text: str, value: object) -> None:
    assert key_of(kind).parse(text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (BOOLEAN, "yes"),
        (INT, "2147483648"),
        (INT, "1_000"),
        (INT, "1.0"),
        (INT, ""),
        (SHORT, "32768"),
        (LONG, "9223372036854775808"),
        (LONG, "0x10"),
        (DOUBLE, "a"),
        (DOUBLE, ""),
    ],
)
def test_a_text_of_another_type_is_refused_with_key_value_and_what_is_allowed(kind: ConfigType, text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        key_of(kind).parse(text)
    assert refused.value.key == "a.key"
    assert refused.value.value == text
    assert refused.value.allowed in str(refused.value)


def test_a_password_is_not_shown_in_an_error() -> None:
    key = ConfigKey("a.secret", PASSWORD, None, LOW, "A secret.", BROKER_KEYS["ssl.client.auth"].check)
    with pytest.raises(ConfigError) as refused:
        key.parse("hunter2")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.9, "0.9"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (1e7, "1.0E7"),
        (12345678.0, "1.2345678E7"),
        (0.001, "0.001"),
        (0.00012345, "1.2345E-4"),
        (-2e-10, "-2.0E-10"),
        (9999999.0, "9999999.0"),
        (True, "true"),
        (7, "7"),
        (["a", "b"], "a,b"),
        ([], ""),
        (None, None),
    ],
)
def test_a_value_is_rendered_as_java_prints_it(value: object, text: str | None) -> None:
    assert render_value(value) == text  # type: ignore[arg-type]


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_rendered_double_is_the_same_number(value: float) -> None:
    text = render_value(value)
    assert text is not None
    assert float(text) == value
    assert re.fullmatch(r"-?[0-9]+\.[0-9]+(E-?[0-9]+)?", text)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("2.7", "2.7-IV2"),
        ("2.7.2", "2.7-IV2"),
        ("2.7-IV1", "2.7-IV1"),
        ("0.10.2", "0.10.2-IV0"),
        ("0.8.2.1", "0.8.2"),
        ("2.7-IV3", None),
        ("2.8", None),
        ("0.10", None),
        ("2", None),
        ("", None),
    ],
)
def test_a_protocol_version_is_found_by_its_short_name(text: str, version: str | None) -> None:
    assert full_protocol_version(text) == version


def test_the_table_holds_every_key_of_kafka_2_7_and_ours() -> None:
    own = {name for name in BROKER_KEYS if name.startswith("barnabas.")}
    assert own == {
        "barnabas.metrics.port",
        "barnabas.control.listener",
        "barnabas.record.validation",
        "barnabas.scrub.bytes.per.second",
        "barnabas.scrub.interval.ms",
        "barnabas.last.replica.defence",
    }
    assert len(BROKER_KEYS) - len(own) == 216
    assert len(TOPIC_KEYS) == 26


@pytest.mark.parametrize("key", [*BROKER_KEYS.values(), *TOPIC_KEYS.values()], ids=lambda key: key.name)
def test_a_key_is_consistent(key: ConfigKey) -> None:
    if key.default is not REQUIRED and key.default is not None:
        text = render_value(key.default)
        assert text is not None
        assert key.parse(text) == key.default
    assert key.documentation.endswith(".")
    assert key.acts or key.served is None, "a key that does not act has no values that it acts on"


def test_a_topic_key_has_the_default_of_its_broker_key() -> None:
    for key in TOPIC_KEYS.values():
        if key.broker_key is not None and key.broker_key not in OTHER_SPELLINGS:
            assert key.default == BROKER_KEYS[key.broker_key].default, key.name


def test_a_topic_key_acts_only_where_its_broker_key_does() -> None:
    for key in TOPIC_KEYS.values():
        if key.acts and key.broker_key is not None:
            assert BROKER_KEYS[key.broker_key].acts, key.name


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("segment.bytes", "14", "13"),
        ("retention.ms", "-1", "-2"),
        ("min.cleanable.dirty.ratio", "1", "1.1"),
        ("cleanup.policy", "compact,delete", "shred"),
        ("compression.type", "zstd", "ZSTD"),
        ("message.timestamp.type", "LogAppendTime", "logappendtime"),
        ("message.format.version", "0.10.0", "9.9"),
        ("leader.replication.throttled.replicas", "0:1,1:2", "0"),
        ("leader.replication.throttled.replicas", "*", "0:a"),
        ("min.insync.replicas", "1", "0"),
    ],
)
def test_a_topic_key_keeps_kafkas_rule(name: str, good: str, bad: str) -> None:
    TOPIC_KEYS[name].parse(good)
    with pytest.raises(ConfigError):
        TOPIC_KEYS[name].parse(bad)
