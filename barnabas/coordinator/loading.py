"""Reads a partition of an internal topic into a machine, from the log's start to its end.

What cannot be understood (a record of a later version, a batch that does not inflate) is left out with a line that
names its offset, and what follows is read: one such record must not take a coordinator's whole partition away.
"""

import asyncio
import logging
from collections.abc import Iterator
from typing import Final

from barnabas.coordinator.outcome import CoordinatorRecord, Machine, ProducerStamp
from barnabas.coordinator.ports import CoordinatorLog, LogRefused
from barnabas.protocol.batch import BatchHeader, CorruptBatch
from barnabas.protocol.entries import iterate_entries, iterate_entry_records
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.records import ControlRecordType, read_control_record
from barnabas.runtime.clock import Clock

log = logging.getLogger(__name__)

_TURN_US: Final = 2_000
"""How long a load works before it lets others go first."""
_RECORDS_A_LOOK: Final = 64
MOST_INFLATED_BYTES: Final = 512 * 1024 * 1024


class Loading:
    """One load. `records` and `left_out` count what was replayed and what was not."""

    def __init__(self, log_: CoordinatorLog, machine: Machine, clock: Clock) -> None:
        self._log = log_
        self._machine = machine
        self._clock = clock
        self.records = 0
        self.left_out = 0

    async def run(self, buffer_bytes: int) -> int:
        """Replay all there is; the log's end then. Raises LogRefused where the log cannot be read."""
        offset, end = self._log.bounds()
        while offset < end:
            piece = await self._log.read(offset, buffer_bytes)
            if not piece:
                # Compaction has left nothing between here and the end.
                return end
            following = await self._replay(piece, offset)
            if following <= offset:
                raise LogRefused(ErrorCode.KAFKA_STORAGE_ERROR, f"nothing can be read at offset {offset}")
            offset = following
            end = self._log.bounds()[1]
        return offset

    async def _replay(self, piece: bytes, from_offset: int) -> int:
        """Replay the batches of a piece; the offset after them."""
        following = from_offset
        ends_us = self._clock.monotonic_us() + _TURN_US
        try:
            for position, header in iterate_entries(piece):
                if header.last_offset < from_offset:
                    continue
                for _ in self._replay_batch(piece, position, header, from_offset):
                    if self._clock.monotonic_us() >= ends_us:
                        await asyncio.sleep(0)
                        ends_us = self._clock.monotonic_us() + _TURN_US
                following = header.last_offset + 1
        except CorruptBatch as error:
            if following == from_offset:
                raise LogRefused(ErrorCode.KAFKA_STORAGE_ERROR, f"offset {following}: {error}") from error
        return following

    def _replay_batch(self, piece: bytes, position: int, header: BatchHeader, from_offset: int) -> Iterator[None]:
        """Replay one batch, with a pause now and then in which others may have their turn."""
        machine = self._machine
        producer = ProducerStamp(header.producer_id, header.producer_epoch) if header.is_transactional else None
        offset = header.base_offset
        try:
            for number, record in enumerate(iterate_entry_records(piece, position, header, MOST_INFLATED_BYTES), 1):
                offset = record.offset
                if offset < from_offset:
                    continue
                if header.is_control:
                    marker = read_control_record(record)
                    if marker.kind is not ControlRecordType.UNKNOWN:
                        machine.replay_marker(header.producer_id, commit=marker.kind is ControlRecordType.COMMIT)
                elif record.key is None:
                    self._leave_out(offset, "a record without a key")
                else:
                    try:
                        machine.replay(CoordinatorRecord(record.key, record.value), producer)
                        self.records += 1
                    except ValueError as error:
                        self._leave_out(offset, str(error))
                if number % _RECORDS_A_LOOK == 0:
                    yield
        except CorruptBatch as error:
            self._leave_out(offset, f"what follows in its batch cannot be read: {error}")
        yield

    def _leave_out(self, offset: int, why: str) -> None:
        self.left_out += 1
        log.error("%s: offset %d is left out: %s", self._log.name, offset, why)
