"""Clients of Kafka 0.8, 0.9 and 0.10 write and read beside newer ones, on topics of every message format."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from barnabas.protocol.ids import TopicPartition
from tests.compatibility import old_wire
from tests.compatibility.brokers import RunningBroker
from tests.compatibility.confluent_client import ConfluentClient
from tests.compatibility.kafka_python_client import KafkaPythonClient
from tests.compatibility.kcat_client import KcatConsumer
from tests.compatibility.messages import Consumer, Message
from tests.support.kcat import is_installed, kcat

CAPTURED = Path(__file__).parent / "captured" / "old_wire.json"
OLD_CODECS = ("none", "gzip", "snappy", "lz4")
T0_MS = 1_600_000_000_000
FORMATS = {"format 0": "0.9.0", "format 1": "0.10.0", "format 2": "2.7"}

KAFKA_PYTHON: dict[tuple[int, ...], KafkaPythonClient] = {
    version: KafkaPythonClient(version) for version in ((0, 8, 2), (0, 9), (0, 10))
}
KCAT = {version: KcatConsumer(version) for version in ("0.8.2.2", "0.9.0.1", "0.10.0.1")}
KNOWS_TIMES = {(0, 10), "0.10.0.1"}


@dataclass(frozen=True, slots=True)
class Written:
    """What stands at an offset. The time is -1 where the client of that time could not tell one."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int


def test_a_raw_client_of_each_time_gets_the_bytes_that_kafka_gave(broker: RunningBroker) -> None:
    broker.new_topic(name=old_wire.TOPIC)
    expected = json.loads(CAPTURED.read_text())
    answers = {name: answer.hex() for name, answer in old_wire.play(broker.bootstrap).items()}
    broker.delete_topic(old_wire.TOPIC)
    assert len(expected) > 50
    assert answers == expected


def written_by_kafka_python(broker: RunningBroker, topic: str) -> Iterator[Written]:
    source = random.Random(5)
    shapes = [(None, b"alone"), (b"k", b""), (b"", b"v"), (b"gone", None), (b"long", source.randbytes(100_000))]
    for number, (version, client) in enumerate(KAFKA_PYTHON.items()):
        knows_times = version in KNOWS_TIMES
        for codec in OLD_CODECS:
            sent = [Message(topic, 0, key, value, (), T0_MS + number if knows_times else None) for key, value in shapes]
            deliveries = client.produce(broker.bootstrap, sent, codec=codec)
            assert [one.error for one in deliveries] == [None] * len(sent), (client.name, codec)
            yield from (Written(key, value, T0_MS + number if knows_times else -1) for key, value in shapes)


def written_by_kcat(broker: RunningBroker, topic: str) -> Iterator[Written]:
    for version, client in KCAT.items():
        for codec in OLD_CODECS:
            lines = b"".join(b"k%d:%s %s\n" % (number, codec.encode(), version.encode()) for number in range(3))
            arguments = ("-P", "-b", broker.bootstrap, "-t", topic, "-p", "0", "-K", ":", "-z", codec)
            kcat(*arguments, *client.options, standard_input=lines)
            for line in lines.splitlines():
                key, _, value = line.partition(b":")
                yield Written(key, value, 0 if version in KNOWS_TIMES else -1)


def written_by_a_newer_client(broker: RunningBroker, topic: str) -> Iterator[Written]:
    for number, codec in enumerate(OLD_CODECS):
        sent = [Message(topic, 0, b"new", codec.encode(), (("h", b"v"),) if number else (), T0_MS + 77)]
        assert [one.error for one in ConfluentClient().produce(broker.bootstrap, sent, codec=codec)] == [None]
        yield Written(b"new", codec.encode(), T0_MS + 77)


@pytest.fixture(scope="module")
def topic_of_all(broker: RunningBroker) -> tuple[str, list[Written]]:
    """A topic of the latest format to which every client has written with every codec that all of them know."""
    topic = broker.new_topic()
    written = list(written_by_a_newer_client(broker, topic))
    written += written_by_kafka_python(broker, topic)
    if is_installed():
        written += written_by_kcat(broker, topic)
    written += written_by_a_newer_client(broker, topic)
    return topic, written


def assert_reads(consumer: Consumer, broker: RunningBroker, topic: str, written: list[Written], *, times: bool) -> None:
    partition = TopicPartition(topic, 0)
    received = consumer.consume(broker.bootstrap, {partition: len(written)})[partition]
    assert [one.offset for one in received] == list(range(len(written))), consumer.name
    came = [(one.message.key, one.message.value) for one in received]
    assert came == [(one.key, one.value) for one in written], consumer.name
    if times:
        told = [one.message.timestamp_ms for one in received]
        # 0 stands for the clock of kcat's machine.
        assert [
            time for time, one in zip(told, written, strict=True) if one.timestamp_ms and time != one.timestamp_ms
        ] == [], consumer.name


@pytest.mark.parametrize("version", KAFKA_PYTHON, ids=str)
def test_kafka_python_of_that_time_reads_what_all_wrote(
    version: tuple[int, ...], broker: RunningBroker, topic_of_all: tuple[str, list[Written]]
) -> None:
    assert_reads(KAFKA_PYTHON[version], broker, *topic_of_all, times=version in KNOWS_TIMES)


@pytest.mark.skipif(not is_installed(), reason="kcat is not installed")
@pytest.mark.parametrize("version", KCAT)
def test_kcat_of_that_time_reads_what_all_wrote(
    version: str, broker: RunningBroker, topic_of_all: tuple[str, list[Written]]
) -> None:
    assert_reads(KCAT[version], broker, *topic_of_all, times=version in KNOWS_TIMES)


def test_newer_clients_read_what_all_wrote(broker: RunningBroker, topic_of_all: tuple[str, list[Written]]) -> None:
    for client in (ConfluentClient(), KafkaPythonClient()):
        assert_reads(client, broker, *topic_of_all, times=True)


@pytest.mark.parametrize("name", ["format 0", "format 1"])
def test_old_and_newer_clients_share_a_topic_of_an_old_format(name: str, broker: RunningBroker) -> None:
    topic = broker.new_topic(settings={"message.format.version": FORMATS[name]})
    written: list[Written] = []
    for number, codec in enumerate(OLD_CODECS):
        old = [Message(topic, 0, b"old", codec.encode())] * 2
        assert {one.error for one in KAFKA_PYTHON[0, 9].produce(broker.bootstrap, old, codec=codec)} == {None}
        new = [Message(topic, 0, b"new", codec.encode(), (), T0_MS + number)] * 2
        deliveries = ConfluentClient().produce(broker.bootstrap, new, codec=codec, one_by_one=True)
        assert {one.error for one in deliveries} == {None}
        written += [Written(b"old", codec.encode(), -1)] * 2
        written += [Written(b"new", codec.encode(), T0_MS + number if name == "format 1" else -1)] * 2
    for client in (KAFKA_PYTHON[0, 8, 2], KAFKA_PYTHON[0, 10], ConfluentClient()):
        times = name == "format 1" and client is not KAFKA_PYTHON[0, 8, 2]
        assert_reads(client, broker, topic, written, times=times)
