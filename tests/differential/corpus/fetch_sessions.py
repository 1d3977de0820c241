"""Fetch: sessions, in which only what changed travels (KIP-227)."""

from tests.differential.batches import batch
from tests.differential.conversation import Conversation
from tests.differential.requests import fetch_from, fetch_partition, fetch_topics

VERSION = 11
GREATEST = 0x7FFFFFFF


def _two_partitions(talk: Conversation) -> str:
    topic = talk.new_topic(partitions=2)
    talk.write(topic, batch(b"a", b"b"))
    return topic


def _opened(talk: Conversation, topic: str, name: str = "opened", *, offset: int = 0) -> int:
    """Open a session on both partitions and return its id."""
    both = [fetch_partition(offset), fetch_partition(partition=1)]
    session: int = talk.ask(name, VERSION, fetch_from(topic, *both, session=(0, 0))).session_id
    return session


def every_version_opens_a_session(talk: Conversation) -> None:
    topic = _two_partitions(talk)
    for version in range(7, 13):
        request = fetch_from(topic, session=(0, 0))
        session = talk.ask(f"version {version}", version, request).session_id
        talk.ask(f"version {version}, nothing new", version, fetch_topics({}, session=(session, 1)))


def without_a_session_nothing_is_kept(talk: Conversation) -> None:
    topic = _two_partitions(talk)
    for number in range(2):
        talk.ask(f"number {number}", VERSION, fetch_from(topic, session=(0, -1)))


def only_changes_travel(talk: Conversation) -> None:
    topic = _two_partitions(talk)
    session = _opened(talk, topic)
    ahead = {topic: [fetch_partition(2)]}
    talk.ask("the position moves on", VERSION, fetch_topics(ahead, session=(session, 1)))
    talk.ask("nothing changed", VERSION, fetch_topics({}, session=(session, 2)))
    talk.write(topic, batch(b"c"), partition=1)
    talk.ask("partition 1 changed", VERSION, fetch_topics({}, session=(session, 3)))
    talk.ask("partition 1 still holds it", VERSION, fetch_topics({}, session=(session, 4)))
    moved = {topic: [fetch_partition(1, partition=1)]}
    talk.ask("partition 1 moves on", VERSION, fetch_topics(moved, session=(session, 5)))
    talk.write(topic, batch(b"d"))
    talk.write(topic, batch(b"e"), partition=1)
    talk.ask("both changed", VERSION, fetch_topics({}, session=(session, 6)))


def an_idle_session_waits_for_a_change(talk: Conversation) -> None:
    topic = _two_partitions(talk)
    session = _opened(talk, topic, offset=2)
    talk.ask("nothing within the time", VERSION, fetch_topics({}, session=(session, 1), max_wait_ms=100, min_bytes=1))
    request = fetch_topics({}, session=(session, 2), max_wait_ms=10_000, min_bytes=1)
    waiting = talk.send("a change", VERSION, request, apart=True)
    talk.note("it waits", talk.is_waiting(waiting))
    talk.write(topic, batch(b"c"), partition=1)
    talk.receive(waiting)


def partitions_are_added_and_forgotten(talk: Conversation) -> None:
    topic, other = _two_partitions(talk), _two_partitions(talk)
    session = talk.ask("partition 0", VERSION, fetch_from(topic, session=(0, 0))).session_id
    added = {topic: [fetch_partition(partition=1)], other: [fetch_partition()]}
    talk.ask("two more", VERSION, fetch_topics(added, session=(session, 1)))
    talk.ask("partition 0 is forgotten", VERSION, fetch_topics({}, session=(session, 2), forgotten={topic: [0]}))
    forgotten = {topic: [0, 7], "never-made": [0]}
    talk.ask("forgotten again, and unknown ones", VERSION, fetch_topics({}, session=(session, 3), forgotten=forgotten))
    both = fetch_topics({other: [fetch_partition(1)]}, session=(session, 4), forgotten={other: [0]})
    talk.ask("wanted and forgotten at once", VERSION, both)
    talk.ask("what is left", VERSION, fetch_topics({}, session=(session, 5)))


def a_session_ends_when_its_last_partition_is_forgotten(talk: Conversation) -> None:
    topic = _two_partitions(talk)
    session = _opened(talk, topic)
    talk.ask("all forgotten", VERSION, fetch_topics({}, session=(session, 1), forgotten={topic: [0, 1]}))
    talk.ask("the session afterwards", VERSION, fetch_topics({}, session=(session, 2)))


def an_unknown_session(talk: Conversation) -> None:
    topic = _two_partitions(talk)
    for session_id in (1, 12345, GREATEST, -5):
        talk.ask(f"id {session_id}", VERSION, fetch_from(topic, session=(session_id, 1)))
    talk.ask("version 7", 7, fetch_from(topic, session=(12345, 1)))
    talk.ask("version 12", 12, fetch_from(topic, session=(12345, 1)))


def an_epoch_that_is_not_the_next(talk: Conversation) -> None:
    topic = _two_partitions(talk)
    session = _opened(talk, topic)
    for epoch in (2, 5, GREATEST):
        talk.ask(f"epoch {epoch} instead of 1", VERSION, fetch_topics({}, session=(session, epoch)))
    talk.ask("epoch 1", VERSION, fetch_topics({}, session=(session, 1)))
    talk.ask("epoch 1 again", VERSION, fetch_topics({}, session=(session, 1)))
    talk.ask("epoch -2", VERSION, fetch_topics({}, session=(session, -2)))
    talk.ask("epoch 2", VERSION, fetch_topics({}, session=(session, 2)))


def epoch_zero_replaces_a_session(talk: Conversation) -> None:
    topic = _two_partitions(talk)
    session = _opened(talk, topic)
    replaced = talk.ask("another in its place", VERSION, fetch_from(topic, session=(session, 0)))
    talk.ask("the old one", VERSION, fetch_topics({}, session=(session, 1)))
    talk.ask("the new one", VERSION, fetch_topics({}, session=(replaced.session_id, 1)))
    talk.ask("in place of an unknown one", VERSION, fetch_from(topic, session=(4242, 0)))


def epoch_minus_one_closes_a_session(talk: Conversation) -> None:
    topic = _two_partitions(talk)
    session = _opened(talk, topic)
    talk.ask("the closing request is answered whole", VERSION, fetch_from(topic, session=(session, -1)))
    talk.ask("the session afterwards", VERSION, fetch_topics({}, session=(session, 1)))
    talk.ask("closing an unknown one", VERSION, fetch_from(topic, session=(4242, -1)))


def a_session_survives_its_connection(talk: Conversation) -> None:
    topic = _two_partitions(talk)
    session = _opened(talk, topic)
    talk.reconnect()
    talk.ask("from another connection", VERSION, fetch_topics({}, session=(session, 1)))


def errors_in_a_session_are_told_every_time(talk: Conversation) -> None:
    topic = _two_partitions(talk)
    wanted = [fetch_partition(99), fetch_partition(partition=9), fetch_partition(partition=1)]
    session = talk.ask("two errors", VERSION, fetch_from(topic, *wanted, session=(0, 0))).session_id
    talk.ask("told again", VERSION, fetch_topics({}, session=(session, 1)))
    mended = {topic: [fetch_partition(0)]}
    talk.ask("one is mended", VERSION, fetch_topics(mended, session=(session, 2)))
    talk.ask("the other is told again", VERSION, fetch_topics({}, session=(session, 3)))


def partitions_that_were_sent_go_to_the_end(talk: Conversation) -> None:
    topic = talk.new_topic(partitions=3)
    for partition in range(3):
        talk.write(topic, batch(b"first"), batch(b"second"), partition=partition)
    three = [fetch_partition(partition=number) for number in range(3)]
    session = talk.ask("one batch fits", VERSION, fetch_from(topic, *three, max_bytes=1, session=(0, 0))).session_id
    for number in range(1, 5):
        talk.ask(f"round {number}", VERSION, fetch_topics({}, max_bytes=1, session=(session, number)))


def the_whole_answer_of_a_new_session_lists_every_partition(talk: Conversation) -> None:
    topic = talk.new_topic(partitions=3)
    three = [fetch_partition(partition=number) for number in range(3)]
    talk.ask("all empty", VERSION, fetch_from(topic, *three, session=(0, 0)))


def a_session_without_partitions(talk: Conversation) -> None:
    session = talk.ask("opened", VERSION, fetch_topics({}, session=(0, 0))).session_id
    talk.ask("used", VERSION, fetch_topics({}, session=(session, 1)))


def limits_change_from_request_to_request(talk: Conversation) -> None:
    topic = _two_partitions(talk)
    talk.write(topic, batch(b"c"), batch(b"d"))
    session = _opened(talk, topic)
    narrower = {topic: [fetch_partition(max_bytes=1)]}
    talk.ask("one byte", VERSION, fetch_topics(narrower, session=(session, 1)))
    talk.ask("one byte is remembered", VERSION, fetch_topics({}, session=(session, 2)))
    wider = {topic: [fetch_partition()]}
    talk.ask("wide again", VERSION, fetch_topics(wider, session=(session, 3)))
    stale = {topic: [fetch_partition(leader_epoch=9)]}
    talk.ask("an unknown leader epoch", VERSION, fetch_topics(stale, session=(session, 4)))
    talk.ask("which is remembered", VERSION, fetch_topics({}, session=(session, 5)))


def two_sessions_do_not_share_anything(talk: Conversation) -> None:
    topic = _two_partitions(talk)
    first = _opened(talk, topic, "first")
    second = _opened(talk, topic, "second")
    talk.ask("first goes on", VERSION, fetch_topics({}, session=(first, 1)))
    talk.ask("second goes on", VERSION, fetch_topics({}, session=(second, 1)))
    talk.ask("first goes on again", VERSION, fetch_topics({}, session=(first, 2)))


def a_topic_that_is_deleted_under_a_session(talk: Conversation) -> None:
    topic = _two_partitions(talk)
    session = _opened(talk, topic)
    talk.delete_topic(topic)
    talk.ask("deleted", VERSION, fetch_topics({}, session=(session, 1)))
