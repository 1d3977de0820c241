"""AlterConfigs: what replaces the settings of topics and brokers, and what is refused.

What is set for the broker, or for all, is taken back at the end of a scenario: later ones have the same server.
"""

from barnabas.protocol.ids import ApiKey
from tests.differential.conversation import Conversation
from tests.differential.requests import BROKER, LOGGER, TOPIC, a_topic, alter, create, describe

VERSIONS = range(2)


def a_topics_settings_are_replaced(talk: Conversation) -> None:
    topic = talk.new_topic(configs={"retention.ms": "5000"})
    keys = ["retention.ms", "segment.bytes", "max.message.bytes"]
    for version in VERSIONS:
        size = str(2000 + version)
        talk.ask(f"version {version}", version, alter((TOPIC, topic, {"max.message.bytes": size})))
        talk.ask(f"then, version {version}", 3, describe((TOPIC, topic, keys), synonyms=True))
    talk.ask("only tried", 1, alter((TOPIC, topic, {"segment.bytes": "5000"}), validate_only=True))
    talk.ask("after a try", 3, describe((TOPIC, topic, keys), synonyms=True))
    talk.ask("nothing", 1, alter((TOPIC, topic, {})))
    talk.ask("after nothing", 3, describe((TOPIC, topic, keys), synonyms=True))


def topics_that_cannot_be(talk: Conversation) -> None:
    topic = talk.new_topic()
    for name in ("never-made", "", "a b", "..", "x" * 250):
        talk.ask(f"called {name[:5]!r}", 1, alter((TOPIC, name, {"retention.ms": "1"})))
    for key, value in (
        ("no.such.key", "1"),
        ("retention.ms", "many"),
        ("retention.ms", ""),
        ("retention.ms", "-2"),
        ("segment.bytes", "13"),
        ("log.retention.ms", "1"),
        ("cleanup.policy", "shred"),
        ("min.insync.replicas", "0"),
        ("message.timestamp.type", "logappendtime"),
        ("message.format.version", "9.9"),
        ("leader.replication.throttled.replicas", "0"),
        ("unclean.leader.election.enable", "perhaps"),
    ):
        talk.ask(f"{key}={value}", 1, alter((TOPIC, topic, {key: value})))
        talk.ask(f"{key}={value}, tried", 1, alter((TOPIC, topic, {key: value}), validate_only=True))
    talk.ask("null", 1, alter((TOPIC, topic, {"retention.ms": None})))
    talk.ask("a good and a bad one", 1, alter((TOPIC, topic, {"retention.ms": "7", "segment.bytes": "x"})))
    talk.ask("nothing was set", 3, describe((TOPIC, topic, ["retention.ms", "segment.bytes"]), synonyms=True))


def a_brokers_settings_are_replaced(talk: Conversation) -> None:
    keys = ["log.segment.bytes", "message.max.bytes", "log.retention.ms"]
    topic = talk.new_topic()
    for version in VERSIONS:
        size = str(200_000 + version)
        talk.ask(f"version {version}", version, alter((BROKER, "1", {"log.segment.bytes": size})))
        talk.await_broker_config("log.segment.bytes", size)
        talk.ask(f"then, version {version}", 3, describe((BROKER, "1", keys), synonyms=True))
        talk.ask(f"a topic, version {version}", 3, describe((TOPIC, topic, ["segment.bytes"]), synonyms=True))
    talk.ask("only tried", 1, alter((BROKER, "1", {"message.max.bytes": "5000"}), validate_only=True))
    talk.ask("another", 1, alter((BROKER, "1", {"message.max.bytes": "900000"})))
    talk.await_broker_config("log.segment.bytes", None)
    talk.ask("then another", 3, describe((BROKER, "1", keys), synonyms=True))
    talk.ask("nothing", 1, alter((BROKER, "1", {})))
    talk.await_broker_config("message.max.bytes", None)
    talk.ask("after nothing", 3, describe((BROKER, "1", keys), synonyms=True))


def all_brokers_settings_are_replaced(talk: Conversation) -> None:
    keys = ["log.segment.bytes", "log.retention.bytes"]
    talk.ask("of all", 1, alter((BROKER, "", {"log.segment.bytes": "300000", "log.retention.bytes": "7000000"})))
    talk.await_broker_config("log.segment.bytes", "300000")
    for version in range(4):
        talk.ask(f"of all, told in version {version}", version, describe((BROKER, "", None)))
    talk.ask("of all, with synonyms", 3, describe((BROKER, "", None), synonyms=True, documentation=True))
    talk.ask("of all, one key", 3, describe((BROKER, "", ["log.retention.bytes"])))
    talk.ask("of all, a key that is not set", 3, describe((BROKER, "", ["message.max.bytes"])))
    talk.ask("the broker", 3, describe((BROKER, "1", keys), synonyms=True))
    talk.ask("of one over all", 1, alter((BROKER, "1", {"log.segment.bytes": "400000"})))
    talk.await_broker_config("log.segment.bytes", "400000")
    talk.ask("the broker then", 3, describe((BROKER, "1", keys), synonyms=True))
    talk.ask("of all then", 3, describe((BROKER, "", None), synonyms=True))
    topic = talk.new_topic(configs={"segment.bytes": "500000"})
    topic_keys = ["segment.bytes", "retention.bytes"]
    talk.ask("a topic over both", 3, describe((TOPIC, topic, topic_keys), synonyms=True))
    talk.ask("back", 1, alter((BROKER, "1", {})))
    talk.ask("all back", 1, alter((BROKER, "", {})))
    talk.await_broker_config("log.retention.bytes", None)
    talk.await_broker_config("log.segment.bytes", None)
    talk.ask("of all, nothing", 3, describe((BROKER, "", None)))


def a_topic_that_is_made_meanwhile(talk: Conversation) -> None:
    settings: dict[str, str | None] = {"log.segment.bytes": "300000", "message.max.bytes": "900000"}
    talk.ask("of all", 1, alter((BROKER, "", settings)))
    talk.ask("of one", 1, alter((BROKER, "1", {"message.max.bytes": "800000"})))
    talk.await_broker_config("log.segment.bytes", "300000")
    talk.await_broker_config("message.max.bytes", "800000")
    talk.ask("made", 5, create(a_topic(talk.topic_name(), partitions=1, configs={"retention.ms": "7000"})))
    talk.ask("one back", 1, alter((BROKER, "1", {})))
    talk.ask("all back", 1, alter((BROKER, "", {})))
    talk.await_broker_config("log.segment.bytes", None)
    talk.await_broker_config("message.max.bytes", None)


def spellings_of_one_thing(talk: Conversation) -> None:
    keys = ["log.retention.ms", "log.retention.minutes", "log.retention.hours", "log.roll.ms", "log.roll.hours"]
    settings: dict[str, str | None] = {"log.retention.ms": "123456789", "log.roll.ms": "3600000"}
    topic = talk.new_topic()
    talk.ask("milliseconds", 1, alter((BROKER, "", settings)))
    talk.await_broker_config("log.roll.ms", "3600000")
    talk.ask("the broker", 3, describe((BROKER, "1", keys), synonyms=True))
    talk.ask("a topic", 3, describe((TOPIC, topic, ["retention.ms", "segment.ms"]), synonyms=True))
    talk.ask("back", 1, alter((BROKER, "", {})))
    talk.await_broker_config("log.roll.ms", None)


def throttles(talk: Conversation) -> None:
    rates: dict[str, str | None] = {
        "leader.replication.throttled.rate": "1000000",
        "follower.replication.throttled.rate": "2000000",
        "replica.alter.log.dirs.io.max.bytes.per.second": "3000000",
    }
    talk.ask("set", 1, alter((BROKER, "1", rates)))
    talk.await_broker_config("leader.replication.throttled.rate", "1000000")
    talk.ask("then", 3, describe((BROKER, "1", list(rates)), synonyms=True))
    talk.ask("below zero", 1, alter((BROKER, "1", {"leader.replication.throttled.rate": "-1"})))
    talk.ask("no number", 1, alter((BROKER, "1", {"follower.replication.throttled.rate": "fast"})))
    talk.ask("back", 1, alter((BROKER, "1", {})))
    talk.await_broker_config("leader.replication.throttled.rate", None)


def broker_keys_that_cannot_be(talk: Conversation) -> None:
    for key, value in (
        ("broker.id", "2"),
        ("log.dirs", "/x"),
        ("num.partitions", "3"),
        ("log.retention.hours", "1"),
        ("log.retention.check.interval.ms", "1"),
        ("log.message.format.version", "2.6"),
        ("auto.create.topics.enable", "false"),
        ("zookeeper.connect", "x"),
        ("log.segment.bytes", "13"),
        ("log.segment.bytes", "many"),
        ("log.retention.ms", "0"),
        ("log.cleanup.policy", "shred"),
        ("message.max.bytes", "-1"),
        ("min.insync.replicas", "0"),
        ("num.replica.fetchers", "3"),
        ("num.replica.fetchers", "0"),
        ("max.connections.per.ip", "0"),
        ("max.connections.per.ip", "-1"),
        ("ssl.keystore.location", "/x"),
        ("ssl.keystore.password", "x"),
        ("sasl.jaas.config", "x"),
        ("password.encoder.secret", "x"),
    ):
        talk.ask(f"{key}={value}", 1, alter((BROKER, "1", {key: value})))
        talk.ask(f"of all {key}={value}", 1, alter((BROKER, "", {key: value})))
    talk.ask("null", 1, alter((BROKER, "1", {"log.segment.bytes": None})))
    for key in ("listeners", "advertised.listeners", "listener.security.protocol.map"):
        talk.ask(f"of all {key}", 1, alter((BROKER, "", {key: "PLAINTEXT://localhost:1"})))
    talk.ask("a store of all", 1, alter((BROKER, "", {"listener.name.plaintext.ssl.keystore.location": "/x"})))
    talk.ask("nothing was set", 3, describe((BROKER, "", None)))


def brokers_that_are_not_asked(talk: Conversation) -> None:
    for name in ("2", "-1", "one", " 1", "1.0"):
        talk.ask(f"called {name!r}", 1, alter((BROKER, name, {"log.segment.bytes": "300000"})))


def other_kinds_of_resources(talk: Conversation) -> None:
    topic = talk.new_topic()
    for kind in (0, 1, 3, 5, LOGGER, 16, -1):
        talk.ask(f"kind {kind}", 1, alter((kind, "1", {"root": "INFO"})))
    talk.ask("a topic and kind 3", 1, alter((TOPIC, topic, {"retention.ms": "7"}), (3, "x", {})))
    talk.ask("the topic is as it was", 3, describe((TOPIC, topic, ["retention.ms"])))


def several_resources_at_once(talk: Conversation) -> None:
    first, second = talk.new_topic(), talk.new_topic()
    good: dict[str, str | None] = {"retention.ms": "7000"}
    request = alter((TOPIC, first, good), (TOPIC, "never-made", good), (TOPIC, second, {"no.such.key": "1"}))
    talk.ask("one good of three", 1, request)
    talk.ask("then", 3, describe((TOPIC, first, ["retention.ms"]), (TOPIC, second, ["retention.ms"])))
    for version in VERSIONS:
        talk.ask(f"none, version {version}", version, alter())


def requests_that_cannot_be_read(talk: Conversation) -> None:
    head = b"\x00\x21\x00\x00\x00\x00\x00\x07\x00\x01x"
    cases = {
        "no body": b"",
        "a null list": b"\xff\xff\xff\xff\x00",
        "a null name": b"\x00\x00\x00\x01\x02\xff\xff\x00\x00\x00\x00\x00",
        "a count past the end": b"\x00\x00\x00\x05\x02\x00\x01a",
    }
    for name, body in cases.items():
        talk.ask_bytes(name, head + body, api_key=ApiKey.ALTER_CONFIGS, version=0, correlation_id=7)
