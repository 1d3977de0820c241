"""Tables by their folder: `delta` where there is a Delta log, `parquet` where there are manifests.

deltalake is loaded for Delta tables alone: it takes a tenth of a second.
"""

import os
from typing import Final, Literal

from barnabas.pipeline.lake.folder import absolute
from barnabas.pipeline.lake.table import LakeError, LakeTable, NoTable, TableSchema

Kind = Literal["delta", "parquet"]

DELTA_LOG: Final = "_delta_log"
MANIFESTS: Final = "_manifests"


def kind_at(location: str) -> Kind | None:
    """What is there, by its folders."""
    if os.path.isdir(os.path.join(location, DELTA_LOG)):
        return "delta"
    return "parquet" if os.path.isdir(os.path.join(location, MANIFESTS)) else None


def open_table(path: str) -> LakeTable:
    """The table that is there. Raises LakeError, NoTable."""
    location = absolute(path)
    match kind_at(location):
        case "delta":
            from barnabas.pipeline.lake.delta_table import DeltaLakeTable  # noqa: PLC0415 - see the module

            return DeltaLakeTable(location)
        case "parquet":
            from barnabas.pipeline.lake.manifest_table import ManifestTable  # noqa: PLC0415

            return ManifestTable(location)
        case None:
            raise NoTable(f"there is no table at {location}: it has neither a folder {DELTA_LOG} nor {MANIFESTS}")


def create_table(path: str, kind: Kind, schema: TableSchema) -> LakeTable:
    """The table at a place, made unless it is there. Raises LakeError, NotWritable, OtherSchema."""
    location = absolute(path)
    found = kind_at(location)
    if found is not None and found != kind:
        raise LakeError(f"the table at {location} is of kind {found}, not {kind}; say table.format = {found!r}")
    if kind == "delta":
        from barnabas.pipeline.lake.delta_table import DeltaLakeTable  # noqa: PLC0415 - see the module

        return DeltaLakeTable.create(location, schema)
    from barnabas.pipeline.lake.manifest_table import ManifestTable  # noqa: PLC0415

    return ManifestTable.create(location, schema)
