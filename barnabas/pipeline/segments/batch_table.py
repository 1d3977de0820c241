"""The table `batches`: a row for each batch of a segment, from its header, and whether its checksum is good.

Messages of formats 0 and 1 are entries of their own and have a row each; what their header does not say is null. A
batch whose records are damaged is a row with `crcGood` false. Where no batch can be told any more the read fails.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from barnabas.pipeline.columns.decoder import CorruptRecords
from barnabas.pipeline.columns.schema import CREATE_TIME, LOG_APPEND_TIME, MOST_TIMESTAMP_MS, NO_TIMESTAMP_TYPE
from barnabas.pipeline.segments.splits import SegmentSplit
from barnabas.pipeline.segments.windows import WINDOW_BYTES, read_windows
from barnabas.protocol.batch import (
    CODEC_MASK,
    CURRENT_MAGIC,
    BatchHeader,
    Codec,
    CorruptBatch,
    CrcMismatch,
    TruncatedBatch,
)
from barnabas.protocol.entries import iterate_entries, verify_entry
from barnabas.runtime.disk import Disk

_ROWS: Final = 10_000


class _Batch(NamedTuple):
    split: SegmentSplit
    position: int
    header: BatchHeader
    crc_good: bool


_TIME: Final = pa.timestamp("us", tz="UTC")


def _codec(header: BatchHeader) -> str:
    number = header.attributes & CODEC_MASK
    return Codec(number).name.lower() if number in set(Codec) else str(number)


def _timestamp_type(header: BatchHeader) -> int:
    if header.magic == 0:
        return NO_TIMESTAMP_TYPE
    return LOG_APPEND_TIME if header.uses_log_append_time else CREATE_TIME


def _max_timestamp_us(header: BatchHeader) -> int | None:
    return header.max_timestamp * 1000 if abs(header.max_timestamp) <= MOST_TIMESTAMP_MS else None


def _only_batches(read: Callable[[BatchHeader], Any]) -> Callable[[_Batch], Any]:
    return lambda each: read(each.header) if each.header.magic == CURRENT_MAGIC else None


_COLUMNS: Final[Mapping[str, tuple[pa.DataType, Callable[[_Batch], Any]]]] = {
    "topic": (pa.string(), lambda each: each.split.topic_partition.topic),
    "partition": (pa.int32(), lambda each: each.split.topic_partition.partition),
    "file": (pa.string(), lambda each: each.split.path),
    "position": (pa.int64(), lambda each: each.position),
    "sizeBytes": (pa.int32(), lambda each: each.header.size_bytes),
    "magic": (pa.int32(), lambda each: each.header.magic),
    "baseOffset": (pa.int64(), _only_batches(lambda header: header.base_offset)),
    "lastOffset": (pa.int64(), lambda each: each.header.last_offset),
    "leaderEpoch": (pa.int32(), _only_batches(lambda header: header.leader_epoch)),
    "producerId": (pa.int64(), _only_batches(lambda header: header.producer_id)),
    "producerEpoch": (pa.int32(), _only_batches(lambda header: header.producer_epoch)),
    "baseSequence": (pa.int32(), _only_batches(lambda header: header.base_sequence)),
    "recordCount": (pa.int32(), _only_batches(lambda header: header.record_count)),
    "codec": (pa.string(), lambda each: _codec(each.header)),
    "timestampType": (pa.int32(), lambda each: _timestamp_type(each.header)),
    "maxTimestamp": (_TIME, lambda each: _max_timestamp_us(each.header)),
    "transactional": (pa.bool_(), lambda each: each.header.is_transactional),
    "control": (pa.bool_(), lambda each: each.header.is_control),
    "crcGood": (pa.bool_(), lambda each: each.crc_good),
}
BATCH_COLUMN_TYPES: Final[Mapping[str, pa.DataType]] = {name: kind for name, (kind, _) in _COLUMNS.items()}


def read_batches(
    disk: Disk, split: SegmentSplit, columns: Sequence[str], *, window_bytes: int = WINDOW_BYTES
) -> Iterator[pa.RecordBatch]:
    """Rows of those batches of the split that reach into its offsets. Raises CorruptRecords and OSError."""
    schema = pa.schema([pa.field(name, BATCH_COLUMN_TYPES[name]) for name in columns])
    rows: list[_Batch] = []
    failure: CorruptRecords | None = None
    batches = _batches(disk, split, window_bytes)
    while True:
        try:
            each = next(batches, None)
        except CorruptRecords as error:
            failure = error
            break
        if each is None or each.header.base_offset >= split.end:
            break
        if each.header.last_offset >= split.start:
            rows.append(each)
        if len(rows) >= _ROWS:
            yield _as_columns(rows, schema)
            rows = []
    if rows:
        yield _as_columns(rows, schema)
    if failure is not None:
        raise failure


def _batches(disk: Disk, split: SegmentSplit, window_bytes: int) -> Iterator[_Batch]:
    file = disk.open(split.path, writable=False)
    next_offset = split.base_offset
    try:
        for at, window in read_windows(
            file, split.position, split.end_position, zeros_end_it=split.last, window_bytes=window_bytes
        ):
            for pos, header in iterate_entries(window):
                yield _Batch(split, at + pos, header, _is_good(window, pos, header))
                next_offset = header.next_offset
    except CorruptBatch as error:
        if not (split.last and isinstance(error, TruncatedBatch)):
            raise CorruptRecords(split.topic_partition, next_offset, str(error)) from error
    finally:
        file.close()


def _is_good(window: bytes, pos: int, header: BatchHeader) -> bool:
    try:
        verify_entry(window, pos, header)
    except CrcMismatch:
        return False
    return True


def _as_columns(rows: Sequence[_Batch], schema: pa.Schema) -> pa.RecordBatch:
    arrays = []
    for field in schema:
        read = _COLUMNS[field.name][1]
        array = pa.array([read(each) for each in rows], pa.int64() if field.type == _TIME else field.type)
        arrays.append(array.view(_TIME) if field.type == _TIME else array)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
