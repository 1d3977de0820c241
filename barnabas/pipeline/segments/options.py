"""The options of `barnabas-segments`, as values. Pure.

How options are taken, and that none is left over, stands in given_options.py.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from barnabas.pipeline.given_options import MIB, GivenOptions, OptionError, boolean, isolation, positive

RECORDS: Final = "records"
BATCHES: Final = "batches"
_SPLIT_BYTES: Final = 128 * MIB


@dataclass(frozen=True, slots=True)
class SegmentOptions:
    """What a query says.

    `paths` are log directories or directories of single partitions. Of `topics` none means all. A split holds about
    `split_bytes` bytes of a segment. With `beyond_high_watermark` a log is read to its end, whatever was replicated.
    """

    paths: tuple[str, ...]
    topics: tuple[str, ...] = ()
    table: str = RECORDS
    read_committed: bool = False
    beyond_high_watermark: bool = False
    include_headers: bool = False
    fail_on_data_loss: bool = True
    split_bytes: int = _SPLIT_BYTES


def parse_segment_options(given: Mapping[str, str]) -> SegmentOptions:
    """The options of a query. Raises OptionError."""
    options = GivenOptions(given)
    path = options.maybe("path", _one_path)
    paths = options.maybe("paths", _several_paths)
    parsed = SegmentOptions(
        paths=path or paths or (),
        topics=options.maybe("topics", _names) or (),
        table=options.read("table", _table, RECORDS),
        read_committed=options.read("isolationLevel", isolation, default=False),
        beyond_high_watermark=options.read("beyondHighWatermark", boolean, default=False),
        include_headers=options.read("includeHeaders", boolean, default=False),
        fail_on_data_loss=options.read("failOnDataLoss", boolean, default=True),
        split_bytes=options.read("splitBytes", positive, _SPLIT_BYTES),
    )
    options.refuse_the_rest(of="the source barnabas-segments", names=_NAMES, client_names=_NAMES)
    if (path is None) == (paths is None):
        raise OptionError('say where the logs are: load("DIRECTORY"), or load() with several in a list, and not both')
    if parsed.table == BATCHES and (parsed.read_committed or parsed.include_headers):
        name = "isolationLevel" if parsed.read_committed else "includeHeaders"
        raise OptionError(f"option {name} is about records, and table is {BATCHES}; take one of them away")
    return parsed


_NAMES: Final = (
    "path",
    "paths",
    "topics",
    "table",
    "isolationLevel",
    "beyondHighWatermark",
    "includeHeaders",
    "failOnDataLoss",
    "splitBytes",
)


def _one_path(text: str) -> tuple[str, ...]:
    return (_local(text),)


def _several_paths(text: str) -> tuple[str, ...]:
    paths = json.loads(text)
    if not isinstance(paths, list) or not paths or not all(isinstance(path, str) for path in paths):
        raise ValueError("it must be a JSON list of directories")
    if len(set(paths)) < len(paths):
        raise ValueError("a directory is named twice")
    return tuple(map(_local, paths))


def _local(path: str) -> str:
    """A path as the workers open it: Spark may hand it over as a URI."""
    path = path.removeprefix("file://") if path.startswith("file:///") else path.removeprefix("file:")
    if "://" in path:
        raise ValueError("logs are read from file systems that are mounted; this is no path of one")
    if not path:
        raise ValueError("it must name a directory")
    return path


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise ValueError("it must be names of topics with commas between them")
    return names


def _table(text: str) -> str:
    if text not in {RECORDS, BATCHES}:
        raise ValueError(f"it must be {RECORDS} or {BATCHES}")
    return text
