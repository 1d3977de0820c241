"""Debian's kcat as a consumer of whole topics."""

import re
from collections.abc import Mapping, Sequence

from barnabas.protocol.ids import TopicPartition
from tests.compatibility.messages import Message, Received
from tests.support.kcat import kcat

_FORMAT = "%t %p %o %T %K %S %h\\n%k%s"
_HEADING = re.compile(rb"(\S+) (\d+) (\d+) (-?\d+) (-?\d+) (-?\d+) ([^\n]*)\n")


class KcatConsumer:
    """With a version it talks as clients of that Kafka did, and asks for no versions."""

    def __init__(self, as_of: str | None = None) -> None:
        self.name = "kcat" if as_of is None else f"kcat as {as_of}"
        self.options = (
            () if as_of is None else ("-X", "api.version.request=false", "-X", f"broker.version.fallback={as_of}")
        )

    def consume(
        self, bootstrap: str, counts: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, Sequence[Received]]:
        """Read all partitions of the named topics up to their ends; the counts only name them."""
        received: dict[TopicPartition, list[Received]] = {partition: [] for partition in counts}
        for topic in dict.fromkeys(topic for topic, _ in counts):
            output = kcat(
                "-C", "-b", bootstrap, "-t", topic, "-o", "beginning", "-e", "-q", "-f", _FORMAT, *self.options
            )
            for one in parse_messages(output):
                assert one.message.partition is not None
                received[TopicPartition(topic, one.message.partition)].append(one)
        return received


def parse_messages(output: bytes) -> list[Received]:
    """The messages in what `kcat -f` wrote with our format. Header values hold no comma here."""
    messages = []
    position = 0
    while position < len(output):
        heading = _HEADING.match(output, position)
        assert heading is not None, output[position : position + 200]
        topic, partition, offset, timestamp, key_bytes, value_bytes, headers = heading.groups()
        position = heading.end()
        key, position = _taken(output, position, int(key_bytes))
        value, position = _taken(output, position, int(value_bytes))
        message = Message(topic.decode(), int(partition), key, value, _headers(headers), int(timestamp))
        messages.append(Received(int(offset), message))
    return messages


def _taken(output: bytes, position: int, length: int) -> tuple[bytes | None, int]:
    if length < 0:
        return None, position
    return output[position : position + length], position + length


def _headers(text: bytes) -> tuple[tuple[str, bytes | None], ...]:
    pairs = [pair.partition(b"=") for pair in text.split(b",")] if text else []
    return tuple((name.decode(), None if value == b"NULL" else value) for name, _, value in pairs)
