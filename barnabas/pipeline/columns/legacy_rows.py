"""Messages of formats 0 and 1 as rows: they are read one by one, as clients read them, and come out as columns."""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from barnabas.pipeline.columns.gathering import ConstantColumns
from barnabas.pipeline.columns.schema import (
    COLUMN_TYPES,
    CREATE_TIME,
    LOG_APPEND_TIME,
    MOST_TIMESTAMP_MS,
    NO_TIMESTAMP_TYPE,
)
from barnabas.protocol.batch import BatchHeader, InvalidRecord
from barnabas.protocol.records import Record


class LegacyRows:
    """Gathers messages until there are enough for a record batch."""

    __slots__ = ("_constants", "_max_bytes", "_max_rows", "_records", "_schema", "_size_bytes", "_types")

    def __init__(self, schema: pa.Schema, constants: ConstantColumns, max_rows: int, max_bytes: int) -> None:
        self._schema, self._constants = schema, constants
        self._max_rows, self._max_bytes = max_rows, max_bytes
        self._records: list[Record] = []
        self._types: list[int] = []
        self._size_bytes = 0

    def add(
        self, header: BatchHeader, records: Iterable[Record], *, start: int, end: int | None
    ) -> Iterator[pa.RecordBatch]:
        """Take in the records of an entry that lie in the range; give a record batch whenever one is full.

        Raises a CorruptBatch.
        """
        if header.magic == 0:
            kind = NO_TIMESTAMP_TYPE
        else:
            kind = LOG_APPEND_TIME if header.uses_log_append_time else CREATE_TIME
        for record in records:
            if record.offset < start or (end is not None and record.offset >= end):
                continue
            if "timestamp" in self._schema.names and abs(record.timestamp) > MOST_TIMESTAMP_MS:
                raise InvalidRecord(f"timestamp {record.timestamp} is no 64-bit number of microseconds")
            self._records.append(record)
            self._types.append(kind)
            self._size_bytes += len(record.key or b"") + len(record.value or b"")
            if len(self._records) >= self._max_rows or self._size_bytes >= self._max_bytes:
                yield from self.flush()

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Give what was taken in."""
        if not self._records:
            return
        arrays = [self._column(name) for name in self._schema.names]
        self._records, self._types, self._size_bytes = [], [], 0
        yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _column(self, name: str) -> pa.Array:
        records, kind = self._records, COLUMN_TYPES[name]
        if name == "topic":
            return self._constants.topics(len(records))
        if name == "partition":
            return self._constants.partitions(len(records))
        if name == "offset":
            return pa.array([record.offset for record in records], kind)
        if name == "timestamp":
            return pa.array([record.timestamp * 1000 for record in records], pa.int64()).view(kind)
        if name == "timestampType":
            return pa.array(self._types, kind)
        if name == "headers":
            return pa.nulls(len(records), kind)
        return pa.array([record.key if name == "key" else record.value for record in records], kind)
