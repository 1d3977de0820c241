"""What an administrator asks of groups: which there are, who is in them, what they committed; and to change that.

Groups are listed by every broker and otherwise asked of their coordinators. Calls that change several things return the
outcome of each: None, or the error.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from barnabas.client.cluster import Cluster
from barnabas.client.coordinators import CoordinatorKind, Coordinators, OffsetAndMetadata
from barnabas.client.errors import ClientError, KafkaError, error_code, raise_for
from barnabas.client.group_protocol import decode_assignment
from barnabas.client.range_reader import OffsetRange, RangeReader, RangeReaderOptions
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.messages import (
    delete_groups,
    describe_groups,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
)
from barnabas.protocol.messages.delete_groups import DeleteGroupsRequest
from barnabas.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from barnabas.protocol.messages.list_groups import ListGroupsRequest
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
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest
from barnabas.protocol.primitives import WireError
from barnabas.protocol.schema import Api

Outcomes = dict[TopicPartition, KafkaError | None]

CONSUMER: Final = "consumer"
_STATES_SINCE: Final = 4
_ALL_TOPICS_SINCE: Final = 2
_READERS: Final = 16


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group; `state` is empty where its coordinator does not list it (before KIP-518)."""

    group_id: str
    protocol_type: str
    state: str
    coordinator: int


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member; `assignment` is None where its protocol is not the consumers' or could not be read."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...] | None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group as its coordinator sees it. One that does not exist is Dead."""

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    coordinator: int
    members: list[GroupMember] = field(default_factory=list)


class GroupAdmin:
    """Administration of the groups of the cluster that a `Cluster` reaches."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._coordinators = Coordinators(cluster)

    async def list_groups(self, states: Iterable[str] = ()) -> list[GroupListing]:
        """All groups, or those in these states (KIP-518). Raises ClientError."""
        wanted = list(states)
        request, least = ListGroupsRequest(wanted), _STATES_SINCE if wanted else 0

        async def ask(node_id: int) -> list[GroupListing]:
            async def once() -> list[GroupListing]:
                response = await self._cluster.ask(node_id, list_groups.API, request, least=least)
                raise_for(response.error_code, context=f"groups of broker {node_id}")
                return [
                    GroupListing(each.group_id, each.protocol_type, each.group_state, node_id)
                    for each in response.groups
                ]

            return await self._cluster.patiently(once)

        answers = await asyncio.gather(*map(ask, sorted((await self._cluster.metadata()).nodes)))
        return sorted((each for answer in answers for each in answer), key=lambda each: each.group_id)

    async def describe(self, group_id: str) -> GroupDescription:
        """A group. Raises ClientError."""

        async def once() -> GroupDescription:
            request = DescribeGroupsRequest([group_id])
            response = await self._ask(group_id, describe_groups.API, request, _group_codes)
            (found,) = response.groups
            raise_for(found.error_code, context=f"group {group_id}")
            coordinator = await self._coordinators.find(CoordinatorKind.GROUP, group_id)
            return _description(found, coordinator)

        return await self._cluster.patiently(once)

    async def committed(self, group_id: str) -> dict[TopicPartition, OffsetAndMetadata]:
        """Everything that a group committed. Raises ClientError."""

        async def once() -> dict[TopicPartition, OffsetAndMetadata]:
            request, least = OffsetFetchRequest(group_id, None), _ALL_TOPICS_SINCE
            response = await self._ask(
                group_id, offset_fetch.API, request, lambda answer: [answer.error_code], least=least
            )
            raise_for(response.error_code, context=f"group {group_id}")
            found: dict[TopicPartition, OffsetAndMetadata] = {}
            for topic in response.topics:
                for each in topic.partitions:
                    at = TopicPartition(topic.name, each.partition_index)
                    raise_for(each.error_code, context=f"group {group_id}: {at}")
                    if each.committed_offset >= 0:
                        found[at] = OffsetAndMetadata(
                            each.committed_offset, each.committed_leader_epoch, each.metadata or ""
                        )
            return found

        return await self._cluster.patiently(once)

    async def commit(self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> Outcomes:
        """Commit in the place of a group, which has to be without members. Raises ClientError."""
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for (name, number), (offset, leader_epoch, note) in offsets.items():
            partition = OffsetCommitRequestPartition(number, offset, leader_epoch, -1, note)
            topics.setdefault(name, OffsetCommitRequestTopic(name)).partitions.append(partition)
        request = OffsetCommitRequest(group_id, topics=list(topics.values()))
        return await self._change(group_id, offset_commit.API, request, least=2)

    async def delete_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> Outcomes:
        """Forget what a group committed for partitions that it does not subscribe to (KIP-496). Raises ClientError."""
        topics: dict[str, OffsetDeleteRequestTopic] = {}
        for name, number in partitions:
            partition = OffsetDeleteRequestPartition(number)
            topics.setdefault(name, OffsetDeleteRequestTopic(name)).partitions.append(partition)
        request = OffsetDeleteRequest(group_id, list(topics.values()))
        return await self._change(group_id, offset_delete.API, request)

    async def delete(self, group_id: str) -> KafkaError | None:
        """Delete an empty group with all that it committed. Raises ClientError."""

        async def once() -> KafkaError | None:
            request = DeleteGroupsRequest([group_id])
            response = await self._ask(
                group_id, delete_groups.API, request, lambda answer: [each.error_code for each in answer.results]
            )
            (result,) = response.results
            return _outcome(result.error_code, f"group {group_id}")

        return await self._cluster.patiently(once)

    async def times_of(
        self, offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """The timestamps (ms) of the first records from these offsets on; without those that have none before the end.

        One batch of each partition is read.
        """
        found: dict[TopicPartition, int] = {}
        places = asyncio.Semaphore(_READERS)
        options = RangeReaderOptions(max_bytes=1, partition_max_bytes=1)

        async def read(at: TopicPartition, offset: int) -> None:
            async with places:
                batches = RangeReader(self._cluster, {at: OffsetRange(offset, ends[at])}, options=options).fetched()
                try:
                    async for batch in batches:
                        if batch.records[0].timestamp >= 0:
                            found[at] = batch.records[0].timestamp
                        return
                finally:
                    await batches.aclose()

        await asyncio.gather(*(read(at, offset) for at, offset in offsets.items() if offset < ends[at]))
        return found

    async def _change(self, group_id: str, api: Api, request: object, *, least: int = 0) -> Outcomes:
        def codes(answer: Any) -> list[int]:
            each = [part.error_code for topic in answer.topics for part in topic.partitions]
            return [getattr(answer, "error_code", 0), *each]

        async def once() -> Outcomes:
            response = await self._ask(group_id, api, request, codes, least=least)
            raise_for(getattr(response, "error_code", 0), context=f"group {group_id}")
            return {
                (at := TopicPartition(topic.name, each.partition_index)): _outcome(each.error_code, str(at))
                for topic in response.topics
                for each in topic.partitions
            }

        return await self._cluster.patiently(once)

    async def _ask(self, group_id: str, api: Api, request: object, codes: Any, *, least: int = 0) -> Any:
        response = await self._coordinators.ask(CoordinatorKind.GROUP, group_id, api, request, codes=codes, least=least)
        for code in codes(response):
            if code in _ASK_AGAIN:
                raise KafkaError(error_code(code), context=f"group {group_id}")
        return response


_ASK_AGAIN: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)


def _group_codes(answer: Any) -> list[int]:
    return [each.error_code for each in answer.groups]


def _outcome(number: int, context: str) -> KafkaError | None:
    return KafkaError(error_code(number), context=context) if number else None


def _description(found: DescribedGroup, coordinator: int) -> GroupDescription:
    members = [
        GroupMember(
            each.member_id,
            each.group_instance_id,
            each.client_id,
            each.client_host,
            _assignment(each.member_assignment) if found.protocol_type == CONSUMER else None,
        )
        for each in found.members
    ]
    return GroupDescription(
        found.group_id, found.group_state, found.protocol_type, found.protocol_data, coordinator, members
    )


def _assignment(data: bytes) -> tuple[TopicPartition, ...] | None:
    if not data:
        # Before the leader's assignment is there.
        return ()
    try:
        return tuple(decode_assignment(bytes(data)))
    except (WireError, ValueError, ClientError):
        return None
