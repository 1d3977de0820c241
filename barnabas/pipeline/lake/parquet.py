"""How Parquet files are written.

Values of records seldom repeat, so they get no dictionary: building one costs more than everything else. Places and
times rise by little, which their own encoding makes use of; every reader of the last years reads it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

_REPEATING: Final = ("topic", "partition", "error", "query")


@dataclass(frozen=True)
class ParquetOptions:
    """Compression is one of `none`, `snappy`, `lz4`, `zstd`, `gzip`; the level is of zstd and gzip, None for usual."""

    compression: str = "zstd"
    level: int | None = None


def new_writer(
    path: str, schema: pa.Schema, options: ParquetOptions, collected: Sequence[pq.FileMetaData]
) -> pq.ParquetWriter:
    """A writer whose metadata is in `collected` when it was closed."""
    plain = [each.name for each in schema if _is_rising(each)]
    return pq.ParquetWriter(
        path,
        schema,
        compression=options.compression,
        compression_level=options.level,
        use_dictionary=[each.name for each in schema if each.name in _REPEATING],
        column_encoding=dict.fromkeys(plain, "DELTA_BINARY_PACKED") or None,
        write_statistics=[each.name for each in schema if _has_bounds(each.type)],
        store_schema=True,
        metadata_collector=collected,
    )


def _is_rising(column: pa.Field) -> bool:
    whole = pa.types.is_timestamp(column.type) or pa.types.is_int64(column.type)
    return bool(whole and column.name not in _REPEATING and column.name != "checksum")


def _has_bounds(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_timestamp(kind))
