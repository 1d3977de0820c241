"""Fetch by whoever says to be a broker: a follower, one without a replica, one that there is not."""

from tests.differential.batches import batch
from tests.differential.cluster_conversation import NOBODY, ClusterConversation
from tests.differential.requests import fetch_from, fetch_partition

REPLICAS = {"itself": 1, "a follower": 2, "a broker without a replica": 3, "nobody": NOBODY, "a debugger": -2}


def _written(talk: ClusterConversation) -> str:
    topic = talk.new_topic([1, 2])
    talk.at(1).write(topic, batch(b"a", b"b"), batch(b"c"))
    talk.await_end(topic, 3, 1, 2)
    return topic


def at_the_leader(talk: ClusterConversation) -> None:
    topic = _written(talk)
    for version in (4, 11):
        for name, replica_id in REPLICAS.items():
            request = fetch_from(topic, fetch_partition(3), replica_id=replica_id)
            talk.at(1).ask(f"{name}, version {version}", version, request)


def from_the_start(talk: ClusterConversation) -> None:
    topic = _written(talk)
    for name, replica_id in REPLICAS.items():
        talk.at(1).ask(name, 11, fetch_from(topic, replica_id=replica_id))


def offsets_that_are_not_there(talk: ClusterConversation) -> None:
    topic = _written(talk)
    for name, replica_id in REPLICAS.items():
        request = fetch_from(topic, fetch_partition(4), replica_id=replica_id)
        talk.at(1).ask(name, 11, request)


def at_a_follower(talk: ClusterConversation) -> None:
    topic = _written(talk)
    for version in (4, 11):
        for name, replica_id in REPLICAS.items():
            request = fetch_from(topic, replica_id=replica_id)
            talk.at(2).ask(f"{name}, version {version}", version, request)


def at_a_broker_without_a_replica(talk: ClusterConversation) -> None:
    topic = _written(talk)
    for name, replica_id in REPLICAS.items():
        talk.at(3).ask(name, 11, fetch_from(topic, replica_id=replica_id))


def with_an_epoch(talk: ClusterConversation) -> None:
    topic = _written(talk)
    now = talk.epoch(topic)
    for name, epoch in (("this one", now), ("one to come", now + 1)):
        for who, replica_id in REPLICAS.items():
            request = fetch_from(topic, fetch_partition(3, leader_epoch=epoch), replica_id=replica_id)
            talk.at(1).ask(f"{who}, {name}", 11, request)


def with_the_epoch_that_was_read_last(talk: ClusterConversation) -> None:
    topic = _written(talk)
    for last, offset in ((0, 3), (0, 2), (1, 3), (0, 4)):
        request = fetch_from(topic, fetch_partition(offset, last_fetched_epoch=last), replica_id=2)
        talk.at(1).ask(f"epoch {last}, offset {offset}", 12, request)


def of_what_is_not_there(talk: ClusterConversation) -> None:
    topic = talk.new_topic([1, 2])
    for name, replica_id in REPLICAS.items():
        request = fetch_from(topic, fetch_partition(partition=3), replica_id=replica_id)
        talk.at(1).ask(f"partition, {name}", 11, request)
        talk.at(1).ask(f"topic, {name}", 11, fetch_from("never-made", replica_id=replica_id))
