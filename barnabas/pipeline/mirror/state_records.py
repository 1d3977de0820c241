"""What a mirror writes down at its target, as records of two topics. Pure.

In the state topic, which is compacted, by key:

    {"kind":"producer","mirror":"m","source":"paris"}                        who writes, and under which producer ids
    {"kind":"route","mirror":"m","source":"paris","topic":"t"}               where a topic goes, and how
    {"kind":"progress","mirror":"m","source":"paris","topic":"t","partition":0}   how far it is mirrored

Progress is written in the transaction that writes the records, and stands as long as these do. In the offsets topic one
record for each partition and transaction, with the key of its progress, holds the syncs (see offset_map.py). Both are
JSON. What another version wrote, or another program, is not understood and left alone.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

import msgspec

from barnabas.pipeline.mirror.offset_map import Reached, Sync
from barnabas.pipeline.source.offsets import Stamp
from barnabas.protocol.ids import TopicPartition

K = TypeVar("K")
R = TypeVar("R")


class ProducerKey(msgspec.Struct, frozen=True, tag_field="kind", tag="producer"):
    """Whose producer."""

    mirror: str
    source: str


class RouteKey(msgspec.Struct, frozen=True, tag_field="kind", tag="route"):
    """Which topic of which source."""

    mirror: str
    source: str
    topic: str


class ProgressKey(msgspec.Struct, frozen=True, tag_field="kind", tag="progress"):
    """Which partition of which source."""

    mirror: str
    source: str
    topic: str
    partition: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


Key = ProducerKey | RouteKey | ProgressKey

OF_SPARK: Final = "spark"
"""The incarnation of a mirror whose progress is in a checkpoint of Spark's."""


class ProducerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`cluster` is the id of the source; `incarnation` tells one process from the next."""

    cluster: str
    incarnation: str
    producer_ids: list[int]


class RouteRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`origins` are the ids of the clusters whose records come this way, `cluster` of the one that is read."""

    cluster: str
    target: str
    origins: list[str]
    source_partitions: int
    target_partitions: int


class ProgressRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Everything before `offset` is mirrored, from `begin` on. `stamp` is what the log is known again by.

    `behind` has, for each partition of the target as text, the offset behind the last record that went there. `log`
    counts the logs that the partition had: it was deleted and made anew, or records were lost.
    """

    begin: int
    offset: int
    log: int = 0
    stamp: Stamp | None = None
    behind: dict[str, int] = msgspec.field(default_factory=dict)

    @property
    def reached(self) -> Reached:
        return Reached(self.offset, {int(partition): offset for partition, offset in self.behind.items()})


class SyncsRecord(msgspec.Struct, frozen=True):
    """Syncs by the partition of the target, as text, and of which log of the source (see ProgressRecord)."""

    log: int
    syncs: dict[str, list[Sync]]


def encode_key(key: Key) -> bytes:
    """Equal keys give equal bytes, which compaction counts on."""
    return msgspec.json.encode(key)


def encode_value(value: ProducerRecord | RouteRecord | ProgressRecord | SyncsRecord) -> bytes:
    """The value of a record."""
    return msgspec.json.encode(value)


@dataclass(slots=True)
class MirrorState:
    """What stands in a state topic. `apply` takes its records in order."""

    producers: dict[ProducerKey, ProducerRecord] = field(default_factory=dict)
    routes: dict[RouteKey, RouteRecord] = field(default_factory=dict)
    progress: dict[ProgressKey, ProgressRecord] = field(default_factory=dict)

    def apply(self, raw_key: bytes | None, raw_value: bytes | None) -> None:
        """Let a record count; one without a value takes its key away."""
        key = read_key(raw_key)
        if key is None:
            return
        match key:
            case ProducerKey():
                _apply(self.producers, key, raw_value, ProducerRecord)
            case RouteKey():
                _apply(self.routes, key, raw_value, RouteRecord)
            case ProgressKey():
                _apply(self.progress, key, raw_value, ProgressRecord)

    def progress_of(self, mirror: str, source: str) -> dict[TopicPartition, ProgressRecord]:
        """How far the partitions of one source are mirrored by one mirror."""
        return {
            key.topic_partition: record
            for key, record in self.progress.items()
            if (key.mirror, key.source) == (mirror, source)
        }

    def routes_of(self, mirror: str, source: str) -> dict[str, RouteRecord]:
        """Where the topics of one source go with one mirror."""
        return {key.topic: route for key, route in self.routes.items() if (key.mirror, key.source) == (mirror, source)}


def read_key(raw: bytes | None) -> Key | None:
    """The key of a record; None for what is none of ours."""
    if raw is None:
        return None
    try:
        return msgspec.json.decode(raw, type=ProducerKey | RouteKey | ProgressKey)
    except msgspec.MsgspecError:
        return None


def syncs_record(log: int, found: Mapping[int, Iterable[Sync]]) -> SyncsRecord:
    """Syncs by the partition of the target, to be written down."""
    return SyncsRecord(log, {str(partition): list(syncs) for partition, syncs in found.items()})


def read_syncs(raw: bytes | None, log: int) -> dict[int, list[Sync]]:
    """The syncs of a record by the partition of the target; none where it is of another log, or none of ours."""
    record = None if raw is None else _decode(raw, SyncsRecord)
    if record is None or record.log != log:
        return {}
    return {int(partition): found for partition, found in record.syncs.items()}


def _decode(raw: bytes, kind: type[R]) -> R | None:
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.MsgspecError:
        return None


def _apply(into: dict[K, R], key: K, raw: bytes | None, kind: type[R]) -> None:
    if raw is None:
        into.pop(key, None)
    elif (value := _decode(raw, kind)) is not None:
        into[key] = value
