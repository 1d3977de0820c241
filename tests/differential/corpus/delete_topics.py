"""DeleteTopics: topics that go, and names that no topic has."""

from barnabas.protocol.ids import ApiKey
from tests.differential.batches import batch
from tests.differential.controller_requests import delete
from tests.differential.conversation import Conversation
from tests.differential.requests import fetch_from, list_offsets_of, metadata_of, produce_to

VERSIONS = range(6)


def every_version_deletes_a_topic(talk: Conversation) -> None:
    for version in VERSIONS:
        topic = talk.new_topic(partitions=2)
        talk.ask(f"version {version}", version, delete(topic))
        talk.ask(f"version {version}, it is gone", 7, metadata_of(topic))
        talk.ask(f"version {version}, again", version, delete(topic))


def a_topic_that_is_gone_is_unknown_to_every_api(talk: Conversation) -> None:
    topic = talk.new_topic()
    talk.write(topic, batch(b"a"))
    talk.delete_topic(topic)
    talk.ask("produce", 8, produce_to(8, topic, batch(b"a")))
    talk.ask("fetch", 11, fetch_from(topic))
    talk.ask("list offsets", 5, list_offsets_of(topic, -1))


def a_name_may_be_used_again(talk: Conversation) -> None:
    topic = talk.new_topic(partitions=3)
    talk.write(topic, batch(b"a", b"b"))
    talk.ask("deleted", 5, delete(topic))
    talk.create_again(topic)
    talk.ask("its metadata", 7, metadata_of(topic))
    talk.ask("its end", 5, list_offsets_of(topic, -1))
    talk.ask("produce", 8, produce_to(8, topic, batch(b"c")))


def unknown_topics(talk: Conversation) -> None:
    for version in VERSIONS:
        talk.ask(f"version {version}", version, delete("never-made"))
    for name in ("", "a b", "x" * 250, ".."):
        talk.ask(f"called {name[:5]!r}", 5, delete(name))


def several_topics_at_once(talk: Conversation) -> None:
    first, second = talk.new_topic(), talk.new_topic()
    talk.ask("two good, one unknown", 5, delete(first, "never-made", second))
    for version in (0, 1, 4, 5):
        talk.ask(f"none, version {version}", version, delete())


def a_topic_named_twice(talk: Conversation) -> None:
    for version in (1, 5):
        topic = talk.new_topic()
        talk.ask(f"version {version}", version, delete(topic, topic))
    talk.ask("an unknown one", 5, delete("never-made", "never-made"))


def a_time_that_is_too_short(talk: Conversation) -> None:
    for timeout_ms in (0, -1):
        topic = talk.new_topic()
        talk.ask(f"{timeout_ms} ms", 5, delete(topic, timeout_ms=timeout_ms))
        talk.await_absence(topic)
    talk.ask("0 ms, an unknown one", 5, delete("never-made", timeout_ms=0))


def requests_that_cannot_be_read(talk: Conversation) -> None:
    head = b"\x00\x14\x00\x01\x00\x00\x00\x07\x00\x01x"
    cases = {
        "no body": b"",
        "a null list": b"\xff\xff\xff\xff\x00\x00\x10\x00",
        "a null name": b"\x00\x00\x00\x01\xff\xff\x00\x00\x10\x00",
        "a count past the end": b"\x00\x00\x00\x05\x00\x01a",
        "no time": b"\x00\x00\x00\x00",
    }
    for name, body in cases.items():
        talk.ask_bytes(name, head + body, api_key=ApiKey.DELETE_TOPICS, version=1, correlation_id=7)
    head = b"\x00\x14\x00\x04\x00\x00\x00\x07\x00\x01x\x00"
    cases = {"a compact null list": b"\x00\x00\x00\x10\x00\x00", "no tags": b"\x01\x00\x00\x10\x00"}
    for name, body in cases.items():
        talk.ask_bytes(name, head + body, api_key=ApiKey.DELETE_TOPICS, version=4, correlation_id=7)
