"""InitProducerId: ids for idempotent producers, and what transactional ones are told."""

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.differential.conversation import Conversation

VERSIONS = range(5)


def every_version_gives_an_id_of_its_own(talk: Conversation) -> None:
    seen = set()
    for version in VERSIONS:
        for number in range(2):
            answer = talk.ask(f"version {version}, number {number}", version, InitProducerIdRequest(None, 60_000))
            seen.add(answer.producer_id)
    talk.note("different ids", len(seen))


def the_timeout_is_nothing_to_an_idempotent_producer(talk: Conversation) -> None:
    for timeout_ms in (0, -1, 1, 2_147_483_647, -2_147_483_648):
        talk.ask(f"{timeout_ms} ms", 4, InitProducerIdRequest(None, timeout_ms))


def an_idempotent_producer_that_tells_its_id(talk: Conversation) -> None:
    for producer_id, epoch in ((-1, -1), (5, 3), (0, 0), (5, -1), (-1, 3), (-2, -2)):
        for version in (3, 4):
            request = InitProducerIdRequest(None, 60_000, producer_id, epoch)
            talk.ask(f"id {producer_id}, epoch {epoch}, version {version}", version, request)


def an_empty_transactional_id(talk: Conversation) -> None:
    for version in VERSIONS:
        talk.ask(f"version {version}", version, InitProducerIdRequest("", 60_000))


def a_transactional_id(talk: Conversation) -> None:
    for version in VERSIONS:
        talk.ask(f"version {version}", version, InitProducerIdRequest("transaction", 60_000))
    for timeout_ms in (0, -1, 900_001):
        talk.ask(f"for {timeout_ms} ms", 4, InitProducerIdRequest("transaction", timeout_ms))
    for producer_id, epoch in ((5, 3), (5, -1), (-1, 3)):
        request = InitProducerIdRequest("transaction", 60_000, producer_id, epoch)
        talk.ask(f"with id {producer_id} and epoch {epoch}", 4, request)


def requests_that_cannot_be_read(talk: Conversation) -> None:
    head = b"\x00\x16\x00\x00\x00\x00\x00\x07\x00\x01x"
    for name, body in {"no body": b"", "no time": b"\xff\xff", "an id past the end": b"\x00\x09abc"}.items():
        talk.ask_bytes(name, head + body, api_key=ApiKey.INIT_PRODUCER_ID, version=0, correlation_id=7)
    head = b"\x00\x16\x00\x02\x00\x00\x00\x07\x00\x01x\x00"
    for name, body in {
        "no tags": b"\x00\x00\x00\x10\x00",
        "an unknown tag": b"\x00\x00\x00\x10\x00\x01\x05\x01z",
    }.items():
        talk.ask_bytes(f"compact, {name}", head + body, api_key=ApiKey.INIT_PRODUCER_ID, version=2, correlation_id=7)
