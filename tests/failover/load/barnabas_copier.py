"""Consume, transform, produce by our own client: one transaction a batch."""

import asyncio
import contextlib
import random
import sys
from contextlib import aclosing
from typing import Final

from barnabas.client import (
    ClusterOptions,
    OffsetAndMetadata,
    Producer,
    ProducerFenced,
    ProducerOptions,
    RequestTimedOut,
    TopicPartition,
    TransactionFailed,
    open_cluster,
)
from barnabas.client.consumer import Consumer, NotAssigned
from barnabas.client.consumer_options import CommitFailed, ConsumerOptions, IsolationLevel, OffsetReset
from barnabas.client.errors import ClientError
from barnabas.client.fetched_records import FetchedRecords
from tests.failover.load.arguments import is_told_to_end
from tests.failover.load.transactional import BROKEN, FENCED, Job, parse

_END_SECONDS: Final = 0.2
_RECORD_BYTES: Final = 20


class Copier:
    def __init__(self, job: Job, consumer: Consumer, producer: Producer[bytes, bytes]) -> None:
        self._job, self._consumer, self._producer = job, consumer, producer
        self._random = random.Random(job.seed)
        self._log = job.log.open("a", buffering=1)
        self._count = 0

    async def copy(self, batch: FetchedRecords) -> None:
        """The first records of the batch; what was not copied comes again."""
        where, records = batch.topic_partition, batch.records[: self._job.most]
        self._count += 1
        self._log.write(f"b {self._count}\n")
        self._producer.begin_transaction()
        try:
            for record in records:
                await self._producer.send(self._job.target, None, record.value, partition=where.partition)
            offsets = {where: OffsetAndMetadata(records[-1].offset + 1)}
            await self._producer.send_offsets_to_transaction(offsets, self._consumer.group_metadata)
            wanted = bool(self._random.randrange(self._job.abort_one_in))
        except (TransactionFailed, CommitFailed) as error:
            self._log.write(f"? {error}\n")
            wanted = False
        committed = await self._end(commit=wanted)
        self._log.write(f"{'c' if committed else 'a'} {self._count}\n")
        with contextlib.suppress(NotAssigned):
            if not committed:
                self._consumer.seek(where, records[0].offset)
            elif len(records) < len(batch.records):
                self._consumer.seek(where, records[-1].offset + 1)

    async def _end(self, *, commit: bool) -> bool:
        while commit:
            try:
                await self._producer.commit_transaction()
            except RequestTimedOut:
                continue
            except TransactionFailed as error:
                self._log.write(f"? {error}\n")
                break
            return True
        while True:
            with contextlib.suppress(RequestTimedOut):
                await self._producer.abort_transaction()
                return False


async def run(job: Job) -> None:
    reads = ConsumerOptions(
        group_id=job.group,
        auto_commit_interval_ms=None,
        offset_reset=OffsetReset.EARLIEST,
        isolation_level=IsolationLevel.READ_COMMITTED,
        session_timeout_ms=6000,
        heartbeat_interval_ms=1000,
        partition_max_bytes=job.most * _RECORD_BYTES,
    )
    # A broker that is silent is left before the transaction is 60 s old.
    options = ClusterOptions(client_id=job.transactional_id, request_timeout_ms=10_000)
    writes = ProducerOptions(transactional_id=job.transactional_id, linger_ms=2)
    async with (
        open_cluster(job.bootstrap, options=options) as cluster,
        Producer(cluster, options=writes) as producer,
        Consumer(cluster, reads) as consumer,
    ):
        if job.partition < 0:
            await consumer.subscribe([job.source])
        else:
            consumer.assign([TopicPartition(job.source, job.partition)])
        copier = Copier(job, consumer, producer)
        async with aclosing(consumer.batches()) as batches:
            following: asyncio.Future[FetchedRecords] | None = None
            while not is_told_to_end():
                following = following or asyncio.ensure_future(anext(batches))
                done, _ = await asyncio.wait([following], timeout=_END_SECONDS)
                if done:
                    batch, following = following.result(), None
                    await copier.copy(batch)
            if following is not None:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)


def main() -> int:
    job = parse()
    try:
        asyncio.run(run(job))
    except ProducerFenced as error:
        print(f"{job.transactional_id}: {error}")
        return FENCED
    except ClientError as error:
        print(f"{job.transactional_id}: {type(error).__name__}: {error}")
        return BROKEN
    return 0


if __name__ == "__main__":
    sys.exit(main())
