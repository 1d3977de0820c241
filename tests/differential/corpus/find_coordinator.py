"""FindCoordinator: who serves a group or a transactional id."""

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.differential.conversation import Conversation

VERSIONS = range(4)
GROUP, TRANSACTION = 0, 1


def the_coordinator_of_a_group(talk: Conversation) -> None:
    group_id = talk.new_group()
    for version in VERSIONS:
        talk.ask(f"version {version}", version, FindCoordinatorRequest(group_id))


def the_coordinator_of_a_transactional_id(talk: Conversation) -> None:
    transactional_id = talk.new_transactional_id()
    for version in VERSIONS[1:]:
        talk.ask(f"version {version}", version, FindCoordinatorRequest(transactional_id, TRANSACTION))


def keys_of_any_kind(talk: Conversation) -> None:
    talk.new_group()
    talk.new_transactional_id()
    for name, key in {"empty": "", "long": "k" * 30_000, "words": "caf\u00e9 \U0001f680", "spaces": "  "}.items():
        for key_type in (GROUP, TRANSACTION):
            talk.ask(f"{name}, type {key_type}", 2, FindCoordinatorRequest(key, key_type))
        talk.ask(f"{name}, compact", 3, FindCoordinatorRequest(key))
    talk.ask("empty, version 0", 0, FindCoordinatorRequest(""))


def types_that_there_are_not(talk: Conversation) -> None:
    for version in VERSIONS[1:]:
        for key_type in (2, -1, 127):
            talk.ask(f"type {key_type}, version {version}", version, FindCoordinatorRequest("key", key_type))


def requests_that_cannot_be_read(talk: Conversation) -> None:
    head = b"\x00\x0a\x00\x01\x00\x00\x00\x07\x00\x01x"
    for name, body in {"no body": b"", "no type": b"\x00\x01k", "a null key": b"\xff\xff\x00"}.items():
        talk.ask_bytes(name, head + body, api_key=ApiKey.FIND_COORDINATOR, version=1, correlation_id=7)
