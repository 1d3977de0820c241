"""The file `<offset>.snapshot`: the producers of a log as they were before that offset, as Kafka 2.7 writes it.

Version (1) i16, CRC-32C u32 of all that follows it, count i32, then 44 bytes a producer. Of the five cached batches
only the last survives. Pure: the log writes the bytes durably, and takes an older snapshot when one is corrupt.
"""

from collections.abc import Iterable
from struct import Struct, error
from typing import Final

from crc32c import crc32c

from barnabas.storage.producer_state import NO_OFFSET, BatchMetadata, ProducerEntry

_VERSION: Final = 1
_PREFIX: Final = Struct(">hI")
_COUNT: Final = Struct(">i")
_ENTRY: Final = Struct(">qhiqiqiq")


class CorruptSnapshot(Exception):
    """The content is not a snapshot, or was damaged."""


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """The content of a snapshot file with these producers."""
    packed = [_encode_entry(entry) for entry in entries]
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _PREFIX.pack(_VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    """Read a snapshot file's content. Raises CorruptSnapshot."""
    try:
        version, crc = _PREFIX.unpack_from(data, 0)
        (count,) = _COUNT.unpack_from(data, _PREFIX.size)
    except error:
        raise CorruptSnapshot(f"{len(data)} bytes cannot hold a snapshot") from None
    if version != _VERSION:
        raise CorruptSnapshot(f"the version is {version}, not {_VERSION}")
    body = memoryview(data)[_PREFIX.size :]
    if crc32c(body) != crc:
        raise CorruptSnapshot("the checksum does not match")
    if count < 0 or len(body) != _COUNT.size + count * _ENTRY.size:
        raise CorruptSnapshot(f"{count} producers do not fill {len(body)} bytes")
    return [_decode_entry(fields) for fields in _ENTRY.iter_unpack(body[_COUNT.size :])]


def _encode_entry(entry: ProducerEntry) -> bytes:
    last = entry.batches[-1] if entry.batches else None
    return _ENTRY.pack(
        entry.producer_id,
        entry.epoch,
        last.last_sequence if last else -1,
        last.last_offset if last else -1,
        last.offset_delta if last else 0,
        entry.last_timestamp,
        entry.coordinator_epoch,
        entry.txn_first_offset,
    )


def _decode_entry(fields: tuple[int, ...]) -> ProducerEntry:
    producer_id, epoch, last_sequence, last_offset, offset_delta, timestamp, coordinator_epoch, txn_first = fields
    batches = [BatchMetadata(last_sequence, last_offset, offset_delta, timestamp)] if last_offset >= 0 else []
    txn_first_offset = txn_first if txn_first >= 0 else NO_OFFSET
    entry = ProducerEntry(producer_id, epoch, coordinator_epoch, timestamp, txn_first_offset, batches)
    if batches:
        entry.unbroken, entry.restored_at = offset_delta + 1, batches[0].first_offset
    return entry
