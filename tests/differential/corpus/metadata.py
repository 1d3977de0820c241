"""Metadata: topics by name, all of them, none, missing ones, and topics that asking creates."""

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.differential.conversation import Conversation
from tests.differential.requests import metadata_of

VERSIONS = range(10)
LONGEST = 249


def _of(version: int, *names: str) -> MetadataRequest:
    return metadata_of(*names, create=version < 4)


def every_version_describes_a_topic(talk: Conversation) -> None:
    topic = talk.new_topic(partitions=3)
    for version in VERSIONS:
        talk.ask(f"version {version}", version, _of(version, topic))


def every_version_lists_all_topics(talk: Conversation) -> None:
    talk.new_topic(partitions=2)
    talk.new_topic()
    for version in VERSIONS:
        everything: list[MetadataRequestTopic] | None = [] if version == 0 else None
        request = MetadataRequest(everything, allow_auto_topic_creation=version < 4)
        talk.ask(f"version {version}", version, request)


def an_empty_list_asks_for_no_topic_from_version_1_on(talk: Conversation) -> None:
    talk.new_topic()
    for version in VERSIONS[1:]:
        talk.ask(f"version {version}", version, MetadataRequest([], allow_auto_topic_creation=version < 4))


def a_missing_topic_is_unknown_when_it_may_not_be_created(talk: Conversation) -> None:
    for version in VERSIONS[4:]:
        talk.ask(f"version {version}", version, metadata_of(talk.topic_name()))
        talk.ask(f"version {version} again", version, metadata_of("never-made"))


def asking_creates_a_topic(talk: Conversation) -> None:
    for version in VERSIONS:
        topic = talk.topic_name()
        talk.ask(f"version {version}", version, metadata_of(topic, create=True))
        talk.await_leaders(topic, 2)
        talk.ask(f"version {version} once it is made", version, metadata_of(topic, create=True))


def two_topics_one_of_them_missing(talk: Conversation) -> None:
    topic = talk.new_topic()
    for version in (4, 9):
        talk.ask(f"version {version}", version, metadata_of(topic, "never-made"))


def a_topic_named_twice_is_described_once(talk: Conversation) -> None:
    topic = talk.new_topic()
    for version in (1, 5, 9):
        talk.ask(f"version {version}", version, _of(version, topic, topic))


def names_that_no_topic_can_have(talk: Conversation) -> None:
    names = ("", ".", "..", "a b", "a/b", "a:b", "ä", "a,b", "a\n", "x" * (LONGEST + 1), "a\x00b")
    for name in names:
        shown = repr(name) if len(name) < 10 else "a name that is too long"
        talk.ask(f"{shown}, not to be created", 5, metadata_of(name))
        talk.ask(f"{shown}, to be created", 5, metadata_of(name, create=True))
    talk.ask("version 9", 9, metadata_of("a b", create=True))
    talk.ask("version 0", 0, metadata_of("a b", create=True))


def a_good_and_an_impossible_name_together(talk: Conversation) -> None:
    topic = talk.new_topic()
    talk.ask("not to be created", 5, metadata_of(topic, "a b"))
    talk.ask("to be created", 5, metadata_of(topic, "a b", create=True))


def authorized_operations_are_bits_when_asked_for(talk: Conversation) -> None:
    topic = talk.new_topic()
    for version in (8, 9):
        for cluster in (False, True):
            for topics in (False, True):
                request = metadata_of(topic)
                request.include_cluster_authorized_operations = cluster
                request.include_topic_authorized_operations = topics
                talk.ask(f"version {version}, cluster {cluster}, topics {topics}", version, request)
    request = metadata_of("never-made")
    request.include_topic_authorized_operations = True
    talk.ask("of a missing topic", 8, request)


def a_null_list_is_refused_in_version_0(talk: Conversation) -> None:
    header = b"\x00\x03\x00\x00\x00\x00\x00\x07\x00\x01x"
    talk.ask_bytes("null", header + b"\xff\xff\xff\xff", api_key=ApiKey.METADATA, version=0, correlation_id=7)


def impossible_lengths(talk: Conversation) -> None:
    header = b"\x00\x03\x00\x01\x00\x00\x00\x07\x00\x01x"
    bodies = {
        "a count of -2": b"\xff\xff\xff\xfe",
        "a count past the end": b"\x00\x00\x00\x05\x00\x01a",
        "a count of two billion": b"\x7f\xff\xff\xff",
        "a null name": b"\x00\x00\x00\x01\xff\xff",
        "a name past the end": b"\x00\x00\x00\x01\x00\x09abc",
        "no body": b"",
    }
    for name, body in bodies.items():
        talk.ask_bytes(name, header + body, api_key=ApiKey.METADATA, version=1, correlation_id=7)


def impossible_compact_lengths(talk: Conversation) -> None:
    header = b"\x00\x03\x00\x09\x00\x00\x00\x07\x00\x01x\x00"
    bodies = {
        "a count past the end": b"\x06\x02a\x00",
        "a null name": b"\x02\x00\x00\x00\x00\x00\x00",
        "a name past the end": b"\x02\x0aabc",
        "a count of five bytes": b"\xff\xff\xff\xff\x0f",
    }
    for name, body in bodies.items():
        talk.ask_bytes(name, header + body, api_key=ApiKey.METADATA, version=9, correlation_id=7)


def many_topics_at_once(talk: Conversation) -> None:
    topics = [talk.new_topic() for _ in range(5)]
    talk.ask("five", 5, metadata_of(*topics))
    talk.ask("five in the other order", 5, metadata_of(*reversed(topics)))
    names = [MetadataRequestTopic(f"never-made-{number}") for number in range(20)]
    talk.ask("twenty that are missing", 5, MetadataRequest(names, allow_auto_topic_creation=False))


def topics_whose_names_differ_only_in_dot_and_underscore(talk: Conversation) -> None:
    topic = talk.topic_name()
    talk.ask("with dots", 5, metadata_of(f"{topic}.a.b", create=True))
    talk.await_leaders(f"{topic}.a.b", 2)
    talk.ask("with underscores", 5, metadata_of(f"{topic}.a_b", create=True))
    talk.ask("with underscores again", 5, metadata_of(f"{topic}.a_b"))
