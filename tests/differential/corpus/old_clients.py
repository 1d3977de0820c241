"""The conversations of clients of Kafka 0.8 to 0.10 as raw bytes, by their own names for things.

Such a client asks no ApiVersions, sends fixed versions and knows message formats 0 or 1. Its messages carry checksums
that were computed once and stand here as bytes.
"""

from barnabas.protocol.ids import ApiKey
from tests.differential.batches import batch
from tests.differential.conversation import Conversation

CLIENT_0_8 = b"\x00\x00\x00\x07" + b"\x00\x0cold-consumer"
"""Correlation id 7 and a client id."""
NO_CLIENT = b"\x00\x00\x00\x07" + b"\xff\xff"
"""Correlation id 7 and no client id."""

HELLO_V0 = bytes.fromhex("0000000000000000 00000013 87a77ab2 0000 ffffffff 00000005 68656c6c6f")
"""Format 0: offset 0, 19 bytes, CRC-32, magic 0 without codec, no key, the value `hello`."""
KEYED_V0 = bytes.fromhex("0000000000000000 00000014 a8aa1cff 0000 00000001 6b 00000005 776f726c64")
"""Format 0 with the key `k` and the value `world`."""
WRONG_CHECKSUM_V0 = bytes.fromhex("0000000000000000 00000013 87a77ab3 0000 ffffffff 00000005 68656c6c6f")
GZIP_V0 = bytes.fromhex(
    "0000000000000000 00000047 9c6005f7 0001 ffffffff 00000039 1f8b080000000000020363608003e1f6e5559b1818fe0301"
    "90c79a919a93930f95620449771f385b8e902ecf2fca49010048863d283e000000"
)
"""Format 0 under gzip: `hello` and `world` within one message."""
HELLO_V1 = bytes.fromhex("0000000000000000 0000001b 61df48e7 0100 00000174876e8000 ffffffff 00000005 68656c6c6f")
"""Format 1: a timestamp before the key."""
GZIP_V1 = bytes.fromhex(
    "0000000000000001 00000059 58645236 0101 00000174876e8005 ffffffff 00000043 1f8b080000000000020363608003e9c4"
    "fb1ecf19810cc692f6bc0686ff4000e4b066a4e6e4e443958064a55f4a4ff4872b6385292bcf2fca490100a4ae38864e000000"
)


def _topic(name: str) -> bytes:
    return len(name).to_bytes(2, "big") + name.encode()


def _ask(talk: Conversation, name: str, key: ApiKey, version: int, rest: bytes, *, who: bytes = CLIENT_0_8) -> None:
    payload = key.to_bytes(2, "big") + version.to_bytes(2, "big") + who + rest
    talk.ask_bytes(name, payload, api_key=key, version=version, correlation_id=7)


def _topic_metadata(talk: Conversation, name: str, *topics: str, who: bytes = CLIENT_0_8) -> None:
    """TopicMetadataRequest version 0: an array of names; an empty one asks for all."""
    rest = len(topics).to_bytes(4, "big") + b"".join(map(_topic, topics))
    _ask(talk, name, ApiKey.METADATA, 0, rest, who=who)


def _offsets(talk: Conversation, name: str, topic: str, time: bytes, maximum: bytes = b"\x00\x00\x00\x01") -> None:
    """OffsetRequest version 0: replica -1, a topic, partition 0, a time, how many at most."""
    rest = b"\xff\xff\xff\xff" + b"\x00\x00\x00\x01" + _topic(topic) + b"\x00\x00\x00\x01"
    _ask(talk, name, ApiKey.LIST_OFFSETS, 0, rest + b"\x00\x00\x00\x00" + time + maximum)


def _fetch(talk: Conversation, name: str, topic: str, version: int, offset: int = 0) -> None:
    """FetchRequest: replica -1, 100 ms, 1 byte, a topic, partition 0, an offset, 64 KiB."""
    rest = b"\xff\xff\xff\xff" + b"\x00\x00\x00\x64" + b"\x00\x00\x00\x01" + b"\x00\x00\x00\x01" + _topic(topic)
    rest += b"\x00\x00\x00\x01" + b"\x00\x00\x00\x00" + offset.to_bytes(8, "big") + b"\x00\x01\x00\x00"
    _ask(talk, name, ApiKey.FETCH, version, rest)


def _produce(
    talk: Conversation, name: str, topic: str, version: int, messages: bytes, *, acks: bytes = b"\x00\x01"
) -> None:
    """ProduceRequest: acknowledgements, 1500 ms, a topic, partition 0, a sized message set."""
    rest = acks + b"\x00\x00\x05\xdc" + b"\x00\x00\x00\x01" + _topic(topic) + b"\x00\x00\x00\x01"
    rest += b"\x00\x00\x00\x00" + len(messages).to_bytes(4, "big") + messages
    _ask(talk, name, ApiKey.PRODUCE, version, rest)


LATEST = b"\xff\xff\xff\xff\xff\xff\xff\xff"
EARLIEST = b"\xff\xff\xff\xff\xff\xff\xff\xfe"
IN_2020 = b"\x00\x00\x01\x74\x87\x6e\x80\x00"


def a_producer_of_0_8(talk: Conversation) -> None:
    topic = talk.topic_name()
    _topic_metadata(talk, "metadata of a topic that is not there yet", topic)
    talk.await_leaders(topic, 2)
    _topic_metadata(talk, "metadata once it is", topic)
    _produce(talk, "a message", topic, 0, HELLO_V0)
    _produce(talk, "a message with a key, acknowledged by all", topic, 0, KEYED_V0, acks=b"\xff\xff")
    _produce(talk, "messages under gzip", topic, 0, GZIP_V0)
    _produce(talk, "a wrong checksum", topic, 0, WRONG_CHECKSUM_V0)
    _produce(talk, "to a topic that is not there", "never-made", 0, HELLO_V0)


def a_consumer_of_0_8(talk: Conversation) -> None:
    topic = talk.new_topic()
    talk.write(topic, batch(b"a", b"b"), batch(b"c"))
    _topic_metadata(talk, "metadata", topic)
    _topic_metadata(talk, "metadata without a client id", topic, who=NO_CLIENT)
    _offsets(talk, "the latest offset", topic, LATEST)
    _offsets(talk, "the earliest offset", topic, EARLIEST)
    _offsets(talk, "ten offsets", topic, LATEST, b"\x00\x00\x00\x0a")
    _offsets(talk, "no offsets", topic, LATEST, b"\x00\x00\x00\x00")
    _offsets(talk, "offsets before a time in 2020", topic, IN_2020, b"\x00\x00\x00\x0a")
    _offsets(talk, "offsets of a topic that is not there", "never-made", LATEST)
    _fetch(talk, "from the start", topic, 0)
    _fetch(talk, "from the end", topic, 0, 3)
    _fetch(talk, "from behind the end", topic, 0, 99)
    _fetch(talk, "from a topic that is not there", "never-made", 0)


def a_producer_of_0_9(talk: Conversation) -> None:
    topic = talk.new_topic()
    _topic_metadata(talk, "metadata", topic)
    _produce(talk, "a message", topic, 1, HELLO_V0)
    _produce(talk, "messages under gzip", topic, 1, GZIP_V0)
    _produce(talk, "an unknown number of acknowledgements", topic, 1, HELLO_V0, acks=b"\x00\x07")


def a_consumer_of_0_9(talk: Conversation) -> None:
    topic = talk.new_topic()
    talk.write(topic, batch(b"a", b"b"))
    _offsets(talk, "the latest offset", topic, LATEST)
    _fetch(talk, "from the start", topic, 1)
    _fetch(talk, "from the end", topic, 1, 2)
    _fetch(talk, "from behind the end", topic, 1, 99)


def a_client_of_0_10(talk: Conversation) -> None:
    topic = talk.new_topic()
    _ask(talk, "which versions there are", ApiKey.API_VERSIONS, 0, b"")
    _ask(talk, "metadata of all topics", ApiKey.METADATA, 1, b"\xff\xff\xff\xff")
    _produce(talk, "a message", topic, 2, HELLO_V1)
    _produce(talk, "messages under gzip", topic, 2, GZIP_V1)
    written = talk.new_topic()
    talk.write(written, batch(b"a", b"b"))
    _fetch(talk, "from the start", written, 2)
    _fetch(talk, "from the end", written, 2, 2)


def messages_without_acknowledgement(talk: Conversation) -> None:
    topic = talk.new_topic()
    rest = b"\x00\x00" + b"\x00\x00\x05\xdc" + b"\x00\x00\x00\x01" + _topic(topic) + b"\x00\x00\x00\x01"
    rest += b"\x00\x00\x00\x00" + len(WRONG_CHECKSUM_V0).to_bytes(4, "big") + WRONG_CHECKSUM_V0
    _ask(talk, "a wrong checksum", ApiKey.PRODUCE, 0, rest)


def an_old_client_that_asks_for_all_topics(talk: Conversation) -> None:
    talk.new_topic(partitions=2)
    _topic_metadata(talk, "an empty list")


def old_requests_that_cannot_be_read(talk: Conversation) -> None:
    cases = {
        "a count past the end": b"\x00\x00\x00\x05\x00\x01a",
        "a name past the end": b"\x00\x00\x00\x01\x00\x63a",
        "no count": b"\x00\x00",
    }
    for name, rest in cases.items():
        _ask(talk, name, ApiKey.METADATA, 0, rest)
    _topic_metadata(talk, "an impossible name", "a b")
    _topic_metadata(talk, "an empty name", "")
