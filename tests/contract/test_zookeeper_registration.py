"""What a broker does at its start, on both ZooKeepers: registration, cluster id, ids that nobody else has."""

import asyncio
import random

import pytest

from barnabas.protocol.ids import BrokerEpoch, BrokerId
from tests.support.zookeeper_worlds import Client, World
from zk_schema import paths
from zk_schema.cluster_id import create_or_get_cluster_id, create_persistent_paths, new_cluster_id, read_cluster_id
from zk_schema.ops import Create, Delete
from zk_schema.payloads import BrokerRegistration, Endpoint, ProducerIdBlock
from zk_schema.port import DataChanged, Resync
from zk_schema.producer_id_block import claim_producer_id_block, generate_broker_id
from zk_schema.registration import BrokerIdTaken, register_broker

ONE = BrokerId(1)


def at(port: int) -> BrokerRegistration:
    return BrokerRegistration((Endpoint("PLAINTEXT", "h", port, "PLAINTEXT"),), 5)


async def test_a_registration_is_ephemeral_at_version_one_and_its_epoch_is_the_czxid(world: World) -> None:
    zk = (await world.client()).zk
    await create_persistent_paths(zk)
    epoch = await register_broker(zk, ONE, at(9092))
    znode = await zk.get(paths.broker(1))
    assert znode is not None
    assert (znode.data, znode.stat.version, znode.stat.czxid) == (at(9092).encode(), 1, epoch)
    assert znode.stat.ephemeral_owner == zk.session_id
    assert await register_broker(zk, ONE, at(9092)) == epoch


async def test_a_change_of_the_own_registration_makes_it_anew(world: World) -> None:
    zk = (await world.client()).zk
    await create_persistent_paths(zk)
    first = await register_broker(zk, ONE, at(9092))
    second = await register_broker(zk, ONE, at(9093))
    znode = await zk.get(paths.broker(1))
    assert znode is not None
    assert second > first
    assert (znode.data, znode.stat.version, znode.stat.czxid) == (at(9093).encode(), 1, second)


async def test_an_id_that_another_session_holds_is_refused_with_its_address(world: World) -> None:
    first, second = await world.client(), await world.client()
    await create_persistent_paths(first.zk)
    epoch = await register_broker(first.zk, ONE, at(9092))
    with pytest.raises(BrokerIdTaken, match=r"broker id 1 is taken: .* PLAINTEXT://h:9092"):
        await register_broker(second.zk, ONE, at(9093))
    with pytest.raises(BrokerIdTaken):
        await register_broker(second.zk, ONE, at(9093), wait_ms=50)
    stat = await first.zk.exists(paths.broker(1))
    assert stat is not None
    assert stat.czxid == epoch


async def restarted(earlier: Client, later: Client) -> tuple[BrokerEpoch, "asyncio.Task[BrokerEpoch]"]:
    """The epoch of the earlier life, and the later one's registration, which waits for its session."""
    await create_persistent_paths(earlier.zk)
    first = await register_broker(earlier.zk, ONE, at(9092))
    registering = asyncio.create_task(register_broker(later.zk, ONE, at(9092), wait_ms=20_000))
    await asyncio.wait([registering], timeout=0.05)
    return first, registering


async def test_a_restarted_broker_waits_for_the_session_of_its_earlier_life_to_end(world: World) -> None:
    earlier, later = await world.client(), await world.client()
    first, registering = await restarted(earlier, later)
    await world.expire(earlier)
    assert await registering > first
    stat = await later.zk.exists(paths.broker(1))
    assert stat is not None
    assert stat.ephemeral_owner == later.zk.session_id


async def test_a_restarted_broker_waits_on_where_its_connection_is_lost_meanwhile(world: World) -> None:
    earlier, later = await world.client(), await world.client()
    first, registering = await restarted(earlier, later)
    world.cut(later)
    world.restore(later)
    await later.events.first(Resync, after=1)
    await asyncio.wait([registering], timeout=0.05)
    assert not registering.done()
    await world.expire(earlier)
    assert await registering > first


async def test_after_an_expiry_the_broker_registers_with_a_new_epoch(world: World) -> None:
    client = await world.client()
    await create_persistent_paths(client.zk)
    first = await register_broker(client.zk, ONE, at(9092))
    await world.expire(client)
    await client.events.new_session()
    assert await register_broker(client.zk, ONE, at(9092)) > first


async def test_a_registration_whose_answer_was_lost_is_found(world: World) -> None:
    client, other = await world.client(), await world.client()
    await create_persistent_paths(other.zk)
    await client.zk.exists("/brokers")
    await other.zk.exists(paths.broker(1), watch=True)
    await client.zk.get(paths.broker(1))
    world.withhold(client, answers=True)
    # The read before the write is not answered either: it is read again after the cut, and then the write is sent.
    registering = asyncio.create_task(register_broker(client.zk, ONE, at(9092)))
    await asyncio.wait([registering], timeout=0.05)
    world.cut(client)
    world.restore(client)
    epoch = await registering
    await other.events.first(DataChanged)
    stat = await other.zk.exists(paths.broker(1))
    assert stat is not None
    assert (stat.czxid, stat.ephemeral_owner) == (epoch, client.zk.session_id)


async def test_the_first_broker_makes_the_cluster_id_and_all_get_it(world: World, seed: int) -> None:
    chance = random.Random(seed)
    clients = [await world.client() for _ in range(3)]
    assert await read_cluster_id(clients[0].zk) is None
    proposals = [new_cluster_id(chance) for _ in clients]
    assert len(set(proposals)) == 3
    got = await asyncio.gather(*(create_or_get_cluster_id(c.zk, p) for c, p in zip(clients, proposals, strict=True)))
    assert len(set(got)) == 1
    assert got[0] in proposals
    assert await read_cluster_id(clients[0].zk) == got[0]


async def test_the_paths_of_a_start_may_be_there_already(world: World) -> None:
    first, second = await world.client(), await world.client()
    await asyncio.gather(create_persistent_paths(first.zk), create_persistent_paths(second.zk))
    for path in paths.PERSISTENT_PATHS:
        znode = await first.zk.get(path)
        assert znode is not None
        assert (znode.data, znode.stat.version) == (b"", 0)


async def test_no_two_brokers_get_a_producer_id_twice(world: World) -> None:
    clients = [await world.client() for _ in range(3)]
    await create_persistent_paths(clients[0].zk)
    claims = [claim_producer_id_block(client.zk, BrokerId(n)) for n, client in enumerate(clients) for _ in range(4)]
    blocks = sorted(await asyncio.gather(*claims), key=lambda block: block.first)
    assert [(block.first, block.last) for block in blocks] == [(n * 1000, n * 1000 + 999) for n in range(12)]
    znode = await clients[0].zk.get(paths.LATEST_PRODUCER_ID_BLOCK)
    assert znode is not None
    assert ProducerIdBlock.decode(znode.data) == blocks[-1]


async def test_producer_ids_can_be_claimed_where_the_znode_is_missing(world: World) -> None:
    zk = (await world.client()).zk
    assert await claim_producer_id_block(zk, ONE) == ProducerIdBlock(ONE, 0, 999)


async def test_generated_broker_ids_lie_above_the_reserved_ones(world: World) -> None:
    zk = (await world.client()).zk
    assert await generate_broker_id(zk, reserved_max_id=1000) == 1001
    assert await generate_broker_id(zk, reserved_max_id=1000) == 1002


async def test_a_registration_that_no_session_owns_is_not_removed(world: World) -> None:
    zk = (await world.client()).zk
    await create_persistent_paths(zk)
    await zk.write(Create(paths.broker(1), b"by hand"))
    with pytest.raises(BrokerIdTaken, match="cannot be read"):
        await register_broker(zk, ONE, at(9092))
    await zk.write(Delete(paths.broker(1)))
    await register_broker(zk, ONE, at(9092))
