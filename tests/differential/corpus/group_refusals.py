"""What is no member's request: ids, generations, protocols and times that cannot be."""

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages.join_group import JoinGroupRequest
from tests.differential.conversation import Conversation
from tests.differential.coordinator_requests import beat, join, leave, leave_alone, sync

INT_MAX = (1 << 31) - 1


def groups_without_a_name(talk: Conversation) -> None:
    talk.new_group()
    for version in (0, 4, 7):
        talk.ask(f"join {version}", version, join(""))
    for version in (0, 5):
        protocol = {"protocol_type": "consumer", "protocol_name": "range"} if version == 5 else {}
        talk.ask(f"sync {version}", version, sync("", 1, "m", **protocol))
    for version in (0, 4):
        talk.ask(f"beat {version}", version, beat("", 1, "m"))
    talk.ask("leave 2", 2, leave_alone("", "m"))
    talk.ask("leave 4", 4, leave("", ("m", None)))


def groups_that_nobody_knows(talk: Conversation) -> None:
    group_id = talk.new_group()
    for version in (0, 3, 4, 7):
        talk.ask(f"join {version}", version, join(group_id, "m"))
    talk.ask("join as an instance", 5, join(group_id, "m", instance="i"))
    for version in (0, 3, 5):
        protocol = {"protocol_type": "consumer", "protocol_name": "range"} if version == 5 else {}
        talk.ask(f"sync {version}", version, sync(group_id, 1, "m", **protocol))
    for version in (0, 3, 4):
        talk.ask(f"beat {version}", version, beat(group_id, 1, "m"))
    talk.ask("leave 2", 2, leave_alone(group_id, "m"))
    talk.ask("leave 3", 3, leave(group_id, ("m", None), ("", "i"), ("n", "i")))
    talk.ask("leave of nobody", 3, leave(group_id))


def session_timeouts_that_are_refused(talk: Conversation) -> None:
    group_id = talk.new_group()
    for timeout_ms in (5_999, 0, -1, 1_800_001, INT_MAX):
        for version in (0, 4):
            request = join(group_id, session_timeout_ms=timeout_ms)
            talk.ask(f"{timeout_ms} ms, version {version}", version, request)
    for timeout_ms in (6_000, 1_800_000):
        talk.ask(f"{timeout_ms} ms", 4, join(group_id, session_timeout_ms=timeout_ms))


def rebalance_timeouts_of_any_kind(talk: Conversation) -> None:
    for timeout_ms in (-1, 0, 1, INT_MAX):
        group_id = talk.new_group()
        talk.ask(f"{timeout_ms} ms", 3, join(group_id, rebalance_timeout_ms=timeout_ms))


def joins_without_protocols(talk: Conversation) -> None:
    for version in (0, 3, 4, 7):
        group_id = talk.new_group()
        none = JoinGroupRequest(group_id, 30_000, 30_000, "", None, "consumer", [])
        talk.ask(f"no protocols, version {version}", version, none)
        talk.ask(f"no type, version {version}", version, join(group_id, protocol_type=""))
        talk.ask(f"neither, version {version}", version, JoinGroupRequest(group_id, 30_000, 30_000))


def members_that_are_not_known(talk: Conversation) -> None:
    group_id = talk.new_group()
    member_id = talk.ask("join", 3, join(group_id)).member_id
    talk.ask("join of a stranger", 3, join(group_id, "stranger"))
    talk.ask("sync of a stranger", 2, sync(group_id, 1, "stranger"))
    talk.ask("beat of a stranger", 3, beat(group_id, 1, "stranger"))
    talk.ask("leave of a stranger", 2, leave_alone(group_id, "stranger"))
    talk.ask("leave of strangers", 3, leave(group_id, ("stranger", None), ("", "i"), ("", None)))
    talk.ask("beat without an id", 3, beat(group_id, 1, ""))
    talk.ask("sync without an id", 2, sync(group_id, 1, ""))
    for generation_id in (0, 2, -1, INT_MAX):
        talk.ask(f"beat in generation {generation_id}", 3, beat(group_id, generation_id, member_id))
        talk.ask(f"sync in generation {generation_id}", 2, sync(group_id, generation_id, member_id))
    talk.ask("beat as an instance", 3, beat(group_id, 1, member_id, "i"))
    talk.ask("sync as an instance", 3, sync(group_id, 1, member_id, instance="i"))


def syncs_that_name_another_protocol(talk: Conversation) -> None:
    group_id = talk.new_group()
    member_id = talk.ask("join", 3, join(group_id)).member_id
    for protocol_type, name in (
        ("connect", "range"),
        ("consumer", "sticky"),
        ("", ""),
        (None, "range"),
        ("consumer", None),
    ):
        request = sync(group_id, 1, member_id, {}, protocol_type=protocol_type, protocol_name=name)
        talk.ask(f"{protocol_type} and {name}", 5, request)
    request = sync(group_id, 1, member_id, {member_id: b"a"}, protocol_type="consumer", protocol_name="range")
    talk.ask("the right one", 5, request)
    wrong = sync(group_id, 1, member_id, {}, protocol_type="consumer", protocol_name="sticky")
    talk.ask("another one when it is stable", 5, wrong)


def leaves_of_many(talk: Conversation) -> None:
    group_id = talk.new_group()
    member_id = talk.ask("join", 3, join(group_id)).member_id
    talk.ask("two times the same", 3, leave(group_id, (member_id, None), (member_id, None)))
    talk.ask("once more", 4, leave(group_id, (member_id, None)))


def requests_that_cannot_be_read(talk: Conversation) -> None:
    keys = {"join": ApiKey.JOIN_GROUP, "sync": ApiKey.SYNC_GROUP, "beat": ApiKey.HEARTBEAT, "leave": ApiKey.LEAVE_GROUP}
    for name, key in keys.items():
        head = key.to_bytes(2) + b"\x00\x00\x00\x00\x00\x07\x00\x01x"
        for kind, body in {"no body": b"", "a null group": b"\xff\xff" + bytes(20), "cut": b"\x00\x05gr"}.items():
            talk.ask_bytes(f"{name}, {kind}", head + body, api_key=key, version=0, correlation_id=7)
