"""Names of files and folders in a table. Pure.

    event_date=2024-05-01/accounts-00000007-5f1c…-12-0.parquet
    folder of the values   query    batch    run    attempt and number

A name holds the run and the attempt of the task, so that no two writers ever have one name: a worker whose driver was
killed, and which lives on, cannot change a file that the batch's next attempt has committed. What a lost attempt leaves
is found by query and batch.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from barnabas.pipeline.lake.table import NULL_PARTITION

QUERY_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""What a query may be called: its name goes into those of files, as it is."""

MERGED: Final = "merged-"
"""How the names of files begin that a compaction of ours made."""

_BATCH_FILE: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,99})-(\d{8,19})-[0-9a-f]{16}-\d+-\d+\.parquet")


class WrittenBy(NamedTuple):
    """Whose file it is, by its name."""

    query: str
    batch: int


def batch_file(query: str, batch: int, *, run: str, attempt: int, number: int) -> str:
    """The name of a file that a task of a batch writes."""
    return f"{query}-{batch:08d}-{run}-{attempt}-{number}.parquet"


def written_by(name: str) -> WrittenBy | None:
    """Whose file has this name (without folders), None for others than those of `batch_file`."""
    found = _BATCH_FILE.fullmatch(name)
    return WrittenBy(found[1], int(found[2])) if found else None


def folder_of(values: Mapping[str, str | None]) -> str:
    """The folder of rows with these values of the partition columns, empty where there are none."""
    return "/".join(f"{name}={NULL_PARTITION if value is None else value}" for name, value in values.items())
