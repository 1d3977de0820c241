"""Reading the records of a batch in steps, for who must not hold the event loop for as long as a large batch takes."""

from collections.abc import Iterator
from typing import Final

from barnabas.protocol.batch import BatchHeader, Buffer, Codec, InvalidRecord
from barnabas.protocol.compression import DecompressionBomb, inflate, largest_record_bytes
from barnabas.protocol.records import Record, parse_records, record_bytes, signed_varint

_RECORDS_A_STEP: Final = 500
_BYTES_A_STEP: Final = 64 * 1024


def stream_records(buf: Buffer, pos: int, header: BatchHeader, max_decompressed_bytes: int) -> Iterator[list[Record]]:
    """Every record of the batch at `pos`, some at a time; a list may be empty. Raises a CorruptBatch.

    Of a compressed batch one inflated piece is held at a time, or one whole record where that is greater.
    """
    given, last_delta = 0, -1
    for data, count in _whole_records(buf, pos, header, max_decompressed_bytes):
        records = list(parse_records(data, header, count, last_delta))
        given += count
        if records:
            last_delta = records[-1].offset - header.base_offset
        yield records
    if given != header.record_count:
        raise InvalidRecord(f"{header.record_count} records are announced, {given} are there")


def _whole_records(
    buf: Buffer, pos: int, header: BatchHeader, max_decompressed_bytes: int
) -> Iterator[tuple[bytes, int]]:
    """The record bytes of a batch, cut between records, and how many each piece holds."""
    payload = record_bytes(buf, pos, header)
    # The ceiling is for what is inflated; what is not compressed is there already.
    allowed = len(payload) if header.codec is Codec.NONE else max_decompressed_bytes
    largest = largest_record_bytes(payload)
    rest, missing = [b""], 0
    for piece in inflate(header.codec, payload, allowed):
        allowed -= len(piece)
        missing -= len(piece)
        rest.append(piece)
        if missing > min(allowed, largest):
            raise DecompressionBomb(f"a record needs {missing} bytes more, {min(allowed, largest)} are allowed")
        if missing > 0:
            yield b"", 0
            continue
        data, start, missing = b"".join(rest), 0, 0
        while not missing:
            end, count, missing = _last_end(data, start)
            yield data[start:end], count
            start = end
        rest = [data[start:]]
    left_bytes = sum(map(len, rest))
    if left_bytes:
        raise InvalidRecord(f"the last {left_bytes} bytes of the records are no whole record")


def _last_end(data: bytes, start: int) -> tuple[int, int, int]:
    """Where the last whole record of some from `start` on ends, how many there are, how many bytes the next one lacks.

    That is 0 where there are enough for one step, and as many as are known to be missing otherwise.
    """
    end, count = start, 0
    try:
        while count < _RECORDS_A_STEP and end - start < _BYTES_A_STEP:
            length, at = signed_varint(data, end)
            if length < 0:
                raise InvalidRecord(f"a record of {length} bytes")
            if at + length > len(data):
                return end, count, at + length - len(data)
            end = at + length
            count += 1
    except IndexError:
        return end, count, 1
    return end, count, 0
