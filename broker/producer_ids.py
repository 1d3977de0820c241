"""Producer ids of this broker: blocks of 1000 taken from ZooKeeper, handed out one by one.

No id is handed out twice in a cluster. Ids of a block that is not used up when the broker stops are lost, as in Kafka.
"""

import asyncio

from barnabas.protocol.ids import BrokerId, ProducerId
from zk_schema.port import ZooKeeper
from zk_schema.producer_id_block import claim_producer_id_block


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
            InvalidPayload: what ZooKeeper holds is no block.
            ZooKeeperError: a block is needed and ZooKeeper cannot be asked.
        """
        while self._next > self._last:
            async with self._taking:
                if self._next > self._last:
                    block = await claim_producer_id_block(self._zk, self._broker_id)
                    self._next, self._last = block.first, block.last
        producer_id = ProducerId(self._next)
        self._next += 1
        return producer_id
