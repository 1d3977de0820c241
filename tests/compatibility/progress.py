"""What a consumer has read so far, and whether it should go on."""

import time
from collections.abc import Mapping

from barnabas.protocol.ids import TopicPartition
from tests.compatibility.messages import Received

_PATIENCE_SECONDS = 30.0


class Progress:
    """Collects what came until every partition gave its count, or until nothing came for half a minute."""

    def __init__(self, counts: Mapping[TopicPartition, int]) -> None:
        self.received: dict[TopicPartition, list[Received]] = {partition: [] for partition in counts}
        self._missing = sum(counts.values())
        self._deadline = time.monotonic() + _PATIENCE_SECONDS

    def is_wanted(self) -> bool:
        return self._missing > 0 and time.monotonic() < self._deadline

    def add(self, received: Received) -> None:
        message = received.message
        assert message.partition is not None
        self.received[TopicPartition(message.topic, message.partition)].append(received)
        self._missing -= 1
        self._deadline = time.monotonic() + _PATIENCE_SECONDS
