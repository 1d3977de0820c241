"""From a frame to a request: what is taken, and that whatever else arrives ends the connection and nothing more."""

import struct
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.frames import frame_request
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages import APIS
from barnabas.protocol.messages.fetch import FetchablePartitionResponse, FetchableTopicResponse, FetchResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.runtime.disk import SystemDisk
from barnabas.runtime.files import FileSlice
from broker.dispatch import UnsupportedApiVersions, decode_request, release_records
from broker.handlers import ALL
from broker.registry import CloseConnection, Handler, Registry
from tests.unit.broker.data_broker import fetch_request

REGISTRY = Registry(ALL)
SERVED = [(handler, version) for handler in ALL for version in range(handler.oldest, handler.newest + 1)]
NOT_SERVED = sorted(set(APIS) - {handler.key for handler in ALL})
LIMIT = 4 * 1024 * 1024


def framed(api_key: int, version: int, request: object, *, client_id: str | None = "client") -> bytearray:
    """The frame as the network hands it over, without its size."""
    parts = frame_request(api_key, version, correlation_id=77, client_id=client_id, request=request)
    return bytearray(b"".join(cast("list[bytes]", parts))[4:])


def plain(handler: Handler, version: int) -> bytearray:
    return framed(handler.key, version, handler.api.request())


def header(api_key: int, version: int, rest: bytes = b"\0\0\0\7\0\1c") -> bytearray:
    return bytearray(struct.pack(">hh", api_key, version) + rest)


@pytest.mark.parametrize(("handler", "version"), SERVED, ids=lambda value: str(getattr(value, "key", value)))
def test_every_version_that_is_served_is_decoded(handler: Handler, version: int) -> None:
    route, head, request = decode_request(REGISTRY, plain(handler, version))
    assert (route.handler, route.version) == (handler, version)
    assert (head.api_version, head.correlation_id, head.client_id) == (version, 77, "client")
    assert type(request) is handler.api.request


def test_a_client_need_not_tell_its_name() -> None:
    _, head, _ = decode_request(REGISTRY, framed(ApiKey.METADATA, 5, MetadataRequest(None), client_id=None))
    assert head.client_id is None


def test_records_are_a_view_of_the_frame_and_can_be_written_to() -> None:
    data = PartitionProduceData(partition_index=0, records=b"records")
    request = ProduceRequest(acks=1, timeout_ms=1, topics=[TopicProduceData(name="t", partitions=[data])])
    frame = framed(ApiKey.PRODUCE, 8, request)
    _, _, decoded = decode_request(REGISTRY, frame)
    records = decoded.topics[0].partitions[0].records
    records[:3] = b"REC"
    assert b"RECords" in frame


# What ends a connection.


@pytest.mark.parametrize("size", range(8))
def test_a_frame_without_room_for_a_header_ends_the_connection(size: int) -> None:
    with pytest.raises(CloseConnection, match=f"{size} bytes"):
        decode_request(REGISTRY, bytearray(size))


@pytest.mark.parametrize("api_key", [-1, 52, 58, 999, 32767, -32768])
def test_an_unknown_api_ends_the_connection(api_key: int) -> None:
    with pytest.raises(CloseConnection):
        decode_request(REGISTRY, header(api_key, 0))


@pytest.mark.parametrize("api_key", NOT_SERVED)
def test_an_api_that_is_not_served_ends_the_connection(api_key: int) -> None:
    with pytest.raises(CloseConnection, match=r"not served|broken"):
        decode_request(REGISTRY, framed(api_key, 0, APIS[ApiKey(api_key)].request()))


@pytest.mark.parametrize(
    "handler", [each for each in ALL if each.key is not ApiKey.API_VERSIONS], ids=lambda each: each.key.name
)
def test_a_version_that_is_not_served_ends_the_connection(handler: Handler) -> None:
    for version in (handler.oldest - 1, handler.newest + 1, 32767, -32768):
        # A flexible header has tags behind the client's name.
        with pytest.raises(CloseConnection, match="not served"):
            decode_request(REGISTRY, header(handler.key, version, b"\0\0\0\7\0\1c\0"))


@pytest.mark.parametrize("version", [4, 99, 32767, -1])
def test_a_version_of_api_versions_that_is_not_served_is_answered(version: int) -> None:
    with pytest.raises(UnsupportedApiVersions) as raised:
        decode_request(REGISTRY, header(ApiKey.API_VERSIONS, version, b"\0\0\0\7\0\1c\0"))
    assert raised.value.header.correlation_id == 7
    response = raised.value.response
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(key.api_key, key.min_version, key.max_version) for key in response.api_keys] == [(18, 0, 3)]


@pytest.mark.parametrize(("handler", "version"), SERVED, ids=lambda value: str(getattr(value, "key", value)))
def test_a_request_that_ends_early_ends_the_connection(handler: Handler, version: int) -> None:
    frame = plain(handler, version)
    for size in range(len(frame)):
        try:
            decode_request(REGISTRY, frame[:size])
        except CloseConnection:
            continue
        # Only what may be left out at the end: nothing is, in any version.
        raise AssertionError(f"{handler.key.name} v{version}: {size} of {len(frame)} bytes are taken")


def test_only_records_may_be_large() -> None:
    topics = [MetadataRequestTopic("x" * 30_000) for _ in range(LIMIT // 30_000 + 1)]
    with pytest.raises(CloseConnection, match="are taken"):
        decode_request(REGISTRY, framed(ApiKey.METADATA, 1, MetadataRequest(topics)))
    data = PartitionProduceData(partition_index=0, records=bytes(LIMIT))
    request = ProduceRequest(acks=1, timeout_ms=1, topics=[TopicProduceData(name="t", partitions=[data])])
    assert decode_request(REGISTRY, framed(ApiKey.PRODUCE, 8, request))[0].api_key == ApiKey.PRODUCE


def test_a_count_beyond_what_the_frame_holds_is_refused_before_anything_is_made() -> None:
    with pytest.raises(CloseConnection, match="cannot be decoded"):
        decode_request(REGISTRY, header(ApiKey.METADATA, 0, b"\0\0\0\7\0\1c" + struct.pack(">i", 2**31 - 1)))


def outcome(frame: bytes) -> None:
    """A frame is a request, or it ends its connection; nothing else may come of it."""
    try:
        decode_request(REGISTRY, bytearray(frame))
    except (CloseConnection, UnsupportedApiVersions):
        return


@given(st.binary(max_size=200))
def test_random_bytes_end_the_connection_and_nothing_else(frame: bytes) -> None:
    outcome(frame)


@given(st.sampled_from(SERVED), st.binary(max_size=200))
def test_a_header_with_random_bytes_behind_it_ends_the_connection_and_nothing_else(
    served: tuple[Handler, int], body: bytes
) -> None:
    handler, version = served
    outcome(bytes(header(handler.key, version)) + body)


@given(st.sampled_from(SERVED), st.data())
def test_a_request_with_a_few_bytes_changed_is_a_request_or_ends_the_connection(
    served: tuple[Handler, int], data: st.DataObject
) -> None:
    handler, version = served
    frame = plain(handler, version)
    for _ in range(data.draw(st.integers(1, 4))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    outcome(bytes(frame))


class Pin:
    def __init__(self) -> None:
        self.count = 0

    def pin(self) -> None:
        self.count += 1

    def unpin(self) -> None:
        self.count -= 1


def test_the_slices_of_an_answer_are_let_go_once(tmp_path: Path) -> None:
    file, pin = SystemDisk().open(str(tmp_path / "f"), create=True), Pin()
    entries = [
        FetchablePartitionResponse(partition=0, record_set=FileSlice(file, 0, 1, pin)),
        FetchablePartitionResponse(partition=1, record_set=b""),
        FetchablePartitionResponse(partition=2, record_set=None),
    ]
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partition_responses=entries)])
    assert pin.count == 1
    for _ in range(2):
        release_records(response)
        assert pin.count == 0
    release_records(fetch_request({}))
