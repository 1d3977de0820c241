"""Clients that know only the message formats before 2: messages and wrappers of magic 0 and 1, Fetch up to version 3.

What they send into the load's topics is converted there and judged like all else; what they read was converted for
them. They know neither idempotence nor headers, so their records of compacted partitions are no tombstones.
"""

from typing import Final

from barnabas.protocol.batch import Codec
from barnabas.protocol.entry_builder import EntryBuilder
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.records import Record
from barnabas.simulation.history import ACKS_ALL, Produce
from barnabas.simulation.load import ProducerProcess, ReaderProcess, Stage

_CODECS: Final = (Codec.NONE, Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
_NEWEST_PRODUCE: Final = {0: 1, 1: 2}
_NEWEST_FETCH: Final = 3


class OldProducer(ProducerProcess):
    """Sends plain messages and wrappers, each record once: whether it was written nobody asks twice."""

    tombstones = 0.0

    def __init__(self, stage: Stage, name: str, partitions: list[TopicPartition]) -> None:
        super().__init__(stage, name, partitions, acks=0)
        self._acks = self.chance.choice([ACKS_ALL, 1, 1, 0])
        self._magic = self.chance.choice([0, 1, 1])
        self.versions = (0, self.chance.randint(self._magic and 2, _NEWEST_PRODUCE[self._magic]))

    @property
    def _is_idempotent(self) -> bool:
        return False

    def _encode(self, operations: list[Produce], identity: tuple[int, int], sequence: int) -> bytes:  # noqa: ARG002 - there are none
        now_ms = 1_600_000_000_000 + int(self.stage.loop.now_s * 1000)
        builder = EntryBuilder(magic=self._magic, codec=self.chance.choice(_CODECS))
        builder.add(
            Record(number, now_ms + number, each.key, None if each.is_tombstone else each.value)
            for number, each in enumerate(operations)
        )
        return builder.finish()


class OldReader(ReaderProcess):
    """Asks in a version of Fetch that gets messages of magic 0 or 1 only."""

    def __init__(self, stage: Stage, name: str, partitions: list[TopicPartition]) -> None:
        super().__init__(stage, name, partitions)
        self.newest_fetch = self.chance.randint(0, _NEWEST_FETCH)
