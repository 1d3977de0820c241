"""Requests about groups to a whole broker in this process, by the handlers that it serves."""

import asyncio
from collections.abc import Awaitable
from typing import Any

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from broker.request_context import RequestContext
from broker.serve import Broker

SMALL = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}
"""Settings of a cluster of one broker."""

PROTOCOL = JoinGroupRequestProtocol("range", b"subscription")


class GroupTalk:
    """Asks one broker; each request in a version of its own, the newest unless told."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    async def ask(self, request: Any, version: int | None = None) -> Any:
        handler = next(each for each in self.broker.services.registry.handlers() if each.api.request is type(request))
        context = RequestContext(
            self.broker.services,
            version=handler.newest if version is None else version,
            correlation_id=1,
            client_id="client",
            client_host="127.0.0.1",
            listener_name="PLAINTEXT",
        )
        answer = handler.handle(request, context)
        return await answer if isinstance(answer, Awaitable) else answer

    async def find(self, key: str, key_type: int = 0) -> Any:
        """Ask for a coordinator until there is one, and it is loaded."""
        async with asyncio.timeout(10):
            while True:
                found = await self.ask(FindCoordinatorRequest(key, key_type))
                coordination = self.broker.services.coordination
                shards = [*coordination.groups.values()] if key_type == 0 else [*coordination.transactions.values()]
                if found.error_code == ErrorCode.NONE and all(shard.is_loaded for shard in shards):
                    return found
                await asyncio.sleep(0.01)

    async def join(self, group: str = "g", member_id: str = "", **more: Any) -> JoinGroupResponse:
        version = more.pop("version", 7)
        given = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000} | more
        request = JoinGroupRequest(
            group_id=group, member_id=member_id, protocol_type="consumer", protocols=[PROTOCOL], **given
        )
        response: JoinGroupResponse = await self.ask(request, version)
        return response

    async def joined(self, group: str = "g", **more: Any) -> JoinGroupResponse:
        """Join as a new member does: once to be given a member id, once with it."""
        first = await self.join(group, **more)
        assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED, first
        return await self.join(group, first.member_id, **more)

    async def synced(self, joined: JoinGroupResponse, group: str = "g") -> Any:
        """Hand in, as the leader, `b"mine"` for the leader."""
        return await self.ask(
            SyncGroupRequest(
                group_id=group,
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=[SyncGroupRequestAssignment(joined.member_id, b"mine")],
            )
        )

    async def member(self, group: str = "g", **more: Any) -> JoinGroupResponse:
        """The only member of a Stable group."""
        joined = await self.joined(group, **more)
        assert joined.error_code == ErrorCode.NONE, joined
        synced = await self.synced(joined, group)
        assert (synced.error_code, synced.assignment) == (ErrorCode.NONE, b"mine"), synced
        return joined

    async def heartbeat(self, joined: JoinGroupResponse, group: str = "g") -> ErrorCode:
        answer = await self.ask(HeartbeatRequest(group, joined.generation_id, joined.member_id))
        return ErrorCode(answer.error_code)

    async def commit(
        self, offset: int, group: str = "g", *, topic: str = "t", version: int = 8, metadata: str = "", **more: Any
    ) -> ErrorCode:
        """Commit for partition 0, without a generation unless told."""
        partition = OffsetCommitRequestPartition(0, offset, committed_metadata=metadata)
        request = OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic(topic, [partition])], **more)
        answer = await self.ask(request, version)
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    async def committed(
        self, group: str = "g", *, topic: str = "t", version: int = 7, is_stable: bool = False
    ) -> tuple[int, ErrorCode]:
        """The offset of partition 0, and its error or that of the whole."""
        request = OffsetFetchRequest(group, [OffsetFetchRequestTopic(topic, [0])], is_stable)
        answer = await self.ask(request, version)
        if answer.error_code != ErrorCode.NONE:
            return -1, ErrorCode(answer.error_code)
        partition = answer.topics[0].partitions[0]
        return partition.committed_offset, ErrorCode(partition.error_code)
