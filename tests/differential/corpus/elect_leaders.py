"""ElectLeaders 0 to 2 against a cluster of one broker, whose id is 1: every partition has its leader already."""

from collections.abc import Mapping, Sequence

from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tests.differential.conversation import Conversation

VERSIONS = (0, 1, 2)
PREFERRED, UNCLEAN = 0, 1


def _elect(
    topics: Mapping[str, Sequence[int]] | None, kind: int = PREFERRED, timeout_ms: int = 15_000
) -> ElectLeadersRequest:
    wanted = None if topics is None else [TopicPartitions(name, list(numbers)) for name, numbers in topics.items()]
    return ElectLeadersRequest(kind, wanted, timeout_ms)


def leaders_that_are_there(talk: Conversation) -> None:
    topic = talk.new_topic(2)
    for version in VERSIONS:
        for kind in (PREFERRED, UNCLEAN) if version else (PREFERRED,):
            talk.ask(f"version {version}, type {kind}", version, _elect({topic: [0, 1]}, kind))


def what_does_not_exist(talk: Conversation) -> None:
    topic = talk.new_topic()
    for version in VERSIONS:
        talk.ask(f"version {version}, a topic", version, _elect({f"{topic}-not": [0]}))
        talk.ask(f"version {version}, a partition", version, _elect({topic: [0, 1, -1]}))
    talk.ask("names that no topic has", 2, _elect({"": [0], "a b": [0], ".": [0]}, UNCLEAN))


def all_partitions(talk: Conversation) -> None:
    talk.new_topic()
    for version in VERSIONS:
        for kind in (PREFERRED, UNCLEAN) if version else (PREFERRED,):
            talk.ask(f"version {version}, type {kind}", version, _elect(None, kind))


def types_that_there_are_not(talk: Conversation) -> None:
    topic = talk.new_topic()
    for version in (1, 2):
        for kind in (2, -1, 127):
            talk.ask(f"version {version}, type {kind}", version, _elect({topic: [0]}, kind))
    talk.ask("of no topic", 2, _elect({}, 2))


def requests_of_nothing(talk: Conversation) -> None:
    topic = talk.new_topic()
    for version in VERSIONS:
        talk.ask(f"version {version}, no topics", version, _elect({}))
        talk.ask(f"version {version}, no partitions", version, _elect({topic: []}))


def partitions_named_twice(talk: Conversation) -> None:
    topic = talk.new_topic()
    talk.ask("in one place", 2, _elect({topic: [0, 0]}))
    request = _elect({topic: [0]})
    request.topic_partitions = [*(request.topic_partitions or ()), *(request.topic_partitions or ())]
    talk.ask("in two places", 2, request)


def times_to_wait(talk: Conversation) -> None:
    topic = talk.new_topic()
    for timeout_ms in (0, -1):
        talk.ask(f"{timeout_ms} ms", 2, _elect({topic: [0], "none": [1]}, UNCLEAN, timeout_ms))
