"""What a producer holds of records until a broker has them: batches that are filled, and what is told of each record.

A record is encoded once, when it is taken; a batch gets its header each time it is sent, as its sequence number and
its epoch may change. What becomes of a batch is told once: to who awaits one of its records, and to their callbacks.

A batch that a topic finds too large is divided; whoever holds a record of it finds it in its half.
"""

import asyncio
from collections.abc import Callable, Generator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final, NamedTuple

from barnabas.client.errors import ClientError
from barnabas.protocol.batch import NO_SEQUENCE, Buffer, Codec, read_header
from barnabas.protocol.compression import compress
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.records import Record, batch_of_encoded, encode_fields, iterate_records

NO_OFFSET: Final = -1


class RecordMetadata(NamedTuple):
    """Where a record went: `offset` is -1 where no broker said; `timestamp` is the broker's time, -1 where the record
    kept its own.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int


@dataclass(slots=True)
class Delivery:
    """What became of a batch: its first offset (-1 where no broker said), or the error."""

    topic_partition: TopicPartition
    base_offset: int
    count: int
    error: ClientError | None


Callback = Callable[[RecordMetadata | None, ClientError | None], None]
"""Called once for a record: with where it went, or with why it did not."""


class Identity(NamedTuple):
    """A producer's id and epoch (KIP-98)."""

    producer_id: int
    epoch: int


@dataclass(slots=True)
class EncodedRecords:
    """The records of one batch as they stand in it: `count` of them with offset deltas 0 to count - 1, compressed as
    `codec` says. Timestamps are those of the batch's header, whose first one the records' are deltas to.
    """

    payload: Buffer
    codec: Codec
    count: int
    first_timestamp: int
    max_timestamp: int


class Stage(Enum):
    """How far a batch is."""

    WAITING = auto()
    IN_FLIGHT = auto()
    DONE = auto()


class OutgoingBatch:
    """Records for one partition. `first_record` counts the records of the partition before it, and is its order."""

    __slots__ = (
        "_callbacks",
        "_halves",
        "_payload",
        "_waiter",
        "base_offset",
        "codec",
        "count",
        "deadline_s",
        "error",
        "first_record",
        "first_timestamp",
        "max_timestamp",
        "may_be_written",
        "parts",
        "sequence",
        "size_bytes",
        "stage",
        "timestamp",
        "topic_partition",
    )

    def __init__(self, topic_partition: TopicPartition, *, first_record: int, first_timestamp: int) -> None:
        self.topic_partition = topic_partition
        self.first_record = first_record
        self.first_timestamp = self.max_timestamp = first_timestamp
        self.parts: list[bytes] = []
        self.count = 0
        self.size_bytes = 0
        self.deadline_s = 0.0
        self.stage = Stage.WAITING
        self.sequence = NO_SEQUENCE
        self.may_be_written = False
        self.base_offset = NO_OFFSET
        self.timestamp = -1
        self.error: ClientError | None = None
        self.codec: Codec | None = None
        """How its records were compressed before they came here; None where that is the producer's to say."""
        self._payload: Buffer | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._callbacks: list[tuple[int, Callback]] | None = None
        self._halves: tuple[OutgoingBatch, OutgoingBatch] | None = None

    def take_encoded(self, records: EncodedRecords) -> None:
        """Be a batch of these records and no others."""
        assert not self.count
        self._payload, self.codec = records.payload, records.codec
        self.count, self.size_bytes = records.count, len(records.payload)
        self.max_timestamp = records.max_timestamp

    def add_callback(self, index: int, callback: Callback) -> None:
        if self._callbacks is None:
            self._callbacks = []
        self._callbacks.append((index, callback))

    def encode(self, codec: Codec, level: int | None, identity: Identity | None, *, transactional: bool) -> bytes:
        """The batch as it is sent; its records are compressed the first time, unless they came so."""
        if self.codec is not None:
            codec = self.codec
        if self._payload is None:
            self._payload = compress(codec, b"".join(self.parts), level)
            self.parts = []
        producer_id, epoch = identity or (-1, -1)
        return batch_of_encoded(
            self._payload,
            count=self.count,
            codec=codec,
            first_timestamp=self.first_timestamp,
            max_timestamp=self.max_timestamp,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=self.sequence,
            transactional=transactional,
        )

    def divide(self, codec: Codec) -> tuple["OutgoingBatch", "OutgoingBatch"]:
        """Its two halves, which take its place; their sequence numbers are its own."""
        assert self.count > 1
        encoded = self.encode(codec, None, None, transactional=False)
        records = list(iterate_records(encoded, 0, read_header(encoded), 1 << 31))
        middle = self.count // 2
        left = self._half(records[:middle], 0)
        right = self._half(records[middle:], middle)
        for index, callback in self._callbacks or ():
            half, place = (left, index) if index < middle else (right, index - middle)
            half.add_callback(place, callback)
        self._callbacks = None
        self._halves = left, right
        self.stage = Stage.DONE
        self._wake()
        return left, right

    def _half(self, records: list[Record], start: int) -> "OutgoingBatch":
        first = records[0].timestamp
        half = OutgoingBatch(self.topic_partition, first_record=self.first_record + start, first_timestamp=first)
        half.parts = [
            encode_fields(each.key, each.value, each.headers, each.timestamp - first, delta)
            for delta, each in enumerate(records)
        ]
        half.count = len(records)
        half.max_timestamp = max(each.timestamp for each in records)
        half.size_bytes = sum(map(len, half.parts))
        half.deadline_s = self.deadline_s
        half.sequence = self.sequence if self.sequence < 0 else (self.sequence + start) & 0x7FFFFFFF
        half.may_be_written = self.may_be_written
        return half

    def finish(self, *, base_offset: int = NO_OFFSET, timestamp: int = -1, error: ClientError | None = None) -> None:
        """Tell what became of it."""
        assert self.stage is not Stage.DONE
        self.stage = Stage.DONE
        self.base_offset, self.timestamp, self.error = base_offset, timestamp, error
        self.parts, self._payload = [], None
        self._wake()
        callbacks, self._callbacks = self._callbacks, None
        for index, callback in callbacks or ():
            # Not from here: a callback may send, and what it raises is not ours.
            loop = asyncio.get_running_loop()
            loop.call_soon(callback, None if error is not None else self.metadata(index), error)

    def metadata(self, index: int) -> RecordMetadata:
        offset = self.base_offset + index if self.base_offset >= 0 else NO_OFFSET
        return RecordMetadata(*self.topic_partition, offset, self.timestamp)

    def holder(self, index: int) -> tuple["OutgoingBatch", int]:
        """The batch that has a record now, and its place in it."""
        batch = self
        while batch._halves is not None:
            left, right = batch._halves
            batch, index = (left, index) if index < left.count else (right, index - left.count)
        return batch, index

    async def settled(self) -> None:
        """Return when it is finished or divided."""
        if self.stage is not Stage.DONE:
            if self._waiter is None:
                self._waiter = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._waiter)

    async def done(self) -> None:
        """Return when something became of every record."""
        await self.settled()
        if self._halves is not None:
            for half in self._halves:
                await half.done()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Sent:
    """A record that a producer took. Await it to learn where it went, or leave it."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: OutgoingBatch, index: int) -> None:
        self._batch = batch
        self._index = index

    @property
    def topic_partition(self) -> TopicPartition:
        return self._batch.topic_partition

    def is_done(self) -> bool:
        """Whether something became of it."""
        return self._batch.holder(self._index)[0].stage is Stage.DONE

    def is_behind(self, first: "Sent", count: int) -> bool:
        """Whether it came into the batch of `first` as the record `count` places behind it."""
        batch, index = first._batch, first._index  # noqa: SLF001 - its own class's
        return self._batch is batch and self._index == index + count

    def places(self, count: int) -> list[tuple[int, int]]:
        """Where this record and those behind it in its batch went, `count` in all: (how many, first offset) in order.

        Something must have become of them. The offset is -1 where no broker said. Raises what became of a lost one.
        """
        found: list[tuple[int, int]] = []
        done = 0
        while done < count:
            batch, index = self._batch.holder(self._index + done)
            assert batch.stage is Stage.DONE
            if batch.error is not None:
                raise batch.error
            here = min(count - done, batch.count - index)
            found.append((here, batch.metadata(index).offset))
            done += here
        return found

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        return self._outcome().__await__()

    async def _outcome(self) -> RecordMetadata:
        while True:
            batch, index = self._batch.holder(self._index)
            if batch.stage is Stage.DONE:
                if batch.error is not None:
                    raise batch.error
                return batch.metadata(index)
            await batch.settled()
