"""Groups and transactions at their coordinator, and at brokers that are not."""

from barnabas.protocol.messages.delete_groups import DeleteGroupsRequest
from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.list_groups import ListGroupsRequest
from barnabas.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.differential.cluster_conversation import BROKERS, ClusterConversation
from tests.differential.conversation import Conversation
from tests.differential.coordinator_requests import (
    add_offsets,
    add_partitions,
    beat,
    commit,
    commit_in_transaction,
    delete_offsets,
    end,
    fetch_offsets,
    initialise,
    join,
    leave,
    leave_alone,
    sync,
)

GROUP, TRANSACTION = 0, 1


def _not_coordinator(talk: ClusterConversation, key: str, kind: int) -> Conversation:
    coordinator = talk.coordinator(key, kind)
    return talk.at(next(broker for broker in BROKERS if broker != coordinator))


def _found_by_all(talk: ClusterConversation, kind: int) -> None:
    name = talk.topic_name()
    talk.coordinator(name, kind)
    for broker in BROKERS:
        found = talk.at(broker).ask(f"broker {broker}", 3, FindCoordinatorRequest(name, kind))
        server = talk.at(found.node_id).server
        right = (found.host, found.port) == (server.host, server.port)
        talk.note(f"broker {broker} says where it is", right)


def every_broker_names_the_same_for_a_group(talk: ClusterConversation) -> None:
    _found_by_all(talk, GROUP)


def every_broker_names_the_same_for_a_transaction(talk: ClusterConversation) -> None:
    _found_by_all(talk, TRANSACTION)


def groups_elsewhere(talk: ClusterConversation) -> None:
    group = talk.topic_name()
    topic = talk.new_topic([1, 2, 3])
    other = _not_coordinator(talk, group, GROUP)
    other.ask("join", 7, join(group))
    other.ask("join, version 3", 3, join(group))
    other.ask("sync", 5, sync(group, 1, "somebody", protocol_type="consumer", protocol_name="range"))
    other.ask("heartbeat", 4, beat(group, 1, "somebody"))
    other.ask("leave", 4, leave(group, ("somebody", None)))
    other.ask("leave, version 2", 2, leave_alone(group, "somebody"))
    for version in (2, 5, 8):
        other.ask(f"commit, version {version}", version, commit(group, {topic: {0: 1, 7: 1}, "never-made": {0: 1}}))
    for version in (1, 2, 5, 7):
        other.ask(f"committed, version {version}", version, fetch_offsets(group, {topic: [0, 7]}))
    other.ask("all that is committed", 7, fetch_offsets(group, None))
    other.ask("offsets deleted", 0, delete_offsets(group, {topic: [0]}))
    other.ask("described", 5, DescribeGroupsRequest([group]))
    other.ask("deleted", 2, DeleteGroupsRequest([group]))
    other.ask("listed", 4, ListGroupsRequest())


def an_empty_name_elsewhere(talk: ClusterConversation) -> None:
    other = _not_coordinator(talk, talk.topic_name(), GROUP)
    other.ask("join", 7, join(""))
    other.ask("heartbeat", 4, beat("", 1, "somebody"))
    other.ask("described", 5, DescribeGroupsRequest([""]))
    other.ask("deleted", 2, DeleteGroupsRequest([""]))


def a_group_at_its_coordinator(talk: ClusterConversation) -> None:
    group = talk.topic_name()
    topic = talk.new_topic([1, 2, 3])
    at = talk.at(talk.coordinator(group))
    at.ask_until("committed", 8, commit(group, {topic: {0: 1}}), passing={14, 15, 16})
    at.ask("fetched", 7, fetch_offsets(group, {topic: [0]}))
    at.ask("listed", 4, ListGroupsRequest())
    at.ask("described", 5, DescribeGroupsRequest([group]))


def transactions_elsewhere(talk: ClusterConversation) -> None:
    name = talk.topic_name()
    topic = talk.new_topic([1, 2, 3])
    other = _not_coordinator(talk, name, TRANSACTION)
    producer = (4_000, 0)
    for version in (1, 4):
        other.ask(f"begun, version {version}", version, initialise(name))
    other.ask("begun again", 4, initialise(name, producer_id=4_000, epoch=0))
    other.ask("a partition added", 2, add_partitions(name, producer, {topic: [0]}))
    other.ask("an unknown partition added", 2, add_partitions(name, producer, {topic: [7], "never-made": [0]}))
    other.ask("a group added", 2, add_offsets(name, producer, talk.topic_name()))
    for committed in (True, False):
        other.ask(f"ended, {committed}", 2, end(name, producer, commit=committed))
    group = talk.topic_name()
    elsewhere = _not_coordinator(talk, group, GROUP)
    elsewhere.ask("offsets of a group", 3, commit_in_transaction(name, group, producer, {topic: {0: 1}}))


def producers_without_transactions_at_any_broker(talk: ClusterConversation) -> None:
    talk.coordinator(talk.topic_name(), TRANSACTION)
    for broker in BROKERS:
        talk.at(broker).ask(f"broker {broker}", 4, initialise(None))


def markers_at_leaders_and_elsewhere(talk: ClusterConversation) -> None:
    topic = talk.new_topic([1, 2], [2, 3], [3, 1])
    for broker in BROKERS:
        found = [WritableTxnMarkerTopic(topic, [0, 1, 2, 7]), WritableTxnMarkerTopic("never-made", [0])]
        marker = WritableTxnMarker(700_000, 0, True, found, 0)
        talk.at(broker).ask(f"broker {broker}", 0, WriteTxnMarkersRequest([marker]))
