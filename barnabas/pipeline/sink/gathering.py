"""Rows as they come, in portions that are worth being sent: neither small ones nor such as hold much memory."""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from barnabas.runtime.clock import Clock


def gather(
    batches: Iterable[pa.RecordBatch], *, most_bytes: int, linger_ms: int, clock: Clock
) -> Iterator[pa.RecordBatch]:
    """All rows in order, about `most_bytes` at a time; a single row may be larger.

    Rows wait `linger_ms` for others at most, which is looked at when others come.
    """
    waiting: list[pa.RecordBatch] = []
    size = since_ms = 0
    for batch in batches:
        for piece in _pieces(batch, most_bytes):
            if waiting and size + piece.nbytes > most_bytes:
                yield _joined(waiting)
                waiting, size = [], 0
            if not waiting:
                since_ms = clock.monotonic_ms()
            waiting.append(piece)
            size += piece.nbytes
        if waiting and clock.monotonic_ms() - since_ms >= linger_ms:
            yield _joined(waiting)
            waiting, size = [], 0
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    (joined,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined


def _pieces(batch: pa.RecordBatch, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """A batch, or its halves where it is too large. Slices are views."""
    if batch.num_rows == 0:
        return
    if batch.nbytes <= most_bytes or batch.num_rows == 1:
        yield batch
        return
    middle = batch.num_rows // 2
    yield from _pieces(batch.slice(0, middle), most_bytes)
    yield from _pieces(batch.slice(middle), most_bytes)
