"""For producers: counting what was sent, and telling it to the audit.

    counts = ProducerCounts(producer, name="web", topic="audit")
    await counts.send("views", key, value)        # like producer.send
    ...
    await counts.publish()                        # now and then: what has been written since
    await counts.close()                          # at the end; flushes

    async with counts.transaction():              # instead of producer.transaction(): records and counts, or neither
        await counts.send("views", key, value)

A record counts once it is written. Between a write and the event that tells of it lies the time until `publish`; a
producer that is killed then has written records that it did not count, and the audit says so. In a transaction that
cannot happen. `CountBook` does the counting for producers that are not ours: it is given what was delivered and gives
the events to send.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Final

import numpy as np

from barnabas.client.errors import ClientError
from barnabas.client.outgoing import RecordMetadata, Sent
from barnabas.client.producer import Producer
from barnabas.pipeline.audit.count_events import MOST_COUNTS, encode_event
from barnabas.pipeline.audit.tallies import NOTHING, Cell, Tally, hour_of
from barnabas.pipeline.columns.checksums import content_checksums_of, sums_by_group
from barnabas.protocol.records import Headers
from barnabas.runtime.clock import Clock, SystemClock

_RECORDS_AT_ONCE: Final = 4096
_BYTES_AT_ONCE: Final = 1 << 20
"""What a book holds of records before it computes their checksums."""


class CountBook:
    """What one producer has delivered and not yet told of. Not for several threads at once.

    `instance` must be another one for each start of a producer; `new_instance` makes one up.
    """

    def __init__(self, producer: str, instance: str) -> None:
        self._producer = producer
        self._instance = instance
        self._sequence = 0
        self._is_closed = False
        self._tallies: dict[Cell, Tally] = {}
        self._waiting: list[tuple[Cell, int, bytes | None, bytes | None]] = []
        self._waiting_bytes = 0

    def add(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        *,
        timestamp_ms: int,
        offset: int = -1,
    ) -> None:
        """Count a record that was written, with the timestamp that it has in the topic."""
        assert not self._is_closed
        self._waiting.append((Cell(topic, partition, hour_of(timestamp_ms)), offset, key, value))
        self._waiting_bytes += len(key or b"") + len(value or b"")
        if len(self._waiting) >= _RECORDS_AT_ONCE or self._waiting_bytes >= _BYTES_AT_ONCE:
            self._count()

    def take(self, *, is_last: bool = False) -> list[bytes]:
        """The events that tell of what was added since they were last taken; none if nothing was.

        With `is_last` there is one at least, and the book is closed. Who takes events must write them all, in order.
        """
        assert not self._is_closed
        self._count()
        told = sorted(self._tallies.items())
        self._tallies = {}
        self._is_closed = is_last
        parts = [told[at : at + MOST_COUNTS] for at in range(0, len(told), MOST_COUNTS)] or ([[]] if is_last else [])
        events = []
        for number, part in enumerate(parts, 1):
            self._sequence += 1
            events.append(
                encode_event(
                    part,
                    producer=self._producer,
                    instance=self._instance,
                    sequence=self._sequence,
                    is_last=is_last and number == len(parts),
                )
            )
        return events

    def _count(self) -> None:
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        if not waiting:
            return
        groups: dict[Cell, int] = {}
        places = np.array([groups.setdefault(cell, len(groups)) for cell, *_ in waiting], dtype=np.int64)
        checksums = content_checksums_of([each[2] for each in waiting], [each[3] for each in waiting])
        offsets = np.array([each[1] for each in waiting], dtype=np.int64)
        sums = sums_by_group(checksums, places, len(groups))
        for cell, group in groups.items():
            of_cell = offsets[places == group]
            told = of_cell[of_cell >= 0]
            least, most = (int(told.min()), int(told.max())) if len(told) else (-1, -1)
            tally = Tally(len(of_cell), int(sums[group]), least_offset=least, most_offset=most)
            self._tallies[cell] = self._tallies.get(cell, NOTHING) + tally


def new_instance(dice: Random) -> str:
    """A name for one start of a producer, such as nobody else has."""
    return f"{dice.getrandbits(96):024x}"


class ProducerCounts:
    """Sends records through a producer, and count events of them to `topic`."""

    def __init__(
        self,
        producer: Producer[bytes, bytes],
        *,
        name: str,
        topic: str,
        clock: Clock | None = None,
        dice: Random | None = None,
    ) -> None:
        self._producer = producer
        self._topic = topic
        self._name = name
        self._clock = clock or SystemClock()
        self._dice = dice or Random()
        self._book = CountBook(name, new_instance(self._dice))
        self._uses_transactions = False

    async def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        headers: Headers = (),
        timestamp: int | None = None,
        partition: int | None = None,
    ) -> Sent:
        """As `Producer.send`; the record counts when it is written. Raises ClientError."""
        time_ms = self._clock.wall_ms() if timestamp is None else timestamp
        book = self._book

        def written(where: RecordMetadata | None, error: ClientError | None) -> None:
            if where is not None and error is None:
                at_ms = where.timestamp if where.timestamp >= 0 else time_ms
                book.add(topic, where.partition, key, value, timestamp_ms=at_ms, offset=where.offset)

        return await self._producer.send(
            topic, key, value, headers=headers, timestamp=time_ms, partition=partition, callback=written
        )

    async def publish(self) -> None:
        """Tell of all that has been written since, and return when that is written. Raises ClientError."""
        await self._write(self._book.take())

    async def close(self) -> None:
        """Wait for what is under way, tell of it, and say that no more will come. Raises ClientError."""
        if self._uses_transactions:
            async with self._producer.transaction():
                await self._write(self._book.take(is_last=True))
            return
        await self._producer.flush()
        await self._write(self._book.take(is_last=True))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """A transaction of the producer whose counts are committed with its records, or aborted with them.

        After an exception it may not be known which, so that what comes then is told by another instance.
        """
        self._uses_transactions = True
        try:
            async with self._producer.transaction():
                yield
                await self._producer.flush()
                await self._write(self._book.take())
        except BaseException:
            self._book = CountBook(self._name, new_instance(self._dice))
            raise

    async def _write(self, events: list[bytes]) -> None:
        sent = [await self._producer.send(self._topic, self._name.encode(), each) for each in events]
        for each in sent:
            await each
