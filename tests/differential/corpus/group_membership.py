"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup as one member sends them, in every version."""

from tests.differential.conversation import Conversation
from tests.differential.coordinator_requests import RANGE, SUBSCRIPTION, beat, join, leave, leave_alone, sync

MEMBER_ID_REQUIRED_FROM = 4


def every_version_joins_syncs_beats_and_leaves(talk: Conversation) -> None:
    for version in range(8):
        group_id = talk.new_group()
        answer = talk.ask(f"join {version}", version, join(group_id))
        if version >= MEMBER_ID_REQUIRED_FROM:
            answer = talk.ask(f"join {version} with the id", version, join(group_id, answer.member_id))
        member_id, generation_id = answer.member_id, answer.generation_id
        by_itself = {member_id: b"mine"}
        protocol = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
        sync_version, beat_version = min(version, 5), min(version, 4)
        talk.ask(
            f"sync {sync_version} after {version}",
            sync_version,
            sync(group_id, generation_id, member_id, by_itself, **protocol),
        )
        talk.ask(f"beat {beat_version} after {version}", beat_version, beat(group_id, generation_id, member_id))
        request = leave(group_id, (member_id, None)) if beat_version >= 3 else leave_alone(group_id, member_id)
        talk.ask(f"leave {beat_version} after {version}", beat_version, request)
        talk.ask(
            f"beat {beat_version} after the end, {version}", beat_version, beat(group_id, generation_id, member_id)
        )


def a_member_that_joins_again(talk: Conversation) -> None:
    group_id = talk.new_group()
    member_id = talk.ask("first", 3, join(group_id)).member_id
    talk.ask("again, before the sync", 3, join(group_id, member_id))
    talk.ask("again, with other metadata", 3, join(group_id, member_id, ("range", b"other")))
    talk.ask("the sync", 2, sync(group_id, 2, member_id, {member_id: b"a"}))
    talk.ask("the sync of the last generation", 2, sync(group_id, 3, member_id, {member_id: b"b"}))
    talk.ask("the sync again", 2, sync(group_id, 3, member_id, {member_id: b"c"}))
    talk.ask("again, as it leads and is stable", 3, join(group_id, member_id))


def what_a_leader_assigns(talk: Conversation) -> None:
    for name, assigned in {
        "nothing": {},
        "to somebody else": {"stranger": b"s"},
        "to itself and a stranger": {"me": b"m", "stranger": b"s"},
        "no bytes": {"me": b""},
        "many bytes": {"me": bytes(100_000)},
    }.items():
        group_id = talk.new_group()
        member_id = talk.ask(f"{name}: join", 3, join(group_id)).member_id
        given = {member_id if who == "me" else who: what for who, what in assigned.items()}
        talk.ask(f"{name}: sync", 2, sync(group_id, 1, member_id, given))


def protocols_and_their_order(talk: Conversation) -> None:
    for name, protocols in {
        "one": (RANGE,),
        "two": (("roundrobin", b"r"), RANGE),
        "one without a name": (("", SUBSCRIPTION),),
    }.items():
        group_id = talk.new_group()
        talk.ask(name, 5, join(group_id, talk.ask(f"{name}, id", 5, join(group_id)).member_id, *protocols))


def other_types_of_groups(talk: Conversation) -> None:
    for protocol_type in ("connect", "sr", "x" * 200, "caf\u00e9"):
        group_id = talk.new_group()
        protocol = ("v0", b"\x01")
        answer = talk.ask(f"{protocol_type}: join", 7, join(group_id, "", protocol, protocol_type=protocol_type))
        again = join(group_id, answer.member_id, protocol, protocol_type=protocol_type)
        answer = talk.ask(f"{protocol_type}: join with the id", 7, again)
        request = sync(
            group_id, 1, answer.member_id, {answer.member_id: b"a"}, protocol_type=protocol_type, protocol_name="v0"
        )
        talk.ask(f"{protocol_type}: sync", 5, request)


def ids_that_were_given_out(talk: Conversation) -> None:
    group_id = talk.new_group()
    member_id = talk.ask("the id", 5, join(group_id)).member_id
    talk.ask("another id", 5, join(group_id))
    talk.ask("a heartbeat before the join", 3, beat(group_id, 0, member_id))
    talk.ask("a sync before the join", 3, sync(group_id, 0, member_id))
    talk.ask("the id leaves", 3, leave(group_id, (member_id, None)))
    talk.ask("the id leaves again", 3, leave(group_id, (member_id, None)))
    talk.ask("the id joins after it left", 5, join(group_id, member_id))


def a_group_that_begins_again(talk: Conversation) -> None:
    group_id = talk.new_group()
    first = talk.ask("a consumer", 3, join(group_id)).member_id
    talk.ask("it leaves", 2, leave_alone(group_id, first))
    worker = ("v0", SUBSCRIPTION)
    second = talk.ask("a worker", 3, join(group_id, "", worker, protocol_type="connect")).member_id
    talk.ask("the worker beats", 3, beat(group_id, 3, second))
    talk.ask("the worker syncs", 2, sync(group_id, 3, second, {second: b"w"}))
