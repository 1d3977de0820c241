"""CreatePartitions: topics that grow."""

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
)
from tests.differential.batches import batch
from tests.differential.controller_requests import grow
from tests.differential.conversation import Conversation
from tests.differential.requests import list_offsets_of, metadata_of, produce_to

VERSIONS = range(4)


def every_version_adds_partitions(talk: Conversation) -> None:
    topic = talk.new_topic()
    for version in VERSIONS:
        count = version + 2
        talk.ask(f"version {version}", version, grow(topic, count))
        talk.await_leaders(topic, count)
        talk.ask(f"version {version}, described", 7, metadata_of(topic))


def new_partitions_are_used_and_old_ones_keep_their_records(talk: Conversation) -> None:
    topic = talk.new_topic()
    talk.write(topic, batch(b"a", b"b"))
    talk.ask("grown", 3, grow(topic, 3))
    talk.await_leaders(topic, 3)
    talk.ask("produce to a new one", 8, produce_to(8, topic, batch(b"c"), partition=2))
    talk.ask("the ends", 5, list_offsets_of(topic, -1, -1, -1))


def counts_that_do_not_grow(talk: Conversation) -> None:
    topic = talk.new_topic(partitions=3)
    # The least int32 is left out: Kafka 2.7 takes it for a huge growth and never answers again.
    for count in (3, 2, 1, 0, -1, -1000):
        for version in (0, 3):
            talk.ask(f"{count}, version {version}", version, grow(topic, count))


def assignments_by_hand(talk: Conversation) -> None:
    topic = talk.new_topic()
    for version in VERSIONS:
        count = version + 2
        talk.ask(f"version {version}", version, grow(topic, count, [[1]]))
        talk.await_leaders(topic, count)


def assignments_that_are_refused(talk: Conversation) -> None:
    topic = talk.new_topic()
    cases: dict[str, tuple[int, list[list[int]]]] = {
        "an unknown broker": (2, [[9]]),
        "a broker twice": (2, [[1, 1]]),
        "no broker": (2, [[]]),
        "too few assignments": (3, [[1]]),
        "too many assignments": (2, [[1], [1]]),
        "no assignment": (2, []),
        "more replicas than before": (2, [[1, 2]]),
        "replicas that differ in number": (3, [[1], [1, 2]]),
    }
    for name, (count, assignments) in cases.items():
        talk.ask(name, 3, grow(topic, count, assignments, validate_only=True))


def only_trying_adds_nothing(talk: Conversation) -> None:
    topic = talk.new_topic()
    for version in VERSIONS:
        talk.ask(f"version {version}", version, grow(topic, 5, validate_only=True))
    talk.ask("it has not grown", 7, metadata_of(topic))


def unknown_topics(talk: Conversation) -> None:
    for version in VERSIONS:
        talk.ask(f"version {version}", version, grow("never-made", 3))
    for name in ("", "a b", "x" * 250):
        talk.ask(f"called {name[:5]!r}", 3, grow(name, 3))


def a_topic_named_twice(talk: Conversation) -> None:
    topic, other = talk.new_topic(), talk.new_topic()
    request = grow(topic, 2)
    request.topics += grow(topic, 3).topics + grow(other, 2).topics
    talk.ask("beside another one", 3, request)


def several_topics_at_once(talk: Conversation) -> None:
    first, second = talk.new_topic(), talk.new_topic(partitions=2)
    request = grow(first, 2)
    request.topics += grow(second, 1).topics + grow("never-made", 2).topics
    talk.ask("one good, two bad", 3, request)
    for version in VERSIONS:
        talk.ask(f"none, version {version}", version, CreatePartitionsRequest([], 15_000, False))


def a_time_that_is_too_short(talk: Conversation) -> None:
    for count, timeout_ms in ((2, 0), (3, -1)):
        topic = talk.new_topic()
        talk.ask(f"{timeout_ms} ms", 3, grow(topic, count, timeout_ms=timeout_ms))
        talk.await_leaders(topic, count)
    talk.ask("0 ms, only tried", 3, grow(topic, 9, timeout_ms=0, validate_only=True))


def requests_that_cannot_be_read(talk: Conversation) -> None:
    head = b"\x00\x25\x00\x00\x00\x00\x00\x07\x00\x01x"
    cases = {
        "no body": b"",
        "a null list": b"\xff\xff\xff\xff\x00\x00\x10\x00\x00",
        "a null name": b"\x00\x00\x00\x01\xff\xff\x00\x00\x00\x02\xff\xff\xff\xff\x00\x00\x10\x00\x00",
        "a count past the end": b"\x00\x00\x00\x05\x00\x01a",
    }
    for name, body in cases.items():
        talk.ask_bytes(name, head + body, api_key=ApiKey.CREATE_PARTITIONS, version=0, correlation_id=7)
