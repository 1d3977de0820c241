"""The servers and clusters that the corpus is asked of: each started once per test session, with the same settings.

BARNABAS_TEST_BOOTSTRAP names a broker, as `host:port`, to ask in place of one that is started here; it must be
configured with the catalogue's settings and be empty. A cluster of three is always started here.
"""

import os
from collections.abc import Callable, Iterator

import pytest

from tests.differential.catalogue import SERVER_SETTINGS, THREE_BROKER_GROUPS, Played, play
from tests.differential.cluster_conversation import Cluster
from tests.differential.clusters import three_of_barnabas, three_of_kafka
from tests.differential.conversation import Server
from tests.support.broker_process import BrokerProcess
from tests.support.kafka import Kafka
from tests.support.kafka_jars import JarsNotAvailable
from tests.support.zookeeper import new_zookeeper


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Apache Kafka 2.7.2."""
    try:
        with Kafka(tmp_path_factory.mktemp("kafka"), SERVER_SETTINGS) as broker:
            yield Server(broker.host, broker.port)
    except JarsNotAvailable as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def kafka_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers of Apache Kafka 2.7.2. Another one than the captured answers' leads them."""
    try:
        with three_of_kafka(tmp_path_factory.mktemp("kafkas"), order=(3, 1, 2)) as cluster:
            yield cluster
    except JarsNotAvailable as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def barnabas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A Barnabas broker."""
    where = os.environ.get("BARNABAS_TEST_BOOTSTRAP")
    if where is not None:
        host, _, port = where.rpartition(":")
        yield Server(host, int(port))
        return
    directory = tmp_path_factory.mktemp("barnabas")
    with (
        new_zookeeper(directory / "zookeeper") as zookeeper,
        BrokerProcess(directory / "broker", zookeeper.connect_string, SERVER_SETTINGS) as broker,
    ):
        yield Server(broker.host, broker.port)


@pytest.fixture(scope="session")
def barnabas_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three Barnabas brokers."""
    with three_of_barnabas(tmp_path_factory.mktemp("barnabases")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def barnabas_answers(request: pytest.FixtureRequest) -> Callable[[str], Played]:
    """Barnabas's answers to a group; each group is asked once per session."""
    played: dict[str, Played] = {}

    def answers(group: str) -> Played:
        if group not in played:
            asked = "barnabas_cluster" if group in THREE_BROKER_GROUPS else "barnabas"
            played[group] = play(group, request.getfixturevalue(asked))
        return played[group]

    return answers
