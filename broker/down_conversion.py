"""Records for consumers that know only message formats 0 and 1: Fetch 0 and 1, and Fetch 2 and 3 (KIP-283).

As in Kafka 2.7 the size of a partition's answer is settled once its first entry is converted: what was read of the log,
or that entry where it has grown. What follows is cut there; what falls short is filled up with the head of an entry
that does not end, which consumers leave out like anything that is cut. So a record that does not fit any more shows as
a size that is too small, and never as an end of the log.

Conversion is work for the processor and holds what it made, so its costs are bounded: an answer has `ANSWER_BYTES` of
the log at most beyond its last entry, so many answers at most are converted at a time, and they share one turn of the
loop between them: other clients wait for one turn, however many old ones there are. An answer that needs no conversion
leaves as slices of files, like any other.
"""

import asyncio
import contextlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeVar

from barnabas.protocol.batch import LOG_OVERHEAD_BYTES, BatchHeader, CorruptBatch
from barnabas.protocol.entries import read_entry, verify_entry
from barnabas.protocol.format_conversion import ConversionRefused, convert_down
from barnabas.protocol.steps import Steps
from barnabas.runtime.clock import Clock
from barnabas.storage.log_config import LogConfig
from broker.turns import TURN_US

T = TypeVar("T")

BATCHES_SINCE: Final = 4
"""The first version whose consumers know format 2."""
TIMESTAMPS_SINCE: Final = 2
"""The first version whose consumers know format 1."""
PARTITION_BYTES: Final = 1 << 20
"""What is read of one partition for conversion, unless its topic has larger entries."""
ANSWER_BYTES: Final = 4 << 20
_ANSWERS_AT_A_TIME: Final = 8

_OFFSET_AND_LENGTH: Final = struct.Struct(">qi")
_FILLER_BYTES: Final = 128 * 1024
_SHORTEST_LENGTH: Final = 61
_MAGIC_AT: Final = 16
_LENGTH_AT: Final = 8


@dataclass(slots=True)
class ConvertedSet:
    """What a partition's answer holds in place of its slice, and how many records were converted for it."""

    data: bytes
    record_count: int


class Conversions:
    """Who may convert, and when; one for a broker."""

    __slots__ = ("_places", "_turn")

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(_ANSWERS_AT_A_TIME)
        self._turn = asyncio.Lock()

    @property
    def place(self) -> asyncio.Semaphore:
        """To be held while an answer is converted."""
        return self._places

    async def finish(self, steps: Steps[T], clock: Clock) -> T:
        """Do work in steps, a turn of the loop at a time that all who convert take one after the other."""
        # Whoever gives up meanwhile must not leave the work half done until it is collected.
        with contextlib.closing(steps):
            while True:
                async with self._turn:
                    ends_us = clock.monotonic_us() + TURN_US
                    try:
                        next(steps)
                        while clock.monotonic_us() < ends_us:
                            next(steps)
                    except StopIteration as done:
                        result: T = done.value
                        return result
                    # Others may go first before the next of us has a turn.
                    await asyncio.sleep(0)


def newest_magic_of(version: int) -> int:
    """The newest message format that consumers with this version of Fetch know."""
    if version >= BATCHES_SINCE:
        return 2
    return 1 if version >= TIMESTAMPS_SINCE else 0


def needs_conversion(records: bytes, to_magic: int) -> bool:
    """Whether a whole entry of the slice is of a newer format."""
    at, size = 0, len(records)
    while size - at > _MAGIC_AT:
        at_end = at + LOG_OVERHEAD_BYTES + int.from_bytes(records[at + _LENGTH_AT : at + LOG_OVERHEAD_BYTES], "big")
        if at_end > size:
            return False
        if records[at + _MAGIC_AT] > to_magic:
            return True
        at = at_end
    return False


def convert_set(records: bytes, *, to_magic: int, first_offset: int, config: LogConfig) -> Steps[ConvertedSet]:
    """What a slice becomes, in steps. `first_offset` is the one that was asked for.

    Raises ConversionRefused or a CorruptBatch while there is nothing to send yet; what cannot be converted further on
    is left out, so that the consumer asks for it and hears then.
    """
    parts: list[bytes] = []
    room = total = count = 0
    for at, header in _whole_entries(records):
        end = at + header.size_bytes
        if header.magic <= to_magic:
            data, converted = records[at:end], 0
        else:
            try:
                # What is converted gets a checksum of its own, which would vouch for what the disk has ruined.
                verify_entry(records, at, header)
                made = yield from convert_down(
                    records,
                    at,
                    header,
                    to_magic=to_magic,
                    first_offset=first_offset,
                    max_inflated_bytes=config.max_decompressed_bytes,
                )
            except (ConversionRefused, CorruptBatch):
                if not parts:
                    raise
                break
            data, converted = made.data, made.record_count
        yield
        if not data:
            continue
        if not parts:
            room = max(len(records), len(data))
        parts.append(data)
        total += len(data)
        count += converted
        if total >= room:
            break
    if not parts and len(records):
        # Consumers learn that there was something, as from Kafka.
        room = LOG_OVERHEAD_BYTES
    if total > room:
        parts[-1] = parts[-1][: room - total]
    parts += _fillers(room - total)
    return ConvertedSet(b"".join(parts), count)


def _whole_entries(records: bytes) -> Iterator[tuple[int, BatchHeader]]:
    at, size = 0, len(records)
    while size - at > _MAGIC_AT:
        if at + LOG_OVERHEAD_BYTES + int.from_bytes(records[at + _LENGTH_AT : at + LOG_OVERHEAD_BYTES], "big") > size:
            return
        header = read_entry(records, at)
        yield at, header
        at += header.size_bytes


def _fillers(size_bytes: int) -> Iterator[bytes]:
    """The head of an entry that does not end within `size_bytes`, as Kafka writes it."""
    while size_bytes > 0:
        piece_bytes = min(max(LOG_OVERHEAD_BYTES, min(size_bytes + 1, _FILLER_BYTES)), size_bytes)
        head = _OFFSET_AND_LENGTH.pack(-1, max(size_bytes + 1, _SHORTEST_LENGTH))
        yield head.ljust(piece_bytes, b"\0")[:piece_bytes]
        size_bytes -= piece_bytes


def limit_of(config: LogConfig, max_bytes: int) -> int:
    """How much of a log is read for an answer that may be converted, so that no entry is cut that the client takes."""
    return min(max_bytes, max(PARTITION_BYTES, config.max_message_bytes + LOG_OVERHEAD_BYTES))
