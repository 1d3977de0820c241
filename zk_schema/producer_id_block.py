"""Numbers that brokers draw from ZooKeeper and nobody gets twice: blocks of producer ids, and broker ids."""

import logging
from typing import Final

from barnabas.protocol.ids import BrokerId
from zk_schema.cluster_id import create_path
from zk_schema.ops import NodeMissing, OutcomeUnknown, Set, VersionMoved, Written
from zk_schema.paths import BROKER_SEQUENCE_ID, LATEST_PRODUCER_ID_BLOCK
from zk_schema.payloads import ProducerIdBlock
from zk_schema.port import ZooKeeper

log = logging.getLogger(__name__)

BLOCK_SIZE: Final = 1000
_MAX_PRODUCER_ID: Final = 2**63 - 1


class ProducerIdsExhausted(Exception):
    """All 2^63 producer ids have been given away."""


def next_block(latest: ProducerIdBlock | None, broker_id: BrokerId) -> ProducerIdBlock:
    """The block after `latest`.

    Raises:
        ProducerIdsExhausted: there is none.
    """
    first = 0 if latest is None else latest.last + 1
    if first > _MAX_PRODUCER_ID - BLOCK_SIZE:
        raise ProducerIdsExhausted(f"the last block of producer ids ended at {first - 1}")
    return ProducerIdBlock(broker_id, first, first + BLOCK_SIZE - 1)


async def claim_producer_id_block(zk: ZooKeeper, broker_id: BrokerId) -> ProducerIdBlock:
    """A block that no other broker gets.

    A claim whose outcome is unknown is not looked into: the next block is taken, and at worst one stays unused.

    Raises:
        ProducerIdsExhausted: there is none left.
        InvalidPayload: the znode holds something else.
    """
    while True:
        znode = await zk.get(LATEST_PRODUCER_ID_BLOCK)
        if znode is None:
            await create_path(zk, LATEST_PRODUCER_ID_BLOCK)
            continue
        latest = ProducerIdBlock.decode(znode.data) if znode.data else None
        block = next_block(latest, broker_id)
        try:
            await zk.write(Set(LATEST_PRODUCER_ID_BLOCK, block.encode(), znode.stat.version))
        except (VersionMoved, NodeMissing, OutcomeUnknown) as error:
            log.info("broker %d: producer ids from %d on not taken, next try: %s", broker_id, block.first, error)
            continue
        log.info("broker %d: took producer ids %d to %d", broker_id, block.first, block.last)
        return block


async def generate_broker_id(zk: ZooKeeper, *, reserved_max_id: int) -> BrokerId:
    """A broker id above `reserved_max_id` (`reserved.broker.max.id`) that no other broker was given."""
    while True:
        try:
            (written,) = await zk.write(Set(BROKER_SEQUENCE_ID, b""))
        except NodeMissing:
            await create_path(zk, BROKER_SEQUENCE_ID)
        except OutcomeUnknown:
            continue
        else:
            assert isinstance(written, Written)
            return BrokerId(reserved_max_id + written.stat.version)
