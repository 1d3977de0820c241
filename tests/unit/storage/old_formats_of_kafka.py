"""What Kafka 2.7.2 makes of sets of records, as captured/old_formats.txt has it.

tests/compatibility/java/OldFormats.java prints that file, and tests/compatibility/test_old_formats.py runs it again and
holds what it prints against the file: compressed bytes may differ from Java to Java, so they are compared as what is
in them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from barnabas.protocol.batch import HEADER_BYTES, Codec
from barnabas.protocol.compression import decompress
from barnabas.protocol.entries import iterate_entries, verify_entry
from barnabas.protocol.legacy_lz4 import right_checksum
from barnabas.protocol.message_set import read_content

CAPTURED = Path(__file__).parent / "captured" / "old_formats.txt"


@dataclass(frozen=True)
class Append:
    """A set that is appended to a topic of that format and codec, and what is stored of it."""

    name: str
    data: bytes
    format: int
    codec: str
    time: str
    error: str | None
    max_timestamp: int
    count: int
    stored: bytes


@dataclass(frozen=True)
class Fetch:
    """A set that stands in a log, and what a consumer of that format gets of it."""

    name: str
    data: bytes
    format: int
    first_offset: int
    given: bytes


def captured(text: str) -> Iterator[Append | Fetch]:
    """The lines of a capture."""
    sets: dict[str, bytes] = {}
    for line in text.splitlines():
        kind, *words = line.split()
        if kind == "set":
            sets[words[0]] = bytes.fromhex(words[1])
        elif kind == "append":
            name, message_format, codec, time, _, *result = words
            failed = result[0] == "error"
            yield Append(
                name,
                sets[name],
                int(message_format),
                codec,
                time,
                result[1] if failed else None,
                -1 if failed else int(result[0]),
                0 if failed else int(result[1]),
                b"" if failed else bytes.fromhex(result[2]),
            )
        else:
            assert kind == "fetch"
            name, message_format, first, _, *hexed = words
            yield Fetch(name, sets[name], int(message_format), int(first), bytes.fromhex("".join(hexed)))


def content(data: bytes) -> list[object]:
    """The entries of a set: as they are, or, where they are compressed, their header and what is in them."""
    parts: list[object] = []
    for position, header in iterate_entries(data):
        verify_entry(data, position, header)
        raw = data[position : position + header.size_bytes]
        if header.codec is Codec.NONE:
            parts.append(raw)
            continue
        if header.magic == 2:
            payload = raw[HEADER_BYTES:]
        else:
            _, value = read_content(raw, 0, header)
            assert value is not None
            payload = bytes(value)
            if header.codec is Codec.LZ4:
                # Which checksum of its descriptor a frame has is part of the format.
                assert (payload == right_checksum(payload)) == (header.magic == 1)
                payload = bytes(right_checksum(payload))
        parts.append((replace(header, length=0, crc=0), decompress(header.codec, payload, 1 << 20)))
    return parts
