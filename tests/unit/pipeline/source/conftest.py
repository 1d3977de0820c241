from collections.abc import AsyncIterator

import pytest

from tests.unit.client.small_cluster import SmallCluster


@pytest.fixture
async def small() -> AsyncIterator[SmallCluster]:
    async with SmallCluster(brokers=2) as cluster:
        yield cluster
