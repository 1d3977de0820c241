"""Fixtures of the tests with real clients.

BARNABAS_TEST_BOOTSTRAP names another broker for them: `host:port`, or `kafka` for an Apache Kafka 2.7.2 that the
tests start themselves, which shows that the tests are right.
"""

import os
from collections.abc import Iterator

import pytest

from tests.compatibility.aiokafka_client import AioKafkaClient
from tests.compatibility.brokers import RunningBroker
from tests.compatibility.confluent_client import ConfluentClient
from tests.compatibility.java_client import JavaClient
from tests.compatibility.kafka_python_client import KafkaPythonClient
from tests.compatibility.kcat_client import KcatConsumer
from tests.compatibility.messages import Client, Consumer
from tests.support.broker_process import BrokerProcess
from tests.support.kafka import ONE_BROKER_SETTINGS, Kafka
from tests.support.kafka_jars import (
    CLIENT_JARS,
    KAFKA_VERSION,
    NEWER_CLIENT_JARS,
    NEWER_CLIENT_VERSION,
    JarsNotAvailable,
    class_path,
)
from tests.support.kcat import is_installed
from tests.support.zookeeper import new_zookeeper

_CLIENTS: dict[str, Client] = {
    "confluent-kafka": ConfluentClient(),
    "kafka-python": KafkaPythonClient(),
    "aiokafka": AioKafkaClient(),
    "java-2.7": JavaClient(KAFKA_VERSION, CLIENT_JARS),
    "java-3.9": JavaClient(NEWER_CLIENT_VERSION, NEWER_CLIENT_JARS),
}
_PARAMETERS = [pytest.param(name, marks=pytest.mark.java if name.startswith("java") else ()) for name in _CLIENTS]


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    where = os.environ.get("BARNABAS_TEST_BOOTSTRAP")
    directory = tmp_path_factory.mktemp("broker")
    if where is None:
        with (
            new_zookeeper(directory / "zookeeper") as zookeeper,
            BrokerProcess(directory, zookeeper.connect_string, ONE_BROKER_SETTINGS) as barnabas,
        ):
            yield RunningBroker(barnabas.bootstrap, barnabas.log_directory)
    elif where == "kafka":
        with Kafka(directory, ONE_BROKER_SETTINGS) as kafka:
            yield RunningBroker(kafka.bootstrap, kafka.log_directory)
    else:
        yield RunningBroker(where, None)


@pytest.fixture(params=_PARAMETERS)
def client(request: pytest.FixtureRequest) -> Client:
    """Each client that can send and read."""
    _skip_without_jars(request.param)
    return _CLIENTS[request.param]


@pytest.fixture(params=["kcat", *_PARAMETERS])
def consumer(request: pytest.FixtureRequest) -> Consumer:
    """Each client that can read."""
    if request.param == "kcat":
        if not is_installed():
            pytest.skip("kcat is not installed")
        return KcatConsumer()
    _skip_without_jars(request.param)
    return _CLIENTS[request.param]


def _skip_without_jars(name: str) -> None:
    if name.startswith("java"):
        try:
            class_path(CLIENT_JARS + NEWER_CLIENT_JARS)
        except JarsNotAvailable as error:
            pytest.skip(str(error))
