"""ListOffsets: first and next offsets, and offsets by time."""

from barnabas.protocol.ids import ApiKey
from tests.differential.batches import COMPRESSED_RECORDS, T0_MS, batch, batch_at, compressed_batch, forged
from tests.differential.conversation import Conversation
from tests.differential.requests import list_offsets_of, produce_to

VERSIONS = range(6)
LATEST, EARLIEST = -1, -2


def _six_records(talk: Conversation) -> str:
    """Two batches at T0 to T0+2 and T0+100 to T0+102."""
    topic = talk.new_topic()
    talk.write(topic, batch_at(0, b"a", b"b", b"c"), batch_at(100, b"d", b"e", b"f"))
    return topic


def every_version_finds_the_ends(talk: Conversation) -> None:
    topic = _six_records(talk)
    for version in VERSIONS:
        talk.ask(f"latest, version {version}", version, list_offsets_of(topic, LATEST))
        talk.ask(f"earliest, version {version}", version, list_offsets_of(topic, EARLIEST))


def the_ends_of_an_empty_partition(talk: Conversation) -> None:
    topic = talk.new_topic()
    for version in (0, 1, 4, 5):
        for timestamp in (LATEST, EARLIEST, 0, T0_MS):
            talk.ask(f"{timestamp}, version {version}", version, list_offsets_of(topic, timestamp))


def the_first_record_at_or_after_a_time(talk: Conversation) -> None:
    topic = _six_records(talk)
    for after in (-1000, 0, 1, 2, 3, 50, 99, 100, 101, 102, 103, 1_000_000):
        talk.ask(f"{after} ms after the first", 5, list_offsets_of(topic, T0_MS + after))
    for version in VERSIONS[1:]:
        talk.ask(f"version {version}", version, list_offsets_of(topic, T0_MS + 50))
    talk.ask("the epoch's start", 5, list_offsets_of(topic, 0))
    talk.ask("the end of time", 5, list_offsets_of(topic, (1 << 63) - 1))


def times_that_are_none(talk: Conversation) -> None:
    topic = _six_records(talk)
    for timestamp in (-3, -4, -5, -(1 << 63)):
        for version in (1, 5):
            talk.ask(f"{timestamp}, version {version}", version, list_offsets_of(topic, timestamp))


def times_that_go_back(talk: Conversation) -> None:
    topic = talk.new_topic()
    talk.write(topic, batch_at(100, b"late"), batch_at(0, b"early"), batch_at(200, b"later"), batch_at(150, b"between"))
    for after in (0, 1, 100, 101, 150, 151, 200, 201):
        talk.ask(f"{after} ms after the first", 5, list_offsets_of(topic, T0_MS + after))


def the_time_within_a_compressed_batch(talk: Conversation) -> None:
    for codec in COMPRESSED_RECORDS:
        topic = talk.new_topic()
        talk.ask(f"{codec.name}, written", 7, produce_to(7, topic, compressed_batch(codec)))
        for after in (0, 1, 2, 3):
            talk.ask(f"{codec.name}, {after} ms after the first", 5, list_offsets_of(topic, T0_MS + after))


def records_without_a_time(talk: Conversation) -> None:
    topic = talk.new_topic()
    talk.write(topic, forged(batch(b"a"), first_timestamp=-1, max_timestamp=-1), batch_at(0, b"b"))
    for timestamp in (0, T0_MS, T0_MS + 1):
        talk.ask(f"at {timestamp}", 5, list_offsets_of(topic, timestamp))


def version_0_lists_the_starts_of_segments(talk: Conversation) -> None:
    topic = talk.new_topic(configs={"segment.bytes": "200"})
    talk.write(topic, *[batch(b"v" * 100) for _ in range(5)])
    for count in (0, 1, 2, 3, 100, -1):
        for timestamp in (LATEST, EARLIEST):
            request = list_offsets_of(topic, timestamp, max_num_offsets=count)
            talk.ask(f"{count} before {timestamp}", 0, request)
    for timestamp in (0, T0_MS, -3):
        talk.ask(f"before the time {timestamp}", 0, list_offsets_of(topic, timestamp, max_num_offsets=10))


def times_across_segments(talk: Conversation) -> None:
    topic = talk.new_topic(configs={"segment.bytes": "200"})
    talk.write(topic, *[batch_at(1000 * number, b"v" * 100) for number in range(5)])
    for after in (0, 1, 1000, 1500, 3999, 4000, 4001):
        talk.ask(f"{after} ms after the first", 5, list_offsets_of(topic, T0_MS + after))


def isolation_levels(talk: Conversation) -> None:
    topic = _six_records(talk)
    for level in (0, 1, 2, -1):
        for version in (2, 5):
            request = list_offsets_of(topic, LATEST, isolation_level=level)
            talk.ask(f"latest at level {level}, version {version}", version, request)
    talk.ask("a time at level 1", 5, list_offsets_of(topic, T0_MS + 50, isolation_level=1))


def the_leader_epoch_that_a_client_knows(talk: Conversation) -> None:
    topic = _six_records(talk)
    for version in (4, 5):
        for epoch in (-1, 0, 1, -2):
            for timestamp in (LATEST, EARLIEST, T0_MS):
                request = list_offsets_of(topic, timestamp, leader_epoch=epoch)
                talk.ask(f"{timestamp} in epoch {epoch}, version {version}", version, request)


def unknown_topics_and_partitions(talk: Conversation) -> None:
    topic = talk.new_topic()
    for version in VERSIONS:
        talk.ask(f"topic, version {version}", version, list_offsets_of("never-made", LATEST))
        talk.ask(f"partition, version {version}", version, list_offsets_of(topic, LATEST, partition=3))
    talk.ask("partition -1", 5, list_offsets_of(topic, LATEST, partition=-1))
    talk.ask("an impossible name", 5, list_offsets_of("a b", LATEST))


def several_partitions(talk: Conversation) -> None:
    topic = talk.new_topic(partitions=3)
    talk.write(topic, batch(b"a", b"b"), partition=1)
    for version in (0, 1, 5):
        request = list_offsets_of(topic, LATEST, EARLIEST, LATEST, LATEST)
        talk.ask(f"the fourth is unknown, version {version}", version, request)


def a_partition_named_twice(talk: Conversation) -> None:
    topic = _six_records(talk)
    for version in (0, 1, 5):
        request = list_offsets_of(topic, LATEST)
        again = list_offsets_of(topic, EARLIEST).topics[0].partitions[0]
        request.topics[0].partitions.append(again)
        talk.ask(f"version {version}", version, request)


def replica_ids(talk: Conversation) -> None:
    topic = _six_records(talk)
    for replica_id in (-2, -3, 1, 2):
        for version in (0, 5):
            request = list_offsets_of(topic, LATEST, replica_id=replica_id)
            talk.ask(f"replica {replica_id}, version {version}", version, request)


def a_topic_that_stamps_its_records_itself(talk: Conversation) -> None:
    topic = talk.new_topic(configs={"message.timestamp.type": "LogAppendTime"})
    talk.write(topic, batch(b"a", b"b"), batch(b"c"))
    for timestamp in (0, T0_MS, LATEST):
        talk.ask(f"at {timestamp}", 5, list_offsets_of(topic, timestamp))


def no_topics(talk: Conversation) -> None:
    for version in VERSIONS:
        request = list_offsets_of("x")
        request.topics.clear()
        talk.ask(f"version {version}", version, request)


def requests_that_cannot_be_read(talk: Conversation) -> None:
    head = b"\x00\x02\x00\x01\x00\x00\x00\x07\x00\x01x"
    cases = {
        "no body": b"",
        "a null list of topics": b"\xff\xff\xff\xff\xff\xff\xff\xff",
        "a count past the end": b"\xff\xff\xff\xff\x00\x00\x00\x09",
        "half a partition": b"\xff\xff\xff\xff\x00\x00\x00\x01\x00\x01a\x00\x00\x00\x01\x00\x00",
    }
    for name, body in cases.items():
        talk.ask_bytes(name, head + body, api_key=ApiKey.LIST_OFFSETS, version=1, correlation_id=7)
