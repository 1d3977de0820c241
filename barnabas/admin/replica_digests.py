"""What a replica holds, as digests that can be compared: values in, values out.

Replicas of a log hold the same batches below the high watermark. Those of a compacted one need not: each is cleaned at
its own time, and then holds fewer records in other batches. There a record that both hold must be the same, and the
newest record of each key must be in both, unless it is a tombstone, which may be gone by now. (What was written in
transactions may have been aborted, and cleaned away too: of it only what both hold is compared.)
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, NamedTuple

from barnabas.protocol.batch import BatchHeader, Buffer
from barnabas.protocol.entries import iterate_entry_records

UNKNOWN: Final = -1
"""In place of an offset that the replica has not told."""
MAX_INFLATED_BYTES: Final = 512 * 1024 * 1024


class BatchDigest(NamedTuple):
    """A batch by its place and checksum; the leader epoch stands outside of the checksum."""

    base_offset: int
    next_offset: int
    checksum: int
    leader_epoch: int
    size_bytes: int


class RecordDigest(NamedTuple):
    """A record without its bytes; `value` is None for a tombstone, `key` for a record without one."""

    key: bytes | None
    value: bytes | None
    is_transactional: bool


@dataclass(slots=True)
class ReplicaDigest:
    """What was read of one replica: [start_offset, end_offset), which ends at its high watermark at most."""

    broker: int
    start_offset: int = UNKNOWN
    end_offset: int = UNKNOWN
    batches: list[BatchDigest] = field(default_factory=list)
    size_bytes: int = 0
    problem: str | None = None


def digest_batch(header: BatchHeader) -> BatchDigest:
    """The digest of a batch whose checksum was found to be right."""
    return BatchDigest(header.base_offset, header.next_offset, header.crc, header.leader_epoch, header.size_bytes)


def digest_records(entry: Buffer, header: BatchHeader) -> Iterator[tuple[int, RecordDigest]]:
    """The records of a batch by their offsets; none of a control batch. Raises CorruptBatch."""
    if header.is_control:
        return
    for record in iterate_entry_records(entry, 0, header, MAX_INFLATED_BYTES):
        yield record.offset, RecordDigest(_hash(record.key), _hash(record.value), header.is_transactional)


def _hash(data: Buffer | None) -> bytes | None:
    return None if data is None else blake2b(data, digest_size=16).digest()


def common_range(replicas: Sequence[ReplicaDigest]) -> tuple[int, int]:
    """The offsets that all of them hold."""
    return max(each.start_offset for each in replicas), min(each.end_offset for each in replicas)


def differing_batch(one: ReplicaDigest, other: ReplicaDigest) -> str | None:
    """Where the batches of two replicas of a log that is not compacted first differ; None where they do not."""
    start, end = common_range((one, other))
    left = [each for each in one.batches if each.base_offset >= start and each.next_offset <= end]
    right = [each for each in other.batches if each.base_offset >= start and each.next_offset <= end]
    for mine, theirs in zip(left, right, strict=False):
        if mine != theirs:
            return f"at offset {min(mine.base_offset, theirs.base_offset)} broker {other.broker} holds another batch"
    if len(left) != len(right):
        lacking = other.broker if len(left) > len(right) else one.broker
        rest = left[len(right) :] or right[len(left) :]
        return f"broker {lacking} lacks the batch at offset {rest[0].base_offset}"
    return None


def differing_record(
    one: dict[int, RecordDigest], other: dict[int, RecordDigest], *, start: int, end: int, broker: int
) -> str | None:
    """Where two replicas of a compacted log contradict each other in [start, end); None where they do not."""
    for offset in sorted(one.keys() & other.keys()):
        if start <= offset < end and one[offset] != other[offset]:
            return f"at offset {offset} broker {broker} holds another record"
    mine, theirs = _newest(one, start=start, end=end), _newest(other, start=start, end=end)
    for key in mine.keys() | theirs.keys():
        left, right = mine.get(key), theirs.get(key)
        if left == right:
            continue
        newest = max((each for each in (left, right) if each is not None), key=lambda each: each[0])
        offset, record = newest
        if record.value is not None and not record.is_transactional:
            return f"the newest record of a key, at offset {offset}, is not on every replica (broker {broker})"
    return None


def _newest(records: dict[int, RecordDigest], *, start: int, end: int) -> dict[bytes, tuple[int, RecordDigest]]:
    """The newest record of each key; a key that was written in a transaction is left out."""
    newest: dict[bytes, tuple[int, RecordDigest]] = {}
    doubtful: set[bytes] = set()
    for offset in sorted(records):
        record = records[offset]
        if start <= offset < end and record.key is not None:
            newest[record.key] = offset, record
            if record.is_transactional:
                doubtful.add(record.key)
    return {key: found for key, found in newest.items() if key not in doubtful}
