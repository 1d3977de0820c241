"""A sample of Debian's package index through kcat into six partitions, and back through every client.

The whole index goes the same way in bench/real_input.py.
"""

from pathlib import Path

import pytest

from barnabas.protocol.ids import TopicPartition
from tests.compatibility.brokers import RunningBroker
from tests.compatibility.messages import CODECS, Consumer
from tests.compatibility.package_index import (
    KEY_DELIMITER,
    Line,
    NoPackageIndex,
    messages_of,
    order_violation,
    sample_lines,
)
from tests.support.kcat import is_installed, produce_lines

PARTITIONS = 6
LINES = 8_000


@pytest.fixture(scope="module")
def lines() -> list[bytes]:
    try:
        return sample_lines(LINES)
    except NoPackageIndex as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def written(broker: RunningBroker, lines: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> dict[str, bool]:
    """Topics that hold the sample, one per codec, unkeyed and keyed; each with whether it is keyed."""
    if not is_installed():
        pytest.skip("kcat is not installed")
    path: Path = tmp_path_factory.mktemp("index") / "lines"
    path.write_bytes(b"\n".join(lines) + b"\n")
    topics = {}
    for codec in CODECS:
        for keyed in (False, True):
            topic = broker.new_topic(partitions=PARTITIONS)
            produce_lines(broker.bootstrap, topic, path, codec=codec, key_delimiter=KEY_DELIMITER if keyed else None)
            topics[topic] = keyed
    return topics


@pytest.fixture(scope="module")
def counts(written: dict[str, bool], lines: list[bytes], broker: RunningBroker) -> dict[TopicPartition, int]:
    """How many records each partition holds, by its end."""
    found = broker.end_offsets(written, PARTITIONS)
    assert sum(found.values()) == len(written) * len([line for line in lines if line])
    return found


def test_the_package_index_comes_back_in_order(
    consumer: Consumer,
    broker: RunningBroker,
    written: dict[str, bool],
    counts: dict[TopicPartition, int],
    lines: list[bytes],
) -> None:
    received = consumer.consume(broker.bootstrap, counts)
    for topic, keyed in written.items():
        came: dict[int, list[Line]] = {}
        for partition in range(PARTITIONS):
            records = received[TopicPartition(topic, partition)]
            assert [one.offset for one in records] == list(range(len(records)))
            came[partition] = [(one.message.key, one.message.value) for one in records]
        assert order_violation(messages_of(lines, keyed=keyed), came) is None


A: Line = (b"a", b"1")
B: Line = (b"b", b"2")
C: Line = (None, b"3")
D: Line = (None, b"4")


@pytest.mark.parametrize(
    ("received", "words"),
    [
        ({0: [A, C, D], 1: [B]}, None),
        ({0: [A], 1: [B, C, D]}, None),
        ({0: [A, D, C], 1: [B]}, "not in order"),
        ({0: [A, C], 1: [B]}, "not what was sent"),
        ({0: [A, C, D, D], 1: [B]}, "not what was sent"),
    ],
)
def test_the_check_of_the_order_finds_what_is_wrong(received: dict[int, list[Line]], words: str | None) -> None:
    found = order_violation([A, B, C, D], received)
    assert found is None if words is None else words in str(found)


def test_the_check_of_the_order_wants_a_key_in_one_partition_and_in_order() -> None:
    first, second = (b"k", b"1"), (b"k", b"2")
    assert "is in partitions" in str(order_violation([first, second], {0: [first], 1: [second]}))
    assert "not in order" in str(order_violation([first, second], {0: [second, first]}))
    twice = [first, second, first]
    assert "keyed lines" in str(order_violation(twice, {0: [first, first, second]}))
