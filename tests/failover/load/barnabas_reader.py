"""One read by our own consumer from the start of every partition to its end."""

import asyncio
import random
import sys
from contextlib import aclosing

from barnabas.client.admin import LATEST, Admin
from barnabas.client.cluster import Cluster, ClusterOptions
from barnabas.client.connection import Address
from barnabas.client.consumer import Consumer
from barnabas.client.consumer_options import ConsumerOptions, OffsetReset
from tests.failover.load.arguments import Task, parse
from tests.failover.load.history_file import HistoryFile, now_us

_PATIENCE_SECONDS = 120.0


async def run(task: Task, history: HistoryFile) -> None:
    places = [place.rsplit(":", 1) for place in task.bootstrap.split(",")]
    addresses = [Address(host, int(port)) for host, port in places]
    options = ClusterOptions(client_id=task.client, timeout_ms=int(_PATIENCE_SECONDS * 1000))
    async with (
        Cluster(addresses, random=random.Random(), options=options) as cluster,
        Consumer(cluster, ConsumerOptions(offset_reset=OffsetReset.EARLIEST)) as consumer,
    ):
        consumer.assign(task.topic_partitions)
        ends = await Admin(cluster).list_offsets(dict.fromkeys(task.topic_partitions, LATEST))
        unread = {where for where in task.topic_partitions if ends[where].offset > 0}
        since = now_us()
        async with aclosing(consumer.batches()) as batches:
            while unread:
                try:
                    batch = await asyncio.wait_for(anext(batches), _PATIENCE_SECONDS)
                except TimeoutError:
                    history.failed(f"nothing new for {_PATIENCE_SECONDS} s, not read to the end: {sorted(unread)}")
                    return
                where, records = batch.topic_partition, [(each.offset, each.value or b"") for each in batch.records]
                history.read(where, records, since, final=True)
                if records[-1][0] + 1 >= ends[where].offset:
                    unread.discard(where)


def main() -> int:
    task = parse()
    with HistoryFile(task.history, task.client) as history:
        asyncio.run(run(task, history))
    return 0


if __name__ == "__main__":
    sys.exit(main())
