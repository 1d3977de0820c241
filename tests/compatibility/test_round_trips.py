"""What a client sends comes back as it was sent: to the same client, and to every other one."""

import random
import time
from collections import Counter

import pytest

from barnabas.protocol.ids import TopicPartition
from tests.compatibility.brokers import RunningBroker
from tests.compatibility.confluent_client import ConfluentClient
from tests.compatibility.messages import CODECS, Client, Consumer, Message

PARTITIONS = 6
MEGABYTE = 1_000_000
SEED = 20_270_401


def messages_of_every_shape(topic: str) -> list[Message]:
    """For each of six partitions every mix of null, empty, short and large keys and values, with headers and times."""
    source = random.Random(SEED)
    now_ms = int(time.time() * 1000)
    datas = (None, b"", b"k", "schlüssel".encode(), source.randbytes(300))
    shapes = [(key, value) for key in datas for value in datas]
    shapes.append((b"large, incompressible", source.randbytes(MEGABYTE)))
    shapes.append((b"large, compressible", b"all work and no play " * (MEGABYTE // 21)))
    headers = (
        (),
        (("trace", b"4bf92f3577b34da6"),),
        (("same", b"first"), ("same", b"second"), ("empty", b"")),
        (("größe", "groß".encode()),),
    )
    messages = []
    for partition in range(PARTITIONS):
        for number, (key, value) in enumerate(shapes):
            if key is not None and key.startswith(b"large") and partition != number % PARTITIONS:
                continue
            timestamp_ms = source.choice((now_ms, now_ms - 86_400_000, 1, now_ms - source.randrange(1_000_000)))
            messages.append(Message(topic, partition, key, value, headers[number % len(headers)], timestamp_ms))
    source.shuffle(messages)
    return messages


def counts_of(messages: list[Message]) -> dict[TopicPartition, int]:
    return Counter(TopicPartition(message.topic, message.partition or 0) for message in messages)


def assert_received_as_sent(consumer: Consumer, broker: RunningBroker, messages: list[Message]) -> None:
    received = consumer.consume(broker.bootstrap, counts_of(messages))
    for partition in counts_of(messages):
        sent = [message for message in messages if TopicPartition(message.topic, message.partition or 0) == partition]
        came = received[partition]
        assert [one.offset for one in came] == list(range(len(sent))), f"offsets of {partition} at {consumer.name}"
        assert [one.message for one in came] == sent, f"messages of {partition} at {consumer.name}"


def test_a_client_reads_back_what_it_sent_with_each_codec(client: Client, broker: RunningBroker) -> None:
    everything: list[Message] = []
    for codec in CODECS:
        messages = messages_of_every_shape(broker.new_topic(partitions=PARTITIONS))
        if not client.sends_records_of_nothing:
            messages = [one for one in messages if (one.key, one.value) != (None, None)]
        deliveries = client.produce(broker.bootstrap, messages, codec=codec)
        assert [(one.error, one.partition) for one in deliveries] == [(None, one.partition) for one in messages]
        everything += messages
    assert_received_as_sent(client, broker, everything)
    assert_received_as_sent(ConfluentClient(), broker, everything)


@pytest.fixture(scope="module")
def written_with_each_codec(broker: RunningBroker) -> list[Message]:
    everything: list[Message] = []
    for codec in CODECS:
        messages = messages_of_every_shape(broker.new_topic(partitions=PARTITIONS))
        deliveries = ConfluentClient().produce(broker.bootstrap, messages, codec=codec)
        assert [one.error for one in deliveries] == [None] * len(messages)
        everything += messages
    return everything


def test_every_client_reads_what_another_one_sent(
    consumer: Consumer, broker: RunningBroker, written_with_each_codec: list[Message]
) -> None:
    assert_received_as_sent(consumer, broker, written_with_each_codec)


def test_an_over_large_record_is_refused_and_the_client_goes_on(client: Client, broker: RunningBroker) -> None:
    topic = broker.new_topic()
    now_ms = int(time.time() * 1000)
    too_large = Message(topic, 0, None, random.Random(SEED).randbytes(1_100_000), (), now_ms)
    small = Message(topic, 0, None, b"small", (), now_ms)
    before, refused, after = client.produce(broker.bootstrap, [small, too_large, small], one_by_one=True)
    assert refused.error in {"MSG_SIZE_TOO_LARGE", "MessageSizeTooLargeError", "RecordTooLargeException"}
    assert (before.offset, after.error, after.offset) == (0, None, 1)
    assert_received_as_sent(client, broker, [small, small])
