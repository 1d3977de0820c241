"""From columns of records to tallies, and to the records of single cells; numpy and Arrow, no object for each record.

This runs in Spark's tasks. What comes in are record batches with topic, partition, offset, timestamp, and either key
and value or the content checksum that a loader kept. A record belongs to a part: LOW where its offset is below the
boundary of its partition, HIGH from there on. For a topic the boundary is the end of what a lake must have, for a lake
the start of the log.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from barnabas.pipeline.audit.tallies import HOUR_MS, Cell, Tally
from barnabas.pipeline.columns.checksums import as_signed, content_checksums, place_checksums

LOW: Final = 0
HIGH: Final = 1
HOLE: Final = 2
"""The part of rows that are of no records, but of offsets `least` to `most` that no batch holds."""
_KEYS: Final = ("topic", "partition", "hour", "part")
_PARTIAL_ROWS: Final = 200_000
"""So many partial tallies are held before they are added up."""
_HALF_BITS: Final = 32
_WRAP: Final = (1 << 64) - 1

PARTIAL: Final = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("hour", pa.int64()),
        pa.field("part", pa.int32()),
        pa.field("records", pa.int64()),
        pa.field("content_high", pa.int64()),
        pa.field("content_low", pa.int64()),
        pa.field("places_high", pa.int64()),
        pa.field("places_low", pa.int64()),
        pa.field("least", pa.int64()),
        pa.field("most", pa.int64()),
    ]
)
"""A partial tally as tasks give it. Sums are in two halves, which add up in signed numbers without an overflow."""

PICKED: Final = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("hour", pa.int64()),
        pa.field("content", pa.int64()),
        pa.field("places", pa.int64()),
    ]
)
"""A record of a cell that is looked at offset by offset."""


@dataclass(frozen=True)
class Scope:
    """Which records count: of these topics, with times from `since_ms` to `until_ms` (exclusive; None for no bound).

    `boundaries` part LOW from HIGH; a partition that is not in it has `boundary`.
    """

    topics: frozenset[str]
    boundaries: Mapping[tuple[str, int], int] = field(default_factory=dict)
    boundary: int = 0
    since_ms: int | None = None
    until_ms: int | None = None


@dataclass(slots=True)
class _Columns:
    """Records in columns; `owners` says for each which of the `partitions` it is of."""

    partitions: list[tuple[str, int]]
    owners: NDArray[np.int64]
    offsets: NDArray[np.int64]
    hours_ms: NDArray[np.int64]
    parts: NDArray[np.int64]
    content: NDArray[np.uint64]
    places: NDArray[np.uint64]


def count_records(batches: Iterable[pa.RecordBatch], scope: Scope) -> Iterator[pa.RecordBatch]:
    """The partial tallies of a task, by PARTIAL: each cell and part once."""
    held: list[pa.Table] = []
    rows = 0
    for batch in batches:
        columns = _columns(batch, scope)
        if columns is None:
            continue
        held.append(_tally(columns))
        rows += len(held[-1])
        if rows > _PARTIAL_ROWS:
            held = [_add_up(held)]
            # What cannot be added up further must not be tried again with each batch.
            rows = len(held[0]) // 2
    if held:
        yield from _halved(_add_up(held)).to_batches()


def hole_rows(topic: str, partition: int, holes: Sequence[tuple[int, int]]) -> Iterator[pa.RecordBatch]:
    """Holes, by PARTIAL; what adds rows up leaves each apart."""
    if holes:
        rows = [
            dict.fromkeys(PARTIAL.names, 0)
            | {"topic": topic, "partition": partition, "hour": first, "part": HOLE, "least": first, "most": last}
            for first, last in holes
        ]
        yield pa.RecordBatch.from_pylist(rows, schema=PARTIAL)


def pick_records(
    batches: Iterable[pa.RecordBatch], scope: Scope, part: int, cells: frozenset[Cell]
) -> Iterator[pa.RecordBatch]:
    """The records of these cells and this part, by PICKED."""
    for batch in batches:
        columns = _columns(batch, scope)
        if columns is None:
            continue
        groups, which = np.unique(np.stack([columns.owners, columns.hours_ms]), axis=1, return_inverse=True)
        wanted = np.array(
            [(*columns.partitions[owner], hour_ms) in cells for owner, hour_ms in groups.T.tolist()], dtype=np.bool_
        )
        picked = np.flatnonzero(wanted[which.reshape(-1)] & (columns.parts == part))
        if len(picked):
            yield pa.RecordBatch.from_arrays(
                [
                    *_names(columns, columns.owners[picked]),
                    pa.array(columns.offsets[picked]),
                    pa.array(columns.hours_ms[picked]),
                    pa.array(as_signed(columns.content[picked])),
                    pa.array(as_signed(columns.places[picked])),
                ],
                schema=PICKED,
            )


def tally_of(sums: Mapping[str, int]) -> Tally:
    """A tally of columns of PARTIAL that were added up; those of places may be missing."""
    content, places = (
        ((sums.get(f"{name}_high", 0) << _HALF_BITS) + sums.get(f"{name}_low", 0)) & _WRAP
        for name in ("content", "places")
    )
    return Tally(sums["records"], content, places, sums["least"], sums["most"])


def _columns(batch: pa.RecordBatch, scope: Scope) -> _Columns | None:
    """What counts of a batch, None where nothing does."""
    times_ms = _milliseconds(batch.column("timestamp"))
    topics = batch.column("topic").dictionary_encode()
    names = topics.dictionary.to_pylist()
    codes = topics.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    keys = (codes << _HALF_BITS) | _integers(batch.column("partition"))
    found, owners = np.unique(keys, return_inverse=True)
    partitions = [(names[key >> _HALF_BITS], key & 0xFFFFFFFF) for key in found.tolist()]
    counts = np.array([topic in scope.topics for topic, _ in partitions], dtype=np.bool_)[owners]
    if scope.since_ms is not None:
        counts &= times_ms >= scope.since_ms
    if scope.until_ms is not None:
        counts &= times_ms < scope.until_ms
    if not counts.all():
        if not counts.any():
            return None
        batch, owners, times_ms = batch.filter(pa.array(counts)), owners[counts], times_ms[counts]
    offsets = _integers(batch.column("offset"))
    bounds = np.array([scope.boundaries.get(each, scope.boundary) for each in partitions], dtype=np.int64)
    return _Columns(
        partitions,
        owners,
        offsets,
        times_ms // HOUR_MS * HOUR_MS,
        np.where(offsets < bounds[owners], LOW, HIGH),
        _content(batch),
        place_checksums(offsets, times_ms),
    )


def _content(batch: pa.RecordBatch) -> NDArray[np.uint64]:
    if "checksum" in batch.schema.names:
        return _integers(batch.column("checksum")).view(np.uint64)
    return content_checksums(batch.column("key"), batch.column("value"))


def _tally(columns: _Columns) -> pa.Table:
    topics, partitions = _names(columns, columns.owners)
    records = pa.table(
        {
            "topic": topics,
            "partition": partitions,
            "hour": columns.hours_ms,
            "part": columns.parts.astype(np.int32),
            "records": np.ones(len(columns.offsets), dtype=np.int64),
            "content": columns.content,
            "places": columns.places,
            "least": columns.offsets,
            "most": columns.offsets,
        }
    )
    return _add_up([records])


def _add_up(tables: list[pa.Table]) -> pa.Table:
    """One row for each cell and part. Arrow's sums of unsigned numbers wrap, as checksums do."""
    sums = [("records", "sum"), ("content", "sum"), ("places", "sum"), ("least", "min"), ("most", "max")]
    added = pa.concat_tables(tables).combine_chunks().group_by(_KEYS, use_threads=False).aggregate(sums)
    return added.select([*_KEYS, *(f"{name}_{how}" for name, how in sums)]).rename_columns(
        [*_KEYS, *(name for name, _ in sums)]
    )


def _halved(added: pa.Table) -> pa.Table:
    halves: dict[str, NDArray[np.int64]] = {}
    for name in ("content", "places"):
        sums = added.column(name).to_numpy()
        halves[f"{name}_high"] = (sums >> np.uint64(_HALF_BITS)).astype(np.int64)
        halves[f"{name}_low"] = (sums & np.uint64(0xFFFFFFFF)).astype(np.int64)
    columns = {name: halves[name] if name in halves else added.column(name) for name in PARTIAL.names}
    return pa.table(columns, schema=PARTIAL).combine_chunks()


def _names(columns: _Columns, owners: NDArray[np.int64]) -> tuple[pa.Array, pa.Array]:
    topics = pa.array([topic for topic, _ in columns.partitions], pa.string())
    numbers = pa.array([number for _, number in columns.partitions], pa.int32())
    places = pa.array(owners)
    return topics.take(places), numbers.take(places)


def _milliseconds(times: pa.Array) -> NDArray[np.int64]:
    """Milliseconds since the epoch; -1 where there is no time."""
    whole = times.cast(pa.timestamp("us", tz="UTC")).view(pa.int64())
    if whole.null_count:
        whole = whole.fill_null(-1000)
    return np.asarray(whole.to_numpy(zero_copy_only=False), dtype=np.int64) // 1000


def _integers(array: pa.Array) -> NDArray[np.int64]:
    """Numbers that are never null."""
    if array.null_count:
        raise ValueError("a row has no topic, partition, offset or checksum: it is of no loader of ours")
    return np.asarray(array.to_numpy(zero_copy_only=False)).astype(np.int64)
