"""OffsetFetch: one, many, all, and what is not there."""

from tests.differential.conversation import Conversation
from tests.differential.coordinator_requests import commit, fetch_offsets

VERSIONS = range(8)


def every_version(talk: Conversation) -> None:
    topic = talk.new_topic(partitions=3)
    other = talk.new_topic()
    group_id = talk.new_group()
    offsets = {topic: {0: 5, 2: 6}, other: {0: 7}}
    talk.ask("a commit", 7, commit(group_id, offsets, metadata="note", leader_epoch=3))
    for version in VERSIONS:
        talk.ask(f"some, version {version}", version, fetch_offsets(group_id, {topic: [0, 1, 2], other: [0]}))
        talk.ask(f"none, version {version}", version, fetch_offsets(group_id, {}))
        talk.ask(f"no partitions, version {version}", version, fetch_offsets(group_id, {topic: []}))
        if version >= 2:
            talk.ask(f"all, version {version}", version, fetch_offsets(group_id, None))
    talk.ask("stable ones", 7, fetch_offsets(group_id, {topic: [0]}, require_stable=True))
    talk.ask("all that is stable", 7, fetch_offsets(group_id, None, require_stable=True))


def what_is_not_there(talk: Conversation) -> None:
    topic = talk.new_topic()
    group_id = talk.new_group()
    for version in VERSIONS:
        asked = {topic: [0, 1, -1], f"{topic}-no": [0], "": [0]}
        talk.ask(f"of a group that is not known, version {version}", version, fetch_offsets(group_id, asked))
        talk.ask(f"of no group, version {version}", version, fetch_offsets("", asked))
        if version >= 2:
            talk.ask(f"all of no group, version {version}", version, fetch_offsets("", None))
    talk.ask("a commit", 7, commit(group_id, {topic: {0: 5}}))
    talk.ask("of a group that has something else", 7, fetch_offsets(group_id, {topic: [1], f"{topic}-no": [0]}))


def a_partition_named_twice(talk: Conversation) -> None:
    topic = talk.new_topic()
    group_id = talk.new_group()
    talk.ask("a commit", 7, commit(group_id, {topic: {0: 5}}))
    request = fetch_offsets(group_id, {topic: [0, 0]})
    talk.ask("in one topic", 7, request)
    assert request.topics is not None
    request.topics += fetch_offsets(group_id, {topic: [0, 1]}).topics or []
    talk.ask("in two topics", 7, request)


def the_last_commit_counts(talk: Conversation) -> None:
    topic = talk.new_topic()
    group_id = talk.new_group()
    for offset in (5, 9, 3):
        talk.ask(f"commit {offset}", 7, commit(group_id, {topic: {0: offset}}, metadata=str(offset)))
    talk.ask("fetched", 7, fetch_offsets(group_id, {topic: [0]}))


def offsets_of_a_deleted_topic(talk: Conversation) -> None:
    topic = talk.new_topic()
    group_id = talk.new_group()
    talk.ask("a commit", 7, commit(group_id, {topic: {0: 5}}))
    talk.delete_topic(topic)
    talk.ask_until_gone("fetched", 7, fetch_offsets(group_id, None))
    talk.ask("by name", 7, fetch_offsets(group_id, {topic: [0]}))
