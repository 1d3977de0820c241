"""Fetch: epochs, replica ids and requests that a leader refuses."""

from barnabas.protocol.ids import ApiKey
from tests.differential.batches import batch
from tests.differential.conversation import Conversation
from tests.differential.requests import fetch_from, fetch_partition

EPOCH_VERSIONS = range(9, 13)


def _written(talk: Conversation) -> str:
    topic = talk.new_topic()
    talk.write(topic, batch(b"a", b"b"))
    return topic


def the_leader_epoch_that_a_client_knows(talk: Conversation) -> None:
    topic = _written(talk)
    for version in EPOCH_VERSIONS:
        for epoch in (-1, 0, 1, 100, -2):
            request = fetch_from(topic, fetch_partition(leader_epoch=epoch))
            talk.ask(f"epoch {epoch}, version {version}", version, request)
    talk.ask("not looked at before version 9", 8, fetch_from(topic, fetch_partition(leader_epoch=100)))


def an_epoch_of_an_unknown_partition(talk: Conversation) -> None:
    topic = _written(talk)
    talk.ask("partition", 11, fetch_from(topic, fetch_partition(partition=9, leader_epoch=0)))
    talk.ask("topic", 11, fetch_from("never-made", fetch_partition(leader_epoch=0)))


def the_epoch_that_was_fetched_last(talk: Conversation) -> None:
    topic = _written(talk)
    for last in (-1, 0, 1, 7):
        for offset in (0, 2, 3):
            request = fetch_from(topic, fetch_partition(offset, last_fetched_epoch=last))
            talk.ask(f"epoch {last}, offset {offset}", 12, request)
    request = fetch_from(topic, fetch_partition(2, last_fetched_epoch=0, leader_epoch=0))
    talk.ask("with the leader epoch", 12, request)


def replicas_that_are_none(talk: Conversation) -> None:
    topic = _written(talk)
    for replica_id in (-2, -3, 1, 2, 99):
        for version in (4, 11):
            request = fetch_from(topic, replica_id=replica_id)
            talk.ask(f"replica {replica_id}, version {version}", version, request)


def a_followers_log_start_offset_is_nothing_to_a_consumer(talk: Conversation) -> None:
    topic = _written(talk)
    for start in (0, 1, 99, -5):
        talk.ask(f"start {start}", 11, fetch_from(topic, fetch_partition(log_start_offset=start)))


def a_partition_named_twice(talk: Conversation) -> None:
    topic = _written(talk)
    talk.ask("version 4", 4, fetch_from(topic, fetch_partition(), fetch_partition()))
    talk.ask("version 11", 11, fetch_from(topic, fetch_partition(1), fetch_partition(99)))


def requests_that_cannot_be_read(talk: Conversation) -> None:
    head = b"\x00\x01\x00\x04\x00\x00\x00\x07\x00\x01x"
    start = b"\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00\x00\x10\x00\x00\x00"
    cases = {
        "no body": b"",
        "half a body": start[:9],
        "no topics": start,
        "a null list of topics": start + b"\xff\xff\xff\xff",
        "a count past the end": start + b"\x00\x00\x00\x02\x00\x01a",
        "a null topic name": start + b"\x00\x00\x00\x01\xff\xff\x00\x00\x00\x00",
        "a null list of partitions": start + b"\x00\x00\x00\x01\x00\x01a\xff\xff\xff\xff",
        "an empty list and three bytes": start + b"\x00\x00\x00\x00abc",
    }
    for name, body in cases.items():
        talk.ask_bytes(name, head + body, api_key=ApiKey.FETCH, version=4, correlation_id=7)


def compact_requests_that_cannot_be_read(talk: Conversation) -> None:
    head = b"\x00\x01\x00\x0c\x00\x00\x00\x07\x00\x01x\x00"
    start = b"\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00\x00\x10\x00\x00\x00" + b"\x00" * 4 + b"\xff" * 4
    good_end = b"\x01\x01\x01\x00"
    cases = {
        "an empty one": start + good_end,
        "a cluster id as a tag": start + b"\x01\x01\x01\x01\x00\x02\x02c",
        "another cluster's id as a tag": start + b"\x01\x01\x01\x01\x00\x08\x07foreign"[:11],
        "a null cluster id as a tag": start + b"\x01\x01\x01\x01\x00\x01\x00",
        "an unknown tag": start + b"\x01\x01\x01\x01\x09\x01z",
        "no tags": start + good_end[:-1],
        "a null list of topics": start + b"\x00\x01\x01\x00",
        "a null rack": start + b"\x01\x01\x00\x00",
    }
    for name, body in cases.items():
        talk.ask_bytes(name, head + body, api_key=ApiKey.FETCH, version=12, correlation_id=7)
