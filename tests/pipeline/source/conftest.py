"""A broker of our own for queries."""

from collections.abc import Iterator

import pytest

from tests.compatibility.brokers import RunningBroker
from tests.support.broker_process import BrokerProcess
from tests.support.kafka import ONE_BROKER_SETTINGS
from tests.support.zookeeper import new_zookeeper


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    directory = tmp_path_factory.mktemp("broker")
    with (
        new_zookeeper(directory / "zookeeper") as zookeeper,
        BrokerProcess(directory, zookeeper.connect_string, ONE_BROKER_SETTINGS) as barnabas,
    ):
        yield RunningBroker(barnabas.bootstrap, barnabas.log_directory)
