"""Finding a record of a batch by its timestamp, in steps and without holding what the batch inflates to.

A batch of a few kilobytes may inflate to gigabytes, or to a million records, so the search gives its caller a turn
after every piece, looks at the head of each record only, and lets go of the rest as it is inflated.
"""

from collections.abc import Generator
from typing import Final

from barnabas.protocol.batch import Buffer, Codec, InvalidRecord
from barnabas.protocol.compression import inflate
from barnabas.protocol.primitives import InvalidVarint, TruncatedMessage, read_varint, read_varlong

_RECORDS_A_STEP: Final = 500
_GREATEST_HEAD_BYTES: Final = 5 + 1 + 10 + 5
"""Length, attributes, timestamp delta and offset delta at their longest."""

Steps = Generator[None, None, tuple[int, int] | None]


def search_by_age(
    payload: Buffer, codec: Codec, *, count: int, least_age: int, least_delta: int, max_inflated_bytes: int
) -> Steps:
    """The first of `count` records whose timestamp delta is at least `least_age` and offset delta `least_delta`.

    `payload` is a batch without its header. Yields between steps; a caller who need not share drains it. The result,
    (offset delta, timestamp delta), is the generator's value, None where there is no such record. Raises a
    CorruptBatch.
    """
    data, skipped, index = b"", 0, 0
    for piece in inflate(codec, payload, max_inflated_bytes):
        if skipped >= len(piece):
            skipped -= len(piece)
            yield
            continue
        data += piece[skipped:]
        at, skipped = 0, 0
        while index < count and (head := _read_head(data, at)) is not None:
            end, age, delta = head
            if age >= least_age and delta >= least_delta:
                return delta, age
            index += 1
            if end > len(data):
                at, skipped = len(data), end - len(data)
                break
            at = end
            if index % _RECORDS_A_STEP == 0:
                yield
        if index == count:
            return None
        data = data[at:]
        yield
    raise InvalidRecord(f"the records end after {index} of {count}")


def _read_head(data: bytes, at: int) -> tuple[int, int, int] | None:
    """Where the record at `at` ends, its timestamp delta and its offset delta; None when its head is not all there."""
    try:
        size, start = read_varint(data, at)
        # Past the attributes, which nothing uses.
        age, place = read_varlong(data, start + 1)
        delta, place = read_varint(data, place)
    except TruncatedMessage:
        if len(data) - at >= _GREATEST_HEAD_BYTES:
            raise InvalidRecord("a record's head does not end") from None
        return None
    except InvalidVarint as error:
        raise InvalidRecord(str(error)) from None
    if start + size < place:
        raise InvalidRecord(f"a record of {size} bytes cannot hold its head")
    return start + size, age, delta
