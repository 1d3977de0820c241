"""What DescribeConfigs tells: sources, synonyms, types, secrets."""

from broker.config import BrokerConfig, resolve_broker_config
from broker.config_description import ConfigSource, Description, describe_broker, describe_topic
from broker.config_keys import BROKER_KEYS, TOPIC_KEYS
from broker.config_keys.key import ConfigType

TOPIC, STATIC, DEFAULT = ConfigSource.TOPIC, ConfigSource.STATIC_BROKER, ConfigSource.DEFAULT


def config(given: dict[str, str]) -> BrokerConfig:
    return resolve_broker_config({"zookeeper.connect": "z"} | given)


def broker_key(name: str, given: dict[str, str]) -> Description:
    (description,) = describe_broker(config(given), [name])
    return description


def topic_key(name: str, overrides: dict[str, str], given: dict[str, str] | None = None) -> Description:
    (description,) = describe_topic(config(given or {}), overrides, [name])
    return description


def synonyms(description: Description) -> list[tuple[str, str | None, ConfigSource]]:
    return [(each.name, each.value, each.source) for each in description.synonyms]


def test_all_keys_are_told_when_none_is_asked_for() -> None:
    assert {each.name for each in describe_broker(config({}), [])} == set(BROKER_KEYS)
    assert {each.name for each in describe_topic(config({}), {})} == set(TOPIC_KEYS)


def test_a_key_that_there_is_not_is_left_out() -> None:
    assert describe_broker(config({}), ["no.such.key"]) == []
    assert describe_topic(config({}), {}, ["no.such.key"]) == []


def test_a_default_has_itself_as_its_only_synonym() -> None:
    described = broker_key("num.io.threads", {})
    assert (described.value, described.type, described.source) == ("8", ConfigType.INT, DEFAULT)
    assert synonyms(described) == [("num.io.threads", "8", DEFAULT)]


def test_only_what_this_version_changes_in_a_running_broker_can_be_written() -> None:
    assert not broker_key("log.segment.bytes", {}).read_only
    assert broker_key("num.io.threads", {}).read_only
    assert broker_key("listeners", {}).read_only
    assert broker_key("broker.id", {}).read_only
    assert not topic_key("segment.bytes", {}).read_only


def test_a_static_value_is_shown_as_it_was_written_among_the_synonyms() -> None:
    described = broker_key("log.dirs", {"log.dirs": " /a "})
    assert described.value == "/a"
    assert described.read_only
    assert synonyms(described) == [("log.dirs", " /a ", STATIC)]


def test_a_key_without_a_default_has_no_synonyms_until_it_is_set() -> None:
    described = broker_key("listeners", {})
    assert described.value is None
    assert synonyms(described) == []
    assert described.source is DEFAULT


def test_stronger_spellings_are_left_out_before_the_keys_own_name() -> None:
    given = {"log.retention.hours": "1", "log.retention.ms": "5"}
    assert synonyms(broker_key("log.retention.hours", given)) == [
        ("log.retention.hours", "1", STATIC),
        ("log.retention.hours", "168", DEFAULT),
    ]
    assert synonyms(broker_key("log.retention.ms", given)) == [
        ("log.retention.ms", "5", STATIC),
        ("log.retention.hours", "1", STATIC),
        ("log.retention.hours", "168", DEFAULT),
    ]
    assert synonyms(broker_key("log.retention.ms", {"log.retention.hours": "1"})) == []


def test_a_secret_is_never_shown() -> None:
    described = broker_key("ssl.key.password", {"ssl.key.password": "hunter2"})
    assert described.is_sensitive
    assert described.value is None
    assert synonyms(described) == [("ssl.key.password", None, STATIC)]


def test_an_unknown_key_is_treated_as_a_secret() -> None:
    described = broker_key("my.plugin.key", {"my.plugin.key": "x"})
    assert described.is_sensitive
    assert described.value is None
    assert described.type is ConfigType.UNKNOWN
    assert described.documentation is None


def test_a_key_of_a_listener_has_the_type_of_the_plain_key() -> None:
    name = "listener.name.internal.ssl.keystore.location"
    described = broker_key(name, {name: "/store"})
    assert (described.value, described.type, described.is_sensitive) == ("/store", ConfigType.STRING, False)
    assert described.read_only
    name = "listener.name.internal.plain.sasl.jaas.config"
    assert broker_key(name, {name: "x"}).is_sensitive


def test_a_topics_own_value_comes_first() -> None:
    described = topic_key("retention.ms", {"retention.ms": "5"}, {"log.retention.ms": "6"})
    assert (described.value, described.source, described.type) == ("5", TOPIC, ConfigType.LONG)
    assert synonyms(described) == [
        ("retention.ms", "5", TOPIC),
        ("log.retention.ms", "6", STATIC),
        ("log.retention.hours", "168", DEFAULT),
    ]


def test_a_topic_shows_the_value_that_a_weaker_spelling_gives_it_as_a_default() -> None:
    described = topic_key("retention.ms", {}, {"log.retention.hours": "1"})
    assert (described.value, described.source) == ("3600000", DEFAULT)
    assert synonyms(described) == []


def test_a_topic_takes_the_brokers_static_value() -> None:
    described = topic_key("max.message.bytes", {}, {"message.max.bytes": "7"})
    assert (described.value, described.source) == ("7", STATIC)
    assert synonyms(described) == [("message.max.bytes", "7", STATIC), ("message.max.bytes", "1048588", DEFAULT)]


def test_the_format_version_of_the_broker_is_shown_in_full() -> None:
    assert topic_key("message.format.version", {}, {"log.message.format.version": "2.6"}).value == "2.6-IV0"
    assert topic_key("message.format.version", {"message.format.version": "2.6"}).value == "2.6"


def test_a_topic_key_without_a_broker_key_has_no_synonyms() -> None:
    described = topic_key("leader.replication.throttled.replicas", {})
    assert (described.value, described.source) == ("", DEFAULT)
    assert synonyms(described) == []


def test_a_key_in_a_topics_znode_that_there_is_not_is_shown_without_value() -> None:
    described = topic_key("x.y", {"x.y": "1"})
    assert described.value is None
    assert described.is_sensitive
    assert synonyms(described) == [("x.y", None, TOPIC)]
