import random
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest

from barnabas.client.cluster import Cluster, ClusterOptions
from barnabas.client.connection import Address
from tests.unit.client.small_cluster import SmallCluster

OpenCluster = Callable[[SmallCluster], Cluster]


@pytest.fixture
async def small() -> AsyncIterator[SmallCluster]:
    async with SmallCluster(brokers=2) as cluster:
        yield cluster


@pytest.fixture
async def open_cluster(seed: int) -> AsyncIterator[OpenCluster]:
    async with AsyncExitStack() as stack:

        def make(small: SmallCluster) -> Cluster:
            options = ClusterOptions(request_timeout_ms=3000, timeout_ms=3000)
            cluster = Cluster([Address("127.0.0.1", small.ports[1])], random=random.Random(seed), options=options)
            stack.push_async_callback(cluster.close)
            return cluster

        yield make


@pytest.fixture
def cluster(small: SmallCluster, open_cluster: OpenCluster) -> Cluster:
    return open_cluster(small)
