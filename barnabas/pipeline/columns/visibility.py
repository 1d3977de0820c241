"""Which batches a reader sees: no control batches, and for read_committed none of aborted transactions. Pure."""

from collections import deque
from collections.abc import Iterable
from typing import Final

from barnabas.client.fetched_records import AbortedRange
from barnabas.protocol.batch import BatchHeader, Buffer
from barnabas.protocol.entries import iterate_entry_records
from barnabas.protocol.records import ControlRecordType, read_control_record

_CONTROL_BATCH_BYTES: Final = 64 * 1024
"""The most that a control batch may inflate to; its one record has some ten bytes."""


class Visibility:
    """Follows the transactions of a partition, batch by batch in the order of their offsets."""

    __slots__ = ("_ahead", "_void_producers")

    def __init__(self, aborted: Iterable[AbortedRange]) -> None:
        self._ahead = deque(sorted(aborted, key=lambda each: each.first_offset))
        self._void_producers: set[int] = set()

    def shows(self, buf: Buffer, pos: int, header: BatchHeader) -> bool:
        """Whether records of the next batch may be given. Raises a CorruptBatch for a control batch."""
        while self._ahead and self._ahead[0].first_offset <= header.last_offset:
            self._void_producers.add(self._ahead.popleft().producer_id)
        if header.is_control:
            if self._void_producers and _is_abort(buf, pos, header):
                self._void_producers.discard(header.producer_id)
            return False
        return not (header.is_transactional and header.producer_id in self._void_producers)


def _is_abort(buf: Buffer, pos: int, header: BatchHeader) -> bool:
    first = next(iterate_entry_records(buf, pos, header, _CONTROL_BATCH_BYTES), None)
    return first is not None and read_control_record(first).kind is ControlRecordType.ABORT
