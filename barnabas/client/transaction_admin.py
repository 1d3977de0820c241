"""What an administrator asks of transactions (KIP-664): which there are, where they stand, which ones nobody will end.

A transaction hangs when a partition's log has it open and its coordinator knows nothing of it there: consumers of
read_committed then wait at it for ever. An abort marker, written past the coordinator, ends it.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from barnabas.client.cluster import Cluster
from barnabas.client.coordinators import CoordinatorKind, Coordinators
from barnabas.client.errors import ClientError, KafkaError, error_code, raise_for
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.messages import (
    describe_producers,
    describe_transactions,
    list_transactions,
    write_txn_markers,
)
from barnabas.protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersTopicRequest
from barnabas.protocol.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.protocol.messages.list_transactions import ListTransactionsRequest
from barnabas.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from barnabas.protocol.schema import Api

_OPEN_STATES: Final = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """A transactional id and where it stands."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transactional id as its coordinator knows it; `start_time_ms` is -1 where no transaction is open."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int
    partitions: tuple[TopicPartition, ...]
    coordinator: int


@dataclass(frozen=True, slots=True)
class ProducerOfPartition:
    """A producer that a partition's log knows; `txn_start_offset` is -1 where it has no transaction open there."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_timestamp: int
    txn_start_offset: int


@dataclass(frozen=True, slots=True)
class HangingTransaction:
    """An open transaction that no coordinator will end; the id is None where no coordinator knows the producer."""

    partition: TopicPartition
    producer: ProducerOfPartition
    transactional_id: str | None


class TransactionAdmin:
    """Administration of the transactions of the cluster that a `Cluster` reaches."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._coordinators = Coordinators(cluster)

    async def list_transactions(
        self, *, states: Iterable[str] = (), producer_ids: Iterable[int] = ()
    ) -> list[TransactionListing]:
        """All transactional ids, or those in these states and of these producers. Raises ClientError."""
        request = ListTransactionsRequest(list(states), list(producer_ids))

        async def ask(node_id: int) -> list[TransactionListing]:
            async def once() -> list[TransactionListing]:
                response = await self._cluster.ask(node_id, list_transactions.API, request)
                raise_for(response.error_code, context=f"transactions of broker {node_id}")
                if response.unknown_state_filters:
                    unknown = ", ".join(response.unknown_state_filters)
                    raise KafkaError(ErrorCode.INVALID_REQUEST, f"no state is called {unknown}")
                return [
                    TransactionListing(each.transactional_id, each.producer_id, each.transaction_state, node_id)
                    for each in response.transaction_states
                ]

            return await self._cluster.patiently(once)

        answers = await asyncio.gather(*map(ask, sorted((await self._cluster.metadata()).nodes)))
        return sorted((each for answer in answers for each in answer), key=lambda each: each.transactional_id)

    async def describe(self, transactional_id: str) -> TransactionDescription:
        """A transactional id. Raises ClientError."""

        async def once() -> TransactionDescription:
            response = await self._coordinators.ask(
                CoordinatorKind.TRANSACTION,
                transactional_id,
                describe_transactions.API,
                DescribeTransactionsRequest([transactional_id]),
                codes=lambda answer: [each.error_code for each in answer.transaction_states],
            )
            (found,) = response.transaction_states
            raise_for(found.error_code, context=f"transactional id {transactional_id}")
            partitions = (TopicPartition(topic.topic, each) for topic in found.topics for each in topic.partitions)
            return TransactionDescription(
                transactional_id,
                found.transaction_state,
                found.producer_id,
                found.producer_epoch,
                found.transaction_timeout_ms,
                found.transaction_start_time_ms,
                tuple(sorted(partitions)),
                await self._coordinators.find(CoordinatorKind.TRANSACTION, transactional_id),
            )

        return await self._cluster.patiently(once)

    async def producers(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, list[ProducerOfPartition]]:
        """The producers that the leaders of partitions know. Raises ClientError."""
        wanted = list(dict.fromkeys(partitions))
        found: dict[TopicPartition, list[ProducerOfPartition]] = {}

        async def once() -> None:
            by_leader: dict[int, dict[str, DescribeProducersTopicRequest]] = {}
            for at in wanted:
                if at not in found:
                    topics = by_leader.setdefault((await self._cluster.leader(at)).node_id, {})
                    topics.setdefault(at.topic, DescribeProducersTopicRequest(at.topic)).partition_indexes.append(
                        at.partition
                    )
            for node_id, topics in by_leader.items():
                request = DescribeProducersRequest(list(topics.values()))
                self._take_producers(
                    await self._ask_leader(node_id, list(topics), describe_producers.API, request), found
                )

        await self._cluster.patiently(once)
        return found

    async def _ask_leader(self, node_id: int, topics: Sequence[str], api: Api, request: object) -> Any:
        """Ask a broker about partitions of these topics that it leads; where it is not there, others may by now."""
        try:
            return await self._cluster.ask(node_id, api, request)
        except ClientError:
            for name in topics:
                self._cluster.forget(name)
            raise

    def _take_producers(self, response: Any, found: dict[TopicPartition, list[ProducerOfPartition]]) -> None:
        for topic in response.topics:
            for part in topic.partitions:
                at = TopicPartition(topic.name, part.partition_index)
                if error_code(part.error_code).means_stale_metadata:
                    self._cluster.forget(topic.name)
                raise_for(part.error_code, part.error_message, context=str(at))
                found[at] = [
                    ProducerOfPartition(
                        each.producer_id,
                        each.producer_epoch,
                        each.coordinator_epoch,
                        each.last_timestamp,
                        each.current_txn_start_offset,
                    )
                    for each in part.active_producers
                ]

    async def find_hanging(
        self, partitions: Iterable[TopicPartition], *, older_than_ms: int, now_ms: int
    ) -> list[HangingTransaction]:
        """Transactions open in these partitions, without a record since then, that no coordinator will end.

        Younger ones than the longest time-out of transactions may still be ended. Raises ClientError.
        """
        open_ones = [
            (at, each)
            for at, producers in (await self.producers(partitions)).items()
            for each in producers
            if each.txn_start_offset >= 0 and now_ms - each.last_timestamp >= older_than_ms
        ]
        if not open_ones:
            return []
        ids = {each.producer_id for _, each in open_ones}
        listed = {each.producer_id: each for each in await self.list_transactions(producer_ids=sorted(ids))}
        described: dict[int, TransactionDescription] = {}
        for producer_id, each in listed.items():
            if each.state in _OPEN_STATES:
                described[producer_id] = await self.describe(each.transactional_id)
        return [
            HangingTransaction(
                at, each, None if each.producer_id not in listed else listed[each.producer_id].transactional_id
            )
            for at, each in open_ones
            if not _is_known(at, each, described)
        ]

    async def abort(self, at: TopicPartition, *, producer_id: int, producer_epoch: int, coordinator_epoch: int) -> None:
        """Write an abort marker for a producer's transaction into one partition. Raises ClientError.

        Never for a transaction that its coordinator still may commit: what is committed elsewhere is aborted here.
        """
        topics = [WritableTxnMarkerTopic(at.topic, [at.partition])]
        # -1 is a producer for which no marker was written yet.
        marker = WritableTxnMarker(producer_id, producer_epoch, False, topics, max(coordinator_epoch, 0))

        async def once() -> None:
            leader = await self._cluster.leader(at)
            request = WriteTxnMarkersRequest([marker])
            response = await self._ask_leader(leader.node_id, [at.topic], write_txn_markers.API, request)
            for each in (part for one in response.markers for topic in one.topics for part in topic.partitions):
                if error_code(each.error_code).means_stale_metadata:
                    self._cluster.forget(at.topic)
                raise_for(each.error_code, context=str(at))

        await self._cluster.patiently(once)


def _is_known(
    at: TopicPartition, producer: ProducerOfPartition, described: Mapping[int, TransactionDescription]
) -> bool:
    """Whether a coordinator will end the transaction that a producer has open in a partition."""
    found = described.get(producer.producer_id)
    return found is not None and at in found.partitions and producer.producer_epoch <= found.producer_epoch
