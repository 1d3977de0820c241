"""What a broker waits for between its registration and its first client: to be told of the cluster as it is.

librdkafka, once told of no brokers at all, asks no more; and of a topic that a broker which has just come back does not
know, or only half, it drops the partitions, so that what it has in flight is written twice. So a broker serves nobody
before a controller has told of every partition that stands in ZooKeeper. What it holds itself is led again within a
moment of that; who asked before would be sent away.
"""

import asyncio
import logging
from collections.abc import Iterable
from typing import Final

from barnabas.protocol.ids import BrokerId, TopicPartition
from barnabas.runtime.clock import Clock
from broker.metadata_view import MetadataView
from zk_schema import paths
from zk_schema.json_text import InvalidPayload
from zk_schema.payloads import TopicAssignment
from zk_schema.port import ZooKeeper

log = logging.getLogger(__name__)

_CONTROLLER_GRACE_MS: Final = 2_000
_TELLING_MS: Final = 5_000
_LEADERS_GRACE_MS: Final = 1_000
_LEADERS_CHECK_MS: Final = 20
_READS_AT_ONCE: Final = 250


async def arrive(
    broker_id: BrokerId,
    *,
    zk: ZooKeeper,
    metadata: MetadataView,
    held: Iterable[TopicPartition],
    session_timeout_ms: int,
    clock: Clock,
) -> None:
    """Wait for a controller's word for as long as it takes, and for all that it has to tell for a while.

    A controller that is gone is replaced within a session timeout; where that takes longer, the log says so.

    Raises:
        ZooKeeperError: the session is over.
    """
    timeout_ms = session_timeout_ms + _CONTROLLER_GRACE_MS
    while not await metadata.wait_for_all(broker_id, {}, timeout_ms=timeout_ms):
        log.warning("broker %d: no word from a controller within %d ms; waiting on", broker_id, timeout_ms)
    # Of a partition that never had a leader nobody tells.
    if not await metadata.wait_for_all(broker_id, await _partition_counts(zk), timeout_ms=_TELLING_MS):
        log.warning("broker %d: not told of every partition within %d ms", broker_id, _TELLING_MS)
    waiting, until_ms = list(held), clock.monotonic_ms() + _LEADERS_GRACE_MS
    while clock.monotonic_ms() < until_ms:
        waiting = [each for each in waiting if not metadata.has_leader(each)]
        if not waiting:
            return
        await asyncio.sleep(_LEADERS_CHECK_MS / 1000)


async def _partition_counts(zk: ZooKeeper) -> dict[str, int]:
    """How many partitions topics have, those that are not asked to be deleted."""
    deleted, topics = await asyncio.gather(zk.children(paths.DELETE_TOPICS), zk.children(paths.BROKER_TOPICS))
    leaving = frozenset(deleted or ())
    names = [name for name in topics or () if name not in leaving]
    counts: dict[str, int] = {}
    for first in range(0, len(names), _READS_AT_ONCE):
        window = names[first : first + _READS_AT_ONCE]
        znodes = await asyncio.gather(*(zk.get(paths.topic(name)) for name in window))
        for name, znode in zip(window, znodes, strict=True):
            if znode is None:
                continue
            try:
                counts[name] = len(TopicAssignment.decode(znode.data).partitions)
            except InvalidPayload as error:
                # No controller tells of it either.
                log.warning("topic %s is not waited for: %s", name, error)
    return counts
