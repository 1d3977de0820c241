"""The entries of a segment's file: record batches of format 2, messages and wrappers of formats 0 and 1.

A file is read as it is, also a damaged one: entries come up to the damage, then `DamagedFile` says what is wrong there.
A checksum that does not match is no end: the entry says so. Nothing is changed.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from barnabas.protocol.batch import (
    CODEC_MASK,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    NO_SEQUENCE,
    BatchHeader,
    Codec,
    CorruptBatch,
    CrcMismatch,
    TruncatedBatch,
    read_header,
    verify_crc,
)
from barnabas.protocol.compression import decompress
from barnabas.protocol.legacy_lz4 import right_checksum
from barnabas.protocol.message_set import (
    HIGHEST_LEGACY_MAGIC,
    LEAST_ENTRY_BYTES,
    iterate_messages,
    read_content,
    read_message_header,
    verify_message_crc,
)
from barnabas.protocol.records import Record, iterate_records
from barnabas.runtime.disk import Disk
from barnabas.runtime.files import File

MAX_INFLATED_BYTES: Final = 1 << 30
_MAGIC_AT: Final = 16
_INT31: Final = (1 << 31) - 1


class DamagedFile(Exception):
    """The file is not whole, or not what its name says."""


@dataclass(slots=True)
class StoredRecord:
    """A record with what only its place tells. `checksum` is that of a message of its own, None in format 2."""

    record: Record
    sequence: int
    checksum: int | None


@dataclass(slots=True)
class StoredEntry:
    """An entry, its position in the file, and whether its checksum matches."""

    position: int
    header: BatchHeader
    data: bytes
    is_valid: bool

    @property
    def is_legacy(self) -> bool:
        return self.header.magic <= HIGHEST_LEGACY_MAGIC

    @property
    def is_wrapper(self) -> bool:
        """Whether it is a message that holds others."""
        return self.is_legacy and bool(self.header.attributes & CODEC_MASK)

    @property
    def timestamp_type(self) -> str:
        """As Kafka names it."""
        if self.header.magic == 0:
            return "NoTimestampType"
        return "LogAppendTime" if self.header.uses_log_append_time else "CreateTime"

    def records(self) -> Iterator[StoredRecord]:
        """The records in it. Raises a CorruptBatch."""
        header = self.header
        if not self.is_legacy:
            for record in iterate_records(self.data, 0, header, MAX_INFLATED_BYTES):
                yield StoredRecord(record, _sequence(header, record.offset), None)
            return
        messages = iterate_messages(self.data, 0, header, MAX_INFLATED_BYTES)
        checksums = self._inner_checksums() if self.is_wrapper else iter((header.crc,))
        for record, checksum in zip(messages, checksums, strict=True):
            yield StoredRecord(record, NO_SEQUENCE, checksum)

    def _inner_checksums(self) -> Iterator[int]:
        codec = self.header.codec
        _, value = read_content(self.data, 0, self.header)
        assert value is not None, "iterate_messages refuses it"
        broken_frame = codec is Codec.LZ4 and self.header.magic == 0
        content = decompress(codec, right_checksum(value) if broken_frame else value, MAX_INFLATED_BYTES)
        at = 0
        while at < len(content):
            length, checksum = struct.unpack_from(">iI", content, at + 8)
            yield checksum
            at += LOG_OVERHEAD_BYTES + length


def _sequence(header: BatchHeader, offset: int) -> int:
    if header.base_sequence < 0:
        return NO_SEQUENCE
    return (header.base_sequence + offset - header.base_offset) & _INT31


def read_entries(disk: Disk, path: str, start: int = 0) -> Iterator[StoredEntry]:
    """The entries of a segment from a byte on. Raises DamagedFile and OSError."""
    file = disk.open(path, writable=False)
    try:
        position, end = start, file.size()
        while position < end:
            entry = read_entry_at(file, position, end)
            yield entry
            position += entry.header.size_bytes
    finally:
        file.close()


def read_entry_at(file: File, position: int, end: int) -> StoredEntry:
    """The entry at that byte of a segment of `end` bytes. Raises DamagedFile and OSError."""
    head = file.pread(HEADER_BYTES, position)
    if not any(head):
        raise DamagedFile(f"zeros from byte {position} on, {max(end - position, 0)} bytes to the end")
    try:
        header = read_any_header(head)
        if position + header.size_bytes > end:
            raise TruncatedBatch(f"a batch of {header.size_bytes} bytes, {end - position} are there")
    except CorruptBatch as error:
        raise DamagedFile(f"no batch at byte {position}: {error}") from error
    data = file.pread(header.size_bytes, position)
    return StoredEntry(position, header, data, _is_valid(data, header))


def read_any_header(head: bytes) -> BatchHeader:
    """The header of an entry of any format. Raises a CorruptBatch."""
    if len(head) >= LEAST_ENTRY_BYTES and 0 <= head[_MAGIC_AT] <= HIGHEST_LEGACY_MAGIC:
        return read_message_header(head)
    return read_header(head)


def _is_valid(data: bytes, header: BatchHeader) -> bool:
    try:
        (verify_message_crc if header.magic <= HIGHEST_LEGACY_MAGIC else verify_crc)(data, 0, header)
    except CrcMismatch:
        return False
    return True
