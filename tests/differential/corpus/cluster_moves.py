"""What is answered while replicas move. A throttle holds them: one batch may pass it, and the topics have several."""

from tests.differential.batches import batch
from tests.differential.cluster_conversation import BROKERS, NOBODY, ClusterConversation
from tests.differential.controller_requests import delete, delete_before, elect, grow, moves_of, reassign
from tests.differential.requests import fetch_from, list_offsets_of, metadata_of, produce_to

HELD = "follower.replication.throttled.replicas"
RATE = "follower.replication.throttled.rate"
LARGE = b"x" * 700_000
NEW = 3


def _held(talk: ClusterConversation, *replicas: int, bytes_per_second: int) -> str:
    """A topic that does not get far when it moves to broker 3. No two may give the throttle the same value."""
    topic = talk.new_topic(replicas)
    talk.at(replicas[0]).write(topic, *[batch(LARGE)] * 3)
    _hold(talk, topic, bytes_per_second)
    return topic


def _hold(talk: ClusterConversation, topic: str, bytes_per_second: int) -> None:
    talk.set_topic_config(topic, HELD, f"0:{NEW}")
    talk.set_broker_config(NEW, RATE, str(bytes_per_second))


def _let_go(talk: ClusterConversation, topic: str) -> None:
    talk.set_topic_config(topic, HELD, "")


def a_move_that_is_listed(talk: ClusterConversation) -> None:
    topic = _held(talk, 1, 2, bytes_per_second=1)
    talk.at_controller.ask("begun", 0, reassign({topic: {0: [3, 1]}}))
    talk.await_replicas(topic, [3, 1, 2], in_sync=[1, 2], leader=1)
    talk.at_controller.ask("listed", 0, moves_of({topic: [0]}))
    talk.at_controller.ask("listed with others", 0, moves_of({topic: [0, 4], "never-made": [0]}))
    talk.at_controller.ask("all listed", 0, moves_of(None))
    for broker in BROKERS:
        talk.at(broker).ask(f"described by broker {broker}", 5, metadata_of(topic))
    _let_go(talk, topic)
    talk.await_replicas(topic, [3, 1], leader=1)
    talk.await_no_moves(topic)
    talk.at_controller.ask("listed at the end", 0, moves_of({topic: [0]}))
    talk.at(1).ask("described at the end", 5, metadata_of(topic))


def a_move_that_is_cancelled(talk: ClusterConversation) -> None:
    topic = _held(talk, 1, 2, bytes_per_second=2)
    talk.at_controller.ask("begun", 0, reassign({topic: {0: [3]}}))
    talk.await_replicas(topic, [3, 1, 2], in_sync=[1, 2], leader=1)
    talk.at_controller.ask("listed", 0, moves_of(None))
    talk.at_controller.ask("cancelled", 0, reassign({topic: {0: None}}))
    talk.await_replicas(topic, [1, 2])
    talk.at_controller.ask("cancelled again", 0, reassign({topic: {0: None}}))
    talk.at_controller.ask("listed at the end", 0, moves_of({topic: [0]}))
    talk.at(1).ask("described at the end", 5, metadata_of(topic))


def a_move_that_is_named_again(talk: ClusterConversation) -> None:
    topic = _held(talk, 1, 2, bytes_per_second=3)
    talk.at_controller.ask("begun", 0, reassign({topic: {0: [1, 3]}}))
    talk.await_replicas(topic, [1, 3, 2], in_sync=[1, 2])
    talk.at_controller.ask("the same again", 0, reassign({topic: {0: [1, 3]}}))
    talk.at_controller.ask("listed", 0, moves_of({topic: [0]}))
    talk.at_controller.ask("what cannot be", 0, reassign({topic: {0: [1, NOBODY]}}))
    talk.at_controller.ask("nobody", 0, reassign({topic: {0: []}}))
    talk.at_controller.ask("listed still", 0, moves_of({topic: [0]}))
    talk.at_controller.ask("in another order", 0, reassign({topic: {0: [3, 1]}}))
    talk.await_replicas(topic, [3, 1, 2], in_sync=[1, 2], leader=1)
    talk.at_controller.ask("listed in another order", 0, moves_of({topic: [0]}))
    talk.at_controller.ask("all three", 0, reassign({topic: {0: [1, 2, 3]}}))
    talk.await_replicas(topic, [1, 2, 3], in_sync=[1, 2])
    talk.at_controller.ask("listed, all three", 0, moves_of({topic: [0]}))
    talk.at_controller.ask("where it was", 0, reassign({topic: {0: [1, 2]}}))
    talk.await_replicas(topic, [1, 2])
    talk.at_controller.ask("listed at the end", 0, moves_of({topic: [0]}))


def two_moves_one_of_them_cancelled(talk: ClusterConversation) -> None:
    first, second = _held(talk, 1, 2, bytes_per_second=4), _held(talk, 2, 1, bytes_per_second=5)
    talk.at_controller.ask("begun", 0, reassign({first: {0: [1, 3]}, second: {0: [2, 3]}}))
    talk.await_replicas(first, [1, 3, 2], in_sync=[1, 2])
    talk.await_replicas(second, [2, 3, 1], in_sync=[1, 2], leader=2)
    talk.at_controller.ask("all listed", 0, moves_of(None))
    wanted: dict[str, dict[int, list[int] | None]] = {first: {0: None, 1: None}, "never-made": {0: None}}
    talk.at_controller.ask("one cancelled, two that do not move", 0, reassign(wanted))
    talk.await_replicas(first, [1, 2])
    talk.at_controller.ask("one is left", 0, moves_of(None))
    talk.at_controller.ask("the other cancelled", 0, reassign({second: {0: None}}))
    talk.await_replicas(second, [2, 1])


def what_others_may_do_meanwhile(talk: ClusterConversation) -> None:
    topic = _held(talk, 1, 2, bytes_per_second=6)
    talk.at_controller.prepare(0, reassign({topic: {0: [3, 1]}}))
    talk.await_replicas(topic, [3, 1, 2], in_sync=[1, 2], leader=1)
    for name, broker in (("the leader", 1), ("a follower", 2), ("the new one", 3)):
        talk.at(broker).ask(f"produced at {name}", 8, produce_to(8, topic, batch(b"a")))
        talk.at(broker).ask(f"offsets of {name}", 5, list_offsets_of(topic, -1))
    talk.at(3).ask("fetched at the new one, version 10", 10, fetch_from(topic))
    for version in range(4):
        talk.at_controller.ask(f"more partitions, version {version}", version, grow(topic, 2))
    talk.at_controller.ask("more partitions, tried", 3, grow(topic, 2, validate_only=True))
    talk.at_controller.ask("elected", 2, elect({topic: [0]}))
    talk.at_controller.ask("elected uncleanly", 2, elect({topic: [0]}, 1))
    talk.at_controller.prepare(0, reassign({topic: {0: None}}))
    talk.await_replicas(topic, [1, 2])


def replicas_to_be_in_sync_meanwhile(talk: ClusterConversation) -> None:
    topic = _held(talk, 1, 2, bytes_per_second=7)
    talk.set_topic_config(topic, "min.insync.replicas", "3")
    talk.set_broker_config(1, RATE, "7")
    talk.at_controller.ask("begun", 0, reassign({topic: {0: [1, 2, 3]}}))
    talk.await_replicas(topic, [1, 2, 3], in_sync=[1, 2])
    talk.at(1).ask("too few", 8, produce_to(8, topic, batch(b"a")))
    _let_go(talk, topic)
    talk.await_replicas(topic, [1, 2, 3])
    talk.at(1).ask("enough", 8, produce_to(8, topic, batch(b"a")))


def records_that_are_deleted_meanwhile(talk: ClusterConversation) -> None:
    topic = _held(talk, 1, 2, bytes_per_second=9)
    talk.at_controller.prepare(0, reassign({topic: {0: [1, 2, 3]}}))
    talk.await_replicas(topic, [1, 2, 3], in_sync=[1, 2])
    talk.at(1).ask("the new one has not heard", 2, delete_before((topic, 0, 3), timeout_ms=500))
    talk.at(1).ask("the first offset", 5, list_offsets_of(topic, -2))
    talk.at_controller.prepare(0, reassign({topic: {0: None}}))
    talk.await_replicas(topic, [1, 2])
    talk.at(1).ask("without the new one", 2, delete_before((topic, 0, 3)))


def a_topic_that_is_deleted(talk: ClusterConversation) -> None:
    topic = _held(talk, 1, 2, bytes_per_second=8)
    talk.at_controller.prepare(0, reassign({topic: {0: [1, 3]}}))
    talk.await_replicas(topic, [1, 3, 2], in_sync=[1, 2])
    talk.at_controller.ask("cancelled", 0, reassign({topic: {0: None}}))
    talk.await_replicas(topic, [1, 2])
    talk.at_controller.ask("deleted", 5, delete(topic))
    talk.at_controller.ask("reassigned when it is gone", 0, reassign({topic: {0: [1, 3]}}))
