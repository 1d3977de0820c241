"""Reads by our own consumer: on and on while the load runs, or, with `--rate 0`, once from the starts to the ends."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing

from barnabas.client.admin import LATEST, Admin
from barnabas.client.cluster import Cluster
from barnabas.client.consumer import EARLIEST, Consumer
from barnabas.client.consumer_options import ConsumerOptions, OffsetReset
from barnabas.client.errors import ClientError
from barnabas.client.fetched_records import FetchedRecords
from tests.failover.load.arguments import Task, is_told_to_end, parse
from tests.failover.load.barnabas_producer import open_load_cluster
from tests.failover.load.history_file import HistoryFile, now_us

_LOOK_SECONDS = 0.1
_PATIENCE_SECONDS = 120.0

Batches = AsyncGenerator[FetchedRecords, None]


async def read_on(batches: Batches, history: HistoryFile) -> None:
    since = now_us()
    coming = asyncio.ensure_future(anext(batches))
    try:
        while not is_told_to_end():
            done, _ = await asyncio.wait({coming}, timeout=_LOOK_SECONDS)
            if done:
                write_down(coming.result(), history, since, final=False)
                since = now_us()
                coming = asyncio.ensure_future(anext(batches))
            history.flush()
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)


async def read_to_the_ends(batches: Batches, cluster: Cluster, history: HistoryFile, task: Task) -> None:
    ends = await Admin(cluster).list_offsets(dict.fromkeys(task.topic_partitions, LATEST))
    unread = {where for where in task.topic_partitions if ends[where].offset > 0}
    since = now_us()
    while unread:
        try:
            batch = await asyncio.wait_for(anext(batches), _PATIENCE_SECONDS)
        except TimeoutError:
            history.failed(f"nothing new for {_PATIENCE_SECONDS} s, not read to the end: {sorted(unread)}")
            return
        write_down(batch, history, since, final=True)
        if batch.records[-1].offset + 1 >= ends[batch.topic_partition].offset:
            unread.discard(batch.topic_partition)


def write_down(batch: FetchedRecords, history: HistoryFile, since: int, *, final: bool) -> None:
    records = [(each.offset, each.value or b"") for each in batch.records]
    history.read(batch.topic_partition, records, since, final=final)


async def run(task: Task, history: HistoryFile) -> None:
    # A position that a log does not have, or has not any more, is a finding.
    options = ConsumerOptions(offset_reset=OffsetReset.NONE)
    async with open_load_cluster(task) as cluster, Consumer(cluster, options) as consumer:
        consumer.assign(task.topic_partitions)
        try:
            await consumer.seek_to_times(dict.fromkeys(task.topic_partitions, EARLIEST))
            async with aclosing(consumer.batches()) as batches:
                if task.rate:
                    await read_on(batches, history)
                else:
                    await read_to_the_ends(batches, cluster, history, task)
        except ClientError as error:
            history.failed(repr(error))


def main() -> int:
    task = parse()
    with HistoryFile(task.history, task.client) as history:
        asyncio.run(run(task, history))
    return 0


if __name__ == "__main__":
    sys.exit(main())
