"""Giving up the beginning of partitions (DeleteRecords, KIP-107): asked of each leader, done when all replicas did."""

from collections.abc import Mapping
from typing import Final

from barnabas.client.cluster import Cluster
from barnabas.client.errors import ClientError, KafkaError, error_code
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.messages import delete_records
from barnabas.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)

END_OF_COMMITTED: Final = -1

Starts = dict[TopicPartition, int | KafkaError]
"""Where each partition starts now, on the replica that keeps most; or why nothing can be said of it."""


class RecordAdmin:
    """Deletion of records in the cluster that a `Cluster` reaches."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> Starts:
        """Give up what is below these offsets, END_OF_COMMITTED for all that is there. Raises ClientError."""
        found: Starts = {}

        async def ask() -> None:
            by_leader: dict[int, dict[TopicPartition, int]] = {}
            for each, offset in before.items():
                if each not in found:
                    by_leader.setdefault((await self._cluster.leader(each)).node_id, {})[each] = offset
            again: KafkaError | None = None
            for node_id, offsets in by_leader.items():
                again = await self._ask_leader(node_id, offsets, found) or again
            if again is not None:
                raise again

        await self._cluster.patiently(ask)
        return {each: found[each] for each in before}

    async def _ask_leader(
        self, node_id: int, offsets: Mapping[TopicPartition, int], found: Starts
    ) -> KafkaError | None:
        """Put the answers of one broker into `found`; an error that it was the wrong broker for is returned."""
        topics: dict[str, DeleteRecordsTopic] = {}
        for (name, partition), offset in offsets.items():
            topic = topics.setdefault(name, DeleteRecordsTopic(name))
            topic.partitions.append(DeleteRecordsPartition(partition, offset))
        request = DeleteRecordsRequest(list(topics.values()), self._cluster.options.broker_timeout_ms)
        try:
            response = await self._cluster.ask(node_id, delete_records.API, request)
        except ClientError:
            for name in topics:
                self._cluster.forget(name)
            raise
        again: KafkaError | None = None
        for answered in response.topics:
            for part in answered.partitions:
                at = TopicPartition(answered.name, part.partition_index)
                error = error_code(part.error_code)
                if error.means_stale_metadata:
                    self._cluster.forget(at.topic)
                    again = KafkaError(error, context=str(at))
                else:
                    found[at] = KafkaError(error, context=str(at)) if error else part.low_watermark
        return again
