"""The columns of tables, and rows for them from the records that the source reads.

A table has the record's place and time, key, headers, and in `value` the payload: bytes as they are, or a struct. A
struct no longer tells the bytes, so a row then carries the checksum of key and value as they came.
"""

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from barnabas.pipeline.columns.checksums import as_signed, content_checksums
from barnabas.pipeline.columns.schema import COLUMN_TYPES
from barnabas.pipeline.load.payloads.decoding import PayloadDecoder

_PLACE: Final = ("topic", "partition", "offset", "timestamp", "key")


@dataclass
class Rows:
    """What came of a batch of records. `dead` says whose value could not be read, None where all could."""

    rows: pa.RecordBatch
    values: pa.Array
    dead_letters: pa.RecordBatch | None
    dead: pa.Array | None
    checksums: pa.Array


def columns_read(*, headers: bool) -> tuple[str, ...]:
    """What is asked of the source."""
    return (*_PLACE, "value", "headers") if headers else (*_PLACE, "value")


def table_columns(payload: pa.DataType, *, headers: bool) -> pa.Schema:
    """The columns of the table's files."""
    fields = [pa.field(name, COLUMN_TYPES[name]) for name in _PLACE]
    fields += [pa.field("headers", COLUMN_TYPES["headers"])] if headers else []
    fields.append(pa.field("value", payload))
    if not pa.types.is_binary(payload):
        fields.append(pa.field("checksum", pa.int64()))
    return pa.schema(fields)


def dead_letter_columns(*, headers: bool) -> pa.Schema:
    """The columns of the dead letters: the record as it came, and why it could not be read."""
    fields = [pa.field(name, COLUMN_TYPES[name]) for name in columns_read(headers=headers)]
    return pa.schema([*fields, pa.field("error", pa.string())])


class RowMaker:
    """Makes rows of the records of one task."""

    def __init__(self, decoder: PayloadDecoder, *, headers: bool) -> None:
        self.schema = table_columns(decoder.kind, headers=headers)
        self.dead_letter_schema = dead_letter_columns(headers=headers)
        self._decoder = decoder

    def rows(self, records: pa.RecordBatch) -> Rows:
        """`records` have the columns of `columns_read`."""
        decoded = self._decoder.decode(records.column("value"))
        checksums = content_checksums(records.column("key"), records.column("value"))
        given = {
            "value": decoded.column,
            "checksum": pa.array(as_signed(checksums)) if "checksum" in self.schema.names else None,
        }
        columns = [given[name] if name in given else records.column(name) for name in self.schema.names]
        rows = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        sums = pa.array(checksums)
        if not decoded.errors:
            return Rows(rows, decoded.column, None, None, sums)
        dead = pa.array([at in decoded.errors for at in range(records.num_rows)])
        lost = records.filter(dead)
        errors = pa.array([decoded.errors[at] for at in sorted(decoded.errors)], pa.string())
        letters = pa.RecordBatch.from_arrays([*lost.columns, errors], schema=self.dead_letter_schema)
        alive = pc.invert(dead)
        return Rows(rows.filter(alive), decoded.column.filter(alive), letters, dead, sums)
