"""The tables of a load and the commits of a batch into them.

    table          one commit, which decides: files, query and batch, and the record: ledger rows, files of dead letters
    dead letters   their files, from the record, if there are any
    ledger         its rows, from the record
    Spark          notes the batch as done

After a crash at any point the next run does what is left from the record (`recover`) before it goes on; what Spark then
plans again is found in the table and not loaded again. Every step is a commit of (query, batch), which no table takes
twice.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from barnabas.pipeline.lake.folder import absolute, new_token, require_writable
from barnabas.pipeline.lake.names import batch_file
from barnabas.pipeline.lake.partition_writer import PartitionWriter
from barnabas.pipeline.lake.table import BatchCommit, BrokenTable, DataFile, LakeTable, TableSchema
from barnabas.pipeline.lake.tables import Kind, create_table, kind_at, open_table
from barnabas.pipeline.load import ledger
from barnabas.pipeline.load.ledger import LedgerRow
from barnabas.runtime.clock import Clock, SystemClock

log = logging.getLogger(__name__)


class BatchRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept with a batch's commit: all that is needed to complete it."""

    run: str
    checkpoint: str | None
    ranges: list[LedgerRow]
    dead_letter_files: list[DataFile]


class LoadTables:
    """The table, its dead letters and its ledger, for one query. The driver's alone. Methods raise LakeError."""

    def __init__(
        self,
        query: str,
        path: str,
        kind: Kind,
        *,
        schema: TableSchema,
        dead_letter_path: str | None,
        dead_letter_schema: TableSchema,
        clock: Clock | None = None,
    ) -> None:
        self.query = query
        self._schema = schema
        self._kind = kind
        self._dead_letter_schema = dead_letter_schema
        self._clock = clock or SystemClock()
        self.data = create_table(path, kind, schema)
        self.ledger = create_table(ledger.ledger_path(self.data.location), kind, ledger.SCHEMA)
        self.dead_letter_location = absolute(dead_letter_path or ledger.dead_letter_location(self.data.location))
        if kind_at(self.dead_letter_location) is not None:
            create_table(self.dead_letter_location, kind, dead_letter_schema)

    def last_batch(self) -> int | None:
        """The query's last batch in the table."""
        return self.data.committed(self.query)

    def recover(self) -> None:
        """Complete what was committed into the table and not into the others. Raises BrokenTable if that is gone."""
        last, known = self.last_batch(), self.ledger.committed(self.query)
        if last is None or last == known:
            if known is not None and last is None:
                raise BrokenTable(
                    f"the ledger {self.ledger.location} has batches of query {self.query} and the table "
                    f"{self.data.location} has none: one of them was replaced. Restore it, or load into a new table"
                )
            return
        record = self.data.record(self.query, last)
        if record is None or known != (None if last == 0 else last - 1):
            raise BrokenTable(
                f"the last batch of query {self.query} is {last} in the table {self.data.location} and {known} in its "
                f"ledger {self.ledger.location}: one of them was replaced. Restore it, or load into a new table"
            )
        log.info("query %s: batch %d was committed before, its ledger is made up", self.query, last)
        self._complete(last, known, _decode(record, self.data.location))

    def commit(self, batch: int, files: Sequence[DataFile], record: BatchRecord) -> None:
        """Put a batch into the table, then complete it. Raises AlreadyCommitted, TableConflict."""
        after = None if batch == 0 else batch - 1
        told: dict[str, Any] = msgspec.to_builtins(record)
        version = self.data.commit(BatchCommit(self.query, batch, after, tuple(files), told), self._schema)
        log.info("query %s: batch %d committed, version %d of %s", self.query, batch, version, self.data.location)
        self._complete(batch, after, record)

    def _complete(self, batch: int, after: int | None, record: BatchRecord) -> None:
        if record.dead_letter_files:
            letters = create_table(self.dead_letter_location, self._kind, self._dead_letter_schema)
            known = letters.committed(self.query)
            if known is None or known < batch:
                files = tuple(record.dead_letter_files)
                commit = BatchCommit(self.query, batch, known, files, {"run": record.run})
                letters.commit(commit, self._dead_letter_schema)
        commit = BatchCommit(self.query, batch, after, self._ledger_files(batch, record), {"run": record.run})
        self.ledger.commit(commit, ledger.SCHEMA)

    def _ledger_files(self, batch: int, record: BatchRecord) -> tuple[DataFile, ...]:
        common = {
            "query": self.query,
            "batch": batch,
            "checkpoint": record.checkpoint,
            "run": record.run,
            "committed": self._clock.wall_ms() * 1000,
        }
        name = batch_file(self.query, batch, run=new_token(), attempt=0, number=0)
        writer = PartitionWriter(self.ledger.location, ledger.COLUMNS, lambda: name, clock=self._clock)
        writer.write(ledger.ledger_rows(record.ranges, common))
        return tuple(writer.close())

    def known_rows(self) -> pa.Table:
        """The ledger but for checksums and hours."""
        names = [name for name in ledger.COLUMNS.names if name not in {"checksum", "hours", "committed"}]
        return ledger.read_ledger(self.ledger, names)


def tables_of(path: str, dead_letter_path: str | None) -> list[LakeTable]:
    """Those of a load that are there, to be compacted or vacuumed. Raises NoTable where there is no table at all."""
    location = absolute(path)
    data = open_table(location)
    beside = (absolute(dead_letter_path or ledger.dead_letter_location(location)), ledger.ledger_path(location))
    return [data, *(open_table(each) for each in beside if kind_at(each) is not None)]


def require_place(path: str, dead_letter_path: str | None) -> None:
    """Look whether files can be made where the tables are to be. Raises LakeError, NotWritable."""
    location = absolute(path)
    for each in (location, ledger.ledger_path(location), dead_letter_path):
        if each is not None:
            require_writable(absolute(each))


def _decode(record: Mapping[str, Any], location: str) -> BatchRecord:
    try:
        return msgspec.convert(record, BatchRecord)
    except msgspec.ValidationError as error:
        raise BrokenTable(
            f"the last commit of the query into {location} is none of this job's, though it has its name ({error}): "
            "another writer took the name. Load with another name into another table"
        ) from None
