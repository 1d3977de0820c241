"""IncrementalAlterConfigs: single settings of topics, brokers and loggers, and what is refused.

What is set for the broker, or for all, is taken back at the end of a scenario: later ones have the same server.
"""

from barnabas.protocol.ids import ApiKey
from tests.differential.conversation import Conversation
from tests.differential.requests import (
    APPEND,
    BROKER,
    DELETE,
    LOGGER,
    SET,
    SUBTRACT,
    TOPIC,
    change,
    describe,
)

VERSIONS = range(2)
THROTTLED = "leader.replication.throttled.replicas"


def single_settings_of_a_topic(talk: Conversation) -> None:
    topic = talk.new_topic(configs={"retention.ms": "5000", "segment.bytes": "6000"})
    keys = ["retention.ms", "segment.bytes", "max.message.bytes"]
    for version in VERSIONS:
        one = ("max.message.bytes", SET, str(2000 + version))
        talk.ask(f"set, version {version}", version, change((TOPIC, topic, [one])))
        talk.ask(f"then, version {version}", 3, describe((TOPIC, topic, keys), synonyms=True))
    both: list[tuple[str, int, str | None]] = [("retention.ms", DELETE, None), ("segment.bytes", SET, "7000")]
    talk.ask("only tried", 1, change((TOPIC, topic, both), validate_only=True))
    talk.ask("after a try", 3, describe((TOPIC, topic, keys)))
    talk.ask("two at once", 1, change((TOPIC, topic, both)))
    talk.ask("after two", 3, describe((TOPIC, topic, keys)))
    talk.ask("delete with a value", 1, change((TOPIC, topic, [("segment.bytes", DELETE, "x")])))
    talk.ask("delete what is not set", 1, change((TOPIC, topic, [("segment.bytes", DELETE, None)])))
    talk.ask("delete what there is not", 1, change((TOPIC, topic, [("no.such.key", DELETE, None)])))
    talk.ask("nothing", 1, change((TOPIC, topic, [])))
    talk.ask("in the end", 3, describe((TOPIC, topic, keys)))


def lists(talk: Conversation) -> None:
    topic = talk.new_topic(configs={THROTTLED: "0:1,1:1"})
    for name, operation, value in (
        ("append", APPEND, "2:1"),
        ("append two, one that is there", APPEND, "0:1,3:1"),
        ("subtract", SUBTRACT, "1:1"),
        ("subtract what is not there", SUBTRACT, "9:9"),
        ("subtract what is there twice", SUBTRACT, "0:1"),
        ("append what cannot be", APPEND, "x"),
        ("subtract all", SUBTRACT, "0:1,2:1,3:1"),
    ):
        talk.ask(name, 1, change((TOPIC, topic, [(THROTTLED, operation, value)])))
        talk.ask(f"{name}, then", 3, describe((TOPIC, topic, [THROTTLED])))
    talk.ask("append to a number", 1, change((TOPIC, topic, [("retention.ms", APPEND, "1")])))
    talk.ask("subtract from a number", 1, change((TOPIC, topic, [("retention.ms", SUBTRACT, "1")])))


def lists_that_are_not_set(talk: Conversation) -> None:
    topic = talk.new_topic()
    talk.ask("append to none", 1, change((TOPIC, topic, [(THROTTLED, APPEND, "0:1")])))
    talk.ask("subtract from none", 1, change((TOPIC, topic, [(THROTTLED, SUBTRACT, "0:1")])))
    talk.ask("append what the default has", 1, change((TOPIC, topic, [("cleanup.policy", APPEND, "delete")])))
    talk.ask("then", 3, describe((TOPIC, topic, ["cleanup.policy"]), synonyms=True))


def changes_that_are_refused(talk: Conversation) -> None:
    topic = talk.new_topic()
    for name, changes in {
        "a key twice": [("retention.ms", SET, "1"), ("retention.ms", DELETE, None)],
        "null": [("retention.ms", SET, None)],
        "null to append": [(THROTTLED, APPEND, None)],
        "an unknown key": [("no.such.key", SET, "1")],
        "no number": [("retention.ms", SET, "many")],
        "too small": [("segment.bytes", SET, "13")],
        "a good and a bad one": [("retention.ms", SET, "7"), ("segment.bytes", SET, "x")],
        "lags that contradict": [("min.compaction.lag.ms", SET, "2"), ("max.compaction.lag.ms", SET, "1")],
    }.items():
        talk.ask(name, 1, change((TOPIC, topic, list(changes))))
    talk.ask("append to an unknown key", 1, change((TOPIC, topic, [("no.such.key", APPEND, "1")])))
    talk.ask("an operation that there is not", 1, change((TOPIC, topic, [("retention.ms", 4, "1")])))
    talk.ask("nothing was set", 3, describe((TOPIC, topic, ["retention.ms", "segment.bytes"]), synonyms=True))
    for name in ("never-made", "a b", "x" * 250):
        talk.ask(f"called {name[:5]!r}", 1, change((TOPIC, name, [("retention.ms", SET, "1")])))


def single_settings_of_brokers(talk: Conversation) -> None:
    keys = ["log.segment.bytes", "message.max.bytes"]
    for version in VERSIONS:
        one = ("log.segment.bytes", SET, str(200_000 + version))
        talk.ask(f"of one, version {version}", version, change((BROKER, "1", [one])))
        talk.await_broker_config("log.segment.bytes", one[2])
        talk.ask(f"then, version {version}", 3, describe((BROKER, "1", keys), synonyms=True))
    talk.ask("of all", 1, change((BROKER, "", [("message.max.bytes", SET, "900000")])))
    talk.await_broker_config("message.max.bytes", "900000")
    talk.ask("the broker", 3, describe((BROKER, "1", keys), synonyms=True))
    talk.ask("of all, told", 3, describe((BROKER, "", None), synonyms=True))
    talk.ask("of all, another", 1, change((BROKER, "", [("log.segment.bytes", SET, "300000")])))
    talk.ask("of one, deleted", 1, change((BROKER, "1", [("log.segment.bytes", DELETE, None)])))
    talk.await_broker_config("log.segment.bytes", "300000")
    talk.ask("the broker then", 3, describe((BROKER, "1", keys), synonyms=True))
    both = [(key, DELETE, None) for key in keys]
    talk.ask("back", 1, change((BROKER, "", list(both))))
    talk.await_broker_config("log.segment.bytes", None)
    talk.await_broker_config("message.max.bytes", None)
    talk.ask("delete what is not set", 1, change((BROKER, "1", list(both))))
    talk.ask("delete what does not change", 1, change((BROKER, "1", [("broker.id", DELETE, None)])))


def changes_of_brokers_that_are_refused(talk: Conversation) -> None:
    for name, changes in {
        "a key that does not change": [("broker.id", SET, "2")],
        "no number": [("log.segment.bytes", SET, "many")],
        "too small": [("log.segment.bytes", SET, "13")],
        "a key twice": [("log.segment.bytes", SET, "300000"), ("log.segment.bytes", DELETE, None)],
        "append to a number": [("log.segment.bytes", APPEND, "1")],
        "more than double": [("num.replica.fetchers", SET, "3")],
        "a listener": [("listener.name.plaintext.ssl.keystore.type", SET, "JKS2")],
        "a key without its listener": [("ssl.keystore.type", SET, "JKS")],
    }.items():
        if name != "a listener":
            talk.ask(name, 1, change((BROKER, "1", list(changes))))
        talk.ask(f"of all, {name}", 1, change((BROKER, "", list(changes))))
    for name in ("2", "-1", "one"):
        talk.ask(f"called {name!r}", 1, change((BROKER, name, [("log.segment.bytes", SET, "300000")])))


def loggers(talk: Conversation) -> None:
    for name, changes in {
        "set": [("root", SET, "DEBUG")],
        "set back": [("root", SET, "INFO")],
        "no level": [("root", SET, "LOUD")],
        "a level in small letters": [("root", SET, "debug")],
        "no logger": [("no.such.logger", SET, "INFO")],
        "the root's deleted": [("root", DELETE, None)],
        "appended": [("root", APPEND, "INFO")],
        "subtracted": [("root", SUBTRACT, "INFO")],
        "twice": [("root", SET, "INFO"), ("root", SET, "WARN")],
        "null": [("root", SET, None)],
    }.items():
        talk.ask(name, 1, change((LOGGER, "1", list(changes))))
        talk.ask(f"{name}, then", 3, describe((LOGGER, "1", ["root"])))
    talk.ask("only tried", 1, change((LOGGER, "1", [("root", SET, "WARN")]), validate_only=True))
    talk.ask("after a try", 3, describe((LOGGER, "1", ["root"])))
    talk.ask("of no broker", 1, change((LOGGER, "", [("root", SET, "INFO")])))
    for name in ("2", "one"):
        talk.ask(f"of {name}", 1, change((LOGGER, name, [("root", SET, "INFO")])))


def other_kinds_of_resources(talk: Conversation) -> None:
    topic = talk.new_topic()
    for kind in (0, 1, 3, 5, 16, -1):
        talk.ask(f"kind {kind}", 1, change((kind, "1", [("retention.ms", SET, "1")])))
    talk.ask("a topic and kind 3", 1, change((TOPIC, topic, [("retention.ms", SET, "7")]), (3, "x", [])))
    talk.ask("the topic is as it was", 3, describe((TOPIC, topic, ["retention.ms"])))


def several_resources_at_once(talk: Conversation) -> None:
    first, second = talk.new_topic(), talk.new_topic()
    good: list[tuple[str, int, str | None]] = [("retention.ms", SET, "7000")]
    request = change((TOPIC, first, good), (TOPIC, "never-made", good), (TOPIC, second, [("no.such.key", SET, "1")]))
    talk.ask("one good of three", 1, request)
    talk.ask("then", 3, describe((TOPIC, first, ["retention.ms"]), (TOPIC, second, ["retention.ms"])))
    talk.ask("a topic twice", 1, change((TOPIC, first, good), (TOPIC, first, [("segment.bytes", SET, "8000")])))
    talk.ask("then, of the last", 3, describe((TOPIC, first, ["retention.ms", "segment.bytes"])))
    for version in VERSIONS:
        talk.ask(f"none, version {version}", version, change())


def requests_that_cannot_be_read(talk: Conversation) -> None:
    head = b"\x00\x2c\x00\x00\x00\x00\x00\x07\x00\x01x"
    cases = {
        "no body": b"",
        "a null list": b"\xff\xff\xff\xff\x00",
        "a null name": b"\x00\x00\x00\x01\x02\xff\xff\x00\x00\x00\x00\x00",
        "a count past the end": b"\x00\x00\x00\x05\x02\x00\x01a",
    }
    for name, body in cases.items():
        talk.ask_bytes(name, head + body, api_key=ApiKey.INCREMENTAL_ALTER_CONFIGS, version=0, correlation_id=7)
