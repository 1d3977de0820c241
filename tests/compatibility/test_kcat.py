"""kcat as a producer: keys, headers, null values, codecs, and a file as one message."""

import random
from pathlib import Path

import pytest

from barnabas.protocol.ids import TopicPartition
from tests.compatibility.brokers import RunningBroker
from tests.compatibility.kcat_client import KcatConsumer
from tests.compatibility.messages import CODECS
from tests.support.kcat import KcatFailed, is_installed, kcat

pytestmark = pytest.mark.skipif(not is_installed(), reason="kcat is not installed")

MEGABYTE = 1_000_000


def _read(
    broker: RunningBroker, topic: str
) -> list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]]:
    received = KcatConsumer().consume(broker.bootstrap, {TopicPartition(topic, 0): 0})[TopicPartition(topic, 0)]
    return [(one.message.key, one.message.value, one.message.headers) for one in received]


def test_keys_headers_and_null_values_arrive_as_sent(broker: RunningBroker) -> None:
    topic = broker.new_topic()
    base = ("-P", "-b", broker.bootstrap, "-t", topic, "-p", "0")
    kcat(*base, "-k", "key", "-H", "trace=1", "-H", "trace=2", "-H", "empty=", standard_input=b"value")
    kcat(*base, "-k", "key", "-Z", "-K", ":", standard_input=b"gone:\n")
    kcat(*base, standard_input=b"plain")
    assert _read(broker, topic) == [
        (b"key", b"value", (("trace", b"1"), ("trace", b"2"), ("empty", b""))),
        (b"gone", None, ()),
        (None, b"plain", ()),
    ]


@pytest.mark.parametrize("codec", CODECS)
def test_a_file_of_a_megabyte_is_one_message(broker: RunningBroker, tmp_path: Path, codec: str) -> None:
    topic = broker.new_topic()
    path = tmp_path / "megabyte"
    path.write_bytes(random.Random(1).randbytes(MEGABYTE))
    kcat("-P", "-b", broker.bootstrap, "-t", topic, "-z", codec, "-X", "message.max.bytes=2000000", str(path))
    assert _read(broker, topic) == [(None, path.read_bytes(), ())]


def test_a_message_that_is_too_large_is_refused(broker: RunningBroker, tmp_path: Path) -> None:
    topic = broker.new_topic()
    path = tmp_path / "large"
    path.write_bytes(random.Random(1).randbytes(MEGABYTE + 100_000))
    with pytest.raises(KcatFailed, match="Message size too large"):
        kcat("-P", "-b", broker.bootstrap, "-t", topic, "-X", "message.max.bytes=2000000", str(path))
    assert _read(broker, topic) == []
