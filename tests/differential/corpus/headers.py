"""Frames and headers: what is around a request, and what is not a request at all."""

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from tests.differential.conversation import Conversation
from tests.differential.requests import metadata_of

API_VERSIONS_V0 = b"\x00\x12\x00\x00"
CORRELATION_7 = b"\x00\x00\x00\x07"
METADATA_V9_HEADER = b"\x00\x03\x00\x09" + CORRELATION_7 + b"\x00\x01x"
NO_TOPICS_V9 = b"\x01\x00\x00\x00\x00"
"""An empty array of topics, no auto-creation, no authorized operations, no tags."""


def _versions(talk: Conversation, name: str, payload: bytes, **options: int) -> None:
    talk.ask_bytes(name, payload, api_key=ApiKey.API_VERSIONS, version=0, **{"correlation_id": 7, **options})


def _metadata_v9(talk: Conversation, name: str, payload: bytes) -> None:
    talk.ask_bytes(name, payload, api_key=ApiKey.METADATA, version=9, correlation_id=7)


def client_ids(talk: Conversation) -> None:
    _versions(talk, "null", API_VERSIONS_V0 + CORRELATION_7 + b"\xff\xff")
    _versions(talk, "empty", API_VERSIONS_V0 + CORRELATION_7 + b"\x00\x00")
    _versions(talk, "text", API_VERSIONS_V0 + CORRELATION_7 + b"\x00\x02ab")
    _versions(talk, "of 1000 characters", API_VERSIONS_V0 + CORRELATION_7 + b"\x03\xe8" + b"c" * 1000)
    _versions(talk, "of two-byte characters", API_VERSIONS_V0 + CORRELATION_7 + b"\x00\x04" + "äö".encode())
    _versions(talk, "of spaces and signs", API_VERSIONS_V0 + CORRELATION_7 + b"\x00\x05a b=*")


def a_client_id_of_impossible_length(talk: Conversation) -> None:
    _versions(talk, "length -2", API_VERSIONS_V0 + CORRELATION_7 + b"\xff\xfe")
    _versions(talk, "length past the end", API_VERSIONS_V0 + CORRELATION_7 + b"\x00\x05ab")


def a_client_id_that_is_no_text(talk: Conversation) -> None:
    _versions(talk, "invalid UTF-8", API_VERSIONS_V0 + CORRELATION_7 + b"\x00\x02\xff\xfe")


def correlation_ids(talk: Conversation) -> None:
    for name, raw, number in (
        ("zero", b"\x00\x00\x00\x00", 0),
        ("minus one", b"\xff\xff\xff\xff", -1),
        ("the greatest", b"\x7f\xff\xff\xff", 0x7FFFFFFF),
        ("the least", b"\x80\x00\x00\x00", -0x80000000),
    ):
        _versions(talk, name, API_VERSIONS_V0 + raw + b"\xff\xff", correlation_id=number)


def headers_that_end_early(talk: Conversation) -> None:
    whole = API_VERSIONS_V0 + CORRELATION_7 + b"\x00\x02ab"
    for length in (1, 2, 3, 4, 6, 8, 9, 11):
        _versions(talk, f"{length} bytes of a header", whole[:length])


def sizes_that_are_none(talk: Conversation) -> None:
    whole = API_VERSIONS_V0 + CORRELATION_7 + b"\x00\x02ab"
    _versions(talk, "a negative size", whole, size=-1)
    _versions(talk, "the least size", whole, size=-0x80000000)
    _versions(talk, "two gigabytes", whole, size=0x7FFFFFFF)
    _versions(talk, "a byte over the limit", whole, size=104_857_601)
    _versions(talk, "an empty frame", b"")


def unknown_api_keys(talk: Conversation) -> None:
    for number in (-1, -32768, 58, 60, 99, 1000, 32767):
        payload = number.to_bytes(2, "big", signed=True) + b"\x00\x00" + CORRELATION_7 + b"\xff\xff"
        _versions(talk, f"key {number}", payload)


def apis_of_the_raft_quorum_are_hidden(talk: Conversation) -> None:
    for number in (52, 53, 54, 55):
        payload = number.to_bytes(2, "big") + b"\x00\x00" + CORRELATION_7 + b"\xff\xff\x00\x00"
        _versions(talk, f"key {number}", payload)


def versions_that_do_not_exist(talk: Conversation) -> None:
    maxima = {0: 8, 1: 12, 2: 5, 3: 9, 19: 6, 20: 5, 22: 4, 23: 3, 32: 3, 37: 3}
    for number, greatest in maxima.items():
        key = ApiKey(number)
        payload = number.to_bytes(2, "big") + (greatest + 1).to_bytes(2, "big") + CORRELATION_7 + b"\xff\xff\x00"
        name = f"{key.name} version {greatest + 1}"
        talk.ask_bytes(name, payload, api_key=key, version=greatest, correlation_id=7)
    for number in (0, 1, 3):
        key = ApiKey(number)
        payload = number.to_bytes(2, "big") + b"\xff\xff" + CORRELATION_7 + b"\xff\xff\x00"
        talk.ask_bytes(f"{key.name} version -1", payload, api_key=key, version=0, correlation_id=7)


def unknown_tags_are_skipped(talk: Conversation) -> None:
    one_tag, two_tags = b"\x01\x07\x03abc", b"\x02\x07\x01a\x7f\x00"
    _metadata_v9(talk, "none", METADATA_V9_HEADER + b"\x00" + NO_TOPICS_V9)
    _metadata_v9(talk, "one in the header", METADATA_V9_HEADER + one_tag + NO_TOPICS_V9)
    _metadata_v9(talk, "two in the header", METADATA_V9_HEADER + two_tags + NO_TOPICS_V9)
    _metadata_v9(talk, "one in the body", METADATA_V9_HEADER + b"\x00" + NO_TOPICS_V9[:-1] + one_tag)
    _metadata_v9(talk, "two in the body", METADATA_V9_HEADER + b"\x00" + NO_TOPICS_V9[:-1] + two_tags)


def tags_that_are_wrong(talk: Conversation) -> None:
    body = METADATA_V9_HEADER + b"\x00" + NO_TOPICS_V9[:-1]
    _metadata_v9(talk, "missing", body)
    _metadata_v9(talk, "a size past the end", body + b"\x01\x07\x09abc")
    _metadata_v9(talk, "a count past the end", body + b"\x05\x07\x01a")
    _metadata_v9(talk, "a tag twice", body + b"\x02\x07\x01a\x07\x01b")
    _metadata_v9(talk, "tags that descend", body + b"\x02\x08\x01a\x07\x01b")
    _metadata_v9(talk, "a varint without an end", body + b"\xff\xff\xff\xff\xff\xff")


def bytes_behind_a_request(talk: Conversation) -> None:
    _versions(talk, "behind ApiVersions 0", API_VERSIONS_V0 + CORRELATION_7 + b"\x00\x01x" + b"trailing")
    _metadata_v9(talk, "behind Metadata 9", METADATA_V9_HEADER + b"\x00" + NO_TOPICS_V9 + b"trailing")
    payload = b"\x00\x03\x00\x01" + CORRELATION_7 + b"\x00\x01x" + b"\x00\x00\x00\x00" + b"trailing"
    talk.ask_bytes("behind Metadata 1", payload, api_key=ApiKey.METADATA, version=1, correlation_id=7)


def requests_of_a_connection_are_answered_in_order(talk: Conversation) -> None:
    topic = talk.new_topic()
    pending = [talk.send(f"number {number}", 4, metadata_of(topic)) for number in range(5)]
    pending.append(talk.send("number 5", 0, ApiVersionsRequest()))
    for one in pending:
        talk.receive(one)


def a_frame_may_come_byte_by_byte(talk: Conversation) -> None:
    whole = API_VERSIONS_V0 + CORRELATION_7 + b"\x00\x02ab"
    talk.send_slowly("ApiVersions", whole, api_key=ApiKey.API_VERSIONS, version=0, correlation_id=7)
