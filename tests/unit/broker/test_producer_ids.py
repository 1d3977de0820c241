"""Producer ids: blocks from ZooKeeper, no id twice."""

import asyncio
import json
from typing import Any

import pytest

from barnabas.protocol.ids import BrokerId
from broker.producer_ids import ProducerIds
from tests.unit.broker.small_broker import CutOnWrite, SmallBroker
from zk_schema.memory import MemorySession
from zk_schema.ops import SessionLost, Set
from zk_schema.paths import LATEST_PRODUCER_ID_BLOCK
from zk_schema.payloads import ProducerIdBlock
from zk_schema.producer_id_block import ProducerIdsExhausted


def latest(broker: SmallBroker) -> ProducerIdBlock:
    znode = broker.server.tree.get(LATEST_PRODUCER_ID_BLOCK)
    assert znode is not None
    return ProducerIdBlock.decode(znode.data)


async def test_ids_rise_from_zero_and_a_block_is_taken_in_a_thousand(broker: SmallBroker) -> None:
    ids = ProducerIds(BrokerId(1), broker.zk)
    assert [await ids.next_id() for _ in range(1000)] == list(range(1000))
    assert latest(broker) == ProducerIdBlock(BrokerId(1), 0, 999)
    assert await ids.next_id() == 1000
    assert latest(broker).last == 1999


async def test_the_znode_is_written_as_kafka_writes_it(broker: SmallBroker) -> None:
    await ProducerIds(BrokerId(3), broker.zk).next_id()
    znode = broker.server.tree.get(LATEST_PRODUCER_ID_BLOCK)
    assert znode is not None
    assert json.loads(znode.data) == {"version": 1, "broker": 3, "block_start": "0", "block_end": "999"}


async def test_two_brokers_that_take_blocks_at_once_get_different_ids(broker: SmallBroker) -> None:
    sessions = [MemorySession(broker.server) for _ in range(3)]
    for session in sessions:
        await session.open()
    brokers = [ProducerIds(BrokerId(number), session) for number, session in enumerate(sessions)]
    ids = await asyncio.gather(*(each.next_id() for each in brokers for _ in range(5)))
    assert len(set(ids)) == 15
    assert sorted({each // 1000 for each in ids}) == [0, 1, 2]
    for session in sessions:
        await session.close()


@pytest.mark.parametrize("applied", [True, False])
async def test_no_id_is_given_twice_when_the_outcome_of_a_write_is_unknown(
    broker: SmallBroker, *, applied: bool
) -> None:
    zk: Any = CutOnWrite(broker, applied=applied)
    first = await ProducerIds(BrokerId(1), zk).next_id()
    assert zk.cut
    assert first == latest(broker).first
    assert await ProducerIds(BrokerId(2), broker.zk).next_id() == first + 1000


async def test_without_a_session_no_id_is_invented(broker: SmallBroker) -> None:
    ids = ProducerIds(BrokerId(1), broker.zk)
    await broker.zk.close()
    with pytest.raises(SessionLost):
        await ids.next_id()


async def test_the_ids_end_at_64_bits(broker: SmallBroker) -> None:
    block = ProducerIdBlock(BrokerId(1), 2**63 - 1500, 2**63 - 501)
    await broker.zk.write(Set(LATEST_PRODUCER_ID_BLOCK, block.encode()))
    with pytest.raises(ProducerIdsExhausted):
        await ProducerIds(BrokerId(1), broker.zk).next_id()
