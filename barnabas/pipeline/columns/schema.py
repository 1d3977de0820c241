"""The columns of a record, named and typed as by Spark's Kafka source.

Spark compares what a source gives with its own schema to the type: `binary` and not `large_binary`, microseconds in
UTC, the child of a list named `element`. For Spark all columns may be null; null are keys, values and headers that are
not there.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa

COLUMN_TYPES: Final[Mapping[str, pa.DataType]] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": pa.list_(pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))),
}

COLUMN_NAMES: Final = tuple(COLUMN_TYPES)

NO_TIMESTAMP_TYPE: Final = -1
CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 1
"""What stands in `timestampType`; format 0 has no timestamps."""

MOST_TIMESTAMP_MS: Final = (2**63 - 1) // 1000
"""Later times are no 64-bit number of microseconds."""


def arrow_schema(columns: Sequence[str]) -> pa.Schema:
    """The schema of these columns in this order. Raises ValueError for a name that is not known or comes twice."""
    for name in columns:
        if name not in COLUMN_TYPES:
            raise ValueError(f"column {name!r} is not known; a record has {', '.join(COLUMN_NAMES)}")
    if len(set(columns)) < len(columns):
        raise ValueError(f"a column is asked for twice: {', '.join(columns)}")
    return pa.schema([pa.field(name, COLUMN_TYPES[name]) for name in columns])
