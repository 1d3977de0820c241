"""Which files of a table nobody refers to or will. Pure.

Files must have been listed before the state was read: what is listed, not in the table, and of a batch that the query
has committed was left by an attempt that lost. Of other files only their age tells, and `keep_ms` must be longer than
any batch takes; so it must for readers of former versions.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from barnabas.pipeline.lake.names import written_by


@dataclass(frozen=True)
class Listed:
    """A file in the table's folder: path relative to it, and when it was last written."""

    path: str
    changed_ms: int


def queries_of(listed: Iterable[Listed]) -> set[str]:
    """The queries that wrote these files."""
    owners = (written_by(each.path.rpartition("/")[2]) for each in listed)
    return {owner.query for owner in owners if owner is not None}


def find_orphans(
    listed: Iterable[Listed],
    *,
    referred: Collection[str],
    committed: Mapping[str, int | None],
    keep_ms: int,
    now_ms: int,
) -> list[str]:
    """What may go: `referred` are the paths of the table and of its versions that are still read."""
    found = []
    for each in listed:
        if each.path in referred:
            continue
        owner = written_by(each.path.rpartition("/")[2])
        last = None if owner is None else committed.get(owner.query)
        if (owner is not None and last is not None and owner.batch <= last) or now_ms - each.changed_ms > keep_ms:
            found.append(each.path)
    return found
