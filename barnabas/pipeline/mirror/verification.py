"""Whether the target has what the sources have: every record once, in the partition where it belongs.

Records are counted and their checksums added up, for each partition of the target, from both sides: what stands at the
source and where it should have gone, and what stands at the target and was written by this mirror, whose producer ids
are in the batches. The sums do not depend on any order. Key, value, headers and timestamp count. Where two sums differ,
both sides are read once more for the records that make the difference, and these are named.

All that was ever mirrored is compared where both logs still have all of it, else what this run mirrored. What is gone
by compaction on one side need not be gone on the other: compacted topics are left out, and named.
"""

from collections import defaultdict
from collections.abc import AsyncGenerator, Collection, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final

from barnabas.client.admin import EARLIEST, LATEST, Admin
from barnabas.client.cluster import Cluster
from barnabas.client.consumer_options import IsolationLevel
from barnabas.client.errors import corrupt_batch
from barnabas.client.fetched_records import AbortedRange
from barnabas.client.partitioner import DefaultPartitioner
from barnabas.client.range_reader import OffsetRange, RangeReader, RangeReaderOptions
from barnabas.pipeline.columns.checksums import content_checksums_of, sums_by_group
from barnabas.pipeline.columns.visibility import Visibility
from barnabas.pipeline.job_clusters import config_value
from barnabas.pipeline.mirror.passing import MAX_INFLATED_BYTES, LooseRecords, pass_on
from barnabas.pipeline.mirror.state_records import ProgressRecord
from barnabas.pipeline.mirror.topics import Route
from barnabas.protocol.batch import CURRENT_MAGIC, CorruptBatch
from barnabas.protocol.entries import iterate_entries, iterate_entry_records, verify_entry
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.records import Record, encode_fields

_BUCKETS: Final = 256
_EXAMPLES: Final = 10

Ranges = dict[TopicPartition, OffsetRange]


@dataclass(slots=True)
class Tally:
    """Of one partition of the target, as one side has it."""

    count: int = 0
    sums: Any = None
    """The sum of the checksums in each bucket, a checksum's bucket being its highest byte."""

    def add(self, checksums: Any) -> None:
        self.count += len(checksums)
        sums = sums_by_group(checksums, (checksums >> 56).astype("int64"), _BUCKETS)
        self.sums = sums if self.sums is None else self.sums + sums

    def differing(self, other: "Tally") -> frozenset[int]:
        """The buckets in which both differ."""
        mine, theirs = ([0] * _BUCKETS if each.sums is None else each.sums.tolist() for each in (self, other))
        return frozenset(bucket for bucket in range(_BUCKETS) if mine[bucket] != theirs[bucket])


@dataclass(frozen=True, slots=True)
class Difference:
    """One partition of the target. `missing` are places at the source, `surplus` places at the target."""

    partition: int
    source_records: int
    target_records: int
    missing: list[str]
    surplus: list[str]

    def __str__(self) -> str:
        told = f"partition {self.partition} has {self.target_records} records of {self.source_records}"
        if self.missing:
            told += f", without {', '.join(self.missing)} of the source"
        return told + (f", and has too much at {', '.join(self.surplus)}" if self.surplus else "")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known of one topic. `scope` is all, run, or none with the reason."""

    topic: str
    scope: str
    records: int = 0
    differences: list[Difference] = field(default_factory=list)
    reason: str = ""

    def document(self) -> dict[str, Any]:
        """As the report has it."""
        found: dict[str, Any] = {"scope": self.scope, "records": self.records}
        if self.reason:
            found["reason"] = self.reason
        found["differences"] = [str(each) for each in self.differences]
        return found


@dataclass(frozen=True, slots=True)
class Mirrored:
    """What is known of one source's part: who wrote it, and how far this run and all runs came.

    `target_began` is where the partitions of the target ended when this run began.
    """

    producer_ids: Collection[int]
    foreign: Collection[int]
    progress: Mapping[TopicPartition, ProgressRecord]
    began: Mapping[TopicPartition, ProgressRecord]
    target_began: Mapping[TopicPartition, int]


class Verification:
    """Compares the topics of one source with the target. Methods raise ClientError."""

    def __init__(self, source: Cluster, target: Cluster, mirrored: Mirrored) -> None:
        self._source = source
        self._target = target
        self._mirrored = mirrored
        self._partitioner = DefaultPartitioner(target.random)

    async def verify(self, topic: str, route: Route) -> Verdict:
        """Compare one topic."""
        for cluster, name in ((self._source, topic), (self._target, route.target)):
            if "compact" in (await config_value(cluster, name, "cleanup.policy") or ""):
                return Verdict(topic, "none", reason=f"{name} is compacted: what it had cannot be compared any more")
        scope, there, here = await self._ranges(topic, route)
        if scope == "none":
            return Verdict(topic, "none", reason="retention has removed what was to be compared")
        wanted: dict[int, Tally] = defaultdict(Tally)
        found: dict[int, Tally] = defaultdict(Tally)
        async with aclosing(self._at_source(there, route)) as placed:
            async for _, partition, records in placed:
                wanted[partition].add(_checksums(records))
        async with aclosing(self._at_target(here)) as placed:
            async for _, partition, records in placed:
                found[partition].add(_checksums(records))
        count = sum(tally.count for tally in wanted.values())
        suspects = {
            partition: buckets
            for partition in sorted({*wanted, *found})
            if (buckets := wanted[partition].differing(found[partition]))
        }
        if not suspects or (not route.rule.is_same and not _total(wanted).differing(_total(found))):
            # A key may have gone elsewhere while the target had another number of partitions.
            return Verdict(topic, scope, count)
        differences = await self._name(suspects, route, there=there, here=here, wanted=wanted, found=found)
        return Verdict(topic, scope, count, differences)

    async def _ranges(self, topic: str, route: Route) -> tuple[str, Ranges, Ranges]:
        """What is compared: all there ever was where it is still there, else what this run did."""
        mirrored = self._mirrored
        parts = {at: record for at, record in mirrored.progress.items() if at.topic == topic and at in mirrored.began}
        targets = [TopicPartition(route.target, number) for number in range(route.rule.target_count)]
        source_admin, target_admin = Admin(self._source), Admin(self._target)
        starts = {
            at: each.offset for at, each in (await source_admin.list_offsets(dict.fromkeys(parts, EARLIEST))).items()
        }
        begins = {
            at: each.offset for at, each in (await target_admin.list_offsets(dict.fromkeys(targets, EARLIEST))).items()
        }
        ends = {
            at: each.offset for at, each in (await target_admin.list_offsets(dict.fromkeys(targets, LATEST))).items()
        }
        if all(not record.log and starts[at] <= record.begin for at, record in parts.items()) and not any(
            begins.values()
        ):
            there = {at: OffsetRange(record.begin, record.offset) for at, record in parts.items()}
            return "all", there, {at: OffsetRange(0, ends[at]) for at in targets}
        froms = {at: mirrored.target_began.get(at, 0) for at in targets}
        if all(
            mirrored.began[at].log == record.log and starts[at] <= mirrored.began[at].offset
            for at, record in parts.items()
        ) and all(begins[at] <= froms[at] for at in targets):
            there = {at: OffsetRange(mirrored.began[at].offset, record.offset) for at, record in parts.items()}
            return "run", there, {at: OffsetRange(froms[at], ends[at]) for at in targets}
        return "none", {}, {}

    async def _at_source(
        self, ranges: Ranges, route: Route
    ) -> AsyncGenerator[tuple[TopicPartition, int, list[Record]], None]:
        """Records of the source with the partition of the target where they belong."""
        options = RangeReaderOptions(isolation_level=IsolationLevel.READ_COMMITTED)
        async with aclosing(RangeReader(self._source, ranges, options=options).batches()) as batches:
            async for each in batches:
                at = each.topic_partition
                try:
                    passed = list(
                        pass_on(
                            each.record_set,
                            start=each.start,
                            end=each.end,
                            aborted=each.aborted,
                            foreign=self._mirrored.foreign,
                            keeps_batches=False,
                        )
                    )
                except CorruptBatch as error:
                    raise corrupt_batch(at, error) from error
                placed: dict[int, list[Record]] = {}
                for loose in passed:
                    for record in loose.records if isinstance(loose, LooseRecords) else ():
                        partition = route.rule.target_of(at.partition, record.key, self._choose)
                        placed.setdefault(partition, []).append(record)
                for partition, records in placed.items():
                    yield at, partition, records

    def _choose(self, key: bytes, partitions: int) -> int:
        return self._partitioner.choose("", key, partitions)

    async def _at_target(self, ranges: Ranges) -> AsyncGenerator[tuple[TopicPartition, int, list[Record]], None]:
        """Records of the target that this mirror wrote."""
        options = RangeReaderOptions(isolation_level=IsolationLevel.READ_COMMITTED)
        async with aclosing(RangeReader(self._target, ranges, options=options).batches()) as batches:
            async for each in batches:
                at = each.topic_partition
                try:
                    records = list(
                        _written_by(each.record_set, each.start, each.end, each.aborted, self._mirrored.producer_ids)
                    )
                except CorruptBatch as error:
                    raise corrupt_batch(at, error) from error
                if records:
                    yield at, at.partition, records

    async def _name(
        self,
        suspects: Mapping[int, frozenset[int]],
        route: Route,
        *,
        there: Ranges,
        here: Ranges,
        wanted: Mapping[int, Tally],
        found: Mapping[int, Tally],
    ) -> list[Difference]:
        """Read again what is suspicious, and say which records differ."""
        at_source = await _places(self._at_source(there, route), suspects)
        at_target = await _places(self._at_target(here), suspects)
        return [
            Difference(
                partition,
                wanted[partition].count,
                found[partition].count,
                missing=_surplus(at_source[partition], at_target[partition]),
                surplus=_surplus(at_target[partition], at_source[partition]),
            )
            for partition in suspects
        ]


Places = dict[int, list[str]]
"""By checksum, where such records stand."""


async def _places(
    placed: AsyncGenerator[tuple[TopicPartition, int, list[Record]], None], suspects: Mapping[int, frozenset[int]]
) -> dict[int, Places]:
    """Where the records of the suspicious buckets stand."""
    places: dict[int, Places] = {partition: {} for partition in suspects}
    async with aclosing(placed):
        async for at, partition, records in placed:
            buckets = suspects.get(partition)
            if buckets is None:
                continue
            for record, checksum in zip(records, _checksums(records).tolist(), strict=True):
                if checksum >> 56 in buckets:
                    places[partition].setdefault(checksum, []).append(f"{at}@{record.offset}")
    return places


def _surplus(mine: Places, theirs: Places) -> list[str]:
    """The places of what one side has more of than the other; of equal records the last ones."""
    found: list[str] = []
    for checksum, places in mine.items():
        found += places[len(theirs.get(checksum, ())) :]
    return found[:_EXAMPLES] + ([f"{len(found) - _EXAMPLES} more"] if len(found) > _EXAMPLES else [])


def _total(tallies: Mapping[int, Tally]) -> Tally:
    total = Tally()
    for tally in tallies.values():
        total.count += tally.count
        if tally.sums is not None:
            total.sums = tally.sums if total.sums is None else total.sums + tally.sums
    return total


def _checksums(records: Iterable[Record]) -> Any:
    """The checksum of each record with its headers and its timestamp, as it would stand in a batch of its own."""
    encoded = [encode_fields(each.key, each.value, each.headers, each.timestamp, 0) for each in records]
    return content_checksums_of([None] * len(encoded), encoded)


def _written_by(
    record_set: memoryview,
    start: int,
    end: int | None,
    aborted: Iterable[AbortedRange],
    producer_ids: Collection[int],
) -> Iterator[Record]:
    """The committed records of some producers. Raises a CorruptBatch."""
    visibility = Visibility(aborted)
    for pos, header in iterate_entries(record_set):
        shows = visibility.shows(record_set, pos, header)
        if not shows or header.magic != CURRENT_MAGIC or header.producer_id not in producer_ids:
            continue
        verify_entry(record_set, pos, header)
        for record in iterate_entry_records(record_set, pos, header, MAX_INFLATED_BYTES):
            if start <= record.offset and (end is None or record.offset < end):
                yield record
