"""Where partitions are read from: committed offsets, offsets by time, and whether the log still is what was read.

A position that was reached under one leader epoch is checked when the partition has a new one (KIP-320): the new leader
tells where the epoch of the last record read ends in its log. Where it ends before the position, records that were read
are not in the log any more; the reset policy decides whether reading goes on where the logs part, or LogTruncated is
raised. Brokers without OffsetForLeaderEpoch version 2 are believed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from typing import Final

from barnabas.client.admin import FoundOffset
from barnabas.client.cluster import Cluster
from barnabas.client.consumer_options import ConsumerOptions, IsolationLevel, LogTruncated, NoOffset
from barnabas.client.coordinators import OffsetAndMetadata
from barnabas.client.errors import ClientError, KafkaError, UnsupportedByBroker, error_code
from barnabas.client.partition_state import PartitionState
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.messages import list_offsets, offset_for_leader_epoch
from barnabas.protocol.messages.list_offsets import ListOffsetPartition, ListOffsetRequest, ListOffsetTopic
from barnabas.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderPartitionResult,
    OffsetForLeaderTopic,
)

FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 1.0

_ISOLATION_SINCE: Final = 2
_EPOCHS_SINCE: Final = 2

Committed = Callable[[Sequence[TopicPartition]], Awaitable[Mapping[TopicPartition, OffsetAndMetadata]]]
"""Asks for a group's committed offsets; partitions without one are left out. Raises ClientError."""


def leader_epoch_of(cluster: Cluster, topic_partition: TopicPartition) -> int:
    """The leader epoch of a partition as far as it is known without asking, -1 otherwise."""
    topic = cluster.known(topic_partition.topic)
    partition = None if topic is None else topic.partitions.get(topic_partition.partition)
    return -1 if partition is None else partition.leader_epoch


class Positioning:
    """Gives partitions the positions that they lack; holds nothing itself."""

    def __init__(
        self, cluster: Cluster, options: ConsumerOptions, *, committed: Committed | None, lane: Hashable
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._committed = committed
        self._lane = lane

    def is_wanted(self, state: PartitionState) -> bool:
        """Whether the partition cannot be fetched before `settle`."""
        if not state.has_position:
            return state.error is None
        epoch = leader_epoch_of(self._cluster, state.topic_partition)
        return state.fetch_epoch >= 0 and epoch > state.checked_epoch

    async def settle(self, states: Sequence[PartitionState]) -> None:
        """Find or check positions, once; who stays without is backed off or fails. Raises ClientError that ends all."""
        await self._read_committed([state for state in states if state.wants_committed])
        by_leader: dict[int, list[PartitionState]] = {}
        for state in states:
            leader = self._cluster.known_leader(state.topic_partition)
            if leader is not None and self.is_wanted(state) and not state.wants_committed:
                by_leader.setdefault(leader, []).append(state)
        for leader, led in by_leader.items():
            try:
                # While another leader was asked, the caller may have moved them, and metadata been forgotten.
                await self._check(leader, [state for state in led if state.has_position and self.is_wanted(state)])
                await self._look_up(leader, [state for state in led if state.reset_to is not None])
            except ClientError as error:
                if not error.retriable:
                    raise
                for state in led:
                    self._try_later(state)

    def reset(self, state: PartitionState, error: ClientError) -> None:
        """Begin where the policy says, or fail with `error` where it says nothing."""
        timestamp = self._options.offset_reset.value
        if timestamp is None:
            state.fail(error)
        else:
            state.look_for(timestamp)

    def doubts(self, state: PartitionState) -> bool:
        """Whether another broker is to be asked who leads, before it is believed that the log has no such offset.

        Once for each position: whoever leads then is believed.
        """
        if state.was_doubted:
            return False
        state.was_doubted = True
        self._cluster.doubt_leader(state.topic_partition)
        return True

    async def _read_committed(self, states: Sequence[PartitionState]) -> None:
        if not states:
            return
        versions = [state.version for state in states]
        found: Mapping[TopicPartition, OffsetAndMetadata] = {}
        if self._committed is not None:
            found = await self._committed([state.topic_partition for state in states])
        for state, version in zip(states, versions, strict=True):
            if state.version != version:
                continue  # moved meanwhile
            committed = found.get(state.topic_partition)
            if committed is None:
                self.reset(state, NoOffset(state.topic_partition))
            else:
                # Whoever does not know of that epoch yet cannot say whether the log still holds what was read.
                self._cluster.hear_of(state.topic_partition, committed.leader_epoch)
                state.move_to(committed.offset, committed.leader_epoch)

    async def _look_up(self, leader: int, states: Sequence[PartitionState]) -> None:
        if not states:
            return
        asked = {state.topic_partition: (state, state.version) for state in states}
        wanted = {each: state.reset_to for each, (state, _) in asked.items() if state.reset_to is not None}
        found = await list_offsets_at(
            self._cluster, leader, wanted, isolation_level=self._options.isolation_level, lane=self._lane
        )
        for each, (state, version) in asked.items():
            answer = found.get(each)
            if state.version != version:
                continue
            if isinstance(answer, FoundOffset):
                if answer.offset < 0:
                    # No record is late enough: what comes next is.
                    state.look_for(-1)
                else:
                    state.move_to(answer.offset)
            else:
                self._refused(state, answer)

    async def _check(self, leader: int, states: Sequence[PartitionState]) -> None:
        if not states:
            return
        # What is fetched meanwhile is not what the answer speaks of.
        asked = {state.topic_partition: (state, (state.version, state.fetch_offset)) for state in states}
        epochs = {each: leader_epoch_of(self._cluster, each) for each in asked}
        wanted = {each: (epochs[each], state.fetch_epoch) for each, (state, _) in asked.items()}
        try:
            found = await epoch_ends_at(self._cluster, leader, wanted, lane=self._lane)
        except UnsupportedByBroker:
            for state, _ in asked.values():
                state.checked_epoch = epochs[state.topic_partition]
            return
        for each, (state, place) in asked.items():
            answer = found.get(each)
            if (state.version, state.fetch_offset) != place:
                continue
            if isinstance(answer, OffsetForLeaderPartitionResult):
                self._judge(state, answer, epochs[each])
            else:
                self._refused(state, answer)

    def _judge(self, state: PartitionState, answer: OffsetForLeaderPartitionResult, epoch: int) -> None:
        end = answer.end_offset if answer.leader_epoch >= 0 else -1
        if end >= state.fetch_offset:
            state.checked_epoch = epoch
            state.succeed()
            return
        error = LogTruncated(state.topic_partition, state.position, end)
        if 0 <= state.position <= end:
            # Only what was fetched ahead is void.
            state.move_to(state.position, min(state.position_epoch, answer.leader_epoch))
        elif end >= 0 and self._options.offset_reset.value is not None:
            state.move_to(end, answer.leader_epoch)
        else:
            self.reset(state, error)

    def _refused(self, state: PartitionState, error: object) -> None:
        if isinstance(error, KafkaError) and not error.retriable:
            state.fail(error)
        else:
            self._try_later(state)

    def _try_later(self, state: PartitionState) -> None:
        self._cluster.forget(state.topic_partition.topic)
        state.back_off(asyncio.get_running_loop().time(), first_s=FIRST_PAUSE_S, longest_s=LONGEST_PAUSE_S)


async def list_offsets_at(
    cluster: Cluster,
    leader: int,
    timestamps: Mapping[TopicPartition, int],
    *,
    isolation_level: IsolationLevel,
    lane: Hashable = None,
) -> dict[TopicPartition, FoundOffset | KafkaError]:
    """Ask a leader for offsets by time, once; -1 is the end (of what the isolation level sees), -2 the start."""
    topics: dict[str, ListOffsetTopic] = {}
    for (name, partition), timestamp in timestamps.items():
        topic = topics.setdefault(name, ListOffsetTopic(name))
        topic.partitions.append(ListOffsetPartition(partition_index=partition, timestamp=timestamp))
    request = ListOffsetRequest(replica_id=-1, isolation_level=isolation_level, topics=list(topics.values()))
    connection = await cluster.connection(leader, lane=lane)
    least = _ISOLATION_SINCE if isolation_level else 1
    response = await connection.request(
        list_offsets.API, request, timeout_ms=cluster.options.request_timeout_ms, least=least
    )
    return {
        (each := TopicPartition(topic.name, part.partition_index)): _error(part.error_code, each)
        or FoundOffset(part.offset, part.timestamp, part.leader_epoch)
        for topic in response.topics
        for part in topic.partitions
    }


async def epoch_ends_at(
    cluster: Cluster, leader: int, epochs: Mapping[TopicPartition, tuple[int, int]], *, lane: Hashable = None
) -> dict[TopicPartition, OffsetForLeaderPartitionResult | KafkaError]:
    """Ask a leader, once, where leader epochs end; `epochs` holds (the current one, the one to look up)."""
    topics: dict[str, OffsetForLeaderTopic] = {}
    for (name, partition), (current, wanted) in epochs.items():
        topic = topics.setdefault(name, OffsetForLeaderTopic(name))
        topic.partitions.append(OffsetForLeaderPartition(partition, current, wanted))
    request = OffsetForLeaderEpochRequest(replica_id=-1, topics=list(topics.values()))
    connection = await cluster.connection(leader, lane=lane)
    response = await connection.request(
        offset_for_leader_epoch.API, request, timeout_ms=cluster.options.request_timeout_ms, least=_EPOCHS_SINCE
    )
    return {
        (each := TopicPartition(topic.name, part.partition_index)): _error(part.error_code, each) or part
        for topic in response.topics
        for part in topic.partitions
    }


def _error(number: int, topic_partition: TopicPartition) -> KafkaError | None:
    return KafkaError(error_code(number), context=str(topic_partition)) if number else None


def topics_of(partitions: Iterable[TopicPartition]) -> list[str]:
    """The topics of partitions, each once, in the order given."""
    return list(dict.fromkeys(each.topic for each in partitions))
