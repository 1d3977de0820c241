"""Readers of a simulated cluster that use the public consumer as an application does, and write down what it gave them.

The consumer has its own way to find leaders, to try again and to notice truncations; what comes out is judged like the
polls of the other readers. It begins at the start of each partition and never goes back but where it is told that the
log has not what it asked for.
"""

import asyncio
from contextlib import aclosing
from typing import Final

from barnabas.client.consumer import Consumer
from barnabas.client.consumer_options import ConsumerOptions, LogTruncated, OffsetOutOfRange, OffsetReset
from barnabas.client.errors import ClientError, ProtocolViolation
from barnabas.client.fetched_records import FetchedRecords
from barnabas.protocol.ids import TopicPartition
from barnabas.simulation.fetched import value_in
from barnabas.simulation.load import ClientProcess, Stage

_TURN_S: Final = 0.5


class ConsumerProcess(ClientProcess):
    """Reads partitions by assignment with one consumer, or the next one where that cannot go on."""

    def __init__(self, stage: Stage, name: str, partitions: list[TopicPartition]) -> None:
        super().__init__(stage, name)
        self._partitions = partitions
        self._sessions = dict.fromkeys(partitions, 0)
        self._positions = dict.fromkeys(partitions, 0)
        self._asked_at = dict.fromkeys(partitions, 0)

    async def run(self) -> None:
        """Read until the load is over."""
        reading = self.start(self._read_on())
        while not self.stage.is_over and not reading.done():  # noqa: ASYNC110 - the load's end has no event
            await asyncio.sleep(_TURN_S)
        reading.cancel()

    async def _read_on(self) -> None:
        options = ConsumerOptions(offset_reset=OffsetReset.NONE, max_wait_ms=self.stage.settings.poll_wait_ms)
        while True:
            try:
                async with Consumer(self.cluster, options) as consumer:
                    consumer.assign(self._partitions)
                    for each in self._partitions:
                        self._seek(consumer, each, self.stage.history.start_offsets.get(each, 0))
                    while True:
                        await self._read(consumer)
            except ClientError:
                await asyncio.sleep(self.chance.uniform(0.3, 1.0))

    async def _read(self, consumer: Consumer) -> None:
        """Read until something is wrong, and put it right. Raises ClientError where the consumer is over."""
        try:
            async with aclosing(consumer.batches()) as batches:
                async for batch in batches:
                    self._note(batch)
                    await asyncio.sleep(self.chance.uniform(0, self.stage.settings.think_s / 2))
        except OffsetOutOfRange as error:
            leader = self.cluster.known_leader(error.topic_partition)
            if leader is not None:
                self.stage.on_out_of_range(error.topic_partition, error.offset, leader)
            self._seek(consumer, error.topic_partition, self.stage.history.start_offsets.get(error.topic_partition, 0))
        except LogTruncated as error:
            self._seek(consumer, error.topic_partition, max(error.divergence, 0))
        except ProtocolViolation as error:
            # Rot may reach readers before it is found; it is asked for again, from the start.
            if not any(self.stage.may_be_damaged(each) for each in self._partitions):
                self.stage.on_violation(f"{self.name}: {error}")
            raise

    def _seek(self, consumer: Consumer, each: TopicPartition, offset: int) -> None:
        consumer.seek(each, offset)
        self._sessions[each] += 1
        self._positions[each] = offset
        self._asked_at[each] = self.now()

    def _note(self, batch: FetchedRecords) -> None:
        stage, at = self.stage, batch.topic_partition
        # It was asked for at some moment after the last answer was handed out.
        operation = stage.history.poll(
            self.name, at, self._asked_at[at], position=self._positions[at], session=self._sessions[at]
        )
        self._asked_at[at], self._positions[at] = self.now(), batch.records[-1].offset + 1
        records = [(each.offset, value_in(each)) for each in batch.records]
        operation.ok(records, self.now(), high_watermark=batch.high_watermark)
        stage.count.polls += 1
        stage.count.records_read += len(records)
