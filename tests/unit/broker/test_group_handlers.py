"""Groups and their offsets by every API, on a whole broker in this process."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.messages.delete_groups import DeleteGroupsRequest
from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.protocol.messages.list_groups import ListGroupsRequest
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from barnabas.protocol.messages.sync_group import SyncGroupRequest
from broker.handlers.describe_groups import GROUP_OPERATIONS
from broker.internal_topics import CONSUMER_OFFSETS
from tests.unit.broker.group_talk import SMALL, GroupTalk
from tests.unit.broker.whole_broker import BrokerHost, make_topic
from zk_schema import paths

NONE = ErrorCode.NONE


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[BrokerHost]:
    machine = BrokerHost(tmp_path)
    yield machine
    await machine.close()


@pytest.fixture
async def fresh(host: BrokerHost) -> AsyncIterator[GroupTalk]:
    """A broker that nobody has asked for a coordinator."""
    broker = await host.start(**{name.replace(".", "_"): text for name, text in SMALL.items()})
    yield GroupTalk(broker)
    await broker.stop()


@pytest.fixture
async def talk(fresh: GroupTalk) -> GroupTalk:
    await make_topic(fresh.broker, partitions=2)
    await fresh.find("g")
    return fresh


async def test_who_asks_for_a_coordinator_first_has_its_topic_made(fresh: GroupTalk) -> None:
    first = await fresh.ask(FindCoordinatorRequest("g"))
    assert (first.error_code, first.node_id, first.host, first.port) == (
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        -1,
        "",
        -1,
    )
    found = await fresh.find("g")
    assert (found.node_id, found.host) == (1, "127.0.0.1")
    assert (await fresh.find("t", 1)).node_id == 1
    assert fresh.broker.services.metadata.has_topic("__transaction_state")


async def test_an_unknown_kind_of_coordinator_is_an_invalid_request(fresh: GroupTalk) -> None:
    assert (await fresh.ask(FindCoordinatorRequest("g", 2))).error_code == ErrorCode.INVALID_REQUEST


async def test_too_few_brokers_for_the_topic_are_told_as_long_as_it_is_so(host: BrokerHost) -> None:
    broker = await host.start()
    talk = GroupTalk(broker)
    for _ in range(2):
        assert (await talk.ask(FindCoordinatorRequest("g"))).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    asked = await talk.ask(MetadataRequest([MetadataRequestTopic(CONSUMER_OFFSETS)]))
    assert asked.topics[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert not broker.services.metadata.has_topic(CONSUMER_OFFSETS)
    await broker.stop()


async def test_metadata_makes_the_topic_of_offsets_too(fresh: GroupTalk) -> None:
    asked = await fresh.ask(MetadataRequest([MetadataRequestTopic(CONSUMER_OFFSETS)], False))
    assert asked.topics[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE
    await fresh.find("g")


async def test_without_the_topic_nobody_coordinates(fresh: GroupTalk) -> None:
    await make_topic(fresh.broker)
    assert (await fresh.join()).error_code == ErrorCode.NOT_COORDINATOR
    assert await fresh.commit(1) is ErrorCode.NOT_COORDINATOR
    assert await fresh.committed() == (-1, ErrorCode.NOT_COORDINATOR)
    assert await fresh.committed(version=1) == (-1, ErrorCode.NOT_COORDINATOR)
    described = await fresh.ask(DescribeGroupsRequest(["g"]))
    assert (described.groups[0].error_code, described.groups[0].group_state) == (ErrorCode.NOT_COORDINATOR, "")
    assert (await fresh.ask(ListGroupsRequest())).groups == []


async def test_a_member_joins_commits_and_leaves(talk: GroupTalk) -> None:
    joined = await talk.member()
    assert (joined.leader, joined.generation_id, joined.protocol_name) == (joined.member_id, 1, "range")
    assert joined.member_id.startswith("client-")
    assert await talk.heartbeat(joined) is NONE
    member = {"generation_id": joined.generation_id, "member_id": joined.member_id}
    assert await talk.commit(7, **member) is NONE
    assert await talk.commit(8, **member | {"generation_id": 9}) is ErrorCode.ILLEGAL_GENERATION
    assert await talk.committed() == (7, NONE)
    left = await talk.ask(LeaveGroupRequest("g", members=[MemberIdentity(joined.member_id)]))
    assert (left.error_code, left.members[0].error_code) == (NONE, NONE)
    assert await talk.heartbeat(joined) is ErrorCode.UNKNOWN_MEMBER_ID
    assert await talk.committed() == (7, NONE)


async def test_groups_are_listed_described_and_deleted(talk: GroupTalk) -> None:
    joined = await talk.member()
    assert await talk.commit(1, "simple") is NONE
    listed = await talk.ask(ListGroupsRequest())
    assert sorted((each.group_id, each.protocol_type, each.group_state) for each in listed.groups) == [
        ("g", "consumer", "Stable"),
        ("simple", "", "Empty"),
    ]
    assert [each.group_id for each in (await talk.ask(ListGroupsRequest(["Stable"]))).groups] == ["g"]
    described = await talk.ask(DescribeGroupsRequest(["g", "nobody"], True))
    group, nobody = described.groups
    assert (group.group_state, group.protocol_data, group.authorized_operations) == (
        "Stable",
        "range",
        GROUP_OPERATIONS,
    )
    assert [(each.member_id, each.client_id, each.client_host) for each in group.members] == [
        (joined.member_id, "client", "/127.0.0.1")
    ]
    assert (nobody.error_code, nobody.group_state) == (NONE, "Dead")
    deleted = await talk.ask(DeleteGroupsRequest(["g", "simple", "nobody", "g"]))
    assert [(each.group_id, each.error_code) for each in deleted.results] == [
        ("g", ErrorCode.NON_EMPTY_GROUP),
        ("simple", NONE),
        ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert await talk.committed("simple") == (-1, NONE)


@pytest.mark.parametrize("name", ["", "é" * 20_000], ids=["empty", "longer than the log holds"])
async def test_a_group_needs_a_name_to_have_members(talk: GroupTalk, name: str) -> None:
    assert (await talk.join(name)).error_code == ErrorCode.INVALID_GROUP_ID
    assert (await talk.ask(HeartbeatRequest(name))).error_code == ErrorCode.INVALID_GROUP_ID
    assert (await talk.ask(LeaveGroupRequest(name))).error_code == ErrorCode.INVALID_GROUP_ID
    nameless = SyncGroupRequest(name, protocol_type="consumer", protocol_name="range")
    assert (await talk.ask(nameless)).error_code == ErrorCode.INVALID_GROUP_ID
    assert (await talk.ask(SyncGroupRequest(name))).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


async def test_offsets_are_deleted_of_a_group_with_a_name_only(talk: GroupTalk) -> None:
    assert (await talk.ask(OffsetDeleteRequest(""))).error_code == ErrorCode.INVALID_GROUP_ID
    assert await talk.commit(3, "") is NONE
    assert await talk.committed("") == (3, NONE)


def commit_request(*places: tuple[str, int, int]) -> OffsetCommitRequest:
    topics = [
        OffsetCommitRequestTopic(topic, [OffsetCommitRequestPartition(number, offset)])
        for topic, number, offset in places
    ]
    return OffsetCommitRequest("g", topics=topics)


def commit_errors(answer: Any) -> dict[tuple[str, int], ErrorCode]:
    return {
        (topic.name, each.partition_index): ErrorCode(each.error_code)
        for topic in answer.topics
        for each in topic.partitions
    }


@pytest.mark.parametrize("version", [0, 2, 8])
async def test_partitions_that_do_not_exist_take_no_offset(talk: GroupTalk, version: int) -> None:
    answer = await talk.ask(commit_request(("t", 0, 5), ("t", 2, 5), ("none", 0, 5)), version)
    assert commit_errors(answer) == {
        ("t", 0): NONE,
        ("t", 2): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("none", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


async def test_where_nothing_exists_no_coordinator_is_asked(fresh: GroupTalk) -> None:
    answer = await fresh.ask(commit_request(("none", 0, 5)))
    assert commit_errors(answer) == {("none", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


async def test_offsets_are_deleted_one_by_one(talk: GroupTalk) -> None:
    await talk.commit(5)
    wanted = OffsetDeleteRequest(
        "g",
        [OffsetDeleteRequestTopic("t", [OffsetDeleteRequestPartition(0), OffsetDeleteRequestPartition(9)])],
    )
    answer = await talk.ask(wanted)
    assert (answer.error_code, commit_errors(answer)) == (
        NONE,
        {("t", 0): NONE, ("t", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION},
    )
    assert await talk.committed() == (-1, NONE)
    assert (await talk.ask(OffsetDeleteRequest("nobody"))).error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_version_0_keeps_offsets_in_zookeeper(talk: GroupTalk, host: BrokerHost) -> None:
    assert await talk.committed(version=0) == (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert await talk.commit(5, version=0) is NONE
    assert await talk.commit(6, version=0) is NONE
    znode = host.zookeeper.tree.get("/consumers/g/offsets/t/0")
    assert znode is not None
    assert znode.data == b"6"
    assert await talk.committed(version=0) == (6, NONE)
    assert await talk.committed(version=1) == (-1, NONE)
    assert await talk.committed(topic="none", version=0) == (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@pytest.mark.parametrize("group", ["a/b", "..", ""])
async def test_a_group_that_cannot_be_in_zookeeper_is_told_so(talk: GroupTalk, host: BrokerHost, group: str) -> None:
    assert await talk.commit(5, group, version=0) is ErrorCode.INVALID_GROUP_ID
    assert await talk.committed(group, version=0) == (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert host.zookeeper.tree.get(f"{paths.CONSUMERS}/a") is None


async def test_all_topics_of_a_group_can_be_asked_for(talk: GroupTalk) -> None:
    await talk.ask(commit_request(("t", 0, 5), ("t", 1, 6)))
    answer = await talk.ask(OffsetFetchRequest("g", None))
    assert [(each.partition_index, each.committed_offset) for each in answer.topics[0].partitions] == [(0, 5), (1, 6)]
    assert (await talk.ask(OffsetFetchRequest("g", [OffsetFetchRequestTopic("none", [3])]))).topics[0].partitions[
        0
    ].committed_offset == -1


async def test_every_version_is_served(talk: GroupTalk) -> None:
    for version in range(8):
        first = await talk.join(f"v{version}", version=version)
        joined = first if version < 4 else await talk.join(f"v{version}", first.member_id, version=version)
        assert joined.error_code == NONE, version
        protocol = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
        sync = SyncGroupRequest(f"v{version}", joined.generation_id, joined.member_id, **protocol)
        assert (await talk.ask(sync, min(version, 5))).error_code == NONE
        beat = HeartbeatRequest(f"v{version}", joined.generation_id, joined.member_id)
        assert (await talk.ask(beat, min(version, 4))).error_code == NONE
        leave = LeaveGroupRequest(f"v{version}", joined.member_id, [MemberIdentity(joined.member_id)])
        assert (await talk.ask(leave, min(version, 4))).error_code == NONE


async def test_a_connection_that_ends_leaves_its_request_behind(talk: GroupTalk) -> None:
    member = await talk.member()
    other = asyncio.create_task(talk.joined())
    while await talk.heartbeat(member) is NONE:  # noqa: ASYNC110 - what is waited for has no event
        await asyncio.sleep(0.005)
    other.cancel()
    with pytest.raises(asyncio.CancelledError):
        await other
    again = await talk.join(member_id=member.member_id, rebalance_timeout_ms=100)
    assert again.error_code == NONE


async def test_a_request_that_was_made_of_rubbish_is_answered(talk: GroupTalk) -> None:
    assert (await talk.ask(JoinGroupRequest("g"))).error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert (await talk.join(session_timeout_ms=-1)).error_code == ErrorCode.INVALID_SESSION_TIMEOUT
