"""What a lake has, at versions that are fixed when the audit begins: files of the table, of the dead letters, and ends.

A table of ours has for each record topic, partition, offset and timestamp, and either key and value as they were or,
where the payload was taken apart, the checksum of both.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from barnabas.pipeline.audit.config import LakeConfig
from barnabas.pipeline.audit.tiers import TableFiles
from barnabas.pipeline.jobs.job import JobFailed
from barnabas.pipeline.lake.table import LakeTable, NoTable, Snapshot
from barnabas.pipeline.lake.tables import open_table
from barnabas.pipeline.load.ledger import dead_letter_location, read_coverage
from barnabas.protocol.ids import TopicPartition

_PLACE: Final = ("topic", "partition", "offset", "timestamp")


@dataclass(frozen=True)
class Lake:
    """Files of the table and of the dead letters; `ends` (exclusive) are what the ledger says was loaded."""

    table: TableFiles
    dead_letters: TableFiles | None = None
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)


def open_lake(config: LakeConfig, *, with_ends: bool) -> Lake:
    """Fix what there is now; with the ends, at versions that belong together while a load goes on.

    Raises JobFailed for what is no table of a load, LakeError.
    """
    table = open_table(config.path)
    if with_ends:
        found = read_coverage(table.location, dead_letter_path=config.dead_letters)
        ends, data, dead = found.ends, found.data, found.dead_letters
        dead_letters = None if dead is None else _dead_letters(config, table)
        return Lake(
            _files(table, data), None if dead is None or dead_letters is None else _files(dead_letters, dead), ends
        )
    dead_letters = _dead_letters(config, table)
    return Lake(
        _files(table, table.snapshot()),
        None if dead_letters is None else _files(dead_letters, dead_letters.snapshot()),
    )


def _dead_letters(config: LakeConfig, table: LakeTable) -> LakeTable | None:
    """The table that is named, or else the usual one if it is there."""
    if config.dead_letters is not None:
        return open_table(config.dead_letters)
    try:
        return open_table(dead_letter_location(table.location))
    except NoTable:
        return None


def _files(table: LakeTable, snapshot: Snapshot) -> TableFiles:
    columns = table.schema().columns
    missing = [name for name in _PLACE if name not in columns.names]
    kept = ("checksum",) if "checksum" in columns.names else ("key", "value")
    missing += [name for name in kept if name not in columns.names]
    if not missing and kept != ("checksum",) and not pa.types.is_binary(columns.field("value").type):
        missing.append("checksum")
    if missing:
        raise JobFailed(
            f"the table {table.location} has no column {', '.join(missing)} to compare its rows with records by: audit "
            "a table that `barnabas pipeline load` made"
        )
    return TableFiles([os.path.join(table.location, each.path) for each in snapshot.files], [*_PLACE, *kept])
