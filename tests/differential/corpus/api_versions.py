"""ApiVersions: which APIs and versions a broker says it has."""

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from tests.differential.conversation import Conversation

KEY = ApiKey.API_VERSIONS


def every_version_is_answered(talk: Conversation) -> None:
    for version in range(3):
        talk.ask(f"version {version}", version, ApiVersionsRequest())
    talk.ask("version 3", 3, ApiVersionsRequest("librdkafka", "2.16.0"))


def it_may_be_asked_twice_on_a_connection(talk: Conversation) -> None:
    talk.ask("first", 0, ApiVersionsRequest())
    talk.ask("second", 0, ApiVersionsRequest())


def a_version_too_new_is_answered_in_version_0(talk: Conversation) -> None:
    for version in (4, 99, 32767):
        payload = b"\x00\x12" + version.to_bytes(2, "big") + b"\x00\x00\x00\x07\xff\xff\x00"
        talk.ask_bytes(f"version {version}", payload, api_key=KEY, version=0, correlation_id=7)
    payload = b"\x00\x12\x00\x04\x00\x00\x00\x07\x00\x01x\x00" + b"\x02a\x02b\x00"
    talk.ask_bytes("version 4 with a body", payload, api_key=KEY, version=0, correlation_id=7)
    talk.ask("the connection lives on", 0, ApiVersionsRequest())


def a_negative_version(talk: Conversation) -> None:
    payload = b"\x00\x12\xff\xff\x00\x00\x00\x07\xff\xff"
    talk.ask_bytes("version -1", payload, api_key=KEY, version=0, correlation_id=7)


def the_software_name_and_version_have_a_pattern(talk: Conversation) -> None:
    good = (("a", "1"), ("a.b-c", "1.0-rc1"), ("A9", "9"))
    bad = (("", "1"), ("a", ""), ("-a", "1"), ("a-", "1"), ("a b", "1"), ("a", "1_0"), ("ä", "1"), ("a", ".1"))
    for name, software_version in (*good, *bad):
        talk.ask(f"{name!r} of {software_version!r}", 3, ApiVersionsRequest(name, software_version))
    talk.ask("the connection lives on", 0, ApiVersionsRequest())


def a_body_that_ends_early_in_version_3(talk: Conversation) -> None:
    header = b"\x00\x12\x00\x03\x00\x00\x00\x07\x00\x01x\x00"
    for name, body in (("no body", b""), ("half a name", b"\x05ab"), ("no tags", b"\x02a\x021")):
        talk.ask_bytes(name, header + body, api_key=KEY, version=3, correlation_id=7)


def a_null_software_name(talk: Conversation) -> None:
    payload = b"\x00\x12\x00\x03\x00\x00\x00\x07\x00\x01x\x00" + b"\x00\x021\x00"
    talk.ask_bytes("null name", payload, api_key=KEY, version=3, correlation_id=7)
