"""CreateTopics and CreatePartitions where there are three brokers to choose from."""

from tests.differential.cluster_conversation import NOBODY, ClusterConversation
from tests.differential.controller_requests import grow
from tests.differential.requests import a_topic, create, metadata_of

DEFAULT = -1


def assignments_by_hand(talk: ClusterConversation) -> None:
    cases = {
        "one replica each": [[3], [1], [2]],
        "two replicas each": [[3, 1], [1, 2]],
        "three replicas, led by the last": [[3, 2, 1]],
    }
    for name, replicas in cases.items():
        topic = talk.topic_name()
        assignments = dict(enumerate(replicas))
        wanted = create(a_topic(topic, DEFAULT, DEFAULT, assignments=assignments), validate_only=True)
        talk.at_controller.ask(f"{name}, tried", 6, wanted)
        talk.at_controller.ask(name, 6, create(a_topic(topic, DEFAULT, DEFAULT, assignments=assignments)))
        for number, brokers in assignments.items():
            talk.await_replicas(topic, brokers, partition=number)
        talk.at_controller.ask(f"{name}, described", 7, metadata_of(topic))


def assignments_that_are_refused(talk: ClusterConversation) -> None:
    cases: dict[str, dict[int, list[int]]] = {
        "a broker twice": {0: [1, 2, 1]},
        "a broker twice in the second partition": {0: [1, 2, 3], 1: [2, 2, 3]},
        "replicas that differ in number": {0: [1, 2, 3], 1: [2, 3]},
        "replicas that differ in number, fewer first": {0: [3], 1: [2, 3]},
        "a gap in the partitions": {0: [1, 2], 2: [2, 3]},
        "not from zero": {1: [1, 2], 2: [2, 3]},
        "a negative broker": {0: [1, -1]},
        "some of nobody": {0: [1, 2], 1: []},
    }
    for name, assignments in cases.items():
        topic = a_topic(talk.topic_name(), DEFAULT, DEFAULT, assignments=assignments)
        talk.at_controller.ask(name, 6, create(topic))
    topic = a_topic(talk.topic_name(), 1, 3, assignments={0: [1, 2, 3]})
    talk.at_controller.ask("both numbers as well", 6, create(topic))


def assignments_to_brokers_that_are_not_there(talk: ClusterConversation) -> None:
    for name, brokers in (("beside one that is", [1, NOBODY]), ("before one that is", [NOBODY, 1])):
        topic = talk.topic_name()
        talk.at_controller.ask(name, 6, create(a_topic(topic, DEFAULT, DEFAULT, assignments={0: brokers})))
        talk.await_replicas(topic, brokers)
        talk.at_controller.ask(f"{name}, described", 7, metadata_of(topic))
    topic = talk.topic_name()
    wanted = a_topic(topic, DEFAULT, DEFAULT, assignments={0: [NOBODY]})
    talk.at_controller.ask("alone", 6, create(wanted, timeout_ms=300))


def replication_factors(talk: ClusterConversation) -> None:
    for factor in (1, 3, 4, 0):
        wanted = create(a_topic(talk.topic_name(), 4, factor), validate_only=True)
        talk.at_controller.ask(f"{factor}, tried", 6, wanted)
    for factor in (4, 100):
        for version in (0, 5):
            talk.at_controller.ask(
                f"{factor}, version {version}", version, create(a_topic(talk.topic_name(), 1, factor))
            )
    talk.at_controller.ask("the default", 6, create(a_topic(talk.topic_name(), DEFAULT, DEFAULT)))
    talk.at_controller.ask("the default of one", 6, create(a_topic(talk.topic_name(), 3, DEFAULT)))
    good, bad = talk.topic_name(), talk.topic_name()
    talk.at_controller.ask("one good, one too large", 6, create(a_topic(good, 1, 3), a_topic(bad, 1, 4)))


def more_in_sync_than_there_are_replicas(talk: ClusterConversation) -> None:
    for least in ("2", "3", "4"):
        wanted = a_topic(talk.topic_name(), 1, 2, configs={"min.insync.replicas": least})
        talk.at_controller.ask(f"{least} of 2", 6, create(wanted))


def partitions_by_hand(talk: ClusterConversation) -> None:
    topic = talk.new_topic([1, 2])
    talk.at_controller.ask("two more", 3, grow(topic, 3, [[3, 1], [2, 3]]))
    for number, brokers in enumerate(([1, 2], [3, 1], [2, 3])):
        talk.await_replicas(topic, brokers, partition=number)
    talk.at_controller.ask("described", 7, metadata_of(topic))


def partitions_that_are_refused(talk: ClusterConversation) -> None:
    topic = talk.new_topic([1, 2])
    cases: dict[str, tuple[int, list[list[int]]]] = {
        "fewer replicas than before": (2, [[3]]),
        "more replicas than before": (2, [[3, 1, 2]]),
        "replicas that differ in number": (3, [[3, 1], [2]]),
        "a broker twice": (2, [[3, 3]]),
        "a broker that is not there": (2, [[3, NOBODY]]),
        "a negative broker": (2, [[3, -1]]),
        "too few assignments": (3, [[3, 1]]),
        "too many assignments": (2, [[3, 1], [2, 3]]),
        "nobody": (2, [[]]),
    }
    for name, (count, assignments) in cases.items():
        talk.at_controller.ask(name, 3, grow(topic, count, assignments))
    talk.at_controller.ask("it has not grown", 7, metadata_of(topic))


def partitions_beside_a_replica_whose_broker_is_not_there(talk: ClusterConversation) -> None:
    topic = talk.new_topic([1, NOBODY])
    talk.at_controller.ask("tried", 3, grow(topic, 2, validate_only=True))
    talk.at_controller.ask("by hand", 3, grow(topic, 2, [[2, 3]]))
    talk.await_replicas(topic, [2, 3], partition=1)
    talk.at_controller.ask("described", 7, metadata_of(topic))
