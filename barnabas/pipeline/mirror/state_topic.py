"""The two topics that a mirror keeps at its target: made when they are missing, read up to their end.

What counts is what transactions wrote that were committed: a mirror's own progress is read up to where the log ended
when it was asked, waiting for others that write into the same topic. Who only wants to know who writes reads without
waiting: a producer id that was never committed does no harm.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from barnabas.client.admin import EARLIEST, LATEST, Admin, NewTopic
from barnabas.client.cluster import Cluster
from barnabas.client.consumer_options import IsolationLevel
from barnabas.client.errors import RequestTimedOut
from barnabas.client.range_reader import OffsetRange, RangeReader, RangeReaderOptions
from barnabas.pipeline.job_clusters import config_value, create_missing
from barnabas.pipeline.jobs.job import JobFailed
from barnabas.pipeline.mirror.naming import OFFSETS_TOPIC, STATE_TOPIC
from barnabas.pipeline.mirror.state_records import MirrorState
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.records import Record

STATE = TopicPartition(STATE_TOPIC, 0)
OFFSETS = TopicPartition(OFFSETS_TOPIC, 0)


async def make_topics(target: Cluster, *, replication_factor: int, offsets_retention_ms: int) -> None:
    """Make both topics where they are missing. Raises JobFailed and ClientError."""
    await create_missing(
        target,
        [
            NewTopic(STATE_TOPIC, 1, replication_factor, {"cleanup.policy": "compact"}),
            NewTopic(
                OFFSETS_TOPIC,
                1,
                replication_factor,
                {"cleanup.policy": "delete", "retention.ms": str(offsets_retention_ms)},
            ),
        ],
    )
    policy = await config_value(target, STATE_TOPIC, "cleanup.policy")
    if policy != "compact":
        raise JobFailed(
            f"topic {STATE_TOPIC} has cleanup.policy={policy}: progress would be deleted, and records mirrored twice; "
            "set it to compact"
        )


async def exists(cluster: Cluster, topic: str) -> bool:
    """Whether a cluster has a topic. Raises ClientError."""
    return not (await cluster.metadata([topic])).topics[topic].error


async def read_to_end(
    cluster: Cluster, at: TopicPartition, *, start: int = 0, committed: bool
) -> AsyncGenerator[list[Record], None]:
    """The records from `start` on that are there now. Raises ClientError."""
    isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    admin = Admin(cluster)
    # The end of the log, not of what is decided: what this mirror committed may lie behind others' open transactions.
    end = (await admin.list_offsets({at: LATEST}))[at].offset
    # A log that ends before it was read up to was made anew.
    begin = max(start if start <= end else 0, (await admin.list_offsets({at: EARLIEST}))[at].offset)
    options = RangeReaderOptions(isolation_level=isolation, max_wait_ms=100)
    async with aclosing(RangeReader(cluster, {at: OffsetRange(begin, end)}, options=options).fetched()) as fetched:
        async for batch in fetched:
            yield batch.records


async def read_state(target: Cluster, *, timeout_s: float) -> MirrorState:
    """All that mirrors have committed at a cluster. Raises ClientError."""
    state = MirrorState()
    try:
        async with asyncio.timeout(timeout_s):
            async with aclosing(read_to_end(target, STATE, committed=True)) as batches:
                async for records in batches:
                    for record in records:
                        state.apply(record.key, record.value)
    except TimeoutError:
        raise RequestTimedOut(
            f"{STATE_TOPIC} could not be read in {timeout_s:g} s: a transaction in it may be open still"
        ) from None
    return state


class UpstreamState:
    """What mirrors have written down in a cluster that is mirrored on: read once, then what is new."""

    def __init__(self, source: Cluster) -> None:
        self.state = MirrorState()
        self._source = source
        self._next = 0

    async def refresh(self) -> None:
        """Read what came since. Raises ClientError."""
        if not self._next and not await exists(self._source, STATE_TOPIC):
            return
        async with aclosing(read_to_end(self._source, STATE, start=self._next, committed=False)) as batches:
            async for records in batches:
                for record in records:
                    self.state.apply(record.key, record.value)
                self._next = records[-1].offset + 1
