"""ZooKeeper goes away, or forgets the broker: what is served goes on, and afterwards the broker is a member again."""

import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.launcher.zookeeper import LocalZooKeeper
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from tests.failover.conftest import MakeBroker
from tests.support.api_client import ApiConnection
from tests.support.broker_process import BrokerProcess
from tests.support.load_client import LoadClient, read_everything
from tests.support.load_history import LoadHistory
from tests.support.topics import create_topic, wait_for_leaders
from tests.support.zookeeper import new_zookeeper
from tests.support.zookeeper_session import end_session

pytestmark = pytest.mark.processes

SESSION = re.compile(r"session (0x[0-9a-f]+): connected \(new\)")
CONNECTED = re.compile(r"session 0x[0-9a-f]+: connected")
REGISTERED = re.compile(r"broker 1: registered at /brokers/ids/1, epoch (\d+)")


@pytest.fixture
def own_zookeeper(tmp_path: Path) -> Iterator[LocalZooKeeper]:
    """One that the test may kill."""
    with new_zookeeper(tmp_path / "own-zookeeper") as zookeeper:
        yield zookeeper


def wait_for_registrations(broker: BrokerProcess, count: int) -> list[int]:
    """The broker epochs of all registrations, once there are so many."""
    deadline = time.monotonic() + 20
    while len(found := REGISTERED.findall(broker.output_of_this_life)) < count:
        assert time.monotonic() < deadline, broker.output_of_this_life[-3000:]
        time.sleep(0.02)
    return [int(epoch) for epoch in found]


def wait_for_connections(broker: BrokerProcess, count: int) -> None:
    """Return when the broker has had so many connections to ZooKeeper, of one session or of several."""
    deadline = time.monotonic() + 20
    while len(CONNECTED.findall(broker.output_of_this_life)) < count:
        assert time.monotonic() < deadline, broker.output_of_this_life[-3000:]
        time.sleep(0.02)


def serves(broker: BrokerProcess, partition: TopicPartition) -> bool:
    with ApiConnection(broker.host, broker.port) as client:
        answer = client.produce(partition, b"value")
        return answer.error_code == ErrorCode.NONE and len(client.fetch_bytes(partition, answer.base_offset)) > 0


def test_a_zookeeper_that_comes_late_is_waited_for(make_broker: MakeBroker, tmp_path: Path) -> None:
    with new_zookeeper(tmp_path / "late-zookeeper") as zookeeper:
        address = zookeeper.connect_string
        zookeeper.kill()
        broker = make_broker({"zookeeper.connection.timeout.ms": "18000"}, zookeeper=address)
        broker.launch()
        broker.wait_for(f"connecting to ZooKeeper at {address}")
        broker.wait_for("no session after 5 s, waiting for 18 s in all")
        zookeeper.start()
        broker.wait_for(broker.started_line)


def test_a_zookeeper_that_does_not_come_ends_the_start(make_broker: MakeBroker) -> None:
    broker = make_broker({"zookeeper.connection.timeout.ms": "700"}, zookeeper="127.0.0.1:1")
    broker.launch()
    assert broker.wait_for_end() == 1
    said = "cannot start: zookeeper.connect=127.0.0.1:1: no session with ZooKeeper at 127.0.0.1:1 within 700 ms"
    assert said in broker.output_of_this_life


def test_a_start_that_waits_for_zookeeper_can_be_ended(make_broker: MakeBroker) -> None:
    broker = make_broker(zookeeper="127.0.0.1:1")
    broker.launch()
    broker.wait_for("connecting to ZooKeeper")
    broker.send_signal(signal.SIGTERM)
    assert broker.wait_for_end(seconds=5) == 0


def test_serving_goes_on_without_zookeeper_and_all_works_after_it(
    make_broker: MakeBroker, own_zookeeper: LocalZooKeeper
) -> None:
    broker = make_broker(zookeeper=own_zookeeper.connect_string)
    broker.start()
    (partition,) = create_topic(broker.bootstrap, "t")
    history = LoadHistory()
    with LoadClient(broker.bootstrap, [partition], history) as load:
        # A producer gets its id out of ZooKeeper, so it needs that once.
        load.wait_for_acknowledgements(1)
        own_zookeeper.kill()
        broker.wait_for("connection lost")
        load.wait_for_acknowledgements(2000)
        assert not own_zookeeper.is_running
        own_zookeeper.start()
        wait_for_connections(broker, 2)
    assert history.anomalies(read_everything(broker.bootstrap, [partition])) == []
    (made_later,) = create_topic(broker.bootstrap, "made-later")
    assert serves(broker, made_later)


def test_a_broker_ends_cleanly_when_zookeeper_is_gone(make_broker: MakeBroker, own_zookeeper: LocalZooKeeper) -> None:
    broker = make_broker(zookeeper=own_zookeeper.connect_string)
    broker.start()
    (partition,) = create_topic(broker.bootstrap, "t")
    assert serves(broker, partition)
    own_zookeeper.kill()
    broker.wait_for("connection lost")
    broker.send_signal(signal.SIGTERM)
    assert broker.wait_for_end(seconds=20) == 0
    assert (broker.log_directory / ".kafka_cleanshutdown").exists()


def test_a_broker_whose_session_expired_leads_again_and_has_lost_nothing(
    make_broker: MakeBroker, own_zookeeper: LocalZooKeeper
) -> None:
    broker = make_broker(zookeeper=own_zookeeper.connect_string)
    broker.start()
    (partition,) = create_topic(broker.bootstrap, "t")
    history = LoadHistory()
    with LoadClient(broker.bootstrap, [partition], history) as load:
        for expiry in range(1, 4):
            load.wait_for_acknowledgements(500)
            end_session(own_zookeeper.connect_string, int(SESSION.findall(broker.output_of_this_life)[-1], 16))
            epochs = wait_for_registrations(broker, 1 + expiry)
            assert epochs == sorted(set(epochs)), "each registration has a greater broker epoch"
            wait_for_leaders(broker.bootstrap, [partition])
        load.wait_for_acknowledgements(500)
    assert history.given_up == []
    assert history.anomalies(read_everything(broker.bootstrap, [partition])) == []
    (made_later,) = create_topic(broker.bootstrap, "made-later")
    assert serves(broker, made_later)


def test_a_broker_that_stood_still_for_longer_than_its_session_is_a_member_again(make_broker: MakeBroker) -> None:
    broker = make_broker()
    broker.start()
    (partition,) = create_topic(broker.bootstrap, "t")
    history = LoadHistory()
    with LoadClient(broker.bootstrap, [partition], history) as load:
        load.wait_for_acknowledgements(500)
        broker.send_signal(signal.SIGSTOP)
        # Twice the session's timeout: ZooKeeper ends the session meanwhile.
        time.sleep(3)
        broker.send_signal(signal.SIGCONT)
        assert len(set(wait_for_registrations(broker, 2))) == 2
        wait_for_leaders(broker.bootstrap, [partition])
        load.wait_for_acknowledgements(500)
    assert broker.exit_status is None
    assert history.given_up == []
    assert history.anomalies(read_everything(broker.bootstrap, [partition])) == []
