"""OffsetCommit: in ZooKeeper by version 0, in the offsets topic by the others, from members and from outside."""

from barnabas.protocol.ids import ApiKey
from tests.differential.conversation import Conversation
from tests.differential.coordinator_requests import beat, commit, fetch_offsets, join, leave, sync

VERSIONS = range(1, 9)
LONG_MAX = (1 << 63) - 1


def every_version_without_a_group(talk: Conversation) -> None:
    topic = talk.new_topic(partitions=2)
    group_id = talk.new_group()
    for version in VERSIONS:
        leader_epoch = {"leader_epoch": 0} if version >= 6 else {}
        request = commit(group_id, {topic: {0: 10 + version, 1: 20}}, metadata=f"note {version}", **leader_epoch)
        talk.ask(f"version {version}", version, request)
        talk.ask(f"fetched after {version}", 5, fetch_offsets(group_id, {topic: [0, 1]}))


def version_0_keeps_offsets_in_zookeeper(talk: Conversation) -> None:
    topic = talk.new_topic()
    group_id = talk.new_group()
    talk.ask("commit", 0, commit(group_id, {topic: {0: 7}}, metadata="note"))
    talk.ask("fetched from ZooKeeper", 0, fetch_offsets(group_id, {topic: [0]}))
    talk.ask("not in the topic", 1, fetch_offsets(group_id, {topic: [0]}))
    talk.ask("again", 0, commit(group_id, {topic: {0: 8}}))
    talk.ask("fetched again", 0, fetch_offsets(group_id, {topic: [0]}))
    talk.ask(
        "partitions and topics that there are not", 0, commit(group_id, {topic: {0: 1, 9: 1}, f"{topic}-no": {0: 1}})
    )
    talk.ask("fetched where there is nothing", 0, fetch_offsets(group_id, {topic: [9], f"{topic}-no": [0]}))
    talk.ask("a long note", 0, commit(group_id, {topic: {0: 9}}, metadata="n" * 4097))
    talk.ask("after the long note", 0, fetch_offsets(group_id, {topic: [0]}))


def partitions_that_there_are_not(talk: Conversation) -> None:
    topic = talk.new_topic()
    group_id = talk.new_group()
    for version in (1, 8):
        request = commit(group_id, {topic: {0: 5, 1: 6, -1: 7}, f"{topic}-no": {0: 8}})
        talk.ask(f"beside one that there is, version {version}", version, request)
        talk.ask(f"alone, version {version}", version, commit(group_id, {f"{topic}-no": {0: 8}}))
    talk.ask("alone, as a stranger", 7, commit(group_id, {f"{topic}-no": {0: 8}}, generation_id=5, member_id="m"))
    talk.ask("alone, in no group", 7, commit("", {f"{topic}-no": {0: 8}}))
    talk.ask("fetched", 5, fetch_offsets(group_id, None))


def notes_of_any_length(talk: Conversation) -> None:
    topic = talk.new_topic(partitions=2)
    group_id = talk.new_group()
    for name, note in {
        "null": None,
        "empty": "",
        "the longest": "n" * 4096,
        "too long": "n" * 4097,
        "the longest of two bytes each": "\u00e9" * 4096,
        "too long in units": "\U0001f680" * 2049,
        "the longest in units": "\U0001f680" * 2048,
    }.items():
        talk.ask(name, 7, commit(group_id, {topic: {0: 1}}, metadata=note))
    request = commit(group_id, {topic: {0: 2, 1: 3}}, metadata="n" * 4097)
    request.topics[0].partitions[1].committed_metadata = "short"
    talk.ask("one too long beside a short one", 7, request)
    talk.ask("fetched", 5, fetch_offsets(group_id, {topic: [1]}))


def offsets_of_any_kind(talk: Conversation) -> None:
    topic = talk.new_topic()
    group_id = talk.new_group()
    for offset in (0, -1, -2, LONG_MAX, -LONG_MAX - 1):
        talk.ask(f"offset {offset}", 7, commit(group_id, {topic: {0: offset}}))
        talk.ask(f"fetched {offset}", 5, fetch_offsets(group_id, {topic: [0]}))
    for epoch in (0, 5, (1 << 31) - 1):
        talk.ask(f"epoch {epoch}", 7, commit(group_id, {topic: {0: 1}}, leader_epoch=epoch))
        talk.ask(f"fetched with epoch {epoch}", 5, fetch_offsets(group_id, {topic: [0]}))


def times_to_keep(talk: Conversation) -> None:
    topic = talk.new_topic()
    group_id = talk.new_group()
    for retention_ms in (0, 1, 60_000, 1 << 40):
        for version in (2, 3, 4):
            request = commit(group_id, {topic: {0: 5}}, retention_time_ms=retention_ms)
            talk.ask(f"{retention_ms} ms, version {version}", version, request)
    for timestamp in (0, 1, 1_600_000_000_000):
        talk.ask(f"committed at {timestamp}", 1, commit(group_id, {topic: {0: 6}}, commit_timestamp=timestamp))
    talk.ask("fetched", 5, fetch_offsets(group_id, {topic: [0]}))


def nothing_to_commit(talk: Conversation) -> None:
    topic = talk.new_topic()
    group_id = talk.new_group()
    for version in range(9):
        talk.ask(f"no topics, version {version}", version, commit(group_id, {}))
        talk.ask(f"no partitions, version {version}", version, commit(group_id, {topic: {}}))
    talk.ask("no topics, as a stranger", 7, commit(group_id, {}, generation_id=5, member_id="m"))


def a_partition_named_twice(talk: Conversation) -> None:
    topic = talk.new_topic(partitions=2)
    group_id = talk.new_group()
    request = commit(group_id, {topic: {0: 5, 1: 6}})
    request.topics += commit(group_id, {topic: {0: 7}}).topics
    talk.ask("commit", 7, request)
    talk.ask("fetched", 5, fetch_offsets(group_id, {topic: [0, 1]}))


def groups_that_are_named_oddly(talk: Conversation) -> None:
    topic = talk.new_topic()
    talk.new_group()
    talk.ask("no name", 7, commit("", {topic: {0: 5}}))
    talk.ask("no name, fetched", 5, fetch_offsets("", {topic: [0]}))
    talk.ask("no name, as a member", 7, commit("", {topic: {0: 5}}, generation_id=1, member_id="m"))
    for name, group_id in {"words": f"{topic}-caf\u00e9", "spaces": f"{topic}- "}.items():
        talk.ask(name, 7, commit(group_id, {topic: {0: 5}}))


def strangers(talk: Conversation) -> None:
    topic = talk.new_topic()
    group_id = talk.new_group()
    offsets = {topic: {0: 5}}
    talk.ask("in a generation of no group", 7, commit(group_id, offsets, generation_id=0, member_id="m"))
    talk.ask("with an id and no generation", 7, commit(group_id, offsets, member_id="m"))
    talk.ask("with an instance and no generation", 7, commit(group_id, offsets, instance="i"))
    talk.ask("in a generation of an empty group", 7, commit(group_id, offsets, generation_id=0, member_id="m"))
    talk.ask("without anything", 7, commit(group_id, offsets))
    talk.ask("in another negative generation", 7, commit(group_id, offsets, generation_id=-5))


def members(talk: Conversation) -> None:
    topic = talk.new_topic()
    group_id = talk.new_group()
    offsets = {topic: {0: 5}}
    member_id = talk.ask("join", 3, join(group_id)).member_id
    mine = {"generation_id": 1, "member_id": member_id}
    talk.ask("before the sync", 7, commit(group_id, offsets, **mine))
    talk.ask("sync", 2, sync(group_id, 1, member_id, {member_id: b"a"}))
    for version in VERSIONS:
        talk.ask(f"version {version}", version, commit(group_id, offsets, **mine))
    talk.ask("in the generation before", 7, commit(group_id, offsets, generation_id=0, member_id=member_id))
    talk.ask("in the generation after", 7, commit(group_id, offsets, generation_id=2, member_id=member_id))
    talk.ask("in no generation", 7, commit(group_id, offsets, member_id=member_id))
    talk.ask("of a stranger", 7, commit(group_id, offsets, generation_id=1, member_id="stranger"))
    talk.ask("without an id", 7, commit(group_id, offsets, generation_id=1))
    talk.ask("from outside", 7, commit(group_id, offsets))
    talk.ask("as an instance", 7, commit(group_id, offsets, instance="i", **mine))
    waiting = talk.send("a second joins", 3, join(group_id), apart=True)
    talk.ask_until("the first hears of it", 3, beat(group_id, 1, member_id), passing=(0,))
    talk.ask("during the rebalance", 7, commit(group_id, {topic: {0: 6}}, **mine))
    talk.ask("leave", 3, leave(group_id, (member_id, None)))
    second = talk.receive(waiting).member_id
    talk.ask("after it left", 7, commit(group_id, offsets, **mine))
    talk.ask("the second, which has not synced", 7, commit(group_id, offsets, generation_id=2, member_id=second))
    talk.ask("fetched", 5, fetch_offsets(group_id, {topic: [0]}))


def requests_that_cannot_be_read(talk: Conversation) -> None:
    for version in (0, 2, 7):
        head = b"\x00\x08" + version.to_bytes(2) + b"\x00\x00\x00\x07\x00\x01x"
        for name, body in {"no body": b"", "a null group": b"\xff\xff" + bytes(30), "cut": b"\x00\x01g\x00"}.items():
            key = ApiKey.OFFSET_COMMIT
            talk.ask_bytes(f"{name}, version {version}", head + body, api_key=key, version=version, correlation_id=7)
