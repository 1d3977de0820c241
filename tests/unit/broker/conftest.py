from collections.abc import AsyncIterator

import pytest

from tests.unit.broker.small_broker import SmallBroker


@pytest.fixture
async def broker() -> AsyncIterator[SmallBroker]:
    """A broker with Kafka's defaults."""
    small = await SmallBroker().open()
    yield small
    await small.close()
