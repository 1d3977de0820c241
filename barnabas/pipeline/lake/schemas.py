"""Whether a table's columns are those that are to be written. Pure."""

import pyarrow as pa

from barnabas.pipeline.lake.table import AlreadyCommitted, BatchCommit, OtherSchema, TableConflict, TableSchema


def require_schema(location: str, found: TableSchema, wanted: TableSchema) -> None:
    """Raise OtherSchema unless both have the same columns: names, order and types."""
    differences = _differences("column", found.columns, wanted.columns)
    differences += _differences("partition column", found.partitions, wanted.partitions)
    if differences:
        raise OtherSchema(
            f"the table {location} has other columns than this load writes: {'; '.join(differences)}. Load into "
            "another table, or with the payload and partitions that this one was made with"
        )


def _differences(what: str, found: pa.Schema, wanted: pa.Schema) -> list[str]:
    told = []
    for name in dict.fromkeys([*found.names, *wanted.names]):
        here, there = (each.field(name).type if name in each.names else None for each in (found, wanted))
        if here is None:
            told.append(f"{what} {name} {there} is not in the table")
        elif there is None:
            told.append(f"{what} {name} {here} is in the table alone")
        elif not _is_same(here, there):
            told.append(f"{what} {name} is {here} in the table, not {there}")
    if not told and found.names != wanted.names:
        told.append(f"the {what}s are in the order {', '.join(found.names)}, not {', '.join(wanted.names)}")
    return told


def _is_same(one: pa.DataType, other: pa.DataType) -> bool:
    """Equal but for the names that formats give to the children of lists and maps."""
    if pa.types.is_list(one) and pa.types.is_list(other):
        return _is_same(one.value_type, other.value_type)
    if pa.types.is_map(one) and pa.types.is_map(other):
        return _is_same(one.key_type, other.key_type) and _is_same(one.item_type, other.item_type)
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        return [each.name for each in one] == [each.name for each in other] and all(
            _is_same(here.type, there.type) for here, there in zip(one, other, strict=True)
        )
    return bool(one.equals(other))


def require_next(location: str, commit: BatchCommit, last: int | None) -> None:
    """Raise AlreadyCommitted or TableConflict unless the query's last batch is the one that the commit follows."""
    if last == commit.after:
        return
    if last is not None and last >= commit.batch:
        raise AlreadyCommitted(
            f"batch {commit.batch} of query {commit.query} is in the table {location} already (the last is {last}); "
            "another process runs the same query; let one of them run"
        )
    raise TableConflict(
        f"the last batch of query {commit.query} in the table {location} is {last}, not {commit.after}: the table was "
        "changed by somebody else, or restored; look at its history"
    )
