"""AlterPartitionReassignments 0 and ListPartitionReassignments 0 against a cluster of one broker, whose id is 1."""

from collections.abc import Mapping, Sequence

from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.differential.conversation import Conversation

NOBODY = 77


def _alter(topics: Mapping[str, Mapping[int, Sequence[int] | None]]) -> AlterPartitionReassignmentsRequest:
    return AlterPartitionReassignmentsRequest(
        topics=[
            ReassignableTopic(
                name,
                [ReassignablePartition(number, None if ids is None else list(ids)) for number, ids in found.items()],
            )
            for name, found in topics.items()
        ]
    )


def _listed(topics: Mapping[str, Sequence[int]] | None) -> ListPartitionReassignmentsRequest:
    if topics is None:
        return ListPartitionReassignmentsRequest(topics=None)
    found = [ListPartitionReassignmentsTopics(name, list(numbers)) for name, numbers in topics.items()]
    return ListPartitionReassignmentsRequest(topics=found)


def where_a_partition_is_already(talk: Conversation) -> None:
    topic = talk.new_topic(2)
    talk.ask("both", 0, _alter({topic: {0: [1], 1: [1]}}))
    talk.ask("one again", 0, _alter({topic: {0: [1]}}))


def targets_that_cannot_be(talk: Conversation) -> None:
    topic = talk.new_topic(6)
    talk.ask("empty", 0, _alter({topic: {0: []}}))
    talk.ask("twice", 0, _alter({topic: {0: [1, 1]}}))
    talk.ask("a negative broker", 0, _alter({topic: {0: [-1]}}))
    talk.ask("twice a negative broker", 0, _alter({topic: {0: [-1, -1]}}))
    talk.ask("a broker that is not there", 0, _alter({topic: {0: [NOBODY]}}))
    talk.ask("one that is and one that is not", 0, _alter({topic: {0: [1, NOBODY]}}))
    everything = {0: [], 1: [1, 1], 2: [-1], 3: [NOBODY], 4: [1], 5: None, 6: [1], 7: None, 8: [NOBODY], 9: []}
    talk.ask("all of them at once", 0, _alter({topic: everything}))


def what_does_not_exist(talk: Conversation) -> None:
    topic = talk.topic_name()
    talk.ask("no such topic", 0, _alter({topic: {0: [1]}}))
    talk.ask("no such topic, to a broker that is not there", 0, _alter({topic: {0: [NOBODY]}}))
    talk.ask("no such topic, cancelled", 0, _alter({topic: {0: None}}))
    known = talk.new_topic()
    talk.ask("no such partition", 0, _alter({known: {1: [1], -1: [1]}}))
    talk.ask("names that no topic has", 0, _alter({"": {0: [1]}, "a b": {0: [1]}, ".": {0: None}}))


def nothing_to_cancel(talk: Conversation) -> None:
    topic = talk.new_topic()
    talk.ask("no move", 0, _alter({topic: {0: None}}))


def requests_of_nothing(talk: Conversation) -> None:
    topic = talk.new_topic()
    talk.ask("no topics", 0, _alter({}))
    talk.ask("no partitions", 0, _alter({topic: {}}))
    request = _alter({topic: {0: [1]}})
    request.topics *= 2
    talk.ask("a topic twice", 0, request)
    request = _alter({topic: {0: [1]}})
    request.topics[0].partitions *= 2
    talk.ask("a partition twice", 0, request)
    request = _alter({topic: {0: [1]}})
    request.topics[0].partitions.append(ReassignablePartition(0, None))
    talk.ask("a partition twice, the second time cancelled", 0, request)
    request.timeout_ms = -1
    talk.ask("a negative timeout", 0, request)


def of_several_topics(talk: Conversation) -> None:
    names = [talk.new_topic(), talk.new_topic(), talk.topic_name()]
    talk.ask("three", 0, _alter({name: {0: [1]} for name in names}))


def listing_where_nothing_moves(talk: Conversation) -> None:
    topic = talk.new_topic(2)
    talk.ask("all", 0, _listed(None))
    talk.ask("none", 0, _listed({}))
    talk.ask("one", 0, _listed({topic: [0, 1]}))
    talk.ask("what does not exist", 0, _listed({topic: [7, -1], "none": [0], "": [0], "a b": [1]}))
    talk.ask("no partitions", 0, _listed({topic: []}))
    request = _listed({topic: [0, 0]})
    request.topics = [*(request.topics or ()), *(request.topics or ())]
    request.timeout_ms = -1
    talk.ask("all twice, a negative timeout", 0, request)
