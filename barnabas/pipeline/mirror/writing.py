"""The writing half of a flow: transactions with records, their progress and their syncs.

A transaction holds the records of some batches and, written last, how far the source was read for them. Nobody sees one
without the other: whatever ends the process, the next one goes on behind what was committed.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from barnabas.client.outgoing import NO_OFFSET, Sent
from barnabas.client.partitioner import DefaultPartitioner
from barnabas.client.producer import Producer
from barnabas.pipeline.mirror.naming import OFFSETS_TOPIC, STATE_TOPIC
from barnabas.pipeline.mirror.offset_map import Sync, Syncs
from barnabas.pipeline.mirror.passing import Dropped, LooseRecords, Passed, WholeBatch
from barnabas.pipeline.mirror.state_records import (
    Key,
    ProducerRecord,
    ProgressKey,
    ProgressRecord,
    RouteRecord,
    encode_key,
    encode_value,
    syncs_record,
)
from barnabas.pipeline.mirror.topics import Route
from barnabas.pipeline.source.offsets import Stamp
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.records import Record


@dataclass(slots=True)
class _Run:
    """Records that were sent one behind the other: `count` from the source's offset `source` on."""

    source: int
    count: int
    first: Sent


@dataclass(slots=True)
class _Open:
    """What the open transaction has of one partition of the source, by partition of the target."""

    begin: int
    next_offset: int
    stamp: Stamp | None
    runs: dict[int, list[_Run]] = field(default_factory=dict)
    ends: dict[int, tuple[Sent, Sent]] = field(default_factory=dict)
    """The first and the last record that went there, where the key chooses."""


@dataclass(slots=True)
class Written:
    """What one transaction wrote."""

    records: int = 0
    size_bytes: int = 0
    whole_batches: int = 0
    rebuilt_batches: int = 0
    dropped: int = 0


class Writer:
    """Owns the transactions of one flow. `progress` is what is committed, and is kept so. Raises ClientError."""

    def __init__(
        self,
        producer: "Producer[bytes, bytes]",
        partitioner: DefaultPartitioner,
        *,
        mirror: str,
        source: str,
        progress: dict[TopicPartition, ProgressRecord],
    ) -> None:
        self.progress = progress
        self._producer = producer
        self._partitioner = partitioner
        self._mirror = mirror
        self._source = source
        self._open: dict[TopicPartition, _Open] = {}
        self._written: Written | None = None
        self.begun_at_ms = 0

    @property
    def is_open(self) -> bool:
        return self._written is not None

    @property
    def size_bytes(self) -> int:
        """Of the records in the open transaction."""
        return 0 if self._written is None else self._written.size_bytes

    def next_offset(self, at: TopicPartition) -> int:
        """Where a partition goes on behind what was taken so far."""
        part = self._open.get(at)
        return self.progress[at].offset if part is None else part.next_offset

    async def register(self, records: Iterable[tuple[Key, ProducerRecord | RouteRecord | ProgressRecord]]) -> None:
        """Write down, in a transaction of its own, what must stand there before any record does."""
        assert self._written is None
        async with self._producer.transaction():
            for key, value in records:
                await self._producer.send(STATE_TOPIC, encode_key(key), encode_value(value), partition=0)
                if isinstance(key, ProgressKey) and isinstance(value, ProgressRecord):
                    self.progress[key.topic_partition] = value

    async def write(
        self,
        at: TopicPartition,
        route: Route,
        passed: Iterable[Passed],
        *,
        next_offset: int,
        stamp: Stamp | None,
        now_ms: int,
    ) -> None:
        """Send what becomes of fetched batches that end before `next_offset`."""
        if self._written is None:
            self._producer.begin_transaction()
            self._written = Written()
            self.begun_at_ms = now_ms
        written = self._written
        part = self._open.get(at)
        if part is None:
            part = self._open[at] = _Open(self.progress[at].offset, next_offset, stamp)
        for each in passed:
            match each:
                case WholeBatch():
                    await self._send_whole(at, route, each, part)
                    written.records += each.records.count
                    written.size_bytes += len(each.records.payload)
                    written.whole_batches += 1
                case LooseRecords():
                    await self._send_loose(at, route, each.records, part)
                    written.records += len(each.records)
                    written.size_bytes += each.size_bytes
                    written.rebuilt_batches += 1
                case Dropped(count):
                    written.dropped += count
        part.next_offset = next_offset
        if stamp is not None:
            part.stamp = stamp

    async def _send_whole(self, at: TopicPartition, route: Route, batch: WholeBatch, part: _Open) -> None:
        partition = route.rule.fixed(at.partition)
        assert partition is not None
        sent = await self._producer.send_encoded(route.target, partition, batch.records)
        part.runs.setdefault(partition, []).append(_Run(batch.base_offset, batch.records.count, sent))

    async def _send_loose(self, at: TopicPartition, route: Route, records: list[Record], part: _Open) -> None:
        fixed, target, send = route.rule.fixed(at.partition), route.target, self._producer.send
        for record in records:
            partition = fixed
            if partition is None:
                partition = route.rule.target_of(at.partition, record.key, self._choose)
            sent = await send(
                target,
                record.key,
                record.value,
                headers=record.headers,
                timestamp=record.timestamp,
                partition=partition,
            )
            if fixed is None:
                first, _ = part.ends.get(partition, (sent, sent))
                part.ends[partition] = first, sent
                continue
            runs = part.runs.setdefault(partition, [])
            if runs:
                last = runs[-1]
                if record.offset == last.source + last.count and sent.is_behind(last.first, last.count):
                    last.count += 1
                    continue
            runs.append(_Run(record.offset, 1, sent))

    def _choose(self, key: bytes, partitions: int) -> int:
        return self._partitioner.choose("", key, partitions)

    async def commit(self) -> Written:
        """End the open transaction."""
        assert self._written is not None
        # Where records went is known when they are written.
        await self._producer.flush()
        progress: dict[TopicPartition, ProgressRecord] = {}
        for at, part in self._open.items():
            before = self.progress[at]
            behind = {int(partition): offset for partition, offset in before.behind.items()}
            syncs = _syncs_of(part, behind)
            progress[at] = ProgressRecord(
                begin=before.begin,
                offset=part.next_offset,
                log=before.log,
                stamp=before.stamp if part.stamp is None else part.stamp,
                behind={str(partition): offset for partition, offset in behind.items()},
            )
            key = encode_key(ProgressKey(self._mirror, self._source, *at))
            await self._producer.send(STATE_TOPIC, key, encode_value(progress[at]), partition=0)
            if syncs:
                value = encode_value(syncs_record(before.log, syncs))
                await self._producer.send(OFFSETS_TOPIC, key, value, partition=0)
        await self._producer.commit_transaction()
        self.progress.update(progress)
        self._open.clear()
        written, self._written = self._written, None
        return written


def _syncs_of(part: _Open, behind: dict[int, int]) -> dict[int, list[Sync]]:
    """The syncs of one partition's records, and how far they reach, which goes into `behind`."""
    found: dict[int, list[Sync]] = {}
    for partition, runs in part.runs.items():
        syncs = Syncs()
        for run in runs:
            source = run.source
            for count, offset in run.first.places(run.count):
                if offset != NO_OFFSET:
                    syncs.add(source, offset, count)
                    behind[partition] = offset + count
                source += count
        found[partition] = syncs.thinned()
        behind.setdefault(partition, 0)
    for partition, (first, last) in part.ends.items():
        ((_, offset),) = first.places(1)
        ((_, end),) = last.places(1)
        if offset != NO_OFFSET:
            found[partition] = [Sync(part.begin, offset, 0)]
        if end != NO_OFFSET:
            behind[partition] = end + 1
        behind.setdefault(partition, 0)
    return {partition: syncs for partition, syncs in found.items() if syncs}
