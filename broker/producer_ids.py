"""Producer ids of this broker: blocks of 1000 taken from /latest_producer_id_block, handed out one by one.

No id is handed out twice in a cluster: a block is taken by a write that names the version that was read, and when the
outcome of a write is not known the znode says whose block it is. Ids of a block that is not used up when the broker
stops are lost, as in Kafka.
"""

import asyncio
import logging
from typing import Final

from barnabas.protocol.ids import BrokerId, ProducerId
from zk_schema.ops import OutcomeUnknown, Set, VersionMoved
from zk_schema.paths import LATEST_PRODUCER_ID_BLOCK
from zk_schema.payloads import ProducerIdBlock
from zk_schema.port import ZooKeeper

log = logging.getLogger(__name__)

BLOCK_SIZE: Final = 1000
_GREATEST_ID: Final = 2**63 - 1


class ProducerIdsExhausted(Exception):
    """All ids that there can be have been handed out."""


class ProducerIds:
    """See the module. The first block is taken when the first id is asked for."""

    def __init__(self, broker_id: BrokerId, zk: ZooKeeper) -> None:
        self._broker_id = broker_id
        self._zk = zk
        self._next = 0
        self._last = -1
        self._taking = asyncio.Lock()

    async def next_id(self) -> ProducerId:
        """An id that no producer of the cluster has had.

        Raises:
            ProducerIdsExhausted: there is none left.
            ZooKeeperError: a block is needed and ZooKeeper cannot be asked.
        """
        while self._next > self._last:
            async with self._taking:
                if self._next > self._last:
                    await self._take_block()
        producer_id = ProducerId(self._next)
        self._next += 1
        return producer_id

    async def _take_block(self) -> None:
        block: ProducerIdBlock | None = None
        while True:
            znode = await self._zk.get(LATEST_PRODUCER_ID_BLOCK)
            latest = ProducerIdBlock.decode(znode.data) if znode is not None and znode.data else None
            if block is not None and latest == block:
                break
            block = following_block(latest, self._broker_id)
            version = 0 if znode is None else znode.stat.version
            try:
                await self._zk.write(Set(LATEST_PRODUCER_ID_BLOCK, block.encode(), version))
                break
            except VersionMoved:
                block = None
            except OutcomeUnknown:
                log.info("producer ids %d to %d: outcome of taking them unknown, looking", block.first, block.last)
        self._next, self._last = block.first, block.last
        log.info("producer ids %d to %d taken", block.first, block.last)


def following_block(latest: ProducerIdBlock | None, broker_id: BrokerId) -> ProducerIdBlock:
    """The block after `latest`, the first one from 0 on.

    Raises:
        ProducerIdsExhausted: it would not fit into 64 bits.
    """
    first = 0 if latest is None else latest.last + 1
    if first + BLOCK_SIZE - 1 > _GREATEST_ID:
        raise ProducerIdsExhausted(f"the latest block ends at {first - 1}")
    return ProducerIdBlock(broker_id, first, first + BLOCK_SIZE - 1)
