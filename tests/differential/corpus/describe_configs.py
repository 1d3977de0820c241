"""DescribeConfigs: the configuration of topics and of the broker.

Of the broker's own configuration only keys that Barnabas and Kafka share a meaning of are asked for by name.
"""

from barnabas.protocol.ids import ApiKey
from tests.differential.conversation import Conversation
from tests.differential.requests import BROKER, TOPIC, describe

VERSIONS = range(4)
SOME_BROKER_KEYS = [
    "auto.create.topics.enable",
    "broker.id",
    "compression.type",
    "delete.topic.enable",
    "log.cleanup.policy",
    "log.dirs",
    "log.flush.interval.messages",
    "log.index.interval.bytes",
    "log.retention.bytes",
    "log.retention.hours",
    "log.retention.ms",
    "log.segment.bytes",
    "message.max.bytes",
    "min.insync.replicas",
    "num.partitions",
    "replica.lag.time.max.ms",
    "socket.request.max.bytes",
    "unclean.leader.election.enable",
    "zookeeper.connect",
    "zookeeper.session.timeout.ms",
]


def every_version_describes_a_topic(talk: Conversation) -> None:
    topic = talk.new_topic()
    for version in VERSIONS:
        talk.ask(f"version {version}", version, describe((TOPIC, topic, None)))


def a_topic_with_configuration_of_its_own(talk: Conversation) -> None:
    topic = talk.new_topic(configs={"retention.ms": "5000", "max.message.bytes": "2000"})
    keys = ["retention.ms", "max.message.bytes", "segment.bytes"]
    for version in VERSIONS:
        talk.ask(f"version {version}", version, describe((TOPIC, topic, keys)))
        if version > 0:
            request = describe((TOPIC, topic, keys), synonyms=True)
            talk.ask(f"with synonyms, version {version}", version, request)
    request = describe((TOPIC, topic, keys), synonyms=True, documentation=True)
    talk.ask("with documentation", 3, request)


def every_key_with_its_synonyms(talk: Conversation) -> None:
    topic = talk.new_topic()
    for version in VERSIONS[1:]:
        talk.ask(f"version {version}", version, describe((TOPIC, topic, None), synonyms=True))
    talk.ask("and documentation", 3, describe((TOPIC, topic, None), synonyms=True, documentation=True))


def keys_by_name(talk: Conversation) -> None:
    topic = talk.new_topic()
    for version in VERSIONS:
        talk.ask(f"one, version {version}", version, describe((TOPIC, topic, ["cleanup.policy"])))
        talk.ask(f"no key, version {version}", version, describe((TOPIC, topic, [])))
        talk.ask(f"an unknown one, version {version}", version, describe((TOPIC, topic, ["no.such.key"])))
    talk.ask("one twice", 3, describe((TOPIC, topic, ["cleanup.policy", "cleanup.policy"])))
    talk.ask("one and an unknown one", 3, describe((TOPIC, topic, ["cleanup.policy", "no.such.key"])))
    talk.ask("a key of brokers", 3, describe((TOPIC, topic, ["log.retention.ms"])))


def unknown_topics(talk: Conversation) -> None:
    for version in VERSIONS:
        talk.ask(f"version {version}", version, describe((TOPIC, "never-made", None)))
    for name in ("", "a b", "x" * 250, "..", "ä"):
        talk.ask(f"called {name[:5]!r}", 3, describe((TOPIC, name, None)))


def the_broker_by_keys(talk: Conversation) -> None:
    for version in VERSIONS:
        talk.ask(f"version {version}", version, describe((BROKER, "1", SOME_BROKER_KEYS)))
    for version in VERSIONS[1:]:
        request = describe((BROKER, "1", SOME_BROKER_KEYS), synonyms=True)
        talk.ask(f"with synonyms, version {version}", version, request)
    request = describe((BROKER, "1", ["num.partitions"]), documentation=True)
    talk.ask("with documentation", 3, request)
    talk.ask("an unknown key", 3, describe((BROKER, "1", ["no.such.key"])))
    talk.ask("no key", 3, describe((BROKER, "1", [])))


def the_default_of_all_brokers(talk: Conversation) -> None:
    for version in VERSIONS:
        talk.ask(f"version {version}", version, describe((BROKER, "", None)))
    talk.ask("one key", 3, describe((BROKER, "", ["num.partitions"])))


def brokers_that_are_not_asked(talk: Conversation) -> None:
    for name in ("2", "99", "-1", "one", " 1", "1.0", "01"):
        talk.ask(f"called {name!r}", 3, describe((BROKER, name, ["num.partitions"])))


def other_kinds_of_resources(talk: Conversation) -> None:
    for kind in (0, 1, 3, 5, 6, 7, 16, -1, 127):
        talk.ask(f"kind {kind}", 3, describe((kind, "x", None)))
    talk.ask("kind 3, version 0", 0, describe((3, "x", None)))


def several_resources_at_once(talk: Conversation) -> None:
    first, second = talk.new_topic(), talk.new_topic()
    keys = ["cleanup.policy"]
    request = describe((TOPIC, first, keys), (TOPIC, "never-made", keys), (TOPIC, second, keys))
    talk.ask("three topics, one unknown", 3, request)
    talk.ask("a topic and the broker", 3, describe((TOPIC, first, keys), (BROKER, "1", ["num.partitions"])))
    talk.ask("a topic twice", 3, describe((TOPIC, first, keys), (TOPIC, first, ["retention.ms"])))
    for version in VERSIONS:
        talk.ask(f"none, version {version}", version, describe())


def requests_that_cannot_be_read(talk: Conversation) -> None:
    head = b"\x00\x20\x00\x00\x00\x00\x00\x07\x00\x01x"
    cases = {
        "no body": b"",
        "a null list": b"\xff\xff\xff\xff",
        "a null name": b"\x00\x00\x00\x01\x02\xff\xff\xff\xff\xff\xff",
        "a null key": b"\x00\x00\x00\x01\x02\x00\x01a\x00\x00\x00\x01\xff\xff",
        "a count past the end": b"\x00\x00\x00\x05\x02\x00\x01a",
    }
    for name, body in cases.items():
        talk.ask_bytes(name, head + body, api_key=ApiKey.DESCRIBE_CONFIGS, version=0, correlation_id=7)
