"""The files of a replica's directory in the words of kafka-dump-log of 2.7, line by line.

Lines are what that tool writes to standard output. What it finds wrong is collected in `Findings`, which give the lines
for standard error at the end. Where it ends with an exception of Java, `DamagedFile` is raised here.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from barnabas.admin.stored_entries import DamagedFile, StoredEntry, StoredRecord, read_any_header, read_entries
from barnabas.coordinator.record_fields import NotDecodable
from barnabas.protocol.batch import HEADER_BYTES, LOG_OVERHEAD_BYTES, BatchHeader, CorruptBatch, UnsupportedCodec
from barnabas.protocol.records import read_control_record
from barnabas.runtime.disk import Disk
from barnabas.runtime.files import File
from barnabas.storage.file_names import INDEX_SUFFIX, LOG_SUFFIX, offset_of
from barnabas.storage.index import OFFSET_ENTRY, TIME_ENTRY, CorruptIndex
from barnabas.storage.producer_snapshot import CorruptSnapshot, decode_snapshot
from barnabas.storage.txn_index import decode_aborted

Decoder = Callable[[bytes | None, bytes | None], tuple[str | None, str | None]]
MAX_MESSAGE_BYTES: Final = 5 * 1024 * 1024
_NO_TIMESTAMP: Final = -1


def text_record(key: bytes | None, value: bytes | None) -> tuple[str | None, str | None]:
    """Key and value as UTF-8."""
    return _text(key), _text(value)


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")


@dataclass(slots=True)
class DumpOptions:
    """What is shown. With a decoder the contents of records are."""

    deep: bool = False
    decoder: Decoder | None = None
    index_sanity_only: bool = False
    verify_only: bool = False
    max_message_bytes: int = MAX_MESSAGE_BYTES


@dataclass(slots=True)
class Findings:
    """What does not fit together, by the absolute paths of files."""

    index_mismatches: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    time_mismatches: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    time_disorder: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    not_found: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    gaps: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        """What standard error is told after all files."""
        for path, pairs in self.index_mismatches.items():
            yield f"Mismatches in :{path}"
            # The tool puts each new one in front.
            yield from (f"  Index offset: {index}, log offset: {log}" for index, log in reversed(pairs))
        for path, pairs in self.time_mismatches.items():
            yield f"Found timestamp mismatch in :{path}"
            yield from (f"  Index timestamp: {index}, log timestamp: {log}" for index, log in pairs)
        for path, pairs in self.time_disorder.items():
            yield f"Found out of order timestamp in :{path}"
            yield from (
                f"  Index timestamp: {index}, Previously indexed timestamp: {before}" for index, before in pairs
            )
        for pairs in self.not_found.values():
            yield "The following indexed offsets are not found in the log."
            yield from (f"Indexed offset: {index}, found log offset: {log}" for index, log in pairs)
        for path, pairs in self.gaps.items():
            yield f"Non-consecutive offsets in {path}"
            yield from (f"  {first} is followed by {second}" for first, second in reversed(pairs))


def segment_lines(disk: Disk, path: str, options: DumpOptions, findings: Findings) -> Iterator[str]:
    """A `.log` file. Raises DamagedFile and OSError."""
    yield f"Starting offset: {_base_offset(path)}"
    last_offset, valid_bytes = -1, 0
    try:
        for entry in read_entries(disk, path):
            yield _entry_line(entry)
            valid_bytes = entry.position + entry.header.size_bytes
            if not options.deep:
                continue
            for stored in entry.records():
                offset = stored.record.offset
                if last_offset not in (-1, offset - 1):
                    findings.gaps.setdefault(os.path.abspath(path), []).append((last_offset, offset))
                last_offset = offset
                yield _record_line(entry, stored, options.decoder)
    except CorruptBatch as error:
        raise DamagedFile(f"the batch at byte {entry.position}: {error}") from error
    except DamagedFile:
        trailing_bytes = disk.size(path) - valid_bytes
        if not _is_cut(disk, path, valid_bytes):
            raise
        yield f"Found {trailing_bytes} invalid bytes at the end of {os.path.basename(path)}"


def _is_cut(disk: Disk, path: str, position: int) -> bool:
    """Whether the file ends within an entry that might be good, which the tool passes over with a word."""
    file = disk.open(path, writable=False)
    try:
        head, left_bytes = file.pread(LOG_OVERHEAD_BYTES, position), file.size() - position
    finally:
        file.close()
    length = int.from_bytes(head[8:12], signed=True)
    return left_bytes < LOG_OVERHEAD_BYTES + 5 or (length >= 14 and left_bytes < LOG_OVERHEAD_BYTES + length)


def _entry_line(entry: StoredEntry) -> str:
    header = entry.header
    if entry.is_legacy:
        facts = f"offset: {header.last_offset}"
    else:
        facts = (
            f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.record_count} "
            f"baseSequence: {header.base_sequence} lastSequence: {header.last_sequence} "
            f"producerId: {header.producer_id} producerEpoch: {header.producer_epoch} "
            f"partitionLeaderEpoch: {header.leader_epoch} isTransactional: {_bool(header.is_transactional)} "
            f"isControl: {_bool(header.is_control)}"
        )
    return (
        f"{facts} position: {entry.position} {entry.timestamp_type}: {header.max_timestamp} "
        f"size: {header.size_bytes} magic: {header.magic} compresscodec: {_codec(header)} "
        f"crc: {header.crc} isvalid: {_bool(entry.is_valid)}"
    )


def _codec(header: BatchHeader) -> str:
    try:
        return header.codec.name
    except UnsupportedCodec as error:
        raise DamagedFile(f"the batch of offset {header.base_offset}: {error}") from error


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _record_line(entry: StoredEntry, stored: StoredRecord, decoder: Decoder | None) -> str:
    record = stored.record
    line = (
        f"| offset: {record.offset} {entry.timestamp_type}: {record.timestamp} "
        f"keysize: {_size(record.key)} valuesize: {_size(record.value)}"
    )
    if entry.is_legacy:
        line += f" crc: {stored.checksum} isvalid: true"
    else:
        line += f" sequence: {stored.sequence} headerKeys: [{','.join(key for key, _ in record.headers)}]"
    if entry.header.is_control:
        marker = read_control_record(record)
        return f"{line} endTxnMarker: {marker.kind.name} coordinatorEpoch: {marker.coordinator_epoch}"
    if decoder is None:
        return line
    try:
        key, payload = decoder(record.key, record.value)
    except NotDecodable as error:
        raise DamagedFile(f"offset {record.offset}: {error}") from error
    return line + ("" if key is None else f" key: {key}") + ("" if payload is None else f" payload: {payload}")


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def index_lines(disk: Disk, path: str, options: DumpOptions, findings: Findings) -> Iterator[str]:
    """An `.index` file, held against its log. Raises DamagedFile and OSError."""
    base = _base_offset(path)
    entries = [(base + relative, at) for relative, at in _entries(disk, path, OFFSET_ENTRY.size, OFFSET_ENTRY.unpack)]
    if options.index_sanity_only:
        if entries and entries[-1][0] < base:
            raise DamagedFile(f"the last entry's offset, {entries[-1][0]}, is below the base offset")
        yield f"{path} passed sanity check."
        return
    file = disk.open(_sibling(path, LOG_SUFFIX), writable=False)
    try:
        for place, (offset, position) in enumerate(entries):
            if offset == base and place:
                return
            last_offset = _header_at(file, position, options.max_message_bytes).last_offset
            if last_offset != offset:
                findings.index_mismatches.setdefault(os.path.abspath(path), []).append((offset, last_offset))
            if not options.verify_only:
                yield f"offset: {offset} position: {position}"
    finally:
        file.close()


def time_index_lines(disk: Disk, path: str, options: DumpOptions, findings: Findings) -> Iterator[str]:
    """A `.timeindex` file, held against its log. Raises DamagedFile and OSError."""
    base = _base_offset(path)
    entries = [(time, base + relative) for time, relative in _entries(disk, path, TIME_ENTRY.size, TIME_ENTRY.unpack)]
    if options.index_sanity_only:
        if entries and (entries[-1][0] < entries[0][0] or entries[-1][1] < base):
            raise DamagedFile(f"the last entry, {entries[-1]}, is before the first")
        yield f"{path} passed sanity check."
        return
    positions = [
        (base + relative, position)
        for relative, position in _entries(disk, _sibling(path, INDEX_SUFFIX), OFFSET_ENTRY.size, OFFSET_ENTRY.unpack)
        if relative
    ]
    log, before = _sibling(path, LOG_SUFFIX), _NO_TIMESTAMP
    for place, (timestamp, offset) in enumerate(entries):
        if offset == base and place:
            return
        start = max((position for indexed, position in positions if indexed <= offset), default=0)
        found = next((one for one in read_entries(disk, log, start) if one.header.last_offset >= offset), None)
        if found is None or found.header.last_offset != offset:
            there = -1 if found is None else found.header.last_offset
            findings.not_found.setdefault(os.path.abspath(path), []).append((offset, there))
        else:
            _hold_against_batch(path, timestamp, before, found, findings)
        if not options.verify_only:
            yield f"timestamp: {timestamp} offset: {offset}"
        before = timestamp


def _hold_against_batch(path: str, timestamp: int, before: int, found: StoredEntry, findings: Findings) -> None:
    place = os.path.abspath(path)
    try:
        greatest = max((stored.record.timestamp for stored in found.records()), default=_NO_TIMESTAMP)
    except CorruptBatch as error:
        raise DamagedFile(f"the batch at byte {found.position} of the log: {error}") from error
    if greatest != timestamp:
        findings.time_mismatches.setdefault(place, []).append((timestamp, greatest))
    if before >= timestamp:
        findings.time_disorder.setdefault(place, []).append((timestamp, before))


def snapshot_lines(disk: Disk, path: str) -> Iterator[str]:
    """A `.snapshot` file. Raises DamagedFile and OSError."""
    try:
        producers = decode_snapshot(disk.read_bytes(path))
    except CorruptSnapshot as error:
        raise DamagedFile(str(error)) from error
    for producer in producers:
        txn_first_offset = "None" if producer.txn_first_offset < 0 else f"Some({producer.txn_first_offset})"
        line = (
            f"producerId: {producer.producer_id} producerEpoch: {producer.epoch} "
            f"coordinatorEpoch: {producer.coordinator_epoch} currentTxnFirstOffset: {txn_first_offset} "
        )
        if producer.batches:
            last = producer.batches[-1]
            line += (
                f"firstSequence: {last.first_sequence} lastSequence: {last.last_sequence} "
                f"lastOffset: {last.last_offset} offsetDelta: {last.offset_delta} timestamp: {last.timestamp}"
            )
        yield line


def txn_index_lines(disk: Disk, path: str) -> Iterator[str]:
    """A `.txnindex` file. Raises DamagedFile and OSError."""
    try:
        aborted = decode_aborted(disk.read_bytes(path), base_offset=_base_offset(path))
    except CorruptIndex as error:
        raise DamagedFile(str(error)) from error
    for txn in aborted:
        yield (
            f"version: 0 producerId: {txn.producer_id} firstOffset: {txn.first_offset} "
            f"lastOffset: {txn.last_offset} lastStableOffset: {txn.last_stable_offset}"
        )


def _entries(
    disk: Disk, path: str, size_bytes: int, unpack: Callable[[bytes], tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """All entries, also the zeros with which Kafka fills the file of an active segment."""
    data = disk.read_bytes(path)
    if len(data) % size_bytes:
        raise DamagedFile(f"{len(data)} bytes are no number of entries of {size_bytes} bytes")
    return (unpack(data[at : at + size_bytes]) for at in range(0, len(data), size_bytes))


def _header_at(file: File, position: int, max_bytes: int) -> BatchHeader:
    try:
        header = read_any_header(file.pread(HEADER_BYTES, position))
    except CorruptBatch as error:
        raise DamagedFile(f"byte {position} of the log holds no batch: {error}") from error
    if header.size_bytes > min(max_bytes, file.size() - position):
        raise DamagedFile(f"the batch at byte {position} of the log has {header.size_bytes} bytes")
    return header


def _sibling(path: str, suffix: str) -> str:
    return os.path.join(os.path.dirname(path), os.path.basename(path).split(".")[0] + suffix)


def _base_offset(path: str) -> int:
    offset = offset_of(os.path.basename(path))
    if offset is None:
        raise DamagedFile("the name does not begin with the segment's base offset")
    return offset
