"""Writes `barnabas/protocol/written_codecs.py`: `python -m barnabas.launcher.codec_writing`, when messages change.

There stand, as the schema compiler would make them on first use, the codecs of what carries record batches: Produce and
Fetch with the headers in front of them. As a module they can be compiled to C. Versions are those whose batches are of
the log's own format; requests are encoded, and responses decoded, only in those in which Barnabas asks others.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from barnabas.protocol.decoder_source import write_decoder
from barnabas.protocol.encoder_source import write_encoder, write_framer
from barnabas.protocol.headers import RequestHeader, ResponseHeader
from barnabas.protocol.messages import fetch, produce
from barnabas.protocol.schema import Api, versions_of
from barnabas.protocol.source import Source
from barnabas.runtime.packages import own_root

PATH: Final = own_root() / "barnabas/protocol/written_codecs.py"
_APIS: Final[Sequence[tuple[Api, int, Sequence[int]]]] = ((produce.API, 3, ()), (fetch.API, 4, (11,)))
"""With the first version that has batches of format 2, and in which others are asked beside the newest: followers fetch
in 11."""
_TABLES: Final = {"decode": "DECODERS", "encode": "ENCODERS", "frame": "FRAMERS"}
_HEAD: Final = '''"""Codecs of what carries record batches. Written by `barnabas/launcher/codec_writing.py`."""

import struct
from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any, Final

'''
_SPELLED: Final = {
    "join": 'b"".join',
    "new": "object.__new__",
    "pack": "struct.pack",
    "struct_error": "struct.error",
    "unpack_from": "struct.unpack_from",
}
"""Of what functions refer to, that which is no name of a module of ours."""


class _Codec(NamedTuple):
    verb: str
    cls: type[Any]
    version: int

    @property
    def name(self) -> str:
        words = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in self.cls.__name__)
        return f"{self.verb}{words}_{self.version}"

    def source(self) -> Source:
        if self.verb == "decode":
            return write_decoder(self.cls, self.version, self.name)
        if self.verb == "encode":
            return write_encoder(self.cls, self.version, self.name)
        tagged_header = versions_of(self.cls).is_flexible(self.version)
        return write_framer(self.cls, self.version, self.name, tagged_header=tagged_header)


def written_text() -> str:
    """The module."""
    codecs = list(_codecs())
    sources = [codec.source() for codec in codecs]
    lines = _constants(sources)
    for source in sources:
        lines += ["", "", source.text.rstrip()]
    lines += ["", "", "Codecs = Mapping[tuple[type[Any], int], Callable[..., Any]]"]
    for verb, table in _TABLES.items():
        lines.append(f"{table}: Final[Codecs] = {{")
        lines += [f"    ({each.cls.__name__}, {each.version}): {each.name}," for each in codecs if each.verb == verb]
        lines.append("}")
    return _HEAD + "\n".join(lines) + "\n"


def _codecs() -> Iterator[_Codec]:
    for version in (1, 2):
        yield _Codec("decode", RequestHeader, version)
    for version in (0, 1):
        yield _Codec("decode", ResponseHeader, version)
    for api, first, older in _APIS:
        for version in range(first, api.versions[-1] + 1):
            yield _Codec("decode", api.request, version)
            yield _Codec("frame", api.response, version)
        for version in (*older, api.versions[-1]):
            yield _Codec("encode", api.request, version)
            yield _Codec("decode", api.response, version)


def _constants(sources: Sequence[Source]) -> list[str]:
    """Lines that give the functions what they refer to."""
    imports: defaultdict[str, set[str]] = defaultdict(set)
    structs: dict[str, str] = {}
    for source in sources:
        structs |= source.structs
        for name, value in source.constants.items():
            if str(getattr(value, "__module__", "")).startswith("barnabas."):
                imports[value.__module__].add(name)
    return [
        *(f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(imports.items())),
        "",
        *(f"{name}: Final = {spelled}" for name, spelled in _SPELLED.items()),
        *(f"{name}: Final = {spelled}" for name, spelled in sorted(structs.items())),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the module."""
    parser = argparse.ArgumentParser(prog="python -m barnabas.launcher.codec_writing", description=main.__doc__)
    parser.parse_args(arguments)
    PATH.write_text(written_text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
