"""TxnOffsetCommit: offsets that count once a transaction commits, and who may send them (KIP-447)."""

from tests.differential.conversation import Conversation
from tests.differential.coordinator_requests import (
    add_offsets,
    commit,
    commit_in_transaction,
    delete_offsets,
    end,
    fetch_offsets,
    initialise,
    join,
    sync,
)

VERSIONS = range(4)
CONCURRENT_TRANSACTIONS = (51,)
UNSTABLE = (88,)

Producer = tuple[int, int]


def _begin(talk: Conversation, group_id: str) -> tuple[str, Producer]:
    """A transaction that the group's offsets were added to."""
    transactional_id = talk.new_transactional_id()
    answer = talk.ask("the producer begins", 4, initialise(transactional_id))
    producer = (answer.producer_id, answer.producer_epoch)
    talk.ask("the group is added", 1, add_offsets(transactional_id, producer, group_id))
    return transactional_id, producer


def _end(talk: Conversation, transactional_id: str, producer: Producer, *, commit: bool) -> None:
    request = end(transactional_id, producer, commit=commit)
    talk.ask("the end", 1, request)
    talk.ask_until("the end again when it is complete", 1, request, passing=CONCURRENT_TRANSACTIONS)


def every_version(talk: Conversation) -> None:
    topic = talk.new_topic(partitions=4)
    group_id = talk.new_group()
    transactional_id, producer = _begin(talk, group_id)
    for version in VERSIONS:
        leader_epoch = {"leader_epoch": 3} if version >= 2 else {}
        request = commit_in_transaction(
            transactional_id, group_id, producer, {topic: {version: 10 + version}}, metadata="note", **leader_epoch
        )
        talk.ask(f"version {version}", version, request)
    everything = {topic: [0, 1, 2, 3]}
    talk.ask("fetched while it is open", 7, fetch_offsets(group_id, everything))
    talk.ask("stable ones while it is open", 7, fetch_offsets(group_id, everything, require_stable=True))
    talk.ask("all while it is open", 7, fetch_offsets(group_id, None, require_stable=True))
    _end(talk, transactional_id, producer, commit=True)
    stable = fetch_offsets(group_id, everything, require_stable=True)
    talk.ask_until("fetched", 7, stable, passing=UNSTABLE)


def an_aborted_transaction(talk: Conversation) -> None:
    topic = talk.new_topic(partitions=2)
    group_id = talk.new_group()
    talk.ask("a plain commit", 7, commit(group_id, {topic: {0: 5}}))
    transactional_id, producer = _begin(talk, group_id)
    offsets = {topic: {0: 8, 1: 9}}
    talk.ask("offsets", 3, commit_in_transaction(transactional_id, group_id, producer, offsets))
    stable = fetch_offsets(group_id, {topic: [0, 1]}, require_stable=True)
    talk.ask("stable ones while it is open", 7, stable)
    talk.ask("version 6 while it is open", 6, fetch_offsets(group_id, {topic: [0, 1]}))
    _end(talk, transactional_id, producer, commit=False)
    talk.ask_until("fetched", 7, stable, passing=UNSTABLE)


def a_plain_commit_behind_the_transactions(talk: Conversation) -> None:
    topic = talk.new_topic()
    group_id = talk.new_group()
    transactional_id, producer = _begin(talk, group_id)
    talk.ask("offsets", 3, commit_in_transaction(transactional_id, group_id, producer, {topic: {0: 8}}))
    talk.ask("a plain commit", 7, commit(group_id, {topic: {0: 20}}))
    _end(talk, transactional_id, producer, commit=True)
    stable = fetch_offsets(group_id, {topic: [0]}, require_stable=True)
    talk.ask_until("fetched", 7, stable, passing=UNSTABLE)


def offsets_that_are_deleted_meanwhile(talk: Conversation) -> None:
    topic = talk.new_topic()
    group_id = talk.new_group()
    talk.ask("a plain commit", 7, commit(group_id, {topic: {0: 5}}))
    transactional_id, producer = _begin(talk, group_id)
    talk.ask("offsets", 3, commit_in_transaction(transactional_id, group_id, producer, {topic: {0: 8}}))
    talk.ask("deleted", 0, delete_offsets(group_id, {topic: [0]}))
    talk.ask("stable ones", 7, fetch_offsets(group_id, {topic: [0]}, require_stable=True))
    _end(talk, transactional_id, producer, commit=True)
    stable = fetch_offsets(group_id, {topic: [0]}, require_stable=True)
    talk.ask_until("fetched", 7, stable, passing=UNSTABLE)


def partitions_and_notes_that_are_refused(talk: Conversation) -> None:
    topic = talk.new_topic()
    group_id = talk.new_group()
    transactional_id, producer = _begin(talk, group_id)
    for version in (0, 3):
        offsets = {topic: {0: 5, 9: 6}, f"{topic}-no": {0: 7}}
        request = commit_in_transaction(transactional_id, group_id, producer, offsets)
        talk.ask(f"partitions that there are not, version {version}", version, request)
        alone = commit_in_transaction(transactional_id, group_id, producer, {f"{topic}-no": {0: 7}})
        talk.ask(f"those alone, version {version}", version, alone)
        for note in (None, "n" * 4096, "n" * 4097):
            length = "null" if note is None else len(note)
            request = commit_in_transaction(transactional_id, group_id, producer, {topic: {0: 5}}, metadata=note)
            talk.ask(f"a note of {length}, version {version}", version, request)
        talk.ask(
            f"nothing, version {version}", version, commit_in_transaction(transactional_id, group_id, producer, {})
        )
    _end(talk, transactional_id, producer, commit=False)


def groups_without_a_name(talk: Conversation) -> None:
    topic = talk.new_topic()
    talk.new_group()
    for version in VERSIONS:
        request = commit_in_transaction("t", "", (5, 0), {topic: {0: 5}})
        talk.ask(f"version {version}", version, request)


def members(talk: Conversation) -> None:
    topic = talk.new_topic()
    group_id = talk.new_group()
    member_id = talk.ask("join", 5, join(group_id, instance="i")).member_id
    transactional_id, producer = _begin(talk, group_id)
    offsets = {topic: {0: 5}}

    def ask(name: str, generation_id: int, member: str, instance: str | None = None) -> None:
        request = commit_in_transaction(
            transactional_id,
            group_id,
            producer,
            offsets,
            generation_id=generation_id,
            member_id=member,
            instance=instance,
        )
        talk.ask(name, 3, request)

    ask("before the sync", 1, member_id, "i")
    talk.ask("sync", 3, sync(group_id, 1, member_id, {member_id: b"a"}, instance="i"))
    ask("the member", 1, member_id, "i")
    ask("the member without its instance", 1, member_id)
    ask("in the generation before", 0, member_id, "i")
    ask("in the generation after", 2, member_id, "i")
    ask("in no generation", -1, member_id, "i")
    ask("a stranger", 1, "stranger")
    ask("a stranger in no generation", -1, "stranger")
    ask("a generation alone", 1, "")
    ask("another generation alone", 7, "")
    ask("an instance alone", -1, "", "i")
    ask("an instance that is not known", 1, member_id, "j")
    ask("the instance with another id", 1, "stranger", "i")
    request = commit_in_transaction(transactional_id, group_id, producer, offsets)
    talk.ask("from outside, as version 2 does", 2, request)
    _end(talk, transactional_id, producer, commit=False)


def groups_that_are_not_known(talk: Conversation) -> None:
    topic = talk.new_topic()
    group_id = talk.new_group()
    transactional_id, producer = _begin(talk, group_id)
    offsets = {topic: {0: 5}}
    stranger = commit_in_transaction(
        transactional_id, group_id, producer, offsets, generation_id=1, member_id="m", instance="i"
    )
    talk.ask("as a member", 3, stranger)
    generation = commit_in_transaction(transactional_id, group_id, producer, offsets, generation_id=1)
    talk.ask("in a generation", 3, generation)
    talk.ask("from outside", 3, commit_in_transaction(transactional_id, group_id, producer, offsets))
    _end(talk, transactional_id, producer, commit=True)


def transactions_that_are_not_known(talk: Conversation) -> None:
    topic = talk.new_topic()
    group_id = talk.new_group()
    request = commit_in_transaction("never begun", group_id, (987_654, 0), {topic: {0: 5}})
    talk.ask("offsets of nobody's transaction", 3, request)
    talk.ask("fetched", 7, fetch_offsets(group_id, {topic: [0]}, require_stable=True))
