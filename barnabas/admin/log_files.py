"""What stands in the files of a log directory, as rows: batches and records, index entries, producers, checkpoints.

Files are read as they are, also damaged ones: rows come up to the damage, then `DamagedFile` says what is wrong there.
Nothing is changed. Offsets in index files are relative to the segment; rows hold the absolute ones.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from barnabas.admin.output import Column
from barnabas.admin.record_text import bytes_fields
from barnabas.admin.stored_entries import DamagedFile, StoredEntry, StoredRecord, read_entries
from barnabas.coordinator.record_fields import NotDecodable
from barnabas.protocol.batch import BatchHeader, CorruptBatch, UnsupportedCodec
from barnabas.protocol.records import read_control_record
from barnabas.runtime.disk import Disk
from barnabas.storage import file_names
from barnabas.storage.checkpoints import CorruptCheckpoint, decode_lines
from barnabas.storage.index import OFFSET_ENTRY, TIME_ENTRY, CorruptIndex
from barnabas.storage.producer_snapshot import CorruptSnapshot, decode_snapshot
from barnabas.storage.producer_state import NO_OFFSET
from barnabas.storage.txn_index import decode_aborted

Row = dict[str, Any]
TextDecoder: TypeAlias = Callable[[bytes | None, bytes | None], tuple[str | None, str | None]]
Decoder: TypeAlias = Callable[[StoredRecord, BatchHeader], Row]


class UnknownFile(Exception):
    """The name is none of a log directory's files."""


@dataclass(slots=True)
class Kind:
    """A kind of file: its name, the columns of a table of it, and how it is read."""

    name: str
    columns: tuple[Column, ...]
    read: Callable[[Disk, str], Iterator[Row]]
    suffix: str = ""


def kind_of(path: str) -> Kind:
    """What the file is, by its name. Raises UnknownFile."""
    name = os.path.basename(path)
    for suffix in (file_names.DELETED_SUFFIX, file_names.CLEANED_SUFFIX, file_names.SWAP_SUFFIX):
        name = name.removesuffix(suffix)
    kind = _BY_NAME.get(name) or _BY_SUFFIX.get(os.path.splitext(name)[1])
    if kind is None:
        known = ", ".join([*_BY_SUFFIX, *_BY_NAME])
        raise UnknownFile(f"{path}: not a file of a log directory; these are: {known}")
    return replace(kind, suffix=os.path.splitext(name)[1])


def read_batches(disk: Disk, path: str, *, decoder: Decoder | None = None) -> Iterator[Row]:
    """The batches of a segment, each with its records where `decoder` is given. Raises DamagedFile and OSError."""
    for entry in read_entries(disk, path):
        row = _batch_row(entry)
        if decoder is not None:
            try:
                row["records"] = [decoder(stored, entry.header) for stored in entry.records()]
            except (CorruptBatch, NotDecodable) as error:
                row["records"], row["problem"] = [], str(error)
        yield row


def _batch_row(entry: StoredEntry) -> Row:
    header = entry.header
    try:
        codec = header.codec.name.lower()
    except UnsupportedCodec:
        codec = f"unknown ({header.attributes & 7})"
    return {
        "position": entry.position,
        "size_bytes": header.size_bytes,
        # What a wrapper of an old format holds is known only inside.
        "base_offset": None if entry.is_wrapper else header.base_offset,
        "last_offset": header.last_offset,
        "record_count": None if entry.is_wrapper else header.record_count,
        "magic": header.magic,
        "codec": codec,
        "leader_epoch": header.leader_epoch,
        "first_timestamp": header.first_timestamp,
        "max_timestamp": header.max_timestamp,
        "timestamp_type": entry.timestamp_type,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "crc": header.crc,
        "is_valid": entry.is_valid,
    }


def record_row(stored: StoredRecord, header: BatchHeader) -> Row:
    """A record, its bytes as text where they are UTF-8."""
    record = stored.record
    row = _record_place(stored)
    if header.is_control:
        marker = read_control_record(record)
        return {**row, "control": marker.kind.name.lower(), "coordinator_epoch": marker.coordinator_epoch}
    return {
        **row,
        **bytes_fields("key", record.key),
        **bytes_fields("value", record.value),
        "headers": [{"key": name, **bytes_fields("value", value)} for name, value in record.headers],
    }


def decoded_row(decode: TextDecoder) -> Decoder:
    """Rows of an internal topic's records, whose key and value `decode` shows as texts."""

    def row(stored: StoredRecord, header: BatchHeader) -> Row:
        if header.is_control:
            return record_row(stored, header)
        key, value = decode(stored.record.key, stored.record.value)
        return {**_record_place(stored), "key": key, "value": value}

    return row


def _record_place(stored: StoredRecord) -> Row:
    return {"offset": stored.record.offset, "timestamp": stored.record.timestamp}


def _offset_index(disk: Disk, path: str) -> Iterator[Row]:
    base = _base_offset(path)
    for relative, position in OFFSET_ENTRY.iter_unpack(_entries(disk, path, OFFSET_ENTRY.size)):
        yield {"offset": base + relative, "position": position}


def _time_index(disk: Disk, path: str) -> Iterator[Row]:
    base = _base_offset(path)
    for timestamp, relative in TIME_ENTRY.iter_unpack(_entries(disk, path, TIME_ENTRY.size)):
        yield {"timestamp": timestamp, "offset": base + relative}


def _entries(disk: Disk, path: str, entry_bytes: int) -> bytes:
    """The entries of an index file, without the zeros with which Kafka fills the file of an active segment."""
    data = disk.read_bytes(path)
    end = len(data) - len(data) % entry_bytes
    if end < len(data):
        raise DamagedFile(f"{len(data)} bytes are no number of entries of {entry_bytes} bytes")
    while end and not any(data[end - entry_bytes : end]):
        end -= entry_bytes
    return data[:end]


def _txn_index(disk: Disk, path: str) -> Iterator[Row]:
    try:
        for txn in decode_aborted(disk.read_bytes(path), base_offset=_base_offset(path)):
            yield txn._asdict()
    except CorruptIndex as error:
        raise DamagedFile(str(error)) from error


def _snapshot(disk: Disk, path: str) -> Iterator[Row]:
    try:
        producers = decode_snapshot(disk.read_bytes(path))
    except CorruptSnapshot as error:
        raise DamagedFile(str(error)) from error
    for producer in producers:
        last = producer.batches[-1] if producer.batches else None
        yield {
            "producer_id": producer.producer_id,
            "epoch": producer.epoch,
            "first_sequence": last.first_sequence if last else None,
            "last_sequence": last.last_sequence if last else None,
            "last_offset": last.last_offset if last else None,
            "last_timestamp": producer.last_timestamp,
            "coordinator_epoch": producer.coordinator_epoch,
            "txn_first_offset": None if producer.txn_first_offset == NO_OFFSET else producer.txn_first_offset,
        }


def _checkpoint(*fields: str) -> Callable[[Disk, str], Iterator[Row]]:
    def read(disk: Disk, path: str) -> Iterator[Row]:
        try:
            lines = decode_lines(disk.read_bytes(path))
        except CorruptCheckpoint as error:
            raise DamagedFile(str(error)) from error
        for line in lines:
            values = line.split()
            if len(values) != len(fields):
                raise DamagedFile(f"not {' '.join(fields)}: {line!r}")
            yield {
                name: int(value) if value.removeprefix("-").isdecimal() and name != "topic" else value
                for name, value in zip(fields, values, strict=True)
            }

    return read


def _base_offset(path: str) -> int:
    offset = file_names.offset_of(os.path.basename(path))
    if offset is None:
        raise DamagedFile("the name does not begin with the segment's base offset")
    return offset


def _columns(**headings: str) -> tuple[Column, ...]:
    return tuple(Column(key, heading, key not in {"topic", "codec"}) for key, heading in headings.items())


_BATCH_COLUMNS: Final = (
    *_columns(position="POSITION", size_bytes="SIZE", base_offset="FIRST", last_offset="LAST", record_count="RECORDS"),
    *_columns(magic="MAGIC", codec="CODEC", leader_epoch="EPOCH", max_timestamp="TIMESTAMP", producer_id="PRODUCER"),
    *_columns(producer_epoch="P.EPOCH", base_sequence="SEQUENCE"),
    Column("is_transactional", "TXN"),
    Column("is_control", "CONTROL"),
    Column("is_valid", "VALID"),
)
_OFFSET_CHECKPOINT: Final = Kind(
    "offset checkpoint",
    _columns(topic="TOPIC", partition="PARTITION", offset="OFFSET"),
    _checkpoint("topic", "partition", "offset"),
)

_BY_SUFFIX: Final = {
    file_names.LOG_SUFFIX: Kind("segment", _BATCH_COLUMNS, read_batches),
    file_names.INDEX_SUFFIX: Kind("offset index", _columns(offset="OFFSET", position="POSITION"), _offset_index),
    file_names.TIME_INDEX_SUFFIX: Kind("time index", _columns(timestamp="TIMESTAMP", offset="OFFSET"), _time_index),
    file_names.TXN_INDEX_SUFFIX: Kind(
        "transaction index",
        _columns(producer_id="PRODUCER", first_offset="FIRST", last_offset="LAST", last_stable_offset="STABLE"),
        _txn_index,
    ),
    file_names.SNAPSHOT_SUFFIX: Kind(
        "producer snapshot",
        _columns(
            producer_id="PRODUCER",
            epoch="EPOCH",
            last_sequence="SEQUENCE",
            last_offset="OFFSET",
            last_timestamp="TIMESTAMP",
            coordinator_epoch="C.EPOCH",
            txn_first_offset="TXN",
        ),
        _snapshot,
    ),
}
_BY_NAME: Final = {
    file_names.LEADER_EPOCH_CHECKPOINT: Kind(
        "leader epochs", _columns(epoch="EPOCH", start_offset="START"), _checkpoint("epoch", "start_offset")
    ),
    file_names.RECOVERY_POINT_CHECKPOINT: _OFFSET_CHECKPOINT,
    file_names.LOG_START_OFFSET_CHECKPOINT: _OFFSET_CHECKPOINT,
    file_names.HIGH_WATERMARK_CHECKPOINT: _OFFSET_CHECKPOINT,
    file_names.CLEANER_CHECKPOINT: _OFFSET_CHECKPOINT,
}
