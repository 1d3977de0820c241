"""A group's offsets at its coordinator: committing them in order, and reading them back.

Commits of one consumer are carried out one after the other, in the order of the calls, so that one that is tried again
does not overwrite a later one. What was sent over a connection that was given up may arrive late all the same: a
Barnabas coordinator refuses it, as the member has gone on over another one; Kafka takes it.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from barnabas.client.cluster import Cluster
from barnabas.client.consumer_options import CommitFailed
from barnabas.client.coordinators import CoordinatorKind, Coordinators, GroupMetadata, OffsetAndMetadata
from barnabas.client.errors import KafkaError, UnsupportedByBroker, error_code, raise_for
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.messages import offset_commit, offset_fetch
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic

Offsets = Mapping[TopicPartition, OffsetAndMetadata]

_OFFSETS_TOPIC_SINCE_COMMIT: Final = 2
_OFFSETS_TOPIC_SINCE_FETCH: Final = 1
_STATIC_SINCE: Final = 7
_STABLE_SINCE: Final = 7

OUTSIDE: Final = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.FENCED_INSTANCE_ID,
    }
)
"""What a commit of somebody who is no member of the present generation is answered."""


class GroupOffsets:
    """The offsets of one group, for one consumer."""

    def __init__(
        self,
        cluster: Cluster,
        coordinators: Coordinators,
        group_id: str,
        *,
        on_outside: Callable[[GroupMetadata, ErrorCode], None],
    ) -> None:
        """`on_outside` hears that whom a commit was for is nobody any more."""
        self._cluster = cluster
        self._coordinators = coordinators
        self._group_id = group_id
        self._on_outside = on_outside
        self._last: asyncio.Task[None] | None = None

    def begin_commit(self, offsets: Offsets, membership: Callable[[], GroupMetadata]) -> "asyncio.Task[None]":
        """Commit after all earlier commits, as whom `membership` says now. The task raises ClientError.

        It raises CommitFailed where `membership` does, or the group went on, also between two tries: what was handed
        out in one generation may be another member's in the next, who has come further.
        """
        member: GroupMetadata | CommitFailed
        try:
            member = membership()
        except CommitFailed as error:
            member = error
        self._last = asyncio.get_running_loop().create_task(self._commit_after(self._last, dict(offsets), member))
        return self._last

    async def close(self, *, timeout_ms: int) -> None:
        """Wait for the commits under way, but not for long."""
        if self._last is not None:
            await asyncio.wait([self._last], timeout=timeout_ms / 1000)
            self._last.cancel()
            await asyncio.gather(self._last, return_exceptions=True)

    async def committed(
        self, partitions: Sequence[TopicPartition], *, must_be_stable: bool = False
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What is committed of these partitions; waits for transactions that decide it (KIP-447).

        Brokers before Kafka 2.5 cannot wait: they say what they have, unless it must be stable. Raises ClientError.
        """
        group_id = self._group_id
        topics: dict[str, OffsetFetchRequestTopic] = {}
        for name, partition in partitions:
            topics.setdefault(name, OffsetFetchRequestTopic(name)).partition_indexes.append(partition)

        async def ask() -> dict[TopicPartition, OffsetAndMetadata]:
            request = OffsetFetchRequest(group_id, list(topics.values()), require_stable=True)
            try:
                response = await self._ask(offset_fetch.API, request, _fetch_codes, least=_STABLE_SINCE)
            except UnsupportedByBroker:
                if must_be_stable:
                    raise
                request.require_stable = False
                response = await self._ask(offset_fetch.API, request, _fetch_codes, least=_OFFSETS_TOPIC_SINCE_FETCH)
            raise_for(response.error_code, context=f"group {group_id}")
            found: dict[TopicPartition, OffsetAndMetadata] = {}
            for topic in response.topics:
                for part in topic.partitions:
                    each = TopicPartition(topic.name, part.partition_index)
                    raise_for(part.error_code, context=f"group {group_id}: {each}")
                    if part.committed_offset >= 0:
                        epoch = part.committed_leader_epoch
                        found[each] = OffsetAndMetadata(part.committed_offset, epoch, part.metadata or "")
            return found

        return await self._cluster.patiently(ask)

    async def _commit_after(
        self, earlier: "asyncio.Task[None] | None", offsets: Offsets, member: GroupMetadata | CommitFailed
    ) -> None:
        if earlier is not None:
            await asyncio.wait([earlier])
        if isinstance(member, CommitFailed):
            raise member
        if offsets:
            await self._cluster.patiently(lambda: self._commit(offsets, member))

    async def _commit(self, offsets: Offsets, member: GroupMetadata) -> None:
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for (name, partition), each in offsets.items():
            topics.setdefault(name, OffsetCommitRequestTopic(name)).partitions.append(
                OffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=each.offset,
                    committed_leader_epoch=each.leader_epoch,
                    committed_metadata=each.metadata,
                )
            )
        request = OffsetCommitRequest(
            group_id=member.group_id,
            generation_id=member.generation_id,
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            topics=list(topics.values()),
        )
        least = _OFFSETS_TOPIC_SINCE_COMMIT if member.group_instance_id is None else _STATIC_SINCE
        response = await self._ask(offset_commit.API, request, _commit_codes, least=least)
        for topic in response.topics:
            for part in topic.partitions:
                code = error_code(part.error_code)
                if code in OUTSIDE:
                    self._on_outside(member, code)
                    raise CommitFailed(f"group {member.group_id} went on without this member: {code.name}")
                if code:
                    where = TopicPartition(topic.name, part.partition_index)
                    raise KafkaError(code, context=f"group {member.group_id}: {where}")

    async def _ask(self, api: Any, request: object, codes: Callable[[Any], list[int]], *, least: int) -> Any:
        return await self._coordinators.ask(
            CoordinatorKind.GROUP, self._group_id, api, request, codes=codes, least=least
        )


def _commit_codes(response: Any) -> list[int]:
    return [part.error_code for topic in response.topics for part in topic.partitions]


def _fetch_codes(response: Any) -> list[int]:
    return [response.error_code, *_commit_codes(response)]
