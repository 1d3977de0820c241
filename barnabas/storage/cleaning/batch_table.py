"""Pieces of a segment's file, read with a bounded buffer, as tables of the whole batches in them.

A table's rows are the batches of a piece in order; its columns hold what their headers say. Every batch is held against
its checksum here: what is damaged must neither get into the offset map nor be written again under a new checksum.
Messages of formats 0 and 1 are batches of their own kind, with a header of their own.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Final

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from barnabas.protocol.batch import (
    CONTROL_BIT,
    CURRENT_MAGIC,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD_BYTES,
    TRANSACTIONAL_BIT,
    BatchHeader,
    CorruptBatch,
    CrcMismatch,
    InvalidBatchSize,
    TruncatedBatch,
    UnsupportedMagic,
)
from barnabas.protocol.entries import read_entry, verify_entry
from barnabas.runtime.files import File
from barnabas.storage.cleaning.clean_job import CorruptSource
from barnabas.storage.cleaning.key_hash import Ints

Bools = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.void]

_PREFIX: Final = Struct(">qi4xb")
_LEAST_LENGTH: Final = 14
_HEADER: Final = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("first_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("record_count", ">i4"),
    ]
)
_CRC_COVERS_FROM: Final = 21
_HEADER_COLUMNS: Final = np.arange(HEADER_BYTES)


@dataclass(slots=True)
class BatchTable:
    """The batches of one piece. `start` and `end` are bytes of `data`; offsets and times are absolute.

    A message of format 0 or 1 has record count -1, which is not known before it is read.
    """

    data: bytes
    start: Ints
    end: Ints
    magic: Ints
    attributes: Ints
    base_offset: Ints
    last_offset: Ints
    record_count: Ints
    rows: Rows

    def __len__(self) -> int:
        return len(self.start)

    @property
    def size_bytes(self) -> int:
        return int(self.end[-1])

    @property
    def first_timestamp(self) -> Ints:
        return self.rows["first_timestamp"].astype(np.int64)

    @property
    def max_timestamp(self) -> Ints:
        return self.rows["max_timestamp"].astype(np.int64)

    @property
    def producer_id(self) -> Ints:
        return self.rows["producer_id"].astype(np.int64)

    @property
    def producer_epoch(self) -> Ints:
        return self.rows["producer_epoch"].astype(np.int64)

    @property
    def is_control(self) -> Bools:
        return (self.attributes & CONTROL_BIT).astype(np.bool_)

    @property
    def is_transactional(self) -> Bools:
        return (self.attributes & TRANSACTIONAL_BIT).astype(np.bool_)

    @property
    def uses_log_append_time(self) -> Bools:
        return (self.attributes & LOG_APPEND_TIME_BIT).astype(np.bool_)

    def header(self, row: int) -> BatchHeader:
        return read_entry(self.data, int(self.start[row]))

    def content(self, row: int) -> memoryview:
        """The bytes of one batch, with its header."""
        return memoryview(self.data)[int(self.start[row]) : int(self.end[row])]


def read_tables(file: File, *, end: int, buffer_bytes: int, start: int = 0) -> Iterator[BatchTable]:
    """The batches of a file from `start`, where one begins, to `end`. Raises CorruptSource or OSError.

    The buffer grows to the size of the largest batch.
    """
    position = start
    while position < end:
        wanted = min(buffer_bytes, end - position)
        data = file.pread(wanted, position)
        if len(data) < wanted:
            raise CorruptSource(f"{file.path}: ends at byte {position + len(data)}, before byte {end}")
        try:
            starts, complete = _follow(data, end - position)
            if not starts:
                assert complete > buffer_bytes
                buffer_bytes = complete
                continue
            table = _tabulate(data, starts, complete)
        except CorruptBatch as error:
            raise CorruptSource(f"{file.path}: in the batches from byte {position}: {error}") from error
        yield table
        position += complete


def _follow(data: bytes, left: int) -> tuple[list[int], int]:
    """Where the whole batches in `data` start and where the last one ends; without one, how many bytes the first has.

    Raises a CorruptBatch where no batch can be, or where one goes on after the `left` bytes of the file.
    """
    starts: list[int] = []
    at, size = 0, len(data)
    unpack = _PREFIX.unpack_from
    while at + _PREFIX.size <= size:
        _, length, magic = unpack(data, at)
        if not 0 <= magic <= CURRENT_MAGIC:
            raise UnsupportedMagic(magic)
        end = at + LOG_OVERHEAD_BYTES + length
        least = HEADER_BYTES - LOG_OVERHEAD_BYTES if magic == CURRENT_MAGIC else _LEAST_LENGTH
        if length < least or end > left:
            raise InvalidBatchSize(f"no batch of length {length} fits the {left - at} bytes that are left")
        if end > size:
            break
        starts.append(at)
        at = end
    if starts:
        return starts, at
    if left < _PREFIX.size:
        raise TruncatedBatch(f"{left} bytes cannot hold a batch")
    if size < _PREFIX.size:
        return starts, _PREFIX.size
    return starts, int(LOG_OVERHEAD_BYTES + unpack(data, 0)[1])


def _tabulate(data: bytes, starts: list[int], end: int) -> BatchTable:
    start = np.array(starts, np.int64)
    ends = np.append(start[1:], end)
    array = np.frombuffer(data, np.uint8)
    magic = array[start + 16].astype(np.int64)
    # Of a short message at the end what follows is taken for its header, and not looked at.
    rows = np.take(array, start[:, None] + _HEADER_COLUMNS, mode="clip").view(_HEADER)[:, 0]
    is_old = magic != CURRENT_MAGIC
    if is_old.any():
        _read_messages(data, start, rows, np.flatnonzero(is_old))
    base_offset = rows["base_offset"].astype(np.int64)
    table = BatchTable(
        data,
        start,
        ends,
        magic,
        rows["attributes"].astype(np.int64),
        base_offset,
        base_offset + rows["last_offset_delta"],
        rows["record_count"].astype(np.int64),
        rows,
    )
    _verify(data, start[~is_old], ends[~is_old], rows["crc"][~is_old])
    _check_offsets(table, is_old)
    return table


def _verify(data: bytes, start: Ints, end: Ints, crc: npt.NDArray[np.uint32]) -> None:
    view = memoryview(data)
    for at, stop, expected in zip((start + _CRC_COVERS_FROM).tolist(), end.tolist(), crc.tolist(), strict=True):
        if crc32c(view[at:stop]) != expected:
            raise CrcMismatch(f"the checksum of the batch {at - _CRC_COVERS_FROM} bytes on does not match")


def _read_messages(data: bytes, start: Ints, rows: Rows, old: Ints) -> None:
    """Put what old messages say into their rows."""
    for row in old.tolist():
        at = int(start[row])
        header = read_entry(data, at)
        verify_entry(data, at, header)
        rows["base_offset"][row] = header.base_offset
        rows["attributes"][row] = header.attributes
        rows["first_timestamp"][row] = rows["max_timestamp"][row] = header.max_timestamp
        rows["last_offset_delta"][row] = 0
        for column in ("producer_id", "producer_epoch", "record_count"):
            rows[column][row] = -1


def _check_offsets(table: BatchTable, is_old: Bools) -> None:
    spans = table.last_offset - table.base_offset
    counts = np.where(is_old, 0, table.record_count)
    if (spans < 0).any() or (counts < 0).any() or (counts > spans + 1).any():
        raise CorruptBatch("more records than offsets")
    if (table.base_offset[1:] <= table.last_offset[:-1]).any():
        raise CorruptBatch("offsets go back")
