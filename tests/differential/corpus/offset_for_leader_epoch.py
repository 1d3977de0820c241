"""OffsetForLeaderEpoch: where leader epochs end."""

from barnabas.protocol.ids import ApiKey
from tests.differential.batches import batch
from tests.differential.conversation import Conversation
from tests.differential.requests import epoch_end

VERSIONS = range(4)


def _written(talk: Conversation) -> str:
    topic = talk.new_topic()
    talk.write(topic, batch(b"a", b"b"), batch(b"c"))
    return topic


def every_version_finds_the_end_of_the_current_epoch(talk: Conversation) -> None:
    topic = _written(talk)
    for version in VERSIONS:
        talk.ask(f"version {version}", version, epoch_end(topic, 0))


def epochs_that_the_log_does_not_have(talk: Conversation) -> None:
    topic = _written(talk)
    for epoch in (-1, -2, 1, 7, 2_147_483_647):
        for version in VERSIONS:
            talk.ask(f"epoch {epoch}, version {version}", version, epoch_end(topic, epoch))


def an_empty_partition(talk: Conversation) -> None:
    topic = talk.new_topic()
    for epoch in (0, 1, -1):
        for version in VERSIONS:
            talk.ask(f"epoch {epoch}, version {version}", version, epoch_end(topic, epoch))


def the_leader_epoch_that_is_known(talk: Conversation) -> None:
    topic = _written(talk)
    for current in (-1, 0, 1, 9, -2):
        for version in (2, 3):
            request = epoch_end(topic, 0, current_leader_epoch=current)
            talk.ask(f"epoch {current}, version {version}", version, request)
    talk.ask("not looked at in version 1", 1, epoch_end(topic, 0, current_leader_epoch=9))


def unknown_topics_and_partitions(talk: Conversation) -> None:
    topic = _written(talk)
    for version in VERSIONS:
        talk.ask(f"topic, version {version}", version, epoch_end("never-made", 0))
        talk.ask(f"partition, version {version}", version, epoch_end(topic, 0, partition=5))
    talk.ask("partition -1", 3, epoch_end(topic, 0, partition=-1))
    talk.ask("an impossible name", 3, epoch_end("a b", 0))
    talk.ask("a leader epoch as well", 3, epoch_end(topic, 0, partition=5, current_leader_epoch=0))


def replica_ids(talk: Conversation) -> None:
    topic = _written(talk)
    for replica_id in (-1, -2, -3, 1, 2):
        talk.ask(f"replica {replica_id}", 3, epoch_end(topic, 0, replica_id=replica_id))


def several_topics_at_once(talk: Conversation) -> None:
    first, second = _written(talk), talk.new_topic(partitions=2)
    for version in VERSIONS:
        request = epoch_end(first, 0)
        request.topics += epoch_end(second, 0).topics + epoch_end("never-made", 0).topics
        request.topics[1].partitions += epoch_end(second, 0, partition=1).topics[0].partitions
        talk.ask(f"version {version}", version, request)
    request = epoch_end(first, 0)
    request.topics.clear()
    talk.ask("none", 3, request)


def a_partition_named_twice(talk: Conversation) -> None:
    topic = _written(talk)
    request = epoch_end(topic, 0)
    request.topics[0].partitions += epoch_end(topic, 7).topics[0].partitions
    talk.ask("version 3", 3, request)


def requests_that_cannot_be_read(talk: Conversation) -> None:
    head = b"\x00\x17\x00\x00\x00\x00\x00\x07\x00\x01x"
    cases = {
        "no body": b"",
        "a null list": b"\xff\xff\xff\xff",
        "a count past the end": b"\x00\x00\x00\x05\x00\x01a",
        "half a partition": b"\x00\x00\x00\x01\x00\x01a\x00\x00\x00\x01\x00\x00",
    }
    for name, body in cases.items():
        talk.ask_bytes(name, head + body, api_key=ApiKey.OFFSET_FOR_LEADER_EPOCH, version=0, correlation_id=7)
