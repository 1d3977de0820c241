"""Message formats 0 and 1: what producers of each format get into topics of each format, and what readers see of it.

Topics of the latest format too: there the broker converts up. The reverse, batches into a topic of an old format, is
converted down. Codecs are applied by the server in most of these, so records are shown by their content.
"""

from barnabas.protocol.batch import Codec
from tests.differential.batches import T0_MS, batch, batch_at, compressed_batch
from tests.differential.conversation import Conversation
from tests.differential.message_sets import message, messages, three_under, wrapper
from tests.differential.requests import fetch_from, fetch_partition, list_offsets_of, produce_to

FORMATS = {"format 0": "0.9.0", "format 1": "0.10.0", "format 2": "2.7"}
OLD_CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
LOG_APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}


def _topic_of(talk: Conversation, name: str, **configs: str) -> str:
    """A topic that stores one of the formats."""
    overrides = {key.replace("_", "."): value for key, value in configs.items()}
    return talk.new_topic(configs={"message.format.version": FORMATS[name], **overrides})


def _read(talk: Conversation, name: str, topic: str, versions: tuple[int, ...] = (1, 3, 11)) -> None:
    for version in versions:
        talk.ask(f"{name}, read by version {version}", version, fetch_from(topic))


def _written_and_read(talk: Conversation, sets: dict[str, tuple[int, bytes]]) -> None:
    """Each set to a topic of each format, and what is there then."""
    for name in FORMATS:
        topic = _topic_of(talk, name)
        for shown, (version, records) in sets.items():
            answer = talk.ask(f"{shown}, to {name}", version, produce_to(version, topic, records))
            base_offset = answer.responses[0].partitions[0].base_offset
            if base_offset >= 0:
                talk.ask(f"{shown}, to {name}, read", 11, fetch_from(topic, fetch_partition(base_offset)))


def every_producer_to_every_format(talk: Conversation) -> None:
    talk.show_content()
    for name in FORMATS:
        for codec in OLD_CODECS:
            topic = _topic_of(talk, name)
            shown = f"{codec.name} to {name}"
            for version, magic in ((0, 0), (1, 0), (2, 1)):
                records = three_under(magic, codec, prefix=b"%d-" % version)
                talk.ask(f"{shown}, version {version}", version, produce_to(version, topic, records))
            _read(talk, shown, topic)


def batches_to_old_formats(talk: Conversation) -> None:
    talk.show_content()
    for name in ("format 0", "format 1"):
        topic = _topic_of(talk, name)
        for version in (3, 8):
            talk.ask(
                f"plain to {name}, version {version}", version, produce_to(version, topic, batch(b"a", None, b"c"))
            )
        talk.ask(f"with keys to {name}", 7, produce_to(7, topic, compressed_batch(Codec.NONE)))
        _read(talk, f"plain to {name}", topic)
        for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
            topic = _topic_of(talk, name)
            talk.ask(f"{codec.name} to {name}", 7, produce_to(7, topic, compressed_batch(codec)))
            _read(talk, f"{codec.name} to {name}", topic)


def a_server_that_stamps(talk: Conversation) -> None:
    talk.show_content()
    for name in FORMATS:
        for codec in (Codec.NONE, Codec.GZIP):
            topic = _topic_of(talk, name, message_timestamp_type="LogAppendTime")
            shown = f"{codec.name} to {name}"
            for version, magic in ((0, 0), (1, 0), (2, 1)):
                talk.ask(f"{shown}, version {version}", version, produce_to(version, topic, three_under(magic, codec)))
            talk.ask(f"{shown}, version 8", 8, produce_to(8, topic, compressed_batch(codec)))
            _read(talk, shown, topic)


def a_server_with_a_codec_of_its_own(talk: Conversation) -> None:
    talk.show_content()
    for chosen in ("gzip", "snappy", "lz4", "uncompressed"):
        for name in FORMATS:
            topic = _topic_of(talk, name, compression_type=chosen)
            shown = f"{chosen} in {name}"
            for version, magic in ((1, 0), (2, 1)):
                for codec in (Codec.NONE, Codec.SNAPPY):
                    records = three_under(magic, codec)
                    talk.ask(
                        f"{codec.name} to {shown}, version {version}", version, produce_to(version, topic, records)
                    )
            talk.ask(f"a batch to {shown}", 8, produce_to(8, topic, compressed_batch(Codec.LZ4)))
            _read(talk, shown, topic, (1, 2, 11))


def zstd_of_the_server(talk: Conversation) -> None:
    talk.show_content()
    for name in FORMATS:
        topic = _topic_of(talk, name, compression_type="zstd")
        for version, magic in ((0, 0), (2, 1)):
            talk.ask(f"to {name}, version {version}", version, produce_to(version, topic, messages(magic, b"a", b"b")))
        talk.ask(f"a batch to {name}", 8, produce_to(8, topic, batch(b"a")))
        _read(talk, f"to {name}", topic, (0, 3, 9, 10))


def several_messages_and_wrappers_in_one_set(talk: Conversation) -> None:
    talk.show_content()
    sets = {
        "five messages of format 0": (1, messages(0, b"a", b"b", b"c", b"d", b"e")),
        "five messages of format 1": (2, messages(1, b"a", b"b", b"c", b"d", b"e")),
        "two wrappers of format 0": (1, three_under(0, Codec.GZIP) + three_under(0, Codec.GZIP)),
        "two wrappers of format 1": (2, three_under(1, Codec.GZIP) + three_under(1, Codec.GZIP)),
        "wrappers of two codecs": (2, three_under(1, Codec.GZIP) + three_under(1, Codec.SNAPPY)),
        "a message, then a wrapper, of format 0": (1, messages(0, b"a") + three_under(0, Codec.GZIP)),
        "a message, then a wrapper, of format 1": (2, messages(1, b"a") + three_under(1, Codec.GZIP)),
        "a wrapper, then a message, of format 1": (2, three_under(1, Codec.GZIP) + messages(1, b"a")),
        "messages of formats 0 and 1": (2, messages(0, b"a") + messages(1, b"b")),
        "messages of formats 1 and 0": (2, messages(1, b"a") + messages(0, b"b")),
        "two batches of format 2": (2, batch(b"a") + batch(b"b")),
        "two batches of format 2 under codecs": (2, compressed_batch(Codec.GZIP) + compressed_batch(Codec.GZIP)),
        "a batch, then a message of format 1": (2, batch(b"a") + messages(1, b"b")),
        "a message of format 1, then a batch": (2, messages(1, b"b") + batch(b"a")),
    }
    _written_and_read(talk, sets)


def offsets_as_clients_write_them(talk: Conversation) -> None:
    talk.show_content()
    inner = messages(1, b"a", b"b", b"c")
    far_inner = b"".join(message(1, value, offset=offset) for value, offset in ((b"a", 5), (b"b", 9), (b"c", 10)))
    sets = {
        "all zero, of format 0": (0, b"".join(message(0, value) for value in (b"a", b"b", b"c"))),
        "all zero, of format 1": (2, b"".join(message(1, value) for value in (b"a", b"b", b"c"))),
        "falling": (2, message(1, b"a", offset=7) + message(1, b"b", offset=3)),
        "negative": (2, message(1, b"a", offset=-5)),
        "from a thousand on": (2, messages(1, b"a", b"b", first_offset=1000)),
        "a wrapper at 0 over 0 to 2": (2, wrapper(1, Codec.GZIP, inner, offset=0)),
        "a wrapper at 9 over 0 to 2": (2, wrapper(1, Codec.GZIP, inner, offset=9)),
        "a wrapper over gaps": (2, wrapper(1, Codec.GZIP, far_inner, offset=10)),
        "a wrapper over zeros": (2, wrapper(1, Codec.GZIP, message(1, b"a") + message(1, b"b"), offset=1)),
        "a wrapper of format 0 over zeros": (0, wrapper(0, Codec.GZIP, message(0, b"a") + message(0, b"b"))),
        "a wrapper of format 0 over gaps": (
            0,
            wrapper(0, Codec.GZIP, message(0, b"a", offset=5) + message(0, b"b", offset=9)),
        ),
    }
    _written_and_read(talk, sets)


def times_as_clients_write_them(talk: Conversation) -> None:
    talk.show_content()
    inner = message(1, b"a", timestamp_ms=T0_MS + 5) + message(1, b"b", offset=1, timestamp_ms=T0_MS + 3)
    sets = {
        "none": message(1, b"a", timestamp_ms=-1),
        "zero": message(1, b"a", timestamp_ms=0),
        "below none": message(1, b"a", timestamp_ms=-2),
        "falling": message(1, b"a", timestamp_ms=T0_MS + 9) + message(1, b"b", timestamp_ms=T0_MS),
        "a wrapper with another time": wrapper(1, Codec.GZIP, inner, offset=1, timestamp_ms=T0_MS + 77),
        "a wrapper without a time": wrapper(1, Codec.GZIP, inner, offset=1, timestamp_ms=-1),
        "the bit of the server's time": message(1, b"a", attributes=8),
        "the bit of the server's time on a wrapper": wrapper(1, Codec.GZIP, inner, offset=1, attributes=8),
        "unused bits": message(1, b"a", attributes=0x70),
    }
    _written_and_read(talk, {shown: (2, records) for shown, records in sets.items()})


def times_that_are_looked_for(talk: Conversation) -> None:
    for name in FORMATS:
        for codec in (Codec.NONE, Codec.GZIP):
            topic = _topic_of(talk, name)
            shown = f"{codec.name} in {name}"
            talk.ask(f"{shown}, written", 2, produce_to(2, topic, three_under(1, codec)))
            talk.ask(f"{shown}, written again", 8, produce_to(8, topic, batch_at(100, b"d", b"e")))
            for version in (1, 5):
                for after in (0, 1, 2, 3, 101, 102):
                    request = list_offsets_of(topic, T0_MS + after)
                    talk.ask(f"{shown}, {after} ms after the first, version {version}", version, request)
                talk.ask(f"{shown}, the end, version {version}", version, list_offsets_of(topic, -1))
                talk.ask(f"{shown}, the start, version {version}", version, list_offsets_of(topic, -2))


def reading_within_what_is_stored(talk: Conversation) -> None:
    for name in ("format 0", "format 1"):
        topic = _topic_of(talk, name)
        magic = int(name[-1])
        talk.ask(f"{name}, written", 2, produce_to(2, topic, messages(magic, b"a", b"b", b"c", b"d")))
        for offset in (0, 1, 3, 4, 5):
            for version in (0, 2, 3, 4, 11):
                shown = f"{name} from {offset}, version {version}"
                talk.ask(shown, version, fetch_from(topic, fetch_partition(offset)))
        for max_bytes in (0, 1, 11, 12, 27, 35, 36, 70, 100):
            for version in (0, 2, 3, 11):
                shown = f"{name}, {max_bytes} bytes, version {version}"
                talk.ask(shown, version, fetch_from(topic, fetch_partition(max_bytes=max_bytes)))


def reading_within_a_wrapper(talk: Conversation) -> None:
    talk.show_content()
    for name in ("format 0", "format 1"):
        topic = _topic_of(talk, name)
        talk.ask(f"{name}, written", 2, produce_to(2, topic, three_under(int(name[-1]), Codec.GZIP)))
        talk.ask(f"{name}, written again", 2, produce_to(2, topic, three_under(int(name[-1]), Codec.SNAPPY)))
        for offset in (0, 1, 2, 3, 5):
            for version in (0, 2, 3, 4, 11):
                talk.ask(
                    f"{name} from {offset}, version {version}", version, fetch_from(topic, fetch_partition(offset))
                )
