"""Fetch 0 to 3 of topics of record batches: what is converted down for consumers of Kafka 0.8 to 0.10.

The size of an answer is fixed before all of it is converted. What comes out shorter is filled up with the head of a
message that does not end; what comes out longer is cut.
"""

from barnabas.protocol.batch import Codec
from barnabas.protocol.records import build_batch
from tests.differential.batches import batch, batch_at, compressed_batch, forged, record, sequenced
from tests.differential.conversation import Conversation
from tests.differential.message_sets import messages, three_under
from tests.differential.requests import fetch_from, fetch_partition, fetch_topics, produce_to

OLD = (0, 1, 2, 3)


def _ten_records(talk: Conversation, partitions: int = 1) -> str:
    """Five batches of two records, 79 bytes each."""
    topic = talk.new_topic(partitions=partitions)
    talk.write(topic, *[batch(b"a%d" % number, b"b%d" % number) for number in range(5)])
    return topic


def every_offset(talk: Conversation) -> None:
    topic = _ten_records(talk)
    for version in OLD:
        for offset in (0, 1, 2, 5, 8, 9, 10, 11):
            talk.ask(f"{offset}, version {version}", version, fetch_from(topic, fetch_partition(offset)))


def limits_of_bytes(talk: Conversation) -> None:
    topic = _ten_records(talk)
    for version in (0, 2, 3):
        for max_bytes in (0, 1, 11, 12, 17, 60, 61, 78, 79, 80, 100, 157, 158, 200, 394, 395, 400):
            request = fetch_from(topic, fetch_partition(max_bytes=max_bytes))
            talk.ask(f"{max_bytes} bytes, version {version}", version, request)
    for max_bytes in (0, 1, 79, 200, 395):
        talk.ask(f"{max_bytes} bytes in all", 3, fetch_from(topic, max_bytes=max_bytes))


def a_batch_that_grows(talk: Conversation) -> None:
    topic = talk.new_topic()
    talk.write(topic, batch(*[b"v"] * 50), batch(*[b"w"] * 50), batch(b"x"))
    for version in (1, 3):
        for offset in (0, 20, 50, 99, 100):
            talk.ask(f"from {offset}, version {version}", version, fetch_from(topic, fetch_partition(offset)))
        for max_bytes in (1, 100, 461, 500, 1000):
            request = fetch_from(topic, fetch_partition(max_bytes=max_bytes))
            talk.ask(f"{max_bytes} bytes, version {version}", version, request)


def a_batch_that_shrinks(talk: Conversation) -> None:
    topic = talk.new_topic()
    talk.write(topic, *[batch(b"v" * 100) for _ in range(3)])
    for version in (1, 3):
        for offset in (0, 2):
            talk.ask(f"from {offset}, version {version}", version, fetch_from(topic, fetch_partition(offset)))
        for max_bytes in (169, 300, 400):
            request = fetch_from(topic, fetch_partition(max_bytes=max_bytes))
            talk.ask(f"{max_bytes} bytes, version {version}", version, request)


def more_than_is_converted_at_a_time(talk: Conversation) -> None:
    topic = talk.new_topic()
    talk.write(topic, *[batch(bytes(50_000), bytes(50_000)) for _ in range(5)])
    for version in (1, 3):
        talk.ask(f"version {version}", version, fetch_from(topic))
    talk.ask("three batches", 3, fetch_from(topic, fetch_partition(max_bytes=310_000)))
    shrinking = talk.new_topic()
    talk.write(
        shrinking, *[batch(bytes(10)) for _ in range(10)], batch(*[bytes(10)] * 2_000), batch(*[bytes(10)] * 20_000)
    )
    for version in (1, 3):
        talk.ask(f"a part that is converted, version {version}", version, fetch_from(shrinking))


def nulls_keys_and_headers(talk: Conversation) -> None:
    topic = talk.new_topic()
    headers = build_batch([record(b"v", headers=(("a", b"b"), ("cc", None)))])
    talk.write(topic, batch(None), batch(b""), compressed_batch(Codec.NONE), headers)
    for version in OLD:
        talk.ask(f"version {version}", version, fetch_from(topic))


def every_codec(talk: Conversation) -> None:
    talk.show_content()
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        topic = talk.new_topic()
        talk.ask(f"{codec.name}, written", 7, produce_to(7, topic, compressed_batch(codec)))
        for version in (*OLD, 4):
            for offset in (0, 1, 2, 3):
                shown = f"{codec.name} from {offset}, version {version}"
                talk.ask(shown, version, fetch_from(topic, fetch_partition(offset)))


def zstd_behind_another_batch(talk: Conversation) -> None:
    talk.show_content()
    topic = talk.new_topic()
    for number, records in enumerate((batch(b"a"), compressed_batch(Codec.ZSTD), batch(b"b"))):
        talk.ask(f"written {number}", 7, produce_to(7, topic, records))
    for version in OLD:
        for offset in (0, 1, 4):
            talk.ask(f"from {offset}, version {version}", version, fetch_from(topic, fetch_partition(offset)))


def a_topic_configured_for_zstd(talk: Conversation) -> None:
    topic = talk.new_topic(configs={"compression.type": "zstd"})
    talk.ask("written", 7, produce_to(7, topic, compressed_batch(Codec.ZSTD)))
    for version in (*OLD, 4, 9):
        for offset in (0, 3, 99):
            talk.ask(f"from {offset}, version {version}", version, fetch_from(topic, fetch_partition(offset)))


def times(talk: Conversation) -> None:
    topic = talk.new_topic()
    none = forged(batch(b"a"), first_timestamp=-1, max_timestamp=-1)
    talk.write(topic, batch_at(0, b"a", b"b"), none, batch_at(-1_600_000_000_000, b"c"))
    for version in (0, 3):
        for offset in (0, 2, 3):
            talk.ask(f"from {offset}, version {version}", version, fetch_from(topic, fetch_partition(offset)))


def times_that_old_formats_cannot_hold(talk: Conversation) -> None:
    topic = talk.new_topic()
    talk.write(topic, batch(b"a"), forged(batch(b"b"), first_timestamp=-5, max_timestamp=-5))
    for version in (0, 3):
        talk.ask(f"behind another batch, version {version}", version, fetch_from(topic))
        talk.ask(f"first, version {version}", version, fetch_from(topic, fetch_partition(1)))


def times_of_the_server(talk: Conversation) -> None:
    talk.show_content()
    topic = talk.new_topic(configs={"message.timestamp.type": "LogAppendTime"})
    talk.write(topic, batch(b"a", b"b"))
    for version in OLD:
        talk.ask(f"plain, version {version}", version, fetch_from(topic))
    topic = talk.new_topic(configs={"message.timestamp.type": "LogAppendTime"})
    talk.write(topic, compressed_batch(Codec.GZIP))
    for version in OLD:
        talk.ask(f"gzip, version {version}", version, fetch_from(topic))


def idempotent_producers(talk: Conversation) -> None:
    topic = talk.new_topic()
    talk.write(topic, sequenced(700_002, 0, 2), sequenced(700_002, 2, 1))
    for version in (1, 2):
        talk.ask(f"version {version}", version, fetch_from(topic))


def several_partitions(talk: Conversation) -> None:
    topic = _ten_records(talk, partitions=3)
    talk.write(topic, batch(b"second"), partition=1)
    talk.write(topic, batch(b"third"), partition=2)
    three = [fetch_partition(partition=number) for number in range(3)]
    for version in OLD:
        talk.ask(f"in order, version {version}", version, fetch_from(topic, *three))
        talk.ask(f"reversed, version {version}", version, fetch_from(topic, *reversed(three)))
        partitions = [fetch_partition(99), fetch_partition(partition=1), fetch_partition(partition=9)]
        talk.ask(f"an offset out of range, version {version}", version, fetch_from(topic, *partitions))
    for max_bytes in (1, 79, 395, 400, 468, 600):
        talk.ask(f"{max_bytes} bytes in all", 3, fetch_from(topic, *three, max_bytes=max_bytes))
    request = fetch_topics({topic: [fetch_partition(8)], "never-made": [fetch_partition()]})
    for version in OLD:
        talk.ask(f"an unknown topic, version {version}", version, request)


def waiting(talk: Conversation) -> None:
    topic = talk.new_topic()
    for version in (0, 3):
        offset = (0, 3).index(version)
        request = fetch_from(topic, fetch_partition(offset), max_wait_ms=10_000, min_bytes=1)
        pending = talk.send(f"version {version}", version, request, apart=True)
        talk.note(f"version {version} waits", talk.is_waiting(pending))
        talk.ask(f"the append that version {version} waits for", 7, produce_to(7, topic, batch(b"x")))
        talk.receive(pending)
    request = fetch_from(topic, max_wait_ms=100, min_bytes=1_000_000)
    talk.ask("too few bytes", 1, request)


def a_topic_that_is_not_converted(talk: Conversation) -> None:
    topic = talk.new_topic(configs={"message.downconversion.enable": "false"})
    talk.write(topic, batch(b"a"), batch(b"b"))
    for version in (*OLD, 4, 11):
        for offset in (0, 1, 2, 3):
            talk.ask(f"from {offset}, version {version}", version, fetch_from(topic, fetch_partition(offset)))
        cut = fetch_from(topic, fetch_partition(max_bytes=50))
        talk.ask(f"50 bytes, version {version}", version, cut)
    other = talk.new_topic()
    talk.write(other, batch(b"c"))
    both = {topic: [fetch_partition()], other: [fetch_partition()]}
    talk.ask("with another topic", 1, fetch_topics(both))
    for name, version_of_format in (("format 0", "0.9.0"), ("format 1", "0.10.0")):
        configs = {"message.downconversion.enable": "false", "message.format.version": version_of_format}
        topic = talk.new_topic(configs=configs)
        talk.ask(f"written to {name}", 2, produce_to(2, topic, messages(1, b"a", b"b")))
        for version in (1, 3, 11):
            talk.ask(f"{name}, version {version}", version, fetch_from(topic))


def topics_of_format_1_for_readers_of_format_0(talk: Conversation) -> None:
    talk.show_content()
    for codec in (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4):
        topic = talk.new_topic(configs={"message.format.version": "0.10.0"})
        talk.ask(f"{codec.name}, written", 2, produce_to(2, topic, three_under(1, codec)))
        for version in (*OLD, 4, 11):
            for offset in (0, 2):
                shown = f"{codec.name} from {offset}, version {version}"
                talk.ask(shown, version, fetch_from(topic, fetch_partition(offset)))


def a_follower_of_an_old_version(talk: Conversation) -> None:
    topic = _ten_records(talk)
    for version in OLD:
        talk.ask(f"version {version}", version, fetch_from(topic, fetch_partition(8), replica_id=5))
