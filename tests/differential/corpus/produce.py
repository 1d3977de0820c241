"""Produce: appends that succeed, in every version, and what they answer."""

from barnabas.protocol.batch import Codec
from tests.differential.batches import (
    COMPRESSED_RECORDS,
    RAW_SNAPPY_RECORDS,
    batch,
    batch_at,
    compressed_batch,
    forged,
    message_v0,
    message_v1,
    with_payload,
)
from tests.differential.conversation import Conversation
from tests.differential.requests import fetch_from, list_offsets_of, produce_many, produce_to

BATCH_VERSIONS = range(3, 9)


def every_version_appends_and_answers_the_base_offset(talk: Conversation) -> None:
    topic = talk.new_topic()
    for version in BATCH_VERSIONS:
        talk.ask(f"version {version}", version, produce_to(version, topic, batch(b"a", b"b", b"c")))
    talk.ask("what was written", 11, fetch_from(topic))


def the_leader_alone_or_all_replicas_acknowledge(talk: Conversation) -> None:
    topic = talk.new_topic()
    for acks in (1, -1):
        talk.ask(f"acks {acks}", 7, produce_to(7, topic, batch(b"a"), acks=acks))


def without_acknowledgement_there_is_no_answer(talk: Conversation) -> None:
    topic = talk.new_topic()
    for version in (3, 5, 8):
        talk.ask_without_answer(f"version {version}", version, produce_to(version, topic, batch(b"a"), acks=0))
    talk.ask("what was written", 11, fetch_from(topic))


def an_error_without_acknowledgement_closes_the_connection(talk: Conversation) -> None:
    topic = talk.new_topic()
    missing = produce_to(7, "never-made", batch(b"a"), acks=0)
    talk.ask_without_answer("an unknown topic", 7, missing)
    corrupt = bytearray(batch(b"a"))
    corrupt[-1] ^= 1
    talk.ask_without_answer("a wrong checksum", 7, produce_to(7, topic, bytes(corrupt), acks=0))
    request = produce_to(7, topic, batch(b"a"), acks=0, partition=9)
    talk.ask_without_answer("an unknown partition", 7, request)


def other_numbers_of_acknowledgements_are_refused(talk: Conversation) -> None:
    topic = talk.new_topic()
    for acks in (2, -2, 32767, -32768):
        for version in (3, 8):
            talk.ask(f"acks {acks}, version {version}", version, produce_to(version, topic, batch(b"a"), acks=acks))
    talk.ask("nothing was written", 5, list_offsets_of(topic, -1))


def several_partitions_and_topics_in_one_request(talk: Conversation) -> None:
    first, second = talk.new_topic(partitions=3), talk.new_topic()
    request = produce_many(7, {first: {0: batch(b"a"), 2: batch(b"b", b"c")}, second: {0: batch(b"d")}})
    talk.ask("all good", 7, request)
    request = produce_many(7, {first: {0: batch(b"a"), 9: batch(b"b")}, "never-made": {0: batch(b"c")}})
    talk.ask("one good, two unknown", 7, request)
    request = produce_many(8, {first: {0: batch(b"a"), 1: batch(b"b")[:-1] + b"?"}})
    talk.ask("one good, one corrupt", 8, request)
    talk.ask("no topic at all", 7, produce_many(7, {}))
    talk.ask("a topic without partitions", 7, produce_many(7, {first: {}}))


def unknown_topics_and_partitions(talk: Conversation) -> None:
    topic = talk.new_topic()
    for version in BATCH_VERSIONS:
        talk.ask(f"topic, version {version}", version, produce_to(version, "never-made", batch(b"a")))
    for partition in (1, -1, 2_147_483_647):
        talk.ask(f"partition {partition}", 8, produce_to(8, topic, batch(b"a"), partition=partition))
    for name in ("", "a b", "x" * 250):
        talk.ask(f"a topic called {name[:5]!r}", 8, produce_to(8, name, batch(b"a")))


def every_codec(talk: Conversation) -> None:
    for codec in COMPRESSED_RECORDS:
        topic = talk.new_topic()
        talk.ask(f"{codec.name}, version 8", 8, produce_to(8, topic, compressed_batch(codec)))
        talk.ask(f"{codec.name}, version 3", 3, produce_to(3, topic, compressed_batch(codec)))
        talk.ask(f"{codec.name}, what was written", 11, fetch_from(topic))
    topic = talk.new_topic()
    talk.ask(
        "snappy without xerial's framing", 7, produce_to(7, topic, compressed_batch(Codec.SNAPPY, RAW_SNAPPY_RECORDS))
    )
    talk.ask("snappy without xerial's framing, what was written", 11, fetch_from(topic))


def zstd_wants_version_7(talk: Conversation) -> None:
    topic = talk.new_topic()
    for version in BATCH_VERSIONS:
        talk.ask(f"version {version}", version, produce_to(version, topic, compressed_batch(Codec.ZSTD)))


def a_topic_that_stamps_its_records_itself(talk: Conversation) -> None:
    topic = talk.new_topic(configs={"message.timestamp.type": "LogAppendTime"})
    for version in (3, 8):
        talk.ask(f"version {version}", version, produce_to(version, topic, batch(b"a", b"b")))
    talk.ask("compressed", 7, produce_to(7, topic, compressed_batch(Codec.LZ4)))
    talk.ask("what was written", 11, fetch_from(topic))


def a_producers_own_broker_fields_are_overwritten(talk: Conversation) -> None:
    topic = talk.new_topic()
    talk.ask("a leader epoch", 7, produce_to(7, topic, forged(batch(b"a"), leader_epoch=77)))
    talk.ask("a maximal timestamp that no record has", 7, produce_to(7, topic, forged(batch(b"a"), max_timestamp=5)))
    talk.ask("no maximal timestamp", 7, produce_to(7, topic, forged(batch(b"a"), max_timestamp=-1)))
    talk.ask("the bit of append time", 7, produce_to(7, topic, forged(batch(b"a"), attributes=8)))
    talk.ask("unused bits", 7, produce_to(7, topic, forged(batch(b"a"), attributes=0x40)))
    talk.ask("what was written", 11, fetch_from(topic))


def timestamps_at_their_ends(talk: Conversation) -> None:
    topic = talk.new_topic()
    far = 253_402_300_800_000 - 1_600_000_000_000
    talk.ask("before the epoch", 7, produce_to(7, topic, forged(batch(b"a"), first_timestamp=-5, max_timestamp=-5)))
    talk.ask("none", 7, produce_to(7, topic, forged(batch(b"a"), first_timestamp=-1, max_timestamp=-1)))
    talk.ask("zero", 7, produce_to(7, topic, batch_at(-1_600_000_000_000, b"a")))
    talk.ask("in the year 10000", 7, produce_to(7, topic, batch_at(far, b"a")))
    talk.ask("what was written", 11, fetch_from(topic))


def a_timestamp_too_far_from_the_servers_clock(talk: Conversation) -> None:
    topic = talk.new_topic(configs={"message.timestamp.difference.max.ms": "1000"})
    for version in (3, 7, 8):
        talk.ask(f"version {version}", version, produce_to(version, topic, batch(b"a", b"b")))
    talk.ask("compressed", 8, produce_to(8, topic, compressed_batch(Codec.GZIP)))
    talk.ask("nothing was written", 5, list_offsets_of(topic, -1))


def records_without_keys_in_a_compacted_topic(talk: Conversation) -> None:
    topic = talk.new_topic(configs={"cleanup.policy": "compact"})
    for version in (3, 7, 8):
        talk.ask(f"version {version}", version, produce_to(version, topic, batch(b"a", b"b")))
    talk.ask("with keys", 8, produce_to(8, topic, compressed_batch(Codec.SNAPPY)))


def records_of_nothing(talk: Conversation) -> None:
    topic = talk.new_topic()
    talk.ask("null value", 7, produce_to(7, topic, batch(None)))
    talk.ask("empty value", 7, produce_to(7, topic, batch(b"")))
    talk.ask("what was written", 11, fetch_from(topic))


def headers_of_records_are_kept(talk: Conversation) -> None:
    topic = talk.new_topic()
    one = b"\x22\x00\x00\x00\x01\x02v\x04\x02a\x02b\x04cc\x01"
    talk.ask("two, one of them null", 7, produce_to(7, topic, with_payload(batch(b"v"), one)))
    talk.ask("what was written", 11, fetch_from(topic))


def old_formats_in_versions_for_them(talk: Conversation) -> None:
    for version, messages in (
        (0, message_v0(0, b"a") + message_v0(1, b"b", key=b"k")),
        (1, message_v0(0, b"a")),
        (2, message_v1(0, b"a") + message_v1(1, b"b", key=b"k")),
    ):
        topic = talk.new_topic()
        talk.ask(f"version {version}", version, produce_to(version, topic, messages))
    topic = talk.new_topic()
    talk.ask("acks 1", 2, produce_to(2, topic, message_v1(0, b"a"), acks=1))


def old_formats_in_versions_that_want_batches(talk: Conversation) -> None:
    topic = talk.new_topic()
    for version in BATCH_VERSIONS:
        talk.ask(f"format 1 in version {version}", version, produce_to(version, topic, message_v1(0, b"a")))
    talk.ask("format 0 in version 3", 3, produce_to(3, topic, message_v0(0, b"a")))


def a_batch_in_a_version_for_messages(talk: Conversation) -> None:
    topic = talk.new_topic()
    for version in range(3):
        talk.ask(f"version {version}", version, produce_to(version, topic, batch(b"a")))


def transactional_batches_outside_a_transaction(talk: Conversation) -> None:
    topic = talk.new_topic()
    ours = batch(b"a", producer_id=900_000, producer_epoch=0, base_sequence=0, transactional=True)
    for version in (3, 8):
        request = produce_to(version, topic, ours, transactional_id="some-transaction")
        talk.ask(f"version {version}", version, request)


def a_transactional_id_around_a_plain_batch(talk: Conversation) -> None:
    topic = talk.new_topic()
    talk.ask("version 7", 7, produce_to(7, topic, batch(b"a"), transactional_id="some-transaction"))
    talk.ask("an empty id", 7, produce_to(7, topic, batch(b"a"), transactional_id=""))


def a_timeout_of_nothing(talk: Conversation) -> None:
    topic = talk.new_topic()
    talk.ask("zero", 7, produce_to(7, topic, batch(b"a"), timeout_ms=0))
    talk.ask("negative", 7, produce_to(7, topic, batch(b"a"), timeout_ms=-1))
