"""Transactions of one record, by a raw loop that is the same for every broker: AddPartitionsToTxn, Produce, EndTxn.

Each producer has a transactional id, a connection and a partition of its own. Where the coordinator is still at the
transaction before, the next one tries again after `retry_s`, 20 ms in the Java client.
"""

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

from barnabas.client.connection import Address
from barnabas.client.errors import raise_for
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.messages import add_partitions_to_txn, end_txn, init_producer_id, produce
from barnabas.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.records import Record, build_batch
from bench.percentiles import percentile
from bench.raw_line import TRANSACTION, Line, coordinator_of, open_line, until_served

_TIMEOUT_MS = 60_000


@dataclass(slots=True)
class Transactions:
    """What all producers did in the time that counts."""

    seconds: float
    latencies_ms: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return len(self.latencies_ms) / self.seconds

    def percentile_ms(self, share: float) -> float:
        return percentile(self.latencies_ms, share)


class _Producer:
    """One transactional id."""

    def __init__(self, line: Line, topic: str, partition: int, transactional_id: str, retry_s: float) -> None:
        self._line = line
        self._topic = topic
        self._partition = partition
        self._id = transactional_id
        self._retry_s = retry_s
        self._producer_id = -1
        self._epoch = -1
        self._sequence = 0

    async def begin(self) -> None:
        request = InitProducerIdRequest(self._id, _TIMEOUT_MS)
        answer = await until_served(
            lambda: self._line.ask(init_producer_id.API, request), lambda each: [each.error_code]
        )
        self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch

    async def transaction(self) -> None:
        identity = (self._id, self._producer_id, self._epoch)
        topics = [AddPartitionsToTxnTopic(self._topic, [self._partition])]
        await self._when_ended(add_partitions_to_txn.API, AddPartitionsToTxnRequest(*identity, topics))
        answer = await self._line.ask(produce.API, self._record())
        raise_for(answer.responses[0].partitions[0].error_code)
        answer = await self._line.ask(end_txn.API, EndTxnRequest(*identity, committed=True))
        raise_for(answer.error_code)

    async def _when_ended(self, api: Any, request: AddPartitionsToTxnRequest) -> None:
        while True:
            answer = await self._line.ask(api, request)
            code = answer.results[0].results[0].error_code
            if code != ErrorCode.CONCURRENT_TRANSACTIONS:
                raise_for(code)
                return
            await asyncio.sleep(self._retry_s)

    def _record(self) -> ProduceRequest:
        batch = build_batch(
            [Record(0, time.time_ns() // 1_000_000, None, b"x" * 100)],
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=self._sequence,
            transactional=True,
        )
        self._sequence += 1
        return ProduceRequest(
            self._id, -1, 30_000, [TopicProduceData(self._topic, [PartitionProduceData(self._partition, batch)])]
        )


async def transactions(
    bootstrap: Address, topic: str, *, producers: int, seconds: float, warm_s: float, retry_s: float
) -> Transactions:
    """Transactions of so many producers, one after the other in each; `topic` has a partition for each of them."""
    line = await open_line(bootstrap)
    running = []
    for number in range(producers):
        name = f"{producers}-producers-{number}"
        own = await open_line(await coordinator_of(line, name, TRANSACTION))
        running.append((own, _Producer(own, topic, number, name, retry_s)))
    line.close()
    await asyncio.gather(*(producer.begin() for _, producer in running))
    counts_from = time.perf_counter() + warm_s
    counted = Transactions(seconds)
    await asyncio.gather(*(_produce(producer, counts_from, counted) for _, producer in running))
    for own, _ in running:
        own.close()
    return counted


async def _produce(producer: _Producer, counts_from: float, counted: Transactions) -> None:
    ends = counts_from + counted.seconds
    while (began := time.perf_counter()) < ends:
        await producer.transaction()
        if counts_from <= (ended := time.perf_counter()) < ends:
            counted.latencies_ms.append((ended - began) * 1000)
