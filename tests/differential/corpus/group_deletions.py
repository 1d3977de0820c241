"""DeleteGroups."""

from barnabas.protocol.messages.delete_groups import DeleteGroupsRequest
from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest
from tests.differential.conversation import Conversation
from tests.differential.coordinator_requests import commit, fetch_offsets, join, leave, sync

VERSIONS = range(3)


def groups_of_offsets(talk: Conversation) -> None:
    topic = talk.new_topic()
    for version in VERSIONS:
        group_id = talk.new_group()
        talk.ask(f"a commit, {version}", 7, commit(group_id, {topic: {0: 5}}))
        talk.ask(f"version {version}", version, DeleteGroupsRequest([group_id]))
        talk.ask(f"its offsets, {version}", 5, fetch_offsets(group_id, {topic: [0]}))
        talk.ask(f"described, {version}", 4, DescribeGroupsRequest([group_id]))
        talk.ask(f"again, {version}", version, DeleteGroupsRequest([group_id]))


def groups_with_members(talk: Conversation) -> None:
    group_id = talk.new_group()
    topic = talk.new_topic()
    member_id = talk.ask("join", 3, join(group_id)).member_id
    talk.ask("while it waits", 1, DeleteGroupsRequest([group_id]))
    talk.ask("sync", 2, sync(group_id, 1, member_id, {member_id: b"a"}))
    talk.ask("while it is stable", 1, DeleteGroupsRequest([group_id]))
    talk.ask("commit", 7, commit(group_id, {topic: {0: 5}}, generation_id=1, member_id=member_id))
    talk.ask("leave", 3, leave(group_id, (member_id, None)))
    talk.ask("when it is empty", 1, DeleteGroupsRequest([group_id]))
    talk.ask("its offsets", 5, fetch_offsets(group_id, {topic: [0]}))
    talk.ask("a member of the next", 3, join(group_id))


def names_of_any_kind(talk: Conversation) -> None:
    group_id = talk.new_group()
    for version in VERSIONS:
        talk.ask(f"none, version {version}", version, DeleteGroupsRequest([]))
        talk.ask(f"unknown, version {version}", version, DeleteGroupsRequest([group_id]))
        talk.ask(f"empty, version {version}", version, DeleteGroupsRequest([""]))
    talk.ask("twice", 1, DeleteGroupsRequest([group_id, group_id]))
