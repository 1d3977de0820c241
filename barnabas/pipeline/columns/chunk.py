"""Record bytes of many batches in one buffer, as many as are decoded together. Pure.

A chunk is decoded when it holds enough. The last batch may be in it in part: what of a record is cut off goes into the
next chunk. What a batch says of itself (how many records, how long one is) never decides how much is allocated.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from barnabas.pipeline.columns.record_walk import RecordWalker
from barnabas.pipeline.columns.runs import BatchProgress, Run
from barnabas.pipeline.columns.varints import PADDING_BYTES, Bytes, Positions
from barnabas.protocol.batch import Buffer, InvalidRecord

_PADDING: Final = bytes(PADDING_BYTES)
_WORTHWHILE_BYTES: Final = 1 << 20
"""Of fewer bytes the fixed costs of decoding count."""


@dataclass(slots=True)
class _Part:
    """The bytes `[begin, end)` of a chunk are of one batch; `complete` when they end it."""

    batch: BatchProgress
    begin: int
    end: int
    complete: bool = False


class InvalidBatchContent(Exception):
    """A batch of which records cannot be read."""

    def __init__(self, batch: BatchProgress, reason: str) -> None:
        super().__init__(reason)
        self.batch = batch
        self.reason = reason


@dataclass(slots=True)
class WalkedChunk:
    """The whole records of a chunk: its bytes, padded, as bytes and as array, where records begin, whose they are.

    `failure` is of the batch at which the walk stopped: what stood before it is here.
    """

    content: bytes
    array: Bytes
    starts: Positions
    runs: list[Run]
    failure: InvalidBatchContent | None = None

    def truncate_to(self, run: int) -> None:
        """Drop the records of the `run`th run and those after it."""
        self.starts = self.starts[: self.runs[run].first]
        del self.runs[run:]


@dataclass(slots=True)
class Chunk:
    """Gathers pieces of batches until they are worth decoding. At most `max_bytes` and one record of bytes are held."""

    max_bytes: int
    enough_records: int
    walker: RecordWalker
    _pieces: list[Buffer] = field(default_factory=list)
    _parts: list[_Part] = field(default_factory=list)
    _size_bytes: int = 0
    _announced_records: int = 0
    _wanted_bytes: int = 0

    @property
    def is_full(self) -> bool:
        """Whether it is time to decode; not while the first record is known to be incomplete."""
        if self._size_bytes < self._wanted_bytes:
            return False
        if self._size_bytes >= _WORTHWHILE_BYTES and self._announced_records >= self.enough_records:
            return True
        return self._size_bytes >= self.max_bytes

    @property
    def missing_bytes(self) -> int:
        """How many bytes the first record lacks, as far as is known."""
        return max(0, self._wanted_bytes - self._size_bytes)

    def begin(self, batch: BatchProgress) -> None:
        """What is added from now on belongs to this batch."""
        self._parts.append(_Part(batch, self._size_bytes, self._size_bytes))
        self._announced_records += batch.records_left

    def add(self, piece: Buffer) -> None:
        self._pieces.append(piece)
        self._size_bytes += len(piece)
        self._parts[-1].end = self._size_bytes

    def complete(self) -> None:
        """The batch that was begun has all its bytes."""
        self._parts[-1].complete = True

    def take(self) -> WalkedChunk:
        """Find the whole records of all that was added; what remains of the last batch stays in the chunk."""
        content = b"".join((*self._pieces, _PADDING))
        walked = WalkedChunk(content, np.frombuffer(content, dtype=np.uint8), np.empty(0, dtype=np.int64), [])
        found: list[Positions] = []
        records, rest, missing = 0, self._size_bytes, 0
        for part in self._parts:
            try:
                starts, rest, missing = self._walk(walked, part)
            except InvalidRecord as error:
                walked.failure = InvalidBatchContent(part.batch, str(error))
                break
            if len(starts):
                walked.runs.append(Run(part.batch, records, records + len(starts)))
                records += len(starts)
                found.append(starts)
        if found:
            walked.starts = found[0] if len(found) == 1 else np.concatenate(found)
        self._keep(content[rest : self._size_bytes], missing)
        return walked

    def _walk(self, walked: WalkedChunk, part: _Part) -> tuple[Positions, int, int]:
        count = part.batch.records_left
        starts, end, missing = self.walker.walk(walked.content, walked.array, part.begin, end=part.end, count=count)
        left = count - len(starts)
        if not left and end < part.end:
            raise InvalidRecord(f"{part.end - end} bytes follow the last of {part.batch.header.record_count} records")
        if part.complete and left:
            raise InvalidRecord(f"{part.batch.header.record_count} records are announced, {left} of them are not there")
        return starts, end, missing

    def _keep(self, rest: bytes, missing_bytes: int) -> None:
        """Begin anew with what could not be decoded yet."""
        last = self._parts[-1] if self._parts else None
        self._pieces, self._parts, self._size_bytes = [], [], 0
        self._announced_records = self._wanted_bytes = 0
        if last is not None and not last.complete:
            self.begin(last.batch)
            self.add(rest)
            self._wanted_bytes = len(rest) + missing_bytes if missing_bytes else 0
