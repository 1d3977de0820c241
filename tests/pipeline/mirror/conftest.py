"""Three clusters of one broker each, for all tests; every test has topics and mirrors of its own."""

import itertools
from collections.abc import Iterator

import pytest

from tests.pipeline.mirror.clusters import Clusters
from tests.support.broker_process import BrokerProcess
from tests.support.kafka import ONE_BROKER_SETTINGS
from tests.support.zookeeper import new_zookeeper

_numbers = itertools.count(1)
_SETTINGS = {
    **ONE_BROKER_SETTINGS,
    # Records have timestamps of old; only topics that say so forget them, and soon.
    "log.retention.ms": "-1",
    "log.retention.check.interval.ms": "1000",
}


@pytest.fixture(scope="session")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clusters]:
    directory = tmp_path_factory.mktemp("clusters")
    with new_zookeeper(directory / "zookeeper") as zookeeper:
        brokers = [
            BrokerProcess(directory / name, f"{zookeeper.connect_string}/{name}", _SETTINGS)
            for name in ("paris", "lima", "world")
        ]
        try:
            for broker in brokers:
                broker.start()
            yield Clusters(*brokers)
        finally:
            for broker in brokers:
                broker.stop()


@pytest.fixture
def name() -> str:
    """What the test's topics and mirror are called."""
    return f"m{next(_numbers)}"
