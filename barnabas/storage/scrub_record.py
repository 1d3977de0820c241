"""`barnabas.scrub` of a log directory: how far the scrubber is, and what it knows to be damaged.  [P]

JSON, so that an operator can read it. What cannot be read says nothing: the pass begins again and damage is found
again. Kafka leaves the file alone.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final

from barnabas.protocol.ids import TopicPartition
from barnabas.storage.damage import DamagedRange

SCRUB_RECORD: Final = "barnabas.scrub"


@dataclass(slots=True)
class ScrubRecord:
    """The pass that is under way began at `pass_started_ms`; all before (`partition`, `next_offset`) was looked at.

    Without a partition the pass is over.
    """

    pass_started_ms: int = 0
    partition: TopicPartition | None = None
    next_offset: int = 0
    damage: Mapping[TopicPartition, Sequence[DamagedRange]] = field(default_factory=dict)

    def encode(self) -> bytes:
        place = None if self.partition is None else [self.partition.topic, self.partition.partition, self.next_offset]
        damage = [
            {"topic": at.topic, "partition": at.partition, **asdict(damaged)}
            for at, ranges in self.damage.items()
            for damaged in ranges
        ]
        document = {"version": 1, "pass_started_ms": self.pass_started_ms, "place": place, "damage": damage}
        return json.dumps(document, indent=1).encode() + b"\n"

    @classmethod
    def decode(cls, data: bytes) -> "ScrubRecord":
        """What cannot be read is a new record."""
        try:
            document = json.loads(data)
            record = cls(int(document["pass_started_ms"]))
            if document["place"] is not None:
                topic, partition, offset = document["place"]
                record.partition, record.next_offset = TopicPartition(str(topic), int(partition)), int(offset)
            damage: dict[TopicPartition, list[DamagedRange]] = {}
            for entry in document["damage"]:
                at = TopicPartition(str(entry.pop("topic")), int(entry.pop("partition")))
                damage.setdefault(at, []).append(DamagedRange(**entry))
        except (ValueError, KeyError, TypeError, AttributeError):
            return cls()
        record.damage = damage
        return record
