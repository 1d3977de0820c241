"""Each kind of hostile input alone: what its sender gets, what it costs the broker, and that others do not notice."""

import contextlib
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from barnabas.protocol.batch import Codec
from barnabas.protocol.compiler import decode, encode
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.frames import encode_request_header
from barnabas.protocol.ids import ApiKey, TopicPartition
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.list_offsets import ListOffsetPartition, ListOffsetRequest, ListOffsetTopic
from barnabas.protocol.messages.produce import ProduceResponse
from tests.hostile.conftest import StartBroker
from tests.hostile.frames import FrameMaker, produce_frame
from tests.support.api_client import ApiConnection
from tests.support.bombs import MEBIBYTE, bomb_of_one_record, bombs
from tests.support.broker_process import BrokerProcess
from tests.support.raw_client import ConnectionClosed, RawConnection
from tests.support.topics import create_topic

pytestmark = pytest.mark.processes

FRAMES_OF_A_KIND = 60
BROKER_RESOURCE = 4
ENDS_THE_CONNECTION = ["2 GB announced", "a negative size", "unknown API", "truncated"]
REFUSED_RECORDS = {
    "bad checksum": {ErrorCode.CORRUPT_MESSAGE},
    "wrong magic": {ErrorCode.INVALID_RECORD},
    "wrong record count": {ErrorCode.INVALID_RECORD},
    "wrong batch size": {ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE},
    "random bytes as records": set(ErrorCode) - {ErrorCode.NONE},
}
ANYTHING_GOES = ["random bytes in a frame", "random bytes", "weird values", "bits flipped", "a number overwritten"]


@pytest.fixture(scope="module")
def broker(start_broker: StartBroker) -> BrokerProcess:
    return start_broker({})


@pytest.fixture(scope="module")
def victim(broker: BrokerProcess) -> TopicPartition:
    (partition,) = create_topic(broker.bootstrap, "victim")
    return partition


@pytest.fixture
def make_frame(seed: int, victim: TopicPartition) -> Callable[[str], bytes]:
    maker = FrameMaker(Random(seed), victim.topic)
    return lambda kind: maker.make(kind).data


@pytest.fixture(autouse=True)
def others_do_not_notice(broker: BrokerProcess, victim: TopicPartition) -> Iterator[None]:
    """A connection that stood there before is served afterwards."""
    with ApiConnection(broker.host, broker.port) as other:
        assert other.produce(victim, b"before").error_code == ErrorCode.NONE
        yield
        assert other.produce(victim, b"after").error_code == ErrorCode.NONE


@contextlib.contextmanager
def peak_rise_below(broker: BrokerProcess, mib: int) -> Iterator[None]:
    """The broker's resident memory rises by less than that at any moment."""
    # Writing 5 sets the peak that the kernel keeps back to the present size.
    Path(f"/proc/{broker.pid}/clear_refs").write_text("5")
    before = broker.resident_bytes()
    yield
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{broker.pid}/status").read_text())
    assert found is not None
    rise_mib = (int(found[1]) * 1024 - before) / MEBIBYTE
    assert rise_mib < mib, f"the broker took {rise_mib:.1f} MiB"


def connect(broker: BrokerProcess) -> RawConnection:
    return RawConnection(broker.host, broker.port, timeout_seconds=5)


@pytest.mark.parametrize("kind", ENDS_THE_CONNECTION)
def test_what_cannot_be_a_request_ends_its_connection(
    broker: BrokerProcess, make_frame: Callable[[str], bytes], kind: str
) -> None:
    for _ in range(FRAMES_OF_A_KIND):
        with connect(broker) as connection:
            connection.send_bytes(make_frame(kind))
            with pytest.raises(ConnectionClosed):
                connection.receive_frame()


@pytest.mark.parametrize("kind", REFUSED_RECORDS)
def test_records_that_are_not_in_order_are_refused_and_the_connection_lives(
    broker: BrokerProcess, make_frame: Callable[[str], bytes], kind: str
) -> None:
    with connect(broker) as connection:
        for _ in range(FRAMES_OF_A_KIND):
            connection.send_bytes(make_frame(kind))
            assert produce_error(connection.receive_frame()) in REFUSED_RECORDS[kind]


@pytest.mark.parametrize("kind", ANYTHING_GOES)
def test_what_may_mean_anything_is_answered_or_ends_its_connection(
    broker: BrokerProcess, make_frame: Callable[[str], bytes], kind: str
) -> None:
    for _ in range(FRAMES_OF_A_KIND):
        with connect(broker) as connection:
            connection.send_bytes(make_frame(kind))
            connection.has_input(0.02)
    assert "a request failed in the broker" not in broker.output


def test_an_unsupported_version_ends_the_connection_but_of_api_versions_is_answered(broker: BrokerProcess) -> None:
    with connect(broker) as connection:
        connection.send_frame(encode_request_header(ApiKey.METADATA, 99, 7, "hostile"))
        with pytest.raises(ConnectionClosed):
            connection.receive_frame()
    with connect(broker) as connection:
        connection.send_frame(encode_request_header(ApiKey.API_VERSIONS, 99, 7, "hostile"))
        answer, _ = decode(ApiVersionsResponse, 0, connection.receive_frame(), 4)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert [(key.api_key, key.min_version, key.max_version) for key in answer.api_keys] == [(18, 0, 3)]


def test_what_is_only_announced_takes_no_memory(broker: BrokerProcess, victim: TopicPartition) -> None:
    with peak_rise_below(broker, 8), contextlib.ExitStack() as open_connections:
        for _ in range(100):
            connection = open_connections.enter_context(connect(broker))
            connection.send_bytes((100_000_000).to_bytes(4) + b"some bytes of it")
        assert not connection.has_input(0.1)
        # Nor does it take from what others may use for a great request.
        other = open_connections.enter_context(ApiConnection(broker.host, broker.port, timeout_seconds=2))
        assert other.produce(victim, bytes(500_000)).error_code == ErrorCode.NONE


def test_no_bomb_takes_memory_and_each_is_answered(broker: BrokerProcess, victim: TopicPartition) -> None:
    with connect(broker) as connection, peak_rise_below(broker, 8):
        for bomb in bombs():
            connection.send_bytes(produce_frame(victim.topic, bomb))
            assert produce_error(connection.receive_frame()) in (ErrorCode.NONE, ErrorCode.INVALID_RECORD)


def test_a_lookup_by_time_that_meets_a_bomb_leaves_time_and_memory_to_others(
    broker: BrokerProcess, victim: TopicPartition
) -> None:
    (bombed,) = create_topic(broker.bootstrap, "bombed")
    with (
        ApiConnection(broker.host, broker.port) as connection,
        ApiConnection(broker.host, broker.port) as other,
        peak_rise_below(broker, 16),
    ):
        connection.send_produce(bombed, bomb_of_one_record(Codec.GZIP, 200 * MEBIBYTE, announces_newer=True))
        assert connection.receive_produced().error_code == ErrorCode.NONE
        wanted = ListOffsetPartition(partition_index=0, timestamp=1_600_000_000_005)
        topics = [ListOffsetTopic(name=bombed.topic, partitions=[wanted])]
        connection.send(ApiKey.LIST_OFFSETS, 5, ListOffsetRequest(replica_id=-1, topics=topics))
        answered = 0
        while not connection.has_input(0):
            assert other.produce(victim, b"meanwhile").error_code == ErrorCode.NONE
            answered += 1
        assert answered >= 5, "others were served while the search went on"
        answer = connection.receive().topics[0].partitions[0]
        assert answer.error_code == ErrorCode.CORRUPT_MESSAGE


def test_a_request_that_comes_byte_by_byte_is_answered(broker: BrokerProcess, victim: TopicPartition) -> None:
    payload = encode_request_header(ApiKey.API_VERSIONS, 0, 7, "slow") + encode(ApiVersionsRequest(), 0)
    with connect(broker) as slow, ApiConnection(broker.host, broker.port, timeout_seconds=1) as other:
        for byte in len(payload).to_bytes(4) + payload:
            slow.send_bytes(bytes([byte]))
            assert other.produce(victim, b"meanwhile").error_code == ErrorCode.NONE
        answer, _ = decode(ApiVersionsResponse, 0, slow.receive_frame(), 4)
        assert answer.error_code == ErrorCode.NONE


def test_requests_that_are_never_finished_take_a_bounded_amount(broker: BrokerProcess, victim: TopicPartition) -> None:
    with peak_rise_below(broker, 48), contextlib.ExitStack() as open_connections:
        for _ in range(40):
            connection = open_connections.enter_context(connect(broker))
            connection.send_bytes((50_000_000).to_bytes(4) + bytes(2_000_000))
        other = open_connections.enter_context(ApiConnection(broker.host, broker.port, timeout_seconds=1))
        assert other.produce(victim, b"meanwhile").error_code == ErrorCode.NONE


@pytest.mark.parametrize("what", ["slices of files", "bytes in memory"])
def test_a_peer_that_does_not_read_costs_only_itself(broker: BrokerProcess, start_offset: int, what: str) -> None:
    count, least_bytes, ask = (300, 500_000, fetch) if what == "slices of files" else (1000, 20_000, describe_broker)
    with peak_rise_below(broker, 16), socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect((broker.host, broker.port))
        for correlation_id in range(count):
            payload = ask(correlation_id, start_offset)
            deaf.sendall(len(payload).to_bytes(4) + payload)
        with ApiConnection(broker.host, broker.port, timeout_seconds=1) as other:
            assert len(other.fetch_bytes(TopicPartition("read-me", 0), start_offset)) > 500_000
        # When it reads after all, every answer is there, in order.
        stream = deaf.makefile("rb")
        for correlation_id in range(count):
            size = int.from_bytes(stream.read(4))
            assert size > least_bytes
            assert int.from_bytes(stream.read(size)[:4]) == correlation_id


def fetch(correlation_id: int, offset: int) -> bytes:
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=MEBIBYTE)
    topics = [FetchTopic(topic="read-me", partitions=[wanted])]
    request = FetchRequest(replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=MEBIBYTE, topics=topics)
    return encode_request_header(ApiKey.FETCH, 11, correlation_id, "deaf") + encode(request, 11)


def describe_broker(correlation_id: int, _: int) -> bytes:
    every_key = DescribeConfigsResource(resource_type=BROKER_RESOURCE, resource_name="1", configuration_keys=None)
    request = DescribeConfigsRequest(resources=[every_key], include_documentation=True)
    return encode_request_header(ApiKey.DESCRIBE_CONFIGS, 3, correlation_id, "deaf") + encode(request, 3)


@pytest.fixture(scope="module")
def start_offset(broker: BrokerProcess) -> int:
    """Where the topic `read-me` has some 600 KB."""
    (partition,) = create_topic(broker.bootstrap, "read-me")
    with ApiConnection(broker.host, broker.port) as connection:
        answers = [connection.produce(partition, bytes(60_000)) for _ in range(10)]
    return answers[0].base_offset


def produce_error(frame: bytes) -> int:
    """The error of the one partition in a Produce answer of version 8, behind its correlation id."""
    answer, end = decode(ProduceResponse, 8, frame, 4)
    assert end == len(frame)
    return answer.responses[0].partitions[0].error_code
