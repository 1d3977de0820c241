"""Where the segments of logs begin, as version 0 of ListOffsets tells: who divides a log does well to do it there."""

import logging
from collections.abc import Iterable
from typing import Final

from barnabas.client.cluster import Cluster
from barnabas.client.errors import ClientError, UnsupportedByBroker, error_code, raise_for
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.messages import list_offsets
from barnabas.protocol.messages.list_offsets import ListOffsetPartition, ListOffsetRequest, ListOffsetTopic

log = logging.getLogger(__name__)

_LATEST: Final = -1
_MOST: Final = 10_000
"""Of a partition; the newest ones are told."""


async def segment_starts(cluster: Cluster, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, list[int]]:
    """The first offsets of each log's segments, rising, with the high watermark for what lies above it.

    Each leader is asked once about all of its partitions. Empty where it cannot be asked: Kafka 4 has no version 0.
    Raises ClientError.
    """
    wanted = list(partitions)
    found: dict[TopicPartition, list[int]] = {}

    async def ask() -> None:
        by_leader: dict[int, list[TopicPartition]] = {}
        for each in wanted:
            if each not in found:
                by_leader.setdefault((await cluster.leader(each)).node_id, []).append(each)
        for node_id, of_leader in by_leader.items():
            await _ask_leader(cluster, node_id, of_leader, found)

    await cluster.patiently(ask)
    return found


async def _ask_leader(
    cluster: Cluster, node_id: int, partitions: Iterable[TopicPartition], found: dict[TopicPartition, list[int]]
) -> None:
    """Put what a leader tells into `found`; what it has answered is not asked again where it refuses the rest."""
    topics: dict[str, ListOffsetTopic] = {}
    for name, partition in partitions:
        wanted = ListOffsetPartition(partition_index=partition, timestamp=_LATEST, max_num_offsets=_MOST)
        topics.setdefault(name, ListOffsetTopic(name)).partitions.append(wanted)
    request = ListOffsetRequest(replica_id=-1, topics=list(topics.values()))
    try:
        connection = await cluster.connection(node_id)
        timeout_ms = cluster.options.request_timeout_ms
        response = await connection.request(list_offsets.API, request, timeout_ms=timeout_ms, most=0)
    except UnsupportedByBroker as error:
        log.debug("broker %d: where segments begin is not told: %s", node_id, error)
        found.update((each, []) for each in partitions)
        return
    except ClientError:
        for name in topics:
            cluster.forget(name)
        raise
    for topic in response.topics:
        for answer in topic.partitions:
            each = TopicPartition(topic.name, answer.partition_index)
            if error_code(answer.error_code).means_stale_metadata:
                cluster.forget(topic.name)
            raise_for(answer.error_code, context=str(each))
            found[each] = sorted(answer.old_style_offsets)
