"""Produce: batches that are broken, too large or not allowed, and requests that cannot be read."""

from barnabas.protocol.batch import Codec
from barnabas.protocol.ids import ApiKey
from tests.differential.batches import (
    PLAIN_RECORDS,
    batch,
    compressed_batch,
    forged,
    message_v1,
    with_bytes,
    with_payload,
)
from tests.differential.conversation import Conversation
from tests.differential.requests import list_offsets_of, produce_many, produce_to

THREE = batch(b"a", b"b", b"c")


def _refused(
    talk: Conversation, topic: str, name: str, records: bytes | None, versions: tuple[int, ...] = (8,)
) -> None:
    for version in versions:
        shown = name if len(versions) == 1 else f"{name}, version {version}"
        talk.ask(shown, version, produce_to(version, topic, records))


def a_flipped_bit(talk: Conversation) -> None:
    topic = talk.new_topic()
    for name, at in (("in the last record", -2), ("in the timestamps", 30), ("in the checksum", 18)):
        flipped = with_bytes(THREE, at % len(THREE), bytes([THREE[at] ^ 1]))
        _refused(talk, topic, name, flipped, (3, 7, 8))
    talk.ask("nothing was written", 5, list_offsets_of(topic, -1))
    talk.ask("a good one after them", 8, produce_to(8, topic, THREE))


def records_that_are_missing(talk: Conversation) -> None:
    topic = talk.new_topic()
    _refused(talk, topic, "null", None, (0, 2, 3, 8))
    _refused(talk, topic, "empty", b"", (0, 2, 3, 8))


def more_than_one_batch(talk: Conversation) -> None:
    topic = talk.new_topic()
    _refused(talk, topic, "two", batch(b"a") + batch(b"b"), (3, 8))
    _refused(talk, topic, "a batch and a message of format 1", batch(b"a") + message_v1(1, b"b"), (3, 8))
    _refused(talk, topic, "a batch and half of one", batch(b"a") + batch(b"b")[:70], (8,))
    for version in (3, 8):
        _refused(
            talk, talk.new_topic(), f"a batch and three bytes, version {version}", batch(b"a") + b"abc", (version,)
        )


def batches_that_end_early(talk: Conversation) -> None:
    topic = talk.new_topic()
    for length in (5, 12, 16, 17, 30, 60, 61, len(THREE) - 1):
        _refused(talk, topic, f"{length} bytes of a batch", THREE[:length])


def a_length_that_is_wrong(talk: Conversation) -> None:
    topic = talk.new_topic()
    length = len(THREE) - 12
    for name, value in (("one more", length + 1), ("one less", length - 1), ("zero", 0), ("negative", -1), ("ten", 10)):
        _refused(talk, topic, name, with_bytes(THREE, 8, value.to_bytes(4, "big", signed=True)))
    _refused(talk, topic, "two gigabytes", with_bytes(THREE, 8, b"\x7f\xff\xff\xff"))


def formats_that_do_not_exist(talk: Conversation) -> None:
    topic = talk.new_topic()
    for magic in (3, 4, 127, 255):
        _refused(talk, topic, f"magic {magic}", with_bytes(THREE, 16, bytes([magic])), (3, 8))


def a_base_offset_that_is_not_zero(talk: Conversation) -> None:
    topic = talk.new_topic()
    _refused(talk, topic, "five", forged(THREE, base_offset=5))
    _refused(talk, topic, "minus one", forged(THREE, base_offset=-1))


def counts_that_do_not_fit(talk: Conversation) -> None:
    topic = talk.new_topic()
    cases = {
        "a record more than there are": forged(THREE, record_count=4),
        "a record more, and an offset more": forged(THREE, record_count=4, last_offset_delta=3),
        "a record less than there are": forged(THREE, record_count=2),
        "a record less, and an offset less": forged(THREE, record_count=2, last_offset_delta=1),
        "no record": forged(THREE, record_count=0),
        "no record and no bytes": with_payload(THREE, b"", record_count=0, last_offset_delta=-1),
        "no record, no bytes, offset zero": with_payload(THREE, b"", record_count=0, last_offset_delta=0),
        "minus one record": forged(THREE, record_count=-1),
        "an unknown number of records": forged(THREE, record_count=-1, last_offset_delta=-2),
        "too large an offset": forged(THREE, last_offset_delta=5),
        "a negative offset": forged(THREE, last_offset_delta=-1),
        "a billion records": forged(THREE, record_count=1_000_000_000, last_offset_delta=999_999_999),
    }
    for name, records in cases.items():
        _refused(talk, topic, name, records)
    talk.ask("nothing was written", 5, list_offsets_of(topic, -1))


def compressed_counts_that_do_not_fit(talk: Conversation) -> None:
    topic = talk.new_topic()
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        good = compressed_batch(codec)
        _refused(talk, topic, f"{codec.name}: one more", forged(good, record_count=4, last_offset_delta=3))
        _refused(talk, topic, f"{codec.name}: one less", forged(good, record_count=2, last_offset_delta=1))
    talk.ask("nothing was written", 5, list_offsets_of(topic, -1))


def compressed_bytes_that_are_not(talk: Conversation) -> None:
    topic = talk.new_topic()
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        _refused(talk, topic, f"{codec.name}: plain records", compressed_batch(codec, PLAIN_RECORDS))
        _refused(talk, topic, f"{codec.name}: no bytes", compressed_batch(codec, b""))
        cut = compressed_batch(codec)[61:-9]
        _refused(talk, topic, f"{codec.name}: cut short", compressed_batch(codec, cut))
    for number in (5, 6, 7):
        _refused(talk, topic, f"codec {number}", forged(THREE, attributes=number))
    talk.ask("nothing was written", 5, list_offsets_of(topic, -1))


def records_that_cannot_be_read(talk: Conversation) -> None:
    one = batch(b"v")
    cases = {
        "a length past the end": b"\x40\x00\x00\x00\x01\x02v\x00",
        "a length too short": b"\x06\x00\x00\x00\x01\x02v\x00",
        "a length of zero": b"\x00\x00\x00\x00\x01\x02v\x00",
        "a negative length": b"\x01\x00\x00\x00\x01\x02v\x00",
        "a key past the end": b"\x0e\x00\x00\x00\x40\x02v\x00",
        "a key of length -2": b"\x0e\x00\x00\x00\x03\x02v\x00",
        "a value past the end": b"\x0e\x00\x00\x00\x01\x40v\x00",
        "a negative count of headers": b"\x0e\x00\x00\x00\x01\x02v\x01",
        "more headers than there are": b"\x0e\x00\x00\x00\x01\x02v\x04",
        "a header without a name": b"\x12\x00\x00\x00\x01\x02v\x02\x01\x01",
        "an offset that is not the next": b"\x0e\x00\x00\x02\x01\x02v\x00",
        "attributes of a record": b"\x0e\x07\x00\x00\x01\x02v\x00",
        "bytes behind the last record": b"\x0e\x00\x00\x00\x01\x02v\x00\x00",
        "a varint without an end": b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        "no bytes": b"",
    }
    for name, payload in cases.items():
        _refused(talk, talk.new_topic(), name, with_payload(one, payload))


def control_batches_of_a_client(talk: Conversation) -> None:
    topic = talk.new_topic()
    _refused(talk, topic, "plain", forged(batch(b"a"), attributes=0x20), (3, 8))
    marker = batch(b"\x00\x00\x00\x00\x00\x00", producer_id=900_001, producer_epoch=0, transactional=True, control=True)
    _refused(talk, topic, "the end of a transaction", marker, (8,))


def batches_that_are_too_large(talk: Conversation) -> None:
    topic = talk.new_topic(configs={"max.message.bytes": "200"})
    fits = batch(b"v" * (200 - len(batch(b"v" * 100)) + 100))
    assert len(fits) == 200
    talk.ask("just small enough", 8, produce_to(8, topic, fits))
    over = batch(b"v" * 131)
    for version in (3, 8):
        talk.ask(f"too large, version {version}", version, produce_to(version, topic, over))
    request = produce_to(7, topic, over, acks=0)
    talk.ask_without_answer("too large, without acknowledgement", 7, request)
    talk.ask("one that fits after them", 8, produce_to(8, topic, fits))
    talk.ask("larger than any topic here takes", 8, produce_to(8, talk.new_topic(), batch(bytes(1_100_000))))


def a_batch_larger_than_a_segment(talk: Conversation) -> None:
    topic = talk.new_topic(configs={"segment.bytes": "1000"})
    talk.ask("just small enough", 8, produce_to(8, topic, batch(bytes(900))))
    talk.ask("too large", 8, produce_to(8, topic, batch(bytes(1001))))


def requests_that_cannot_be_read(talk: Conversation) -> None:
    topic = talk.new_topic().encode()
    head = b"\x00\x00\x00\x03\x00\x00\x00\x07\x00\x01x"
    start = b"\xff\xff\xff\xff\x00\x00\x3a\x98\x00\x00\x00\x01" + len(topic).to_bytes(2, "big") + topic
    cases = {
        "no body": b"",
        "half a body": start[:7],
        "a negative count of topics": b"\xff\xff\xff\xff\x00\x00\x3a\x98\xff\xff\xff\xfe",
        "a null list of topics": b"\xff\xff\xff\xff\x00\x00\x3a\x98\xff\xff\xff\xff",
        "a count of topics past the end": b"\xff\xff\xff\xff\x00\x00\x3a\x98\x7f\xff\xff\xff",
        "records past the end": start + b"\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\xff\xffabc",
        "records of length -2": start + b"\x00\x00\x00\x01\x00\x00\x00\x00\xff\xff\xff\xfe",
        "bytes behind the request": start + b"\x00\x00\x00\x00" + b"abc",
    }
    for name, body in cases.items():
        talk.ask_bytes(name, head + body, api_key=ApiKey.PRODUCE, version=3, correlation_id=7)


def a_partition_named_twice(talk: Conversation) -> None:
    topic = talk.new_topic()
    request = produce_many(8, {topic: {0: batch(b"a")}})
    request.topics[0].partitions.append(request.topics[0].partitions[0])
    talk.ask("in one topic", 8, request)
    request = produce_many(8, {topic: {0: batch(b"a")}})
    request.topics.append(request.topics[0])
    talk.ask("in a topic named twice", 8, request)
