"""Where a stream stands: what Spark keeps of it in the checkpoint. Pure.

    {"version": 1, "cluster": "kTx…", "offsets": {"topic": {"0": 23}}, "stamps": {"topic": {"0": [20, 0, 3735928559]}},
     "begins": {"topic": {"3": 0}}}

`offsets` are the ends (exclusive) of what was read, in the form of Spark's Kafka source. Brokers of 2.7 give topics no
id, so a stream knows a log again by a stamp: base offset, leader epoch and checksum of the record batch that holds the
last record before the offset. A topic that was deleted and made anew has another batch there, and so has a log that
lost its end to an unclean election.

`begins` holds the partitions whose part of the batch that ends here does not begin where the one before ended: new
ones, and those that lost data. It makes a batch that is planned again the same batch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from barnabas.pipeline.source.partition_json import nest, numbers_of
from barnabas.protocol.ids import TopicPartition

_VERSION: Final = 1


class BadOffset(ValueError):
    """An offset in a checkpoint that this source did not write, or not in this version."""


class Stamp(NamedTuple):
    """What a log is known by: one of its batches. Compaction may give a batch another checksum, nothing else."""

    base_offset: int
    leader_epoch: int
    crc: int

    def is_of_same_log(self, other: "Stamp", *, is_compacted: bool) -> bool:
        return self == other or (is_compacted and self[:2] == other[:2])


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """See the module."""

    cluster_id: str | None
    offsets: Mapping[TopicPartition, int]
    stamps: Mapping[TopicPartition, Stamp] = field(default_factory=dict)
    begins: Mapping[TopicPartition, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As Spark keeps it; equal offsets give equal text."""
        return {
            "version": _VERSION,
            "cluster": self.cluster_id,
            "offsets": nest(self.offsets),
            "stamps": nest({each: list(stamp) for each, stamp in self.stamps.items()}),
            "begins": nest(self.begins),
        }


def read_stream_offset(found: Mapping[str, Any]) -> StreamOffset:
    """Read what `to_json` wrote. Raises BadOffset."""
    if found.get("version") != _VERSION:
        raise _bad(found, f"its version is {found.get('version')!r}, not {_VERSION}")
    try:
        parts = [numbers_of(_picked(found["stamps"], at)) for at in range(3)]
        return StreamOffset(
            cluster_id=found["cluster"],
            offsets=numbers_of(found["offsets"]),
            stamps={each: Stamp(*(numbers[each] for numbers in parts)) for each in parts[0]},
            begins=numbers_of(found["begins"]),
        )
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise _bad(found, repr(error)) from None


def _bad(found: object, why: str) -> BadOffset:
    return BadOffset(
        f"the checkpoint has an offset that this source did not write ({why}): {str(found)[:200]}; "
        "give the query the checkpoint that it had, or a new one"
    )


def _picked(stamps: Mapping[str, Mapping[str, list[int]]], at: int) -> dict[str, dict[str, int]]:
    return {topic: {key: stamp[at] for key, stamp in each.items()} for topic, each in stamps.items()}
