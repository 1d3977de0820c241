"""Metadata of three brokers: topics with replicas on all and on some of them, led by each."""

from tests.differential.cluster_conversation import BROKERS, NOBODY, ClusterConversation, metadata_of_all
from tests.differential.controller_requests import reassign
from tests.differential.requests import metadata_of

VERSIONS = range(10)


def every_version_describes_three_replicas(talk: ClusterConversation) -> None:
    topic = talk.new_topic([1, 2, 3], [2, 3, 1], [3, 1, 2])
    for version in VERSIONS:
        talk.at(1).ask(f"version {version}", version, metadata_of(topic, create=version < 4))


def every_broker_tells_the_same(talk: ClusterConversation) -> None:
    topics = [talk.new_topic([1, 2, 3]), talk.new_topic([2], [3]), talk.new_topic([3, 1], [1, 2])]
    for broker in BROKERS:
        talk.at(broker).ask(f"broker {broker}, named", 9, metadata_of(*topics))
        talk.at(broker).ask(f"broker {broker}, all", 9, metadata_of_all())


def the_addresses_of_brokers(talk: ClusterConversation) -> None:
    for broker in BROKERS:
        found = talk.at(broker).ask(f"broker {broker}", 9, metadata_of())
        for one in found.brokers:
            server = talk.at(one.node_id).server
            right = (one.host, one.port) == (server.host, server.port)
            talk.note(f"broker {broker} says where broker {one.node_id} is", right)


def a_replica_whose_broker_is_not_there(talk: ClusterConversation) -> None:
    topic = talk.new_topic([1, NOBODY], [NOBODY, 2])
    for version in (0, 5, 9):
        talk.at(1).ask(f"version {version}", version, metadata_of(topic, create=version < 4))
    talk.at(3).ask("of a broker without a replica", 9, metadata_of(topic))


def after_a_move(talk: ClusterConversation) -> None:
    topic = talk.new_topic([1, 2], [1, 2])
    talk.at_controller.prepare(0, reassign({topic: {0: [2, 3]}}))
    talk.await_replicas(topic, [2, 3])
    for broker in BROKERS:
        talk.at(broker).ask(f"broker {broker}", 5, metadata_of(topic))


def asking_any_broker_creates_a_topic(talk: ClusterConversation) -> None:
    for number, broker in enumerate((talk.controller, *talk.others)):
        topic = talk.topic_name()
        name = f"another, {number}" if number else "the controller"
        talk.at(broker).ask(name, 9, metadata_of(topic, create=True))
        for each in BROKERS:
            talk.at(each).await_leaders(topic, 2)
        replicas = [len(set(talk.described(topic, partition).replica_nodes)) for partition in range(2)]
        talk.note(f"{name}, how many replicas", list(replicas))
