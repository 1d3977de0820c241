"""Message formats 0 and 1: sets that are broken, too large or not allowed, and clients that want no answer."""

from barnabas.protocol.batch import Codec
from barnabas.protocol.compression import compress
from barnabas.protocol.records import build_batch
from tests.differential.batches import T0_MS, batch, compressed_batch, record, sequenced
from tests.differential.conversation import Conversation
from tests.differential.corpus.old_formats_produced import FORMATS
from tests.differential.message_sets import message, messages, three_under, with_wrong_checksum, wrapper
from tests.differential.requests import fetch_from, list_offsets_of, produce_many, produce_to

ONE_V0, ONE_V1 = message(0, b"a"), message(1, b"a")


def _topic_of(talk: Conversation, name: str, **configs: str) -> str:
    overrides = {key.replace("_", "."): value for key, value in configs.items()}
    return talk.new_topic(configs={"message.format.version": FORMATS[name], **overrides})


def _tried(talk: Conversation, sets: dict[str, tuple[int, bytes]], **configs: str) -> None:
    """Each set to a topic of each format, and whether anything of it is there then."""
    for name in FORMATS:
        topic = _topic_of(talk, name, **configs)
        for shown, (version, records) in sets.items():
            talk.ask(f"{shown}, to {name}", version, produce_to(version, topic, records))
            talk.ask(f"{shown}, to {name}, the end", 5, list_offsets_of(topic, -1))


def wrong_checksums(talk: Conversation) -> None:
    inner_v1 = messages(1, b"a") + with_wrong_checksum(message(1, b"b", offset=1))
    inner_v0 = messages(0, b"a") + with_wrong_checksum(message(0, b"b", offset=1))
    sets = {
        "of a message of format 0": (0, with_wrong_checksum(ONE_V0)),
        "of a message of format 1": (2, with_wrong_checksum(ONE_V1)),
        "of a second message": (2, ONE_V1 + with_wrong_checksum(ONE_V1)),
        "of a wrapper": (2, with_wrong_checksum(three_under(1, Codec.GZIP))),
        "within a wrapper of format 0": (0, wrapper(0, Codec.GZIP, inner_v0, offset=1)),
        "within a wrapper of format 1": (2, wrapper(1, Codec.GZIP, inner_v1, offset=1)),
    }
    _tried(talk, sets)


def wrappers_that_cannot_be_read(talk: Conversation) -> None:
    inner = messages(1, b"a", b"b")
    whole = three_under(1, Codec.GZIP)
    sets = {
        "within a wrapper": (2, wrapper(1, Codec.GZIP, wrapper(1, Codec.GZIP, inner, offset=1), offset=1)),
        "over nothing": (2, wrapper(1, Codec.GZIP, b"")),
        "without a value": (2, message(1, None, attributes=1)),
        "with an empty value": (2, message(1, b"", attributes=1)),
        "with a key": (2, wrapper(1, Codec.GZIP, inner, offset=1, key=b"k")),
        "over format 0 in format 1": (2, wrapper(1, Codec.GZIP, messages(0, b"a", b"b"), offset=1)),
        "over format 1 in format 0": (0, wrapper(0, Codec.GZIP, messages(1, b"a", b"b"), offset=1)),
        "over both formats": (2, wrapper(1, Codec.GZIP, messages(1, b"a") + messages(0, b"b"), offset=1)),
        "over a batch of format 2": (2, wrapper(1, Codec.GZIP, batch(b"a"))),
        "over bytes that are not compressed": (2, message(1, inner, attributes=1)),
        "of snappy over bytes that are not compressed": (2, message(1, inner, attributes=2)),
        "of lz4 over bytes that are not compressed": (2, message(1, inner, attributes=3)),
        "under zstd": (2, wrapper(1, Codec.ZSTD, inner, offset=1)),
        "under zstd in format 0": (0, wrapper(0, Codec.ZSTD, messages(0, b"a"))),
        "under codec 5": (2, wrapper(1, 5, inner, offset=1)),
        "cut short": (2, whole[:-9]),
    }
    _tried(talk, sets)


def wrappers_over_more_than_messages(talk: Conversation) -> None:
    inner = messages(1, b"a", b"b")
    sets = {
        "half a message": (2, wrapper(1, Codec.GZIP, inner[:-5], offset=1)),
        "three bytes": (2, wrapper(1, Codec.GZIP, inner + b"abc", offset=1)),
    }
    _tried(talk, sets)


def lz4_with_the_new_checksum_in_format_0(talk: Conversation) -> None:
    talk.show_content()
    new_in_old = message(0, compress(Codec.LZ4, messages(0, b"a", b"b", b"c")), attributes=3, offset=2)
    for name in FORMATS:
        topic = _topic_of(talk, name)
        talk.ask(f"to {name}", 1, produce_to(1, topic, new_in_old))
        talk.ask(f"to {name}, read", 11, fetch_from(topic))


def lengths_that_are_wrong(talk: Conversation) -> None:
    def sized(entry: bytes, size: int) -> bytes:
        return entry[:8] + size.to_bytes(4, "big", signed=True) + entry[12:]

    length = len(ONE_V1) - 12
    key_past_the_end = ONE_V1[:26] + b"\x00\x00\x00\x40" + ONE_V1[30:]
    sets = {
        "a message and three bytes": (2, ONE_V1 + b"abc"),
        "a message and half of one": (2, ONE_V1 + ONE_V1[:20]),
        "half a message": (2, ONE_V1[:20]),
        "eleven bytes": (2, ONE_V1[:11]),
        "twelve bytes": (2, ONE_V1[:12]),
        "seventeen bytes": (2, ONE_V1[:17]),
        "one more": (2, sized(ONE_V1, length + 1)),
        "one less": (2, sized(ONE_V1, length - 1)),
        "thirteen": (2, sized(ONE_V1, 13)),
        "zero": (2, sized(ONE_V1, 0)),
        "negative": (2, sized(ONE_V1, -1)),
        "a key past the end": (2, key_past_the_end),
        "nothing": (2, b""),
        "a format that does not exist": (2, ONE_V1[:16] + b"\x07" + ONE_V1[17:]),
    }
    _tried(talk, sets)


def sizes_that_are_too_large(talk: Conversation) -> None:
    long_v0, long_v1 = message(0, b"v" * 300), message(1, b"v" * 300)
    inner = messages(1, b"v" * 500, b"v" * 500)
    sets = {
        "a message of format 0": (0, long_v0),
        "a message of format 1": (2, long_v1),
        "a second message": (2, ONE_V1 + long_v1),
        "messages that are too large together only": (2, messages(1, *[b"v" * 100] * 4)),
        "a wrapper that is small over what is not": (2, wrapper(1, Codec.GZIP, inner, offset=1)),
        "a batch over what is not": (8, compressed_batch(Codec.GZIP)),
    }
    _tried(talk, sets, max_message_bytes="200")
    sets = {
        "messages beyond a segment": (2, messages(1, *[b"v" * 100] * 10)),
        "messages of format 0 beyond a segment": (0, messages(0, *[b"v" * 100] * 10)),
        "a wrapper that is small": (2, wrapper(1, Codec.GZIP, messages(1, *[b"v" * 400] * 3), offset=2)),
    }
    _tried(talk, sets, segment_bytes="700")


def times_too_far_from_the_servers(talk: Conversation) -> None:
    sets = {
        "a message of format 0": (0, messages(0, b"a", b"b")),
        "a message of format 1": (2, messages(1, b"a", b"b")),
        "without a time": (2, message(1, b"a", timestamp_ms=-1)),
        "a wrapper": (2, three_under(1, Codec.GZIP)),
        "a batch": (8, batch(b"a")),
    }
    _tried(talk, sets, message_timestamp_difference_max_ms="1000")


def records_without_keys_in_a_compacted_topic(talk: Conversation) -> None:
    keyed = message(1, b"a", key=b"k", timestamp_ms=T0_MS) + message(1, b"b", key=b"", offset=1)
    sets = {
        "messages of format 0": (0, messages(0, b"a", b"b")),
        "messages of format 1": (2, messages(1, b"a", b"b")),
        "a wrapper": (2, three_under(1, Codec.GZIP)),
        "messages with keys": (2, keyed),
        "a wrapper over keys": (2, wrapper(1, Codec.GZIP, keyed, offset=1)),
        "a wrapper of format 0 over keys": (0, wrapper(0, Codec.GZIP, message(0, b"a", key=b"k"))),
    }
    _tried(talk, sets, cleanup_policy="compact")


def batches_that_old_formats_cannot_hold(talk: Conversation) -> None:
    headers = build_batch([record(b"v", headers=(("a", b"b"), ("cc", None)))])
    sets = {
        "headers": (8, headers),
        "an idempotent producer": (8, sequenced(800_001, 0)),
        "zstd": (8, compressed_batch(Codec.ZSTD)),
        "a null value": (8, batch(None)),
    }
    _tried(talk, sets)


def old_formats_in_versions_that_want_batches(talk: Conversation) -> None:
    sets = {
        "format 1 in version 3": (3, ONE_V1),
        "format 0 in version 8": (8, ONE_V0),
        "a wrapper in version 7": (7, three_under(1, Codec.GZIP)),
    }
    _tried(talk, sets)


def partitions_that_are_not_there(talk: Conversation) -> None:
    topic = talk.new_topic()
    for version, records in ((0, ONE_V0), (1, ONE_V0), (2, ONE_V1)):
        talk.ask(f"topic, version {version}", version, produce_to(version, "never-made", records))
        talk.ask(f"partition, version {version}", version, produce_to(version, topic, records, partition=9))
    for acks in (2, -2):
        talk.ask(f"acks {acks}", 2, produce_to(2, topic, ONE_V1, acks=acks))
    several: dict[str, dict[int, bytes | None]] = {topic: {0: ONE_V1, 7: ONE_V1}, "never-made": {0: ONE_V1}}
    talk.ask("one good, two unknown", 2, produce_many(2, several))


def without_acknowledgement(talk: Conversation) -> None:
    topic = talk.new_topic()
    for version, records in ((0, ONE_V0), (1, ONE_V0), (2, ONE_V1)):
        talk.ask_without_answer(f"version {version}", version, produce_to(version, topic, records, acks=0))
    talk.ask("what was written", 11, fetch_from(topic))
    talk.ask_without_answer("a wrong checksum", 2, produce_to(2, topic, with_wrong_checksum(ONE_V1), acks=0))
    talk.ask_without_answer("half a message", 2, produce_to(2, topic, ONE_V1[:20], acks=0))
