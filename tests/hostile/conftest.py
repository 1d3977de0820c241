"""Fixtures of the tests with hostile input."""

from collections.abc import Callable, Iterator, Mapping

import pytest

from barnabas.launcher.zookeeper import LocalZooKeeper
from tests.support.broker_process import BrokerProcess
from tests.support.zookeeper import zookeeper_process

__all__ = ["zookeeper_process"]

StartBroker = Callable[[Mapping[str, str]], BrokerProcess]


@pytest.fixture(scope="module")
def start_broker(tmp_path_factory: pytest.TempPathFactory, zookeeper_process: LocalZooKeeper) -> Iterator[StartBroker]:
    """Starts a broker that makes no topics by itself, for the tests of one module; it ends with them."""
    started: list[BrokerProcess] = []

    def start(settings: Mapping[str, str]) -> BrokerProcess:
        directory = tmp_path_factory.mktemp("hostile")
        defaults = {"auto.create.topics.enable": "false", "barnabas.metrics.port": "0"}
        connect = f"{zookeeper_process.connect_string}/{directory.name}"
        broker = BrokerProcess(directory, connect, {**defaults, **settings})
        started.append(broker)
        broker.start()
        return broker

    try:
        yield start
    finally:
        for broker in started:
            broker.kill()
