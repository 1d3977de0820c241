"""CreateTopics: topics that are made, tried or refused."""

from barnabas.protocol.ids import ApiKey
from tests.differential.conversation import Conversation
from tests.differential.requests import a_topic, create, metadata_of

VERSIONS = range(7)


def _described(talk: Conversation, name: str, topic: str, partitions: int) -> None:
    talk.await_leaders(topic, partitions)
    talk.ask(name, 7, metadata_of(topic))


def every_version_creates_a_topic(talk: Conversation) -> None:
    for version in VERSIONS:
        topic = talk.topic_name()
        talk.ask(f"version {version}", version, create(a_topic(topic, 2)))
        _described(talk, f"version {version}, described", topic, 2)
        talk.ask(f"version {version}, again", version, create(a_topic(topic, 2)))


def numbers_of_partitions(talk: Conversation) -> None:
    for count in (0, -1, -2, -2_147_483_648):
        for version in (0, 3, 4, 6):
            talk.ask(f"{count}, version {version}", version, create(a_topic(talk.topic_name(), count)))


def a_default_number_of_partitions(talk: Conversation) -> None:
    topic = talk.topic_name()
    talk.ask("-1 of both", 4, create(a_topic(topic, -1, -1)))
    _described(talk, "described", topic, 2)


def replication_factors(talk: Conversation) -> None:
    for factor in (0, -1, -2, 2, 32767):
        for version in (0, 4, 6):
            talk.ask(f"{factor}, version {version}", version, create(a_topic(talk.topic_name(), 1, factor)))


def names(talk: Conversation) -> None:
    bad = ("", ".", "..", "a b", "a/b", "a:b", "ä", "a,b", "x" * 250, "a\x00b")
    for name in bad:
        shown = repr(name) if len(name) < 10 else "250 characters"
        talk.ask(f"{shown}", 6, create(a_topic(name)))
    talk.ask("a bad one, version 0", 0, create(a_topic("a b")))
    start = talk.topic_name()
    for name in (start + "A.b_c-9", start + "y" * (249 - len(start)), "..."):
        talk.ask(f"{name[:60]} of {len(name)} characters", 6, create(a_topic(name), validate_only=True))


def names_that_differ_in_dot_and_underscore(talk: Conversation) -> None:
    start = talk.topic_name()
    talk.ask("with a dot", 6, create(a_topic(start + ".x")))
    talk.ask("with an underscore", 6, create(a_topic(start + "_x")))
    talk.ask("with a dot again", 6, create(a_topic(start + ".x")))


def only_trying_creates_nothing(talk: Conversation) -> None:
    topic = talk.topic_name()
    for version in VERSIONS[1:]:
        talk.ask(f"version {version}", version, create(a_topic(topic, 3), validate_only=True))
    talk.ask("it is not there", 7, metadata_of(topic))
    talk.ask("a bad one", 6, create(a_topic(topic, 0), validate_only=True))
    talk.ask("too many replicas", 6, create(a_topic(topic, 1, 3), validate_only=True))
    there = talk.new_topic()
    talk.ask("one that is there", 6, create(a_topic(there), validate_only=True))
    talk.ask("a bad configuration", 6, create(a_topic(topic, configs={"x": "1"}), validate_only=True))


def assignments_by_hand(talk: Conversation) -> None:
    for version in (0, 4, 6):
        topic = talk.topic_name()
        talk.ask(f"version {version}", version, create(a_topic(topic, -1, -1, assignments={0: [1], 1: [1]})))
        _described(talk, f"version {version}, described", topic, 2)


def assignments_that_are_refused(talk: Conversation) -> None:
    cases: dict[str, dict[int, list[int]]] = {
        "an unknown broker": {0: [9]},
        "a broker twice": {0: [1, 1]},
        "no broker": {0: []},
        "a gap in the partitions": {0: [1], 2: [1]},
        "not from zero": {1: [1]},
        "a negative partition": {-1: [1]},
        "replicas that differ in number": {0: [1], 1: [1, 2]},
        "a negative broker": {0: [-1]},
    }
    for name, assignments in cases.items():
        topic = a_topic(talk.topic_name(), -1, -1, assignments=assignments)
        talk.ask(name, 6, create(topic, validate_only=True))
    topic = a_topic(talk.topic_name(), 1, 1, assignments={0: [1]})
    talk.ask("both numbers as well", 6, create(topic, validate_only=True))
    topic = a_topic(talk.topic_name(), 1, -1, assignments={0: [1]})
    talk.ask("the number of partitions as well", 6, create(topic, validate_only=True))
    topic = a_topic(talk.topic_name(), -1, -1, assignments={0: [1]})
    topic.assignments.append(topic.assignments[0])
    talk.ask("a partition twice", 6, create(topic, validate_only=True))


def configurations(talk: Conversation) -> None:
    good: dict[str, str | None] = {
        "cleanup.policy": "compact,delete",
        "compression.type": "lz4",
        "max.message.bytes": "2000",
        "message.timestamp.type": "LogAppendTime",
        "min.insync.replicas": "1",
        "retention.ms": "-1",
        "segment.bytes": "1048576",
    }
    for version in (0, 5, 6):
        talk.ask(f"good ones, version {version}", version, create(a_topic(talk.topic_name(), configs=good)))
    talk.ask("spaces around a value", 6, create(a_topic(talk.topic_name(), configs={"retention.ms": " 5000 "})))
    talk.ask("an upper-case truth", 6, create(a_topic(talk.topic_name(), configs={"preallocate": "FALSE"})))


def configurations_that_are_refused(talk: Conversation) -> None:
    cases: dict[str, str | None] = {
        "no.such.key": "1",
        "cleanup.policy": "shred",
        "compression.type": "rar",
        "max.message.bytes": "-1",
        "message.timestamp.type": "Never",
        "min.insync.replicas": "0",
        "retention.ms": "-2",
        "retention.bytes": "many",
        "segment.bytes": "13",
        "segment.ms": "0",
        "index.interval.bytes": "-1",
        "min.cleanable.dirty.ratio": "1.5",
        "preallocate": "maybe",
        "flush.messages": "0",
        "file.delete.delay.ms": "-1",
        "segment.index.bytes": "3",
        "message.format.version": "99",
        "unclean.leader.election.enable": "x",
    }
    for key, value in cases.items():
        talk.ask(f"{key}={value}", 6, create(a_topic(talk.topic_name(), configs={key: value})))
    talk.ask("version 0", 0, create(a_topic(talk.topic_name(), configs={"no.such.key": "1"})))


def configurations_at_their_ends(talk: Conversation) -> None:
    cases: dict[str, str | None] = {
        "max.message.bytes": "0",
        "retention.ms": "-1",
        "segment.bytes": "14",
        "segment.ms": "1",
        "index.interval.bytes": "0",
        "flush.messages": "1",
        "file.delete.delay.ms": "0",
        "segment.index.bytes": "4",
        "max.compaction.lag.ms": "1",
        "min.insync.replicas": "2147483647",
    }
    for key, value in cases.items():
        request = create(a_topic(talk.topic_name(), configs={key: value}), validate_only=True)
        talk.ask(f"{key}={value}", 6, request)


def a_null_value_of_a_configuration(talk: Conversation) -> None:
    for version in (0, 6):
        topic = a_topic(talk.topic_name(), configs={"retention.ms": None})
        talk.ask(f"version {version}", version, create(topic))


def a_configuration_named_twice(talk: Conversation) -> None:
    topic = a_topic(talk.topic_name(), configs={"retention.ms": "1000"})
    topic.configs += a_topic("", configs={"retention.ms": "2000"}).configs
    talk.ask("the last one counts", 6, create(topic))


def several_topics_at_once(talk: Conversation) -> None:
    good, bad, unknown = talk.topic_name(), talk.topic_name(), talk.topic_name()
    topics = (a_topic(good), a_topic(bad, 0), a_topic("a b"), a_topic(unknown, configs={"x": "y"}))
    talk.ask("one good, three bad", 6, create(*topics))
    _described(talk, "the good one", good, 1)
    for version in (0, 6):
        talk.ask(f"none, version {version}", version, create())


def a_topic_named_twice(talk: Conversation) -> None:
    for version in (0, 1, 6):
        topic, other = talk.topic_name(), talk.topic_name()
        request = create(a_topic(topic), a_topic(other), a_topic(topic, 2))
        talk.ask(f"version {version}", version, request)


def a_time_that_is_too_short(talk: Conversation) -> None:
    for timeout_ms in (0, -1):
        topic = talk.topic_name()
        talk.ask(f"{timeout_ms} ms", 6, create(a_topic(topic), timeout_ms=timeout_ms))
        _described(talk, f"{timeout_ms} ms, described", topic, 1)
    talk.ask("0 ms, refused", 6, create(a_topic(talk.topic_name(), 0), timeout_ms=0))
    talk.ask("0 ms, only tried", 6, create(a_topic(talk.topic_name()), timeout_ms=0, validate_only=True))


def internal_topics(talk: Conversation) -> None:
    talk.ask("tried", 6, create(a_topic("__consumer_offsets"), validate_only=True))
    talk.ask("tried with underscores of its own", 6, create(a_topic("__mine"), validate_only=True))


def requests_that_cannot_be_read(talk: Conversation) -> None:
    head = b"\x00\x13\x00\x00\x00\x00\x00\x07\x00\x01x"
    cases = {
        "no body": b"",
        "a null list of topics": b"\xff\xff\xff\xff\x00\x00\x10\x00",
        "a count past the end": b"\x00\x00\x00\x05\x00\x01a",
        "a null name": b"\x00\x00\x00\x01\xff\xff\x00\x00\x00\x01\x00\x01" + bytes(8) + b"\x00\x00\x10\x00",
        "no time": b"\x00\x00\x00\x00",
        "bytes behind it": b"\x00\x00\x00\x00\x00\x00\x10\x00abc",
    }
    for name, body in cases.items():
        talk.ask_bytes(name, head + body, api_key=ApiKey.CREATE_TOPICS, version=0, correlation_id=7)


def compact_requests_that_cannot_be_read(talk: Conversation) -> None:
    head = b"\x00\x13\x00\x05\x00\x00\x00\x07\x00\x01x\x00"
    cases = {
        "a null list of topics": b"\x00\x00\x00\x10\x00\x00\x00",
        "no tags": b"\x01\x00\x00\x10\x00\x00",
        "an unknown tag": b"\x01\x00\x00\x10\x00\x00\x01\x03\x01z",
        "a null name": b"\x02\x00\x00\x00\x00\x01\x00\x01\x01\x01\x00\x00\x00\x10\x00\x00\x00",
    }
    for name, body in cases.items():
        talk.ask_bytes(name, head + body, api_key=ApiKey.CREATE_TOPICS, version=5, correlation_id=7)
