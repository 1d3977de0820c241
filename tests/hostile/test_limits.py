"""The limits of a broker's configuration, each seen to act on a real one."""

import contextlib
import socket
import time
from collections.abc import Iterator

import pytest

from barnabas.protocol.compiler import encode
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.frames import encode_request_header
from barnabas.protocol.ids import ApiKey, TopicPartition
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.hostile.conftest import StartBroker
from tests.support.api_client import ApiConnection
from tests.support.broker_process import BrokerProcess
from tests.support.topics import create_topic

pytestmark = pytest.mark.processes

MAX_CONNECTIONS = 12
MAX_PER_ADDRESS = 5
MAX_OF_ONE_ADDRESS = 2
IDLE_MS = 1500
MAX_REQUEST_BYTES = 100_000
MAX_MESSAGE_BYTES = 5_000

API_VERSIONS = encode_request_header(ApiKey.API_VERSIONS, 0, 7, "limits") + encode(ApiVersionsRequest(), 0)


@pytest.fixture(scope="module")
def broker(start_broker: StartBroker) -> BrokerProcess:
    return start_broker(
        {
            "max.connections": str(MAX_CONNECTIONS),
            "max.connections.per.ip": str(MAX_PER_ADDRESS),
            "max.connections.per.ip.overrides": f"127.0.0.9:{MAX_OF_ONE_ADDRESS}",
            "connections.max.idle.ms": str(IDLE_MS),
            "socket.request.max.bytes": str(MAX_REQUEST_BYTES),
            "message.max.bytes": str(MAX_MESSAGE_BYTES),
        }
    )


@pytest.fixture(scope="module")
def partition(broker: BrokerProcess) -> TopicPartition:
    (made,) = create_topic(broker.bootstrap, "limited")
    return made


@pytest.fixture
def crowd(broker: BrokerProcess) -> Iterator["Crowd"]:
    with Crowd(broker) as connections:
        yield connections


class Crowd(contextlib.ExitStack):
    """Connections from addresses of one's choice; all of 127.0.0.0/8 is this machine."""

    def __init__(self, broker: BrokerProcess) -> None:
        super().__init__()
        self._address = (broker.host, broker.port)

    def connect(self, source: str) -> socket.socket:
        return self.enter_context(socket.create_connection(self._address, timeout=5, source_address=(source, 0)))


def is_served(connection: socket.socket, *, seconds: float = 5) -> bool | None:
    """Whether a request is answered; False when the connection is closed instead, None when nothing happens."""
    connection.settimeout(seconds)
    try:
        connection.sendall(len(API_VERSIONS).to_bytes(4) + API_VERSIONS)
        return bool(connection.recv(1 << 16))
    except TimeoutError:
        return None
    except OSError:
        return False


@pytest.mark.parametrize(("source", "limit"), [("127.0.0.2", MAX_PER_ADDRESS), ("127.0.0.9", MAX_OF_ONE_ADDRESS)])
def test_one_address_gets_so_many_connections(crowd: Crowd, source: str, limit: int) -> None:
    admitted = [crowd.connect(source) for _ in range(limit)]
    assert [is_served(connection) for connection in admitted] == [True] * limit
    assert is_served(crowd.connect(source)) is False
    assert is_served(crowd.connect("127.0.0.3")) is True
    admitted[0].close()
    deadline = time.monotonic() + 5
    while not is_served(crowd.connect(source)):
        assert time.monotonic() < deadline, "a connection that ended makes room for another"


def test_above_the_greatest_number_of_connections_peers_wait(crowd: Crowd) -> None:
    admitted = [crowd.connect(f"127.0.0.{20 + number // MAX_PER_ADDRESS}") for number in range(MAX_CONNECTIONS)]
    assert all(is_served(connection) for connection in admitted)
    waiting = crowd.connect("127.0.0.40")
    assert is_served(waiting, seconds=0.3) is None
    admitted[0].close()
    waiting.settimeout(5)
    assert waiting.recv(1 << 16)


def test_a_connection_without_traffic_is_closed(crowd: Crowd) -> None:
    idle, busy = crowd.connect("127.0.0.50"), crowd.connect("127.0.0.50")
    assert is_served(idle)
    began = time.monotonic()
    ended = None
    while ended is None:
        assert is_served(busy)
        idle.settimeout(0.1)
        with contextlib.suppress(TimeoutError):
            assert idle.recv(1) == b""
            ended = time.monotonic() - began
        assert time.monotonic() - began < 4 * IDLE_MS / 1000, "the idle connection is still there"
    assert ended >= IDLE_MS / 1000
    assert is_served(busy)


@pytest.mark.parametrize(("size", "taken"), [(MAX_REQUEST_BYTES, True), (MAX_REQUEST_BYTES + 1, False)])
def test_a_request_may_be_so_great(crowd: Crowd, size: int, taken: bool) -> None:
    connection = crowd.connect("127.0.0.60")
    # What follows a request in its frame is not looked at, as by Kafka.
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        connection.sendall(size.to_bytes(4) + API_VERSIONS.ljust(size, b"\0"))
    try:
        answered = bool(connection.recv(1 << 16))
    except ConnectionResetError:
        answered = False
    assert answered is taken


def test_a_topic_that_is_not_there_is_not_made(broker: BrokerProcess) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="not-there")], allow_auto_topic_creation=True)
    with ApiConnection(broker.host, broker.port) as connection:
        for _ in range(3):
            answer = connection.call(ApiKey.METADATA, 9, request)
            assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        everything = connection.call(ApiKey.METADATA, 9, MetadataRequest(topics=None))
        assert "not-there" not in {topic.name for topic in everything.topics}


def test_a_message_may_be_so_great_and_the_connection_lives_on(
    broker: BrokerProcess, partition: TopicPartition
) -> None:
    with ApiConnection(broker.host, broker.port) as connection:
        overhead = 61 + 20
        assert connection.produce(partition, bytes(MAX_MESSAGE_BYTES)).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert connection.produce(partition, bytes(MAX_MESSAGE_BYTES - overhead)).error_code == ErrorCode.NONE
