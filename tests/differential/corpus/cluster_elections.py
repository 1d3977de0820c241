"""ElectLeaders where several replicas could lead.

Left out: partitions that nobody can lead since they were made. Kafka 2.7 never answers for them.
"""

from tests.differential.batches import batch
from tests.differential.cluster_conversation import BROKERS, NOBODY, ClusterConversation
from tests.differential.controller_requests import PREFERRED, UNCLEAN, elect, reassign
from tests.differential.requests import metadata_of, produce_to


def _led_by_another(talk: ClusterConversation, partitions: int = 1) -> str:
    """A topic whose partitions prefer broker 2 and are led by broker 1."""
    topic = talk.new_topic(*[[1, 2, 3]] * partitions)
    talk.at_controller.prepare(0, reassign({topic: {number: [2, 1, 3] for number in range(partitions)}}))
    for number in range(partitions):
        talk.await_replicas(topic, [2, 1, 3], partition=number, leader=1)
    return topic


def leaders_that_are_preferred_already(talk: ClusterConversation) -> None:
    topic = talk.new_topic([1, 2, 3], [2, 3, 1])
    for version in range(3):
        for kind in (PREFERRED, UNCLEAN) if version else (PREFERRED,):
            talk.at_controller.ask(f"version {version}, type {kind}", version, elect({topic: [0, 1]}, kind))


def leaders_that_are_not_preferred(talk: ClusterConversation) -> None:
    for version in range(3):
        topic = _led_by_another(talk)
        talk.at_controller.ask(f"version {version}", version, elect({topic: [0]}))
        talk.await_replicas(topic, [2, 1, 3])
        for broker in BROKERS:
            talk.at(broker).ask(f"version {version}, described by broker {broker}", 7, metadata_of(topic))
        talk.at_controller.ask(f"version {version}, again", version, elect({topic: [0]}))


def the_old_and_the_new_leader(talk: ClusterConversation) -> None:
    topic = _led_by_another(talk)
    talk.at_controller.ask("elected", 2, elect({topic: [0]}))
    talk.await_replicas(topic, [2, 1, 3])
    for name, broker in (("old", 1), ("new", 2)):
        talk.at(broker).ask(f"produced to the {name} one", 8, produce_to(8, topic, batch(b"a")))


def all_that_are_not_preferred(talk: ClusterConversation) -> None:
    topic = _led_by_another(talk, partitions=2)
    talk.new_topic([3, 2, 1])
    talk.at_controller.ask("elected", 2, elect(None))
    for number in range(2):
        talk.await_replicas(topic, [2, 1, 3], partition=number)
    talk.at_controller.ask("elected again", 2, elect(None))
    talk.at_controller.ask("described", 7, metadata_of(topic))


def some_of_each_kind(talk: ClusterConversation) -> None:
    topic = _led_by_another(talk, partitions=2)
    there = talk.new_topic([3, 2, 1])
    wanted = {topic: [0, 9], there: [0, -1], "never-made": [0]}
    talk.at_controller.ask("mixed", 2, elect(wanted))
    talk.await_replicas(topic, [2, 1, 3])
    talk.at_controller.ask("mixed, uncleanly", 2, elect({**wanted, topic: [0, 1]}, UNCLEAN))
    talk.at_controller.ask("described", 7, metadata_of(topic))


def unclean_ones_of_the_healthy(talk: ClusterConversation) -> None:
    topic = _led_by_another(talk)
    for version in (1, 2):
        talk.at_controller.ask(f"version {version}", version, elect({topic: [0]}, UNCLEAN))
    talk.at_controller.ask("nobody else leads", 7, metadata_of(topic))


def preferred_replicas_that_are_not_there(talk: ClusterConversation) -> None:
    topic = talk.new_topic([NOBODY, 1], [NOBODY, 2])
    for version in range(3):
        for kind in (PREFERRED, UNCLEAN) if version else (PREFERRED,):
            talk.at_controller.ask(f"version {version}, type {kind}", version, elect({topic: [0, 1]}, kind))
    talk.at_controller.ask("nobody else leads", 7, metadata_of(topic))


def a_preferred_replica_that_is_not_in_sync(talk: ClusterConversation) -> None:
    topic = talk.new_topic([1, NOBODY])
    talk.at_controller.prepare(0, reassign({topic: {0: [NOBODY, 1]}}))
    talk.await_replicas(topic, [NOBODY, 1])
    talk.at_controller.ask("elected", 2, elect({topic: [0]}))
    talk.at_controller.ask("elected without time", 2, elect({topic: [0]}, timeout_ms=0))


def times_to_wait(talk: ClusterConversation) -> None:
    topic = talk.new_topic([1, 2, 3])
    for timeout_ms in (0, -1):
        talk.at_controller.ask(f"{timeout_ms} ms", 2, elect({topic: [0]}, timeout_ms=timeout_ms))
