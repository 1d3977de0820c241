"""A broker that shows its metrics, and runs of the agent as processes."""

from collections.abc import Iterator

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.kafka import ONE_BROKER_SETTINGS
from tests.support.zookeeper import new_zookeeper


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("measured")
    with (
        new_zookeeper(directory / "zookeeper") as zookeeper,
        BrokerProcess(
            directory, zookeeper.connect_string, {**ONE_BROKER_SETTINGS, "barnabas.metrics.port": "0"}
        ) as broker,
    ):
        yield broker
