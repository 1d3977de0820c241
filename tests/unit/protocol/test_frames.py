"""Headers and frames."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.compiler import decode_whole, encode
from barnabas.protocol.frames import (
    decode_request_header,
    decode_response_header,
    encode_request_header,
    frame_request,
    frame_response,
    request_header_version,
    response_header_version,
)
from barnabas.protocol.headers import RequestHeader, ResponseHeader
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages import APIS
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.fetch import (
    FetchablePartitionResponse,
    FetchableTopicResponse,
    FetchResponse,
)
from barnabas.protocol.primitives import InvalidLength, InvalidText, TruncatedMessage, UnknownApiKey, WireError

CLIENT_IDS = st.none() | st.text(max_size=20)


def test_a_classic_request_header_has_a_client_id() -> None:
    encoded = encode_request_header(ApiKey.METADATA, 8, 5, "rdkafka")
    assert encoded.hex(" ") == "00 03 00 08 00 00 00 05 00 07 72 64 6b 61 66 6b 61"
    assert decode_request_header(encoded) == (RequestHeader(3, 8, 5, "rdkafka"), len(encoded))


def test_a_flexible_request_header_keeps_the_classic_client_id() -> None:
    encoded = encode_request_header(ApiKey.METADATA, 9, 5, "rdkafka")
    assert encoded.hex(" ") == "00 03 00 09 00 00 00 05 00 07 72 64 6b 61 66 6b 61 00"
    tagged = encoded[:-1] + bytes.fromhex("02 00 01 78 09 02 79 7a")
    assert decode_request_header(tagged) == (RequestHeader(3, 9, 5, "rdkafka"), len(tagged))


def test_a_client_id_may_be_null() -> None:
    for version in (8, 9):
        encoded = encode_request_header(ApiKey.METADATA, version, 5, None)
        assert decode_request_header(encoded) == (RequestHeader(3, version, 5, None), len(encoded))


def test_controlled_shutdown_0_has_no_client_id() -> None:
    encoded = encode_request_header(ApiKey.CONTROLLED_SHUTDOWN, 0, 5, "dropped")
    assert encoded.hex(" ") == "00 07 00 00 00 00 00 05"
    assert decode_request_header(encoded + b"body") == (RequestHeader(7, 0, 5, ""), 8)


@pytest.mark.parametrize(
    ("api_key", "version", "request_version", "response_version"),
    [
        (ApiKey.PRODUCE, 8, 1, 0),
        (ApiKey.FETCH, 11, 1, 0),
        (ApiKey.FETCH, 12, 2, 1),
        (ApiKey.API_VERSIONS, 2, 1, 0),
        (ApiKey.API_VERSIONS, 3, 2, 0),
        (ApiKey.CONTROLLED_SHUTDOWN, 0, 0, 0),
        (ApiKey.CONTROLLED_SHUTDOWN, 1, 1, 0),
        (ApiKey.CONTROLLED_SHUTDOWN, 3, 2, 1),
        (ApiKey.SASL_HANDSHAKE, 1, 1, 0),
        (ApiKey.WRITE_TXN_MARKERS, 0, 1, 0),
        (ApiKey.WRITE_TXN_MARKERS, 1, 2, 1),
        (ApiKey.ALTER_PARTITION, 0, 2, 1),
    ],
)
def test_the_header_follows_from_key_and_version(
    api_key: ApiKey, version: int, request_version: int, response_version: int
) -> None:
    assert request_header_version(api_key, version) == request_version
    assert response_header_version(api_key, version) == response_version


def test_every_flexible_version_has_flexible_headers() -> None:
    for key, api in APIS.items():
        for version in api.versions:
            assert (request_header_version(key, version) == 2) == api.is_flexible(version)
            if key != ApiKey.API_VERSIONS:
                assert (response_header_version(key, version) == 1) == api.is_flexible(version)


def test_a_version_to_come_is_read_far_enough_to_be_refused() -> None:
    encoded = encode_request_header(ApiKey.API_VERSIONS, 99, 7, "future")
    assert decode_request_header(encoded + b"unknown body") == (RequestHeader(18, 99, 7, "future"), len(encoded))


@pytest.mark.parametrize("api_key", [-1, 52, 55, 58, 1000])
def test_an_unknown_api_is_refused(api_key: int) -> None:
    header = api_key.to_bytes(2, "big", signed=True) + bytes(20)
    with pytest.raises(UnknownApiKey):
        decode_request_header(header)
    with pytest.raises(UnknownApiKey):
        response_header_version(api_key, 0)


@given(st.data())
def test_headers_survive_the_round_trip_and_no_prefix_passes(data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(list(APIS)))
    version = data.draw(st.sampled_from(APIS[key].versions))
    correlation_id, client_id = data.draw(st.integers(-(2**31), 2**31 - 1)), data.draw(CLIENT_IDS)
    encoded = encode_request_header(key, version, correlation_id, client_id)
    kept = "" if request_header_version(key, version) == 0 else client_id
    assert decode_request_header(b"#" + encoded + b"body", 1) == (
        RequestHeader(int(key), version, correlation_id, kept),
        1 + len(encoded),
    )
    with pytest.raises(WireError):
        decode_request_header(encoded[: data.draw(st.integers(0, len(encoded) - 1))])
    answer = encode(ResponseHeader(correlation_id), response_header_version(key, version))
    assert decode_response_header(key, version, answer + b"body") == (correlation_id, len(answer))
    with pytest.raises(TruncatedMessage):
        decode_response_header(key, version, answer[:-1])


def test_a_bad_client_id_is_refused() -> None:
    start = bytes.fromhex("0003 0008 00000005")
    for client_id, error in (("fffe", InvalidLength), ("0009 61", TruncatedMessage), ("0001 ff", InvalidText)):
        with pytest.raises(error):
            decode_request_header(start + bytes.fromhex(client_id))


def test_a_response_frame_announces_all_of_its_pieces() -> None:
    stretch = memoryview(bytes(5000))
    body = FetchResponse(
        responses=[
            FetchableTopicResponse("t", [FetchablePartitionResponse(record_set=stretch, aborted_transactions=None)])
        ]
    )
    for version in (0, 11, 12):
        pieces = frame_response(ApiKey.FETCH, version, correlation_id=77, response=body)
        assert pieces[1] is stretch
        frame = b"".join(map(bytes, pieces))  # type: ignore[arg-type]
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        correlation_id, pos = decode_response_header(ApiKey.FETCH, version, frame, 4)
        assert (correlation_id, frame[pos:]) == (77, encode(body, version))


def test_a_request_frame_announces_header_and_body() -> None:
    body = ApiVersionsRequest("barnabas", "1.0")
    (frame,) = frame_request(ApiKey.API_VERSIONS, 3, correlation_id=1, client_id="me", request=body)
    assert isinstance(frame, bytes)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header, pos = decode_request_header(frame, 4)
    assert header == RequestHeader(18, 3, 1, "me")
    assert decode_whole(ApiVersionsRequest, 3, frame, pos) == body
