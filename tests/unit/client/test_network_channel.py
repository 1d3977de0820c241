"""Connections of the client over a broker's network: requests leave, answers come, and an end is told."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from barnabas.client.connection import Address, open_connection
from barnabas.client.errors import ConnectionFailed, RequestTimedOut
from barnabas.client.network_channel import connector_over
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages import metadata
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.runtime.network import ConnectionGate, ConnectionLimits, ConnectionOptions, PeerOptions
from barnabas.runtime.offload import SystemOffload
from barnabas.runtime.socket_network import SocketNetwork
from barnabas.runtime.tasks import Supervisor
from tests.unit.client.small_cluster import SmallCluster

OPTIONS = PeerOptions(max_frame_bytes=1 << 20, user_timeout_ms=5_000, receive_buffer_bytes=65_536)


def address_of(cluster: SmallCluster) -> Address:
    return Address("127.0.0.1", cluster.ports[1])


@pytest.fixture
async def network() -> AsyncIterator[SocketNetwork]:
    offload = SystemOffload()
    supervisor = Supervisor(lambda what, error: pytest.fail(f"{what}: {error!r}"))
    network = SocketNetwork(
        options=ConnectionOptions(max_frame_bytes=1024, idle_ms=60_000),
        gate=ConnectionGate(ConnectionLimits(10, 10, {})),
        offload=offload,
        supervisor=supervisor,
        receive_budget_bytes=1,
    )
    yield network
    network.close()
    await supervisor.stop()
    offload.close()


async def test_requests_are_answered(network: SocketNetwork) -> None:
    async with SmallCluster() as cluster:
        cluster.add_topic("t", 3)
        connection = await open_connection(address_of(cluster), connector=connector_over(network, OPTIONS))
        answers = await asyncio.gather(
            *(connection.request(metadata.API, MetadataRequest(topics=None)) for _ in range(3))
        )
        assert [len(answer.topics[0].partitions) for answer in answers] == [3, 3, 3]
        connection.close()
        await connection.ended()


async def test_nobody_there_is_told(network: SocketNetwork) -> None:
    async with SmallCluster() as cluster:
        address = address_of(cluster)
    with pytest.raises(ConnectionFailed):
        await open_connection(address, connector=connector_over(network, OPTIONS))
    with pytest.raises(ConnectionFailed):
        await open_connection(Address("no..host", 1), connector=connector_over(network, OPTIONS))


async def test_an_answer_larger_than_allowed_ends_the_connection(network: SocketNetwork) -> None:
    small = PeerOptions(max_frame_bytes=2_000, user_timeout_ms=5_000)
    async with SmallCluster() as cluster:
        cluster.add_topic("t", 500)
        connection = await open_connection(address_of(cluster), connector=connector_over(network, small))
        with pytest.raises(ConnectionFailed):
            await connection.request(metadata.API, MetadataRequest(topics=None))


async def test_a_broker_that_does_not_answer_costs_the_connection(network: SocketNetwork) -> None:
    async with SmallCluster() as cluster:
        cluster.on_request = lambda asked: asyncio.sleep(60) if asked.key is ApiKey.METADATA else None
        connection = await open_connection(address_of(cluster), connector=connector_over(network, OPTIONS))
        with pytest.raises((RequestTimedOut, ConnectionFailed)):
            await connection.request(metadata.API, MetadataRequest(topics=None), timeout_ms=50)
        assert not connection.is_open


async def test_the_end_of_the_network_ends_the_connection(network: SocketNetwork) -> None:
    async with SmallCluster() as cluster:
        connection = await open_connection(address_of(cluster), connector=connector_over(network, OPTIONS))
        network.close()
        await connection.ended()
        assert not connection.is_open
