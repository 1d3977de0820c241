"""The options of `barnabas-segments`, as values. Pure.

What is accepted acts; an option that is not known is refused by name. Names are compared without case, as Spark hands
them over.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from barnabas.pipeline.source.options import OptionError

RECORDS: Final = "records"
BATCHES: Final = "batches"
_MIB: Final = 1024 * 1024


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
    split_bytes: int = 128 * _MIB


def parse_segment_options(given: Mapping[str, str]) -> SegmentOptions:
    """The options of a query. Raises OptionError."""
    values = {name.lower(): text for name, text in given.items()}
    for name in given:
        if name.lower() not in _BY_LOWER_NAME:
            raise OptionError(f"option {name} is not known to barnabas-segments, which takes {', '.join(_NAMES)}")

    def take(name: str, parse: Callable[[str], object], default: object) -> object:
        text = values.get(name.lower())
        if text is None:
            return default
        try:
            return parse(text)
        except ValueError as error:
            raise OptionError(f"option {name} is {text!r}: {error}") from None

    if ("path" in values) == ("paths" in values):
        raise OptionError('say where the logs are: load("DIRECTORY"), or load() with several in a list, and not both')
    paths = take("path", _one_path, None) or take("paths", _several_paths, ())
    options = SegmentOptions(
        paths=paths,  # type: ignore[arg-type]
        topics=take("topics", _names, ()),  # type: ignore[arg-type]
        table=take("table", _table, RECORDS),  # type: ignore[arg-type]
        read_committed=bool(take("isolationLevel", _isolation, False)),
        beyond_high_watermark=bool(take("beyondHighWatermark", _boolean, False)),
        include_headers=bool(take("includeHeaders", _boolean, False)),
        fail_on_data_loss=bool(take("failOnDataLoss", _boolean, True)),
        split_bytes=take("splitBytes", _positive, 128 * _MIB),  # type: ignore[arg-type]
    )
    if options.table == BATCHES and (options.read_committed or options.include_headers):
        name = "isolationLevel" if options.read_committed else "includeHeaders"
        raise OptionError(f"option {name} is about records, and table is {BATCHES}; take one of them away")
    return options


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
_BY_LOWER_NAME: Final = {name.lower(): name for name in _NAMES}


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


def _isolation(text: str) -> bool:
    if text not in {"read_committed", "read_uncommitted"}:
        raise ValueError("it must be read_committed or read_uncommitted")
    return text == "read_committed"


def _boolean(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise ValueError("it must be true or false")
    return text.lower() == "true"


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) == 0:
        raise ValueError("it must be a whole number greater than 0")
    return int(text)
