"""AlterPartitionReassignments 0 and ListPartitionReassignments 0 against a cluster of one broker, whose id is 1."""

from barnabas.protocol.messages.alter_partition_reassignments import ReassignablePartition
from tests.differential.controller_requests import moves_of, reassign
from tests.differential.conversation import Conversation

NOBODY = 77


def where_a_partition_is_already(talk: Conversation) -> None:
    topic = talk.new_topic(2)
    talk.ask("both", 0, reassign({topic: {0: [1], 1: [1]}}))
    talk.ask("one again", 0, reassign({topic: {0: [1]}}))


def targets_that_cannot_be(talk: Conversation) -> None:
    topic = talk.new_topic(6)
    talk.ask("empty", 0, reassign({topic: {0: []}}))
    talk.ask("twice", 0, reassign({topic: {0: [1, 1]}}))
    talk.ask("a negative broker", 0, reassign({topic: {0: [-1]}}))
    talk.ask("twice a negative broker", 0, reassign({topic: {0: [-1, -1]}}))
    talk.ask("a broker that is not there", 0, reassign({topic: {0: [NOBODY]}}))
    talk.ask("one that is and one that is not", 0, reassign({topic: {0: [1, NOBODY]}}))
    everything = {0: [], 1: [1, 1], 2: [-1], 3: [NOBODY], 4: [1], 5: None, 6: [1], 7: None, 8: [NOBODY], 9: []}
    talk.ask("all of them at once", 0, reassign({topic: everything}))


def what_does_not_exist(talk: Conversation) -> None:
    topic = talk.topic_name()
    talk.ask("no such topic", 0, reassign({topic: {0: [1]}}))
    talk.ask("no such topic, to a broker that is not there", 0, reassign({topic: {0: [NOBODY]}}))
    talk.ask("no such topic, cancelled", 0, reassign({topic: {0: None}}))
    known = talk.new_topic()
    talk.ask("no such partition", 0, reassign({known: {1: [1], -1: [1]}}))
    talk.ask("names that no topic has", 0, reassign({"": {0: [1]}, "a b": {0: [1]}, ".": {0: None}}))


def nothing_to_cancel(talk: Conversation) -> None:
    topic = talk.new_topic()
    talk.ask("no move", 0, reassign({topic: {0: None}}))


def requests_of_nothing(talk: Conversation) -> None:
    topic = talk.new_topic()
    talk.ask("no topics", 0, reassign({}))
    talk.ask("no partitions", 0, reassign({topic: {}}))
    request = reassign({topic: {0: [1]}})
    request.topics *= 2
    talk.ask("a topic twice", 0, request)
    request = reassign({topic: {0: [1]}})
    request.topics[0].partitions *= 2
    talk.ask("a partition twice", 0, request)
    request = reassign({topic: {0: [1]}})
    request.topics[0].partitions.append(ReassignablePartition(0, None))
    talk.ask("a partition twice, the second time cancelled", 0, request)
    request.timeout_ms = -1
    talk.ask("a negative timeout", 0, request)


def of_several_topics(talk: Conversation) -> None:
    names = [talk.new_topic(), talk.new_topic(), talk.topic_name()]
    talk.ask("three", 0, reassign({name: {0: [1]} for name in names}))


def listing_where_nothing_moves(talk: Conversation) -> None:
    topic = talk.new_topic(2)
    talk.ask("all", 0, moves_of(None))
    talk.ask("none", 0, moves_of({}))
    talk.ask("one", 0, moves_of({topic: [0, 1]}))
    talk.ask("what does not exist", 0, moves_of({topic: [7, -1], "none": [0], "": [0], "a b": [1]}))
    talk.ask("no partitions", 0, moves_of({topic: []}))
    request = moves_of({topic: [0, 0]})
    request.topics = [*(request.topics or ()), *(request.topics or ())]
    request.timeout_ms = -1
    talk.ask("all twice, a negative timeout", 0, request)
