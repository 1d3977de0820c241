"""A CoordinatorLog in memory, whose appends and commits a test holds back or has fail."""

import asyncio

from barnabas.coordinator.outcome import ProducerStamp
from barnabas.coordinator.ports import LogRefused
from barnabas.protocol.batch import BatchHeader, place, read_header
from barnabas.protocol.entries import iterate_entry_records
from barnabas.protocol.error_code import ErrorCode


class MemoryLog:
    """Batches with offsets. What is appended is committed at once unless `commits_up_to` is set."""

    def __init__(self, *, max_batch_bytes: int = 100_000) -> None:
        self.batches: list[tuple[BatchHeader, bytes]] = []
        self.max_batch_bytes = max_batch_bytes
        self.start = 0
        self.refuses: ErrorCode | None = None
        self.fails: ErrorCode | None = None
        """What the next append is refused with, though nothing spoke against it."""
        self.breaks: Exception | None = None
        """What every append raises: a bug."""
        self.lacks: ErrorCode | None = None
        """What waiting for a commit hears."""
        self.read_error: ErrorCode | None = None
        self.commits_up_to: int | None = None
        self.appending = asyncio.Event()
        self.appending.set()
        self.reads: list[tuple[int, int]] = []
        self._moved = asyncio.Event()

    name = "__memory-0"

    @property
    def end(self) -> int:
        return self.batches[-1][0].last_offset + 1 if self.batches else self.start

    def refusal(
        self, producer: ProducerStamp | None = None, *, marker_coordinator_epoch: int | None = None
    ) -> ErrorCode | None:
        return self.refuses

    def try_append(self, batch: bytes) -> int | None:
        if self.appending.is_set():
            return self._append(batch)
        return None

    async def append(self, batch: bytes) -> int:
        await self.appending.wait()
        return self._append(batch)

    def _append(self, batch: bytes) -> int:
        if self.breaks is not None:
            raise self.breaks
        if self.fails is not None:
            error, self.fails = self.fails, None
            raise LogRefused(error)
        self.put(batch)
        return self.end

    def put(self, batch: bytes) -> None:
        """Append one batch, as an earlier leader did."""
        buffer = bytearray(batch)
        header = read_header(buffer)
        header.base_offset = self.end
        place(buffer, 0, header)
        self.batches.append((header, bytes(buffer)))

    def is_committed(self, end_offset: int) -> bool:
        return self.lacks is None and (self.commits_up_to is None or self.commits_up_to >= end_offset)

    async def committed(self, end_offset: int) -> None:
        while True:
            if self.lacks is not None:
                raise LogRefused(self.lacks)
            if self.is_committed(end_offset):
                return
            self._moved = asyncio.Event()
            await self._moved.wait()

    def commit(self, up_to: int | None = None, *, lacks: ErrorCode | None = None) -> None:
        """Move the high watermark; without an offset all is committed from now on."""
        self.commits_up_to = up_to
        self.lacks = lacks
        self._moved.set()

    async def proven(self) -> None:
        """Nobody else could lead it."""

    def bounds(self) -> tuple[int, int]:
        return self.start, self.end

    async def read(self, offset: int, max_bytes: int) -> bytes:
        if self.read_error is not None:
            raise LogRefused(self.read_error)
        self.reads.append((offset, max_bytes))
        await asyncio.sleep(0.001)
        piece = b""
        for header, batch in self.batches:
            if header.last_offset >= offset:
                if piece and len(piece) + len(batch) > max_bytes:
                    break
                piece += batch
        return piece

    def records(self) -> list[list[tuple[bytes | None, bytes | None]]]:
        """Key and value of each record, by batch."""
        return [
            [(record.key, record.value) for record in iterate_entry_records(batch, 0, header, 1 << 20)]
            for header, batch in self.batches
        ]
