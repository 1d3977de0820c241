"""OffsetDelete (KIP-496)."""

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest
from tests.differential.conversation import Conversation
from tests.differential.coordinator_requests import (
    commit,
    delete_offsets,
    fetch_offsets,
    join,
    leave,
    subscription,
    sync,
)


def offsets_without_a_group(talk: Conversation) -> None:
    topic = talk.new_topic(partitions=2)
    group_id = talk.new_group()
    talk.ask("commit", 7, commit(group_id, {topic: {0: 5, 1: 6}}))
    talk.ask("one", 0, delete_offsets(group_id, {topic: [0]}))
    talk.ask("one again", 0, delete_offsets(group_id, {topic: [0]}))
    talk.ask("fetched", 5, fetch_offsets(group_id, {topic: [0, 1]}))
    talk.ask("the last one", 0, delete_offsets(group_id, {topic: [1]}))
    talk.ask("described", 4, DescribeGroupsRequest([group_id]))
    talk.ask("after the last one", 0, delete_offsets(group_id, {topic: [1]}))


def partitions_that_there_are_not(talk: Conversation) -> None:
    topic = talk.new_topic()
    group_id = talk.new_group()
    talk.ask("commit", 7, commit(group_id, {topic: {0: 5}}))
    talk.ask("beside one that there is", 0, delete_offsets(group_id, {topic: [0, 1, -1], f"{topic}-no": [0]}))
    talk.ask("alone", 0, delete_offsets(group_id, {f"{topic}-no": [0]}))


def nothing_to_delete(talk: Conversation) -> None:
    topic = talk.new_topic()
    group_id = talk.new_group()
    talk.ask("commit", 7, commit(group_id, {topic: {0: 5}}))
    talk.ask("no topics", 0, delete_offsets(group_id, {}))
    talk.ask("no partitions", 0, delete_offsets(group_id, {topic: []}))
    talk.ask("fetched", 5, fetch_offsets(group_id, {topic: [0]}))


def groups_that_are_not_known(talk: Conversation) -> None:
    topic = talk.new_topic()
    group_id = talk.new_group()
    talk.ask("unknown", 0, delete_offsets(group_id, {topic: [0]}))
    talk.ask("unknown, and the topic too", 0, delete_offsets(group_id, {f"{topic}-no": [0]}))
    talk.ask("no name", 0, delete_offsets("", {topic: [0]}))


def what_members_consume(talk: Conversation) -> None:
    consumed, other = talk.new_topic(), talk.new_topic()
    group_id = talk.new_group()
    protocol = ("range", subscription(consumed))
    member_id = talk.ask("join", 3, join(group_id, "", protocol)).member_id
    talk.ask("before the sync", 0, delete_offsets(group_id, {consumed: [0], other: [0]}))
    talk.ask("sync", 2, sync(group_id, 1, member_id, {member_id: b"a"}))
    offsets = {consumed: {0: 5}, other: {0: 6}}
    talk.ask("commit", 7, commit(group_id, offsets, generation_id=1, member_id=member_id))
    talk.ask("while it is stable", 0, delete_offsets(group_id, {consumed: [0], other: [0], f"{other}-no": [0]}))
    talk.ask("fetched", 5, fetch_offsets(group_id, None))
    talk.ask("leave", 3, leave(group_id, (member_id, None)))
    talk.ask("when it is empty", 0, delete_offsets(group_id, {consumed: [0]}))
    talk.ask("described", 4, DescribeGroupsRequest([group_id]))


def members_that_are_no_consumers(talk: Conversation) -> None:
    topic = talk.new_topic()
    group_id = talk.new_group()
    member_id = talk.ask("join", 3, join(group_id, "", ("v0", b"m"), protocol_type="connect")).member_id
    talk.ask("sync", 2, sync(group_id, 1, member_id, {member_id: b"a"}))
    talk.ask("delete", 0, delete_offsets(group_id, {topic: [0]}))


def subscriptions_that_cannot_be_read(talk: Conversation) -> None:
    topic = talk.new_topic()
    group_id = talk.new_group()
    member_id = talk.ask("join", 3, join(group_id, "", ("range", b"?"))).member_id
    talk.ask("sync", 2, sync(group_id, 1, member_id, {member_id: b"a"}))
    talk.ask("delete", 0, delete_offsets(group_id, {topic: [0]}))


def requests_that_cannot_be_read(talk: Conversation) -> None:
    head = b"\x00\x2f\x00\x00\x00\x00\x00\x07\x00\x01x"
    for name, body in {"no body": b"", "a null group": b"\xff\xff\x00\x00\x00\x00", "cut": b"\x00\x01g\x00"}.items():
        talk.ask_bytes(name, head + body, api_key=ApiKey.OFFSET_DELETE, version=0, correlation_id=7)
