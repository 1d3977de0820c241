"""The records inside a batch (KIP-98): reading, checking, building, and the control records of transactions.

A record is varints and bytes; its offset and timestamp are deltas to its batch's. `iterate_records` makes a `Record`
of each, for clients (record_stream.py does so in steps); `walk_records` only walks them, for brokers, and of a
compressed batch it holds one inflated piece at a time (or one whole record, where that is greater). All read at most
`max_decompressed_bytes` of inflated data and raise a `CorruptBatch` for everything that cannot be read.

Header keys are UTF-8; bytes that are not are kept as surrogate escapes, so that they survive reading and building.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import chain
from struct import Struct
from typing import Final

from barnabas.protocol.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    CURRENT_MAGIC,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD_BYTES,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Buffer,
    Codec,
    InvalidRecord,
    TruncatedBatch,
    frame,
)
from barnabas.protocol.compression import DecompressionBomb, compress, decompress, inflate

Headers = Sequence[tuple[str, bytes | None]]

Ages = tuple[int, int, int]
"""Of walked records: least and greatest timestamp, as deltas to the batch's first, and the index of the greatest."""

_UNCOMPRESSED: Final = int(Codec.NONE)
_NO_HEADERS: Final[Headers] = ()
_NO_AGES: Final[Ages] = (1 << 64, -(1 << 64), 0)
"""What a walk starts with lies outside of 64 bits."""

_CONTROL_KEY: Final = Struct(">hh")
_END_TXN_VALUE: Final = Struct(">hi")


@dataclass(slots=True)
class Record:
    """One record. `timestamp` is milliseconds since the epoch, -1 for none; a key or value may be missing."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = _NO_HEADERS


class ControlRecordType(IntEnum):
    """What a control record says; a type that this version does not know reads as UNKNOWN."""

    ABORT = 0
    COMMIT = 1
    UNKNOWN = -1


@dataclass(slots=True)
class EndTxnMarker:
    """The record that ends a transaction in a partition."""

    kind: ControlRecordType
    coordinator_epoch: int


def iterate_records(buf: Buffer, pos: int, header: BatchHeader, max_decompressed_bytes: int) -> Iterator[Record]:
    """Every record of the batch at `pos`. Raises a CorruptBatch where the batch stops making sense."""
    data = decompress(header.codec, record_bytes(buf, pos, header), max_decompressed_bytes)
    yield from parse_records(data, header, header.record_count, -1)


def parse_records(data: bytes, header: BatchHeader, count: int, last_delta: int) -> Iterator[Record]:
    """The records of `data`, which holds `count` whole ones after the one with `last_delta`, and nothing else."""
    base_offset, base_timestamp = header.base_offset, header.first_timestamp
    append_time = header.max_timestamp if header.uses_log_append_time else None
    timestamp = append_time if append_time is not None else 0
    at = 0
    try:
        for _ in range(count):
            byte = data[at]
            at += 1
            if byte > 127:
                byte, at = _varint(data, at, byte, 32)
            end = at + ((byte >> 1) ^ -(byte & 1))
            at += 1  # attributes, unused
            byte = data[at]
            at += 1
            if byte > 127:
                byte, at = _varint(data, at, byte, 64)
            if append_time is None:
                timestamp = base_timestamp + ((byte >> 1) ^ -(byte & 1))
            byte = data[at]
            at += 1
            if byte > 127:
                byte, at = _varint(data, at, byte, 32)
            delta = (byte >> 1) ^ -(byte & 1)
            key = value = None
            byte = data[at]
            at += 1
            if byte > 127:
                byte, at = _varint(data, at, byte, 32)
            if not byte & 1:
                key = data[at : at + (byte >> 1)]
                at += byte >> 1
            byte = data[at]
            at += 1
            if byte > 127:
                byte, at = _varint(data, at, byte, 32)
            if not byte & 1:
                value = data[at : at + (byte >> 1)]
                at += byte >> 1
            byte = data[at]
            headers = _NO_HEADERS
            at += 1
            if byte:
                headers, at = _headers(data, at - 1, end)
            if at != end or not last_delta < delta <= header.last_offset_delta:
                raise _contradiction(at, end, delta)
            last_delta = delta
            yield Record(base_offset + delta, timestamp, key, value, headers)
    except IndexError:
        raise InvalidRecord("the records end inside a record") from None
    if at != len(data):
        raise InvalidRecord(f"{len(data) - at} bytes follow the last of {count} records")


def walk_records(
    payload: memoryview, header: BatchHeader, max_decompressed_bytes: int, keyless: list[int] | None
) -> Ages:
    """Walk the record bytes of a producer's batch, which is known to be whole and dense: lengths, offset deltas
    0 to n-1, count, nothing after the last.

    The positions of records without a key are added to `keyless`, if there is one. Raises a CorruptBatch.
    """
    count = header.record_count
    if header.attributes & CODEC_MASK == _UNCOMPRESSED:
        consumed, _, walked, ages = _walk(bytes(payload), count, 0, _NO_AGES, keyless)
        left_bytes = len(payload) - consumed
    else:
        walked, ages, left_bytes = _walk_inflated(header, payload, max_decompressed_bytes, keyless)
    if walked != count:
        raise InvalidRecord(f"{count} records are announced, {walked} are there")
    if left_bytes:
        raise InvalidRecord(f"{left_bytes} bytes follow the last of {count} records")
    return ages


def _walk_inflated(
    header: BatchHeader, payload: memoryview, max_decompressed_bytes: int, keyless: list[int] | None
) -> tuple[int, Ages, int]:
    """Walk compressed records piece by piece: how many there are, their ages, how many bytes are left over."""
    walked, ages, missing, allowed = 0, _NO_AGES, 0, max_decompressed_bytes
    pieces: list[bytes] = []
    for piece in inflate(header.codec, payload, max_decompressed_bytes):
        allowed -= len(piece)
        missing -= len(piece)
        pieces.append(piece)
        if missing > allowed:
            raise DecompressionBomb(f"a record needs {missing} bytes more, {allowed} are allowed")
        if missing > 0:
            continue
        data = b"".join(pieces) if len(pieces) > 1 else piece
        consumed, missing, walked, ages = _walk(data, header.record_count, walked, ages, keyless)
        rest = data[consumed:]
        pieces = [rest] if rest else []
        if rest and walked == header.record_count:
            # That is wrong already, however much more there is to inflate.
            break
    return walked, ages, sum(map(len, pieces))


def build_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    log_append_time_ms: int | None = None,
    leader_epoch: int = -1,
) -> bytes:
    """A batch of at least one record. They get consecutive offsets from `base_offset`; their own are not looked at.

    With `log_append_time_ms` that is the time of all of them, as a broker with message.timestamp.type=LogAppendTime
    writes it.
    """
    parts: list[bytes] = []
    first_timestamp, max_timestamp, delta = 0, NO_TIMESTAMP, -1
    for delta, record in enumerate(records):
        timestamp = record.timestamp
        if delta == 0:
            first_timestamp = timestamp
        max_timestamp = max(max_timestamp, timestamp)
        parts.append(encode_record(record, timestamp_delta=timestamp - first_timestamp, offset_delta=delta))
    assert delta >= 0, "a batch has at least one record"
    attributes = codec | (TRANSACTIONAL_BIT if transactional else 0) | (CONTROL_BIT if control else 0)
    if log_append_time_ms is not None:
        attributes |= LOG_APPEND_TIME_BIT
        max_timestamp = log_append_time_ms
    header = BatchHeader(
        base_offset=base_offset,
        length=0,
        leader_epoch=leader_epoch,
        magic=CURRENT_MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=delta,
        first_timestamp=first_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=delta + 1,
    )
    return frame(header, compress(codec, b"".join(parts), level))


def build_end_txn_marker(
    marker: EndTxnMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """The control batch that ends a producer's transaction in a partition."""
    assert marker.kind is not ControlRecordType.UNKNOWN
    record = Record(0, timestamp, _CONTROL_KEY.pack(0, marker.kind), _END_TXN_VALUE.pack(0, marker.coordinator_epoch))
    return build_batch(
        [record],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
        leader_epoch=leader_epoch,
    )


def read_control_record(record: Record) -> EndTxnMarker:
    """What a record of a control batch says; its kind may be UNKNOWN (epoch -1 then). Raises InvalidRecord.

    Later versions may append fields, so what follows the known ones is not looked at.
    """
    if record.key is None or len(record.key) < _CONTROL_KEY.size:
        raise InvalidRecord("a control record's key holds a version and a type")
    version, number = _CONTROL_KEY.unpack_from(record.key)
    if version < 0:
        raise InvalidRecord(f"control record key version {version} is not possible")
    if number not in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        return EndTxnMarker(ControlRecordType.UNKNOWN, -1)
    if record.value is None or len(record.value) < _END_TXN_VALUE.size:
        raise InvalidRecord("the value of a transaction's end holds a version and the coordinator's epoch")
    value_version, coordinator_epoch = _END_TXN_VALUE.unpack_from(record.value)
    if value_version < 0:
        raise InvalidRecord(f"control record value version {value_version} is not possible")
    return EndTxnMarker(ControlRecordType(number), coordinator_epoch)


def _walk(data: bytes, count: int, index: int, ages: Ages, keyless: list[int] | None) -> tuple[int, int, int, Ages]:
    """Walk the whole records at the start of `data`, of which the first is the `index`th of `count`.

    Returns how many bytes they take, how many, at least, the next one lacks (0 when there is no next one), the index of
    the next one, and the ages of all so far. The positions of records without a key go into `keyless`.
    """
    # Varints of two bytes, the usual ones, are read in place: a call would take as long as all else of a field.
    size = len(data)
    oldest, newest, newest_index = ages
    at = start = end = 0
    try:
        while index < count:
            start, end = at, -1
            byte = data[at]
            at += 1
            if byte > 127:
                byte, at = (
                    (byte - 128 + (more << 7), at + 1) if (more := data[at]) < 128 else _varint(data, at, byte, 32)
                )
            end = at + (byte >> 1) if not byte & 1 else at - 1
            if end > size:
                break
            byte = data[at + 1]  # after the attributes, unused
            at += 2
            if byte > 127:
                byte, at = (
                    (byte - 128 + (more << 7), at + 1) if (more := data[at]) < 128 else _varint(data, at, byte, 64)
                )
            age = (byte >> 1) ^ -(byte & 1) if byte else 0
            delta = data[at]  # as it is written: twice the number where that is not below 0
            at += 1
            if delta > 127:
                delta, at = (
                    (delta - 128 + (more << 7), at + 1) if (more := data[at]) < 128 else _varint(data, at, delta, 32)
                )
            byte = data[at]
            at += 1
            if byte > 127:
                byte, at = (
                    (byte - 128 + (more << 7), at + 1) if (more := data[at]) < 128 else _varint(data, at, byte, 32)
                )
            if not byte & 1:
                at += byte >> 1
            elif keyless is not None:
                keyless.append(index)
            byte = data[at]
            at += 1
            if byte > 127:
                byte, at = (
                    (byte - 128 + (more << 7), at + 1) if (more := data[at]) < 128 else _varint(data, at, byte, 32)
                )
            if not byte & 1:
                at += byte >> 1
            byte = data[at]
            at += 1
            if byte:
                _, at = _headers(data, at - 1, end)
            if at != end or delta != index << 1:
                raise _contradiction(at, end, (delta >> 1) ^ -(delta & 1))
            if age > newest:
                newest, newest_index = age, index
            if age < oldest:  # noqa: PLR1730 - a call would take as long as the rest of the record
                oldest = age
            index += 1
            start = at
    except IndexError:
        if end >= 0:
            raise InvalidRecord("a record is longer than it says") from None
    missing = 0 if index == count else max(1, end - size)
    return start, missing, index, (oldest, newest, newest_index)


def _contradiction(at: int, end: int, delta: int) -> InvalidRecord:
    if at != end:
        return InvalidRecord(f"a record announced to end at byte {end} of the records ends at {at}")
    return InvalidRecord(f"offset delta {delta} is out of order")


def record_bytes(buf: Buffer, pos: int, header: BatchHeader) -> memoryview:
    """The batch at `pos` without its header. Raises TruncatedBatch."""
    end = pos + LOG_OVERHEAD_BYTES + header.length
    if end > len(buf):
        raise TruncatedBatch(f"the batch at byte {pos} ends at {end}, after the {len(buf)} bytes there are")
    return memoryview(buf)[pos + HEADER_BYTES : end]


def _varint(data: bytes, at: int, first: int, bits: int) -> tuple[int, int]:
    """The rest of a varint whose first byte announced more: (value, position after it); IndexError at the end."""
    byte = data[at]
    if byte < 128:
        # Two bytes are the usual case.
        return first & 0x7F | byte << 7, at + 1
    value, shift = first & 0x7F, 7
    while shift < bits:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 128:
            if value >> bits:
                break
            return value, at
        shift += 7
    raise InvalidRecord(f"a varint does not fit {bits} bits")


def signed_varint(data: bytes, at: int) -> tuple[int, int]:
    """The zigzag varint at `at` and the position after it. Raises IndexError at the end, or InvalidRecord."""
    byte = data[at]
    at += 1
    if byte > 127:
        byte, at = _varint(data, at, byte, 32)
    return (byte >> 1) ^ -(byte & 1), at


def _headers(data: bytes, at: int, end: int) -> tuple[Headers, int]:
    """The headers of a record, from their count on."""
    count, at = signed_varint(data, at)
    # Each takes at least two bytes, so a count is judged before anything is made of it.
    if not 0 <= count <= (end - at) // 2:
        raise InvalidRecord(f"{count} headers cannot stand in {end - at} bytes")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        size, at = signed_varint(data, at)
        if not 0 <= size <= end - at:
            raise InvalidRecord(f"a header key of {size} bytes cannot stand in {end - at} bytes")
        key = data[at : at + size].decode("utf-8", "surrogateescape")
        size, at = signed_varint(data, at + size)
        if size < 0:
            headers.append((key, None))
        else:
            headers.append((key, data[at : at + size]))
            at += size
    return tuple(headers), at


def _encode_varint(value: int) -> bytes:
    """The unsigned varint of `value`, which a signed number's zigzag gave."""
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


_SMALL: Final = 4096
_SMALL_VARINTS: Final = tuple(map(_encode_varint, range(_SMALL)))


def _zigzag(value: int) -> bytes:
    encoded = (value << 1) ^ (value >> 63)
    return _SMALL_VARINTS[encoded] if encoded < _SMALL else _encode_varint(encoded)


def _sized(data: bytes | None) -> tuple[bytes, bytes]:
    return (b"\x01", b"") if data is None else (_zigzag(len(data)), data)


def encode_record(record: Record, *, timestamp_delta: int, offset_delta: int) -> bytes:
    """A record as it stands in a batch, with its length."""
    return encode_fields(record.key, record.value, record.headers, timestamp_delta, offset_delta)


def encode_fields(
    key: bytes | None, value: bytes | None, headers: Headers, timestamp_delta: int, offset_delta: int
) -> bytes:
    """What `encode_record` gives, without a `Record`: producers call it for each record that they send."""
    if headers:
        encoded = ((name.encode("utf-8", "surrogateescape"), content) for name, content in headers)
        tail = b"".join(chain.from_iterable((*_sized(name), *_sized(content)) for name, content in encoded))
        tail = _zigzag(len(headers)) + tail
    else:
        tail = b"\x00"
    body = b"".join(
        (
            b"\x00",
            _zigzag(timestamp_delta),
            _zigzag(offset_delta),
            b"\x01" if key is None else _zigzag(len(key)),
            key or b"",
            b"\x01" if value is None else _zigzag(len(value)),
            value or b"",
            tail,
        )
    )
    length = len(body) << 1
    return (_SMALL_VARINTS[length] if length < _SMALL else _encode_varint(length)) + body


def batch_of_encoded(
    payload: Buffer,
    *,
    count: int,
    codec: Codec,
    first_timestamp: int,
    max_timestamp: int,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
) -> bytes:
    """The batch of a producer around `count` encoded records, which are compressed already where the codec says so."""
    header = BatchHeader(
        base_offset=0,
        length=0,
        leader_epoch=-1,
        magic=CURRENT_MAGIC,
        crc=0,
        attributes=codec | (TRANSACTIONAL_BIT if transactional else 0),
        last_offset_delta=count - 1,
        first_timestamp=first_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=count,
    )
    return frame(header, payload)
