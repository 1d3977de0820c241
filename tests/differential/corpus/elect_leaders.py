"""ElectLeaders 0 to 2 against a cluster of one broker, whose id is 1: every partition has its leader already."""

from tests.differential.controller_requests import PREFERRED, UNCLEAN, elect
from tests.differential.conversation import Conversation

VERSIONS = (0, 1, 2)


def leaders_that_are_there(talk: Conversation) -> None:
    topic = talk.new_topic(2)
    for version in VERSIONS:
        for kind in (PREFERRED, UNCLEAN) if version else (PREFERRED,):
            talk.ask(f"version {version}, type {kind}", version, elect({topic: [0, 1]}, kind))


def what_does_not_exist(talk: Conversation) -> None:
    topic = talk.new_topic()
    for version in VERSIONS:
        talk.ask(f"version {version}, a topic", version, elect({f"{topic}-not": [0]}))
        talk.ask(f"version {version}, a partition", version, elect({topic: [0, 1, -1]}))
    talk.ask("names that no topic has", 2, elect({"": [0], "a b": [0], ".": [0]}, UNCLEAN))


def all_partitions(talk: Conversation) -> None:
    talk.new_topic()
    for version in VERSIONS:
        for kind in (PREFERRED, UNCLEAN) if version else (PREFERRED,):
            talk.ask(f"version {version}, type {kind}", version, elect(None, kind))


def types_that_there_are_not(talk: Conversation) -> None:
    topic = talk.new_topic()
    for version in (1, 2):
        for kind in (2, -1, 127):
            talk.ask(f"version {version}, type {kind}", version, elect({topic: [0]}, kind))
    talk.ask("of no topic", 2, elect({}, 2))


def requests_of_nothing(talk: Conversation) -> None:
    topic = talk.new_topic()
    for version in VERSIONS:
        talk.ask(f"version {version}, no topics", version, elect({}))
        talk.ask(f"version {version}, no partitions", version, elect({topic: []}))


def partitions_named_twice(talk: Conversation) -> None:
    topic = talk.new_topic()
    talk.ask("in one place", 2, elect({topic: [0, 0]}))
    request = elect({topic: [0]})
    request.topic_partitions = [*(request.topic_partitions or ()), *(request.topic_partitions or ())]
    talk.ask("in two places", 2, request)


def times_to_wait(talk: Conversation) -> None:
    topic = talk.new_topic()
    for timeout_ms in (0, -1):
        talk.ask(f"{timeout_ms} ms", 2, elect({topic: [0], "none": [1]}, UNCLEAN, timeout_ms))
