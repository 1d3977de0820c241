"""Small files become large ones: which, and how.

Rows keep their order within a file; files are merged in the order of their paths. What is held is a batch of rows.
"""

import os
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from barnabas.pipeline.lake.folder import not_writable, sync_file, sync_folder
from barnabas.pipeline.lake.names import MERGED, folder_of
from barnabas.pipeline.lake.parquet import ParquetOptions, new_writer
from barnabas.pipeline.lake.statistics import bounds_of
from barnabas.pipeline.lake.table import BrokenTable, CompactionPlan, DataFile

_BATCH_ROWS: Final = 64 * 1024


def choose_merges(files: Iterable[DataFile], plan: CompactionPlan) -> list[list[DataFile]]:
    """Groups of small files of one folder, each of about the target size; one file alone is no group."""
    small = [each for each in files if each.size_bytes < plan.small_bytes]
    small.sort(key=lambda each: (folder_of(each.values), each.path))
    groups: list[list[DataFile]] = []
    for _, of_folder in groupby(small, key=lambda each: folder_of(each.values)):
        members = list(of_folder)
        if len(members) < plan.least_files:
            continue
        group: list[DataFile] = []
        size_bytes = 0
        for each in members:
            if group and size_bytes + each.size_bytes > plan.target_bytes:
                groups.append(group)
                group, size_bytes = [], 0
            group.append(each)
            size_bytes += each.size_bytes
        groups.append(group)
    return [group for group in groups if len(group) > 1]


def merge_files(location: str, group: Sequence[DataFile], *, token: str, now_ms: int) -> DataFile:
    """Write the rows of these files into one. Raises BrokenTable where one cannot be read, NotWritable."""
    values = group[0].values
    path = os.path.join(folder_of(values), f"{MERGED}{token}.parquet")
    whole = os.path.join(location, path)
    collected: list[pq.FileMetaData] = []
    try:
        schema = pq.read_schema(os.path.join(location, group[0].path))
        with not_writable(whole), new_writer(whole, schema, ParquetOptions(), collected) as writer:
            for each in group:
                _copy(os.path.join(location, each.path), writer, schema)
    except pa.ArrowException as error:
        raise BrokenTable(f"files of the table {location} cannot be merged: {error}") from error
    with not_writable(whole):
        sync_file(whole)
        sync_folder(os.path.dirname(whole))
        size_bytes = os.stat(whole).st_size
    (metadata,) = collected
    rows = sum(each.rows for each in group)
    if metadata.num_rows != rows:
        raise BrokenTable(f"the files of {location} that were merged have {metadata.num_rows} rows, not {rows}")
    least, most, nulls = bounds_of(metadata)
    return DataFile(
        path=path,
        size_bytes=size_bytes,
        rows=rows,
        written_ms=now_ms,
        values=values,
        least=least,
        most=most,
        nulls=nulls,
    )


def _copy(path: str, writer: pq.ParquetWriter, schema: pa.Schema) -> None:
    """Row groups as they come, put together to reasonable ones."""
    held: list[pa.RecordBatch] = []
    rows = 0
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(_BATCH_ROWS):
            held.append(batch)
            rows += batch.num_rows
            if rows >= _BATCH_ROWS:
                writer.write_table(pa.Table.from_batches(held, schema))
                held, rows = [], 0
    if held:
        writer.write_table(pa.Table.from_batches(held, schema))
