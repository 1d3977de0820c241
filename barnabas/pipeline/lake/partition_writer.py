"""Writes rows of one task into Parquet files, a file for each partition of event time, in the table's folders.

A file has its final name from the start and counts for nobody until a commit names it. What is held in memory is
bounded: rows wait until they make a row group, the largest group goes first where all together hold too much, and of
the files that are open the one that was used longest ago is ended where there are too many. Each file is synced before
it is reported.
"""

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from barnabas.pipeline.lake.folder import make_folder, not_writable, sync_file, sync_folder
from barnabas.pipeline.lake.names import folder_of
from barnabas.pipeline.lake.parquet import ParquetOptions, new_writer
from barnabas.pipeline.lake.statistics import bounds_of
from barnabas.pipeline.lake.table import DataFile
from barnabas.runtime.clock import Clock, SystemClock

Values = tuple[tuple[str, str | None], ...]
"""Names and values of the partition columns, hashable."""


@dataclass(frozen=True)
class WriterOptions:
    """Sizes: of a file (about), of a row group in memory, of all that waits, and how many files may be open."""

    parquet: ParquetOptions = field(default_factory=ParquetOptions)
    file_bytes: int = 256 * 1024 * 1024
    group_bytes: int = 16 * 1024 * 1024
    waiting_bytes: int = 64 * 1024 * 1024
    open_files: int = 32


@dataclass
class _OpenFile:
    """A file that is being written: what waits for its next row group, and how far it has come."""

    path: str
    values: dict[str, str | None]
    writer: pq.ParquetWriter
    collected: list[pq.FileMetaData]
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    waiting_bytes: int = 0
    written_bytes: int = 0


class PartitionWriter:
    """`new_name` gives each file a name that no other has. Methods raise NotWritable."""

    def __init__(
        self,
        location: str,
        schema: pa.Schema,
        new_name: Callable[[], str],
        *,
        options: WriterOptions | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._location = location
        self._schema = schema
        self._new_name = new_name
        self._options = options or WriterOptions()
        self._clock = clock or SystemClock()
        self._open: dict[Values, _OpenFile] = {}
        """In the order of their last use."""
        self._waiting_bytes = 0
        self._done: list[DataFile] = []

    @property
    def waiting_bytes(self) -> int:
        """What rows in memory take."""
        return self._waiting_bytes

    @property
    def open_files(self) -> int:
        """How many files are being written."""
        return len(self._open)

    def write(self, rows: pa.RecordBatch, values: Values = ()) -> None:
        """Add rows, all of one partition."""
        if not rows.num_rows:
            return
        file = self._open.pop(values, None) or self._new_file(values)
        self._open[values] = file
        file.waiting.append(rows)
        file.waiting_bytes += rows.nbytes
        self._waiting_bytes += rows.nbytes
        if file.waiting_bytes >= self._options.group_bytes:
            self._write_group(file)
        while self._waiting_bytes > self._options.waiting_bytes:
            self._write_group(max(self._open.values(), key=lambda each: each.waiting_bytes))
        if file.written_bytes >= self._options.file_bytes:
            self._end(values)
        while len(self._open) > self._options.open_files:
            self._end(next(iter(self._open)))

    def close(self) -> list[DataFile]:
        """End all files; what was written."""
        for values in list(self._open):
            self._end(values)
        return self._done

    def abandon(self) -> None:
        """Let go of what is open, after an error: nobody will name it."""
        for file in self._open.values():
            with contextlib.suppress(OSError, pa.ArrowException):
                file.writer.close()
        self._open.clear()

    def _new_file(self, values: Values) -> _OpenFile:
        folder = os.path.join(self._location, folder_of(dict(values)))
        path = os.path.join(folder_of(dict(values)), self._new_name())
        collected: list[pq.FileMetaData] = []
        whole = os.path.join(self._location, path)
        with not_writable(whole):
            if not os.path.isdir(folder):
                make_folder(folder)
            writer = new_writer(whole, self._schema, self._options.parquet, collected)
        return _OpenFile(path, dict(values), writer, collected)

    def _write_group(self, file: _OpenFile) -> None:
        if not file.waiting:
            return
        with not_writable(os.path.join(self._location, file.path)):
            table = pa.Table.from_batches(file.waiting, self._schema)
            file.writer.write_table(table, row_group_size=table.num_rows)
        file.written_bytes += file.waiting_bytes
        self._waiting_bytes -= file.waiting_bytes
        file.waiting, file.waiting_bytes = [], 0

    def _end(self, values: Values) -> None:
        file = self._open[values]
        self._write_group(file)
        del self._open[values]
        whole = os.path.join(self._location, file.path)
        with not_writable(whole):
            file.writer.close()
            sync_file(whole)
            sync_folder(os.path.dirname(whole))
            size_bytes = os.stat(whole).st_size
        (metadata,) = file.collected
        least, most, nulls = bounds_of(metadata)
        self._done.append(
            DataFile(
                path=file.path,
                size_bytes=size_bytes,
                rows=metadata.num_rows,
                written_ms=self._clock.wall_ms(),
                values=file.values,
                least=least,
                most=most,
                nulls=nulls,
            )
        )
