"""What the controller alone answers, asked of it and of the other two of three brokers; and who they say it is."""

from barnabas.protocol.messages.describe_cluster import DescribeClusterRequest
from barnabas.protocol.messages.update_features import FeatureUpdateKey
from tests.differential.cluster_conversation import BROKERS, NOBODY, ClusterConversation
from tests.differential.controller_requests import UNCLEAN, delete, elect, grow, moves_of, reassign, update
from tests.differential.requests import a_topic, create, metadata_of


def create_topics_elsewhere(talk: ClusterConversation) -> None:
    first, second = talk.others
    topic = talk.topic_name()
    for version in range(7):
        talk.at(first).ask(f"version {version}", version, create(a_topic(topic)))
    talk.at(second).ask("of the third broker", 6, create(a_topic(topic)))
    talk.at(first).ask("only tried", 6, create(a_topic(topic), validate_only=True))
    talk.at(first).ask("a bad name, a bad number, a bad key", 6, create(
        a_topic("a b"), a_topic(topic, 0), a_topic(f"{topic}-2", configs={"x": "1"})
    ))  # fmt: skip
    talk.at(first).ask("twice in one request", 6, create(a_topic(topic), a_topic(topic)))
    talk.at(first).ask("none", 6, create())
    talk.at_controller.ask("nothing was made", 7, metadata_of(topic))


def delete_topics_elsewhere(talk: ClusterConversation) -> None:
    first, second = talk.others
    topic = talk.new_topic([1, 2, 3])
    for version in range(6):
        talk.at(first).ask(f"version {version}", version, delete(topic))
    talk.at(second).ask("of the third broker", 5, delete(topic))
    talk.at(first).ask("one that is not there, and a bad name", 5, delete("never-made", "a b", ""))
    talk.at(first).ask("twice in one request", 5, delete(topic, topic))
    talk.at(first).ask("none", 5, delete())
    talk.at_controller.ask("it is there still", 7, metadata_of(topic))


def create_partitions_elsewhere(talk: ClusterConversation) -> None:
    first, second = talk.others
    topic = talk.new_topic([1, 2, 3])
    for version in range(4):
        talk.at(first).ask(f"version {version}", version, grow(topic, 3))
    talk.at(second).ask("of the third broker", 3, grow(topic, 3))
    talk.at(first).ask("only tried", 3, grow(topic, 3, validate_only=True))
    talk.at(first).ask("fewer than there are", 3, grow(topic, 0))
    talk.at(first).ask("by hand, to nobody", 3, grow(topic, 2, [[NOBODY]]))
    talk.at(first).ask("a topic that is not there", 3, grow("never-made", 3))
    request = grow(topic, 3)
    request.topics *= 2
    talk.at(first).ask("twice in one request", 3, request)
    request.topics.clear()
    talk.at(first).ask("none", 3, request)
    talk.at_controller.ask("it has not grown", 7, metadata_of(topic))


def reassignments_elsewhere(talk: ClusterConversation) -> None:
    first, second = talk.others
    topic = talk.new_topic([1, 2], [2, 3])
    talk.at(first).ask("moved", 0, reassign({topic: {0: [1, 3], 1: [3, 1]}}))
    talk.at(second).ask("moved, of the third broker", 0, reassign({topic: {0: [1, 3]}}))
    talk.at(first).ask("cancelled", 0, reassign({topic: {0: None}}))
    talk.at(first).ask("what cannot be", 0, reassign({topic: {0: [], 1: [NOBODY], 7: [1, 1]}, "never-made": {0: [1]}}))
    talk.at(first).ask("none", 0, reassign({}))
    talk.at(first).ask("listed", 0, moves_of({topic: [0, 1]}))
    talk.at(second).ask("listed, of the third broker", 0, moves_of({topic: [0, 1]}))
    talk.at(first).ask("all listed", 0, moves_of(None))
    talk.at(first).ask("none listed", 0, moves_of({}))
    talk.at_controller.ask("nothing moves", 0, moves_of({topic: [0, 1]}))


def elections_elsewhere(talk: ClusterConversation) -> None:
    first, second = talk.others
    topic = talk.new_topic([1, 2, 3], [2, 3, 1])
    for version in range(3):
        talk.at(first).ask(f"version {version}", version, elect({topic: [0, 1]}))
        talk.at(first).ask(f"version {version}, what is not there", version, elect({topic: [5], "never-made": [0]}))
        talk.at(first).ask(f"version {version}, none", version, elect({}))
    talk.at(second).ask("of the third broker", 2, elect({topic: [0, 1]}))
    talk.at(first).ask("unclean", 2, elect({topic: [0, 1]}, UNCLEAN))
    talk.at(first).ask("twice in one request", 2, elect({topic: [0, 0]}))
    talk.at(first).ask("without time", 2, elect({topic: [0]}, timeout_ms=0))


def features_elsewhere(talk: ClusterConversation) -> None:
    first, second = talk.others
    talk.at(first).ask("one", 0, update(FeatureUpdateKey("unheard-of", 1)))
    talk.at(second).ask("one, of the third broker", 0, update(FeatureUpdateKey("unheard-of", 1)))
    talk.at(first).ask("deleted", 0, update(FeatureUpdateKey("unheard-of", 0, allow_downgrade=True)))
    talk.at(first).ask("an empty name", 0, update(FeatureUpdateKey("", 1)))
    talk.at(first).ask("none", 0, update())
    talk.at_controller.ask("one, of the controller", 0, update(FeatureUpdateKey("unheard-of", 1)))


def topics_of_the_controller_are_known_to_all(talk: ClusterConversation) -> None:
    topic = talk.topic_name()
    wanted = a_topic(topic, -1, -1, assignments={0: [1, 2, 3], 1: [2, 3, 1]})
    talk.at_controller.ask("created", 6, create(wanted))
    for number, replicas in enumerate(([1, 2, 3], [2, 3, 1])):
        talk.await_replicas(topic, replicas, partition=number)
    for broker in BROKERS:
        talk.at(broker).ask(f"described by broker {broker}", 9, metadata_of(topic))
    talk.at_controller.ask("grown", 3, grow(topic, 3, [[3, 1, 2]]))
    talk.await_replicas(topic, [3, 1, 2], partition=2)
    for broker in BROKERS:
        talk.at(broker).ask(f"described by broker {broker}, grown", 9, metadata_of(topic))
    talk.at_controller.ask("deleted", 5, delete(topic))
    for broker in BROKERS:
        talk.at(broker).await_absence(topic)
        talk.at(broker).ask(f"described by broker {broker}, deleted", 9, metadata_of(topic))


def the_cluster_described(talk: ClusterConversation) -> None:
    assert talk.controller in BROKERS
    for broker in BROKERS:
        talk.at(broker).ask(f"by broker {broker}", 0, DescribeClusterRequest())
        talk.at(broker).ask(f"by broker {broker}, in Metadata", 9, metadata_of())
