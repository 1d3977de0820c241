"""DescribeGroups and ListGroups."""

from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest
from barnabas.protocol.messages.list_groups import ListGroupsRequest
from tests.differential.conversation import Conversation
from tests.differential.coordinator_requests import commit, join, leave, sync

DESCRIBE, LIST = range(6), range(5)


def a_group_in_its_states(talk: Conversation) -> None:
    group_id = talk.new_group()
    described = DescribeGroupsRequest([group_id])
    talk.ask("nobody knows it", 4, described)
    first = talk.ask("join", 5, join(group_id))
    talk.ask("an id was given out", 4, described)
    member_id = talk.ask("join with the id", 5, join(group_id, first.member_id)).member_id
    talk.ask("it waits for the leader", 4, described)
    talk.ask("sync", 3, sync(group_id, 1, member_id, {member_id: b"assigned"}))
    for version in DESCRIBE:
        talk.ask(f"stable, version {version}", version, described)
    talk.ask("leave", 3, leave(group_id, (member_id, None)))
    talk.ask("empty", 4, described)


def operations_that_are_allowed(talk: Conversation) -> None:
    group_id = talk.new_group()
    member_id = talk.ask("join", 3, join(group_id)).member_id
    talk.ask("sync", 2, sync(group_id, 1, member_id, {member_id: b"a"}))
    for version in DESCRIBE[3:]:
        talk.ask(f"version {version}", version, DescribeGroupsRequest([group_id, f"{group_id}-no"], True))


def groups_of_other_kinds(talk: Conversation) -> None:
    topic = talk.new_topic()
    simple, worker, static = (talk.new_group() for _ in range(3))
    talk.ask("a commit without a group", 7, commit(simple, {topic: {0: 1}}))
    member_id = talk.ask("a worker", 3, join(worker, "", ("v0", b"m"), protocol_type="connect")).member_id
    talk.ask("the worker syncs", 2, sync(worker, 1, member_id, {member_id: b"w"}))
    instance = talk.ask("an instance", 5, join(static, instance="i")).member_id
    talk.ask("the instance syncs", 3, sync(static, 1, instance, {instance: b"s"}, instance="i"))
    for version in (0, 4, 5):
        talk.ask(f"version {version}", version, DescribeGroupsRequest([simple, worker, static]))
    talk.ask("listed", 4, ListGroupsRequest())


def names_of_any_kind(talk: Conversation) -> None:
    talk.new_group()
    for version in DESCRIBE:
        talk.ask(f"none, version {version}", version, DescribeGroupsRequest([]))
    talk.ask("empty", 4, DescribeGroupsRequest([""]))
    talk.ask("long", 4, DescribeGroupsRequest(["g" * 1000]))
    talk.ask("twice", 4, DescribeGroupsRequest(["unknown", "unknown"]))


def lists(talk: Conversation) -> None:
    topic = talk.new_topic()
    simple, stable, completing = (talk.new_group() for _ in range(3))
    talk.ask("a commit without a group", 7, commit(simple, {topic: {0: 1}}))
    member_id = talk.ask("one joins", 3, join(stable)).member_id
    talk.ask("one syncs", 2, sync(stable, 1, member_id, {member_id: b"a"}))
    talk.ask("one joins and waits", 3, join(completing))
    for version in LIST:
        talk.ask(f"all, version {version}", version, ListGroupsRequest())
    for states in (["Stable"], ["Empty"], ["CompletingRebalance", "Stable"], ["Dead"], ["stable"], ["no state"], [""]):
        talk.ask(f"in states {states}", 4, ListGroupsRequest(states))
