"""AlterPartitionReassignments and ListPartitionReassignments where replicas have somewhere to go."""

from collections.abc import Sequence

from barnabas.protocol.messages.alter_partition_reassignments import ReassignablePartition
from tests.differential.batches import batch
from tests.differential.cluster_conversation import NOBODY, ClusterConversation
from tests.differential.controller_requests import moves_of, reassign
from tests.differential.requests import fetch_from, list_offsets_of, metadata_of


def _moved(
    talk: ClusterConversation, name: str, before: Sequence[int], after: Sequence[int], *, leader: int | None = None
) -> str:
    topic = talk.new_topic(before)
    talk.at(before[0]).write(topic, batch(b"a", b"b"))
    talk.at_controller.ask(name, 0, reassign({topic: {0: after}}))
    talk.await_replicas(topic, after, leader=leader)
    talk.await_no_moves(topic)
    talk.at(1).ask(f"{name}, described", 5, metadata_of(topic))
    led_by = after[0] if leader is None else leader
    talk.await_end(topic, 2, led_by)
    talk.at(led_by).ask(f"{name}, the end", 3, list_offsets_of(topic, -1))
    return topic


def replicas_added(talk: ClusterConversation) -> None:
    _moved(talk, "one to one", [1], [1, 2])
    _moved(talk, "two to one", [1], [1, 2, 3])
    _moved(talk, "one in front", [1, 2], [3, 1, 2], leader=1)


def replicas_removed(talk: ClusterConversation) -> None:
    _moved(talk, "the last of three", [1, 2, 3], [1, 2])
    _moved(talk, "all but the leader", [1, 2, 3], [1])
    _moved(talk, "the leader", [1, 2, 3], [2, 3])
    _moved(talk, "the leader and a follower", [1, 2, 3], [3])


def replicas_replaced(talk: ClusterConversation) -> None:
    _moved(talk, "a follower", [1, 2], [1, 3])
    _moved(talk, "the leader", [1, 2], [3, 2])
    _moved(talk, "the only one", [1], [2])
    _moved(talk, "two by one", [1, 2], [3])
    topic = _moved(talk, "one by two", [1], [2, 3])
    talk.await_end(topic, 2, 2, 3)
    talk.at(2).ask("what was moved", 4, fetch_from(topic))
    talk.at(3).ask("what was moved, at the follower", 11, fetch_from(topic))


def an_order_that_changes(talk: ClusterConversation) -> None:
    _moved(talk, "the leader last", [1, 2, 3], [3, 2, 1], leader=1)
    _moved(talk, "the followers", [1, 2, 3], [1, 3, 2])
    _moved(talk, "nothing", [1, 2, 3], [1, 2, 3])
    _moved(talk, "the leader last and one fewer", [1, 2, 3], [2, 1], leader=1)


def there_and_back(talk: ClusterConversation) -> None:
    topic = _moved(talk, "there", [1, 2], [2, 3])
    talk.at_controller.ask("back", 0, reassign({topic: {0: [1, 2]}}))
    talk.await_replicas(topic, [1, 2], leader=2)
    talk.at(1).ask("back, described", 5, metadata_of(topic))
    talk.at_controller.ask("nothing to cancel", 0, reassign({topic: {0: None}}))


def targets_that_cannot_be(talk: ClusterConversation) -> None:
    topic = talk.new_topic(*[[1, 2]] * 8)
    cases: dict[str, list[int]] = {
        "nobody": [],
        "one twice": [1, 2, 1],
        "a new one twice": [3, 3],
        "a broker that is not there": [1, NOBODY],
        "only a broker that is not there": [NOBODY],
        "a negative broker": [1, -1],
        "one twice and one that is not there": [1, 1, NOBODY],
    }
    for name, brokers in cases.items():
        talk.at_controller.ask(name, 0, reassign({topic: {0: brokers}}))
    talk.at_controller.ask("all at once", 0, reassign({topic: dict(enumerate(cases.values()))}))
    talk.at_controller.ask("it is where it was", 5, metadata_of(topic))
    talk.at_controller.ask("nothing moves", 0, moves_of({topic: list(range(8))}))


def what_is_not_there(talk: ClusterConversation) -> None:
    topic = talk.new_topic([1, 2])
    for name, brokers in (("to somebody", [1, 3]), ("to nobody", []), ("to one that is not there", [NOBODY])):
        talk.at_controller.ask(f"a topic, {name}", 0, reassign({"never-made": {0: brokers}}))
        talk.at_controller.ask(f"a partition, {name}", 0, reassign({topic: {1: brokers, -1: brokers}}))
    talk.at_controller.ask("cancelled", 0, reassign({topic: {0: None, 1: None}, "never-made": {0: None}}))
    talk.at_controller.ask("listed", 0, moves_of({topic: [0, 1, -1], "never-made": [0]}))


def several_topics_one_of_them_bad(talk: ClusterConversation) -> None:
    first, second, third = talk.new_topic([1, 2]), talk.new_topic([2, 3], [3, 1]), talk.new_topic([3, 1])
    wanted = {first: {0: [3, 2]}, second: {0: [2, 2], 1: [3, 2]}, third: {0: [3, NOBODY]}, "never-made": {0: [1]}}
    talk.at_controller.ask("four", 0, reassign(wanted))
    talk.await_replicas(first, [3, 2])
    talk.await_replicas(second, [3, 2], partition=1)
    talk.at_controller.ask("described", 5, metadata_of(first, second, third))


def requests_of_nothing(talk: ClusterConversation) -> None:
    topic = talk.new_topic([1, 2])
    talk.at_controller.ask("no topics", 0, reassign({}))
    talk.at_controller.ask("no partitions", 0, reassign({topic: {}}))
    talk.at_controller.ask("none listed", 0, moves_of({}))
    talk.at_controller.ask("no partitions listed", 0, moves_of({topic: []}))


def a_partition_named_twice(talk: ClusterConversation) -> None:
    topic = talk.new_topic([1, 2])
    request = reassign({topic: {0: [1, 3]}})
    request.topics[0].partitions.append(ReassignablePartition(0, [2, 3]))
    talk.at_controller.ask("the last one counts", 0, request)
    talk.await_replicas(topic, [2, 3])
    talk.at_controller.ask("described", 5, metadata_of(topic))


def times_to_wait(talk: ClusterConversation) -> None:
    for timeout_ms in (0, -1):
        topic = talk.new_topic([1, 2])
        talk.at_controller.ask(f"{timeout_ms} ms", 0, reassign({topic: {0: [1, 3]}}, timeout_ms))
        talk.await_replicas(topic, [1, 3])


def away_from_a_broker_that_is_not_there(talk: ClusterConversation) -> None:
    topic = talk.new_topic([1, NOBODY], [1, NOBODY])
    talk.at_controller.ask("replaced", 0, reassign({topic: {0: [1, 2]}}))
    talk.await_replicas(topic, [1, 2])
    talk.at_controller.ask("kept, in another order", 0, reassign({topic: {1: [NOBODY, 1]}}))
    talk.await_replicas(topic, [NOBODY, 1], partition=1)
    talk.at_controller.ask("described", 5, metadata_of(topic))
