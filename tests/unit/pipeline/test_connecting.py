"""A query waits for brokers that are being started again."""

import asyncio

import pytest

from barnabas.client.cluster import ClusterOptions
from barnabas.client.errors import ClusterUnreachable
from barnabas.launcher.sockets import free_port
from barnabas.pipeline.connecting import connect, reach
from barnabas.pipeline.given_options import OptionError
from tests.unit.client.small_cluster import SmallCluster


async def test_a_cluster_that_comes_up_is_waited_for() -> None:
    port = free_port()
    async with connect(f"127.0.0.1:{port}", ClusterOptions(timeout_ms=60_000)) as cluster:
        waiting = asyncio.create_task(reach(cluster))
        async with SmallCluster() as small:
            door = await asyncio.start_server(lambda *streams: small._serve(1, *streams), "127.0.0.1", port)
            async with door:
                await waiting
                assert cluster.knows(1)


async def test_one_that_does_not_is_given_up() -> None:
    async with connect(f"127.0.0.1:{free_port()}", ClusterOptions(timeout_ms=300)) as cluster:
        with pytest.raises(ClusterUnreachable):
            await reach(cluster)


def test_what_is_no_address_is_an_option_that_is_wrong() -> None:
    with pytest.raises(OptionError, match=r"option kafka.bootstrap.servers='nowhere': .* is not host:port"):
        connect("nowhere", ClusterOptions())
