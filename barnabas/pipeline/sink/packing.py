"""Rows into batches of records: which partition each goes to, and where one batch ends. Pure.

A row goes to the partition that it names, else to that of its key as Kafka's clients choose (murmur2). Rows without
either fill one batch of a partition after the other, as by Kafka's sticky partitioner (KIP-480). Within a partition
rows keep their order.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from barnabas.pipeline.columns.key_hashes import partitions_of_keys
from barnabas.pipeline.columns.record_encoding import RecordColumns, encode_records
from barnabas.pipeline.columns.varint_writing import Numbers, bounds_of
from barnabas.pipeline.sink.rows import NOT_GIVEN, RowRefused, Rows
from barnabas.protocol.batch import Codec
from barnabas.protocol.compression import compress
from barnabas.protocol.ids import TopicPartition

if TYPE_CHECKING:
    import random


@dataclass(frozen=True, slots=True)
class PackedBatch:
    """The records of one batch, compressed as `codec` says."""

    topic_partition: TopicPartition
    payload: bytes
    codec: Codec
    count: int
    first_timestamp: int
    max_timestamp: int


class Packer:
    """Packs rows; remembers for each topic where rows without key and partition went last."""

    def __init__(self, *, batch_bytes: int, codec: Codec, random: "random.Random") -> None:
        self._batch_bytes = batch_bytes
        self._codec = codec
        self._random = random
        self._last: dict[str, int] = {}

    def pack(self, rows: Rows, partition_counts: Mapping[str, int], *, now_ms: int) -> Iterator[PackedBatch]:
        """All the rows as batches. Raises RowRefused for a partition that a topic does not have."""
        if not len(rows):
            return
        columns = rows.records(now_ms)
        sizes = columns.most_bytes()
        partitions = self._place(rows, partition_counts, sizes)
        widest = max(partition_counts[name] for name in rows.topics)
        places = rows.topic_codes * widest + partitions
        if int(places.min()) != int(places.max()):
            # Numbers of 16 bits are sorted in one pass over them.
            small = places.astype(np.uint16) if len(rows.topics) * widest < 1 << 16 else places
            order = np.argsort(small, kind="stable")
            columns, sizes, places = columns.take(order), sizes[order], places[order]
        starts = _batch_starts(places, sizes, self._batch_bytes)
        yield from self._encode(columns, places, starts, rows.topics, widest)

    def _place(self, rows: Rows, counts: Mapping[str, int], sizes: Numbers) -> Numbers:
        partitions = np.full(len(rows), NOT_GIVEN, dtype=np.int64) if rows.partitions is None else rows.partitions
        for code, topic in enumerate(rows.topics):
            count = counts[topic]
            mine = rows.topic_codes == code if len(rows.topics) > 1 else np.ones(len(rows), dtype=np.bool_)
            named = partitions[mine]
            if named.size and int(named.max()) >= count:
                raise RowRefused(
                    f"column partition has {int(named.max())}, and topic {topic} has partitions 0 to {count - 1}"
                )
            if rows.keys is not None:
                has_key = ~rows.keys.is_null().to_numpy(zero_copy_only=False)
                by_key = mine & has_key & (partitions == NOT_GIVEN)
                partitions = np.where(by_key, partitions_of_keys(rows.keys, count), partitions)
            free = np.flatnonzero(mine & (partitions == NOT_GIVEN))
            if free.size:
                partitions = partitions.copy()
                partitions[free] = self._stick(topic, count, sizes[free])
        return partitions

    def _stick(self, topic: str, count: int, sizes: Numbers) -> Numbers:
        """A partition for each row of these sizes, another one for each batch that they fill."""
        nth_batch = (np.cumsum(sizes) - sizes) // self._batch_bytes
        chosen = np.empty(int(nth_batch[-1]) + 1, dtype=np.int64)
        last = self._last.get(topic)
        for nth in range(len(chosen)):
            if last is None or last >= count or count == 1:
                last = self._random.randrange(count)
            else:
                last = (last + 1 + self._random.randrange(count - 1)) % count
            chosen[nth] = last
        self._last[topic] = int(chosen[-1])
        placed: Numbers = chosen[nth_batch]
        return placed

    def _encode(
        self, columns: RecordColumns, places: Numbers, starts: Numbers, topics: tuple[str, ...], widest: int
    ) -> Iterator[PackedBatch]:
        ends = np.append(starts[1:], len(places))
        counts = ends - starts
        first_times = columns.timestamps_ms[starts]
        latest = np.maximum.reduceat(columns.timestamps_ms, starts)
        encoded = encode_records(
            columns,
            offset_deltas=np.arange(len(places), dtype=np.int64) - np.repeat(starts, counts),
            timestamp_deltas=columns.timestamps_ms - np.repeat(first_times, counts),
        )
        bounds, content = bounds_of(encoded), memoryview(encoded.buffers()[2])
        for nth, start in enumerate(starts):
            code, partition = divmod(int(places[start]), widest)
            records = content[int(bounds[start]) : int(bounds[ends[nth]])]
            yield PackedBatch(
                TopicPartition(topics[code], partition),
                compress(self._codec, records),
                self._codec,
                int(counts[nth]),
                int(first_times[nth]),
                int(latest[nth]),
            )


def _batch_starts(places: Numbers, sizes: Numbers, batch_bytes: int) -> NDArray[np.int64]:
    """Where batches begin in rows that are sorted by place: a batch has one place, and is full when it is."""
    first_of_place = np.flatnonzero(np.diff(places, prepend=places[0] - 1))
    before = np.cumsum(sizes) - sizes
    starts: list[int] = []
    for start, end in zip(first_of_place.tolist(), [*first_of_place[1:].tolist(), len(places)], strict=True):
        at = start
        while at < end:
            starts.append(at)
            # The first row that does not fit; a row that is larger than a batch is one of its own.
            full = int(np.searchsorted(before[at + 1 : end] + sizes[at + 1 : end], before[at] + batch_bytes, "right"))
            at += 1 + full
    return np.array(starts, dtype=np.int64)
