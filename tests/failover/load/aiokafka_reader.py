"""One read by aiokafka from the start of every partition to its end."""

import asyncio
import sys
import time

import aiokafka

from barnabas.protocol.ids import TopicPartition
from tests.failover.load.arguments import Task, parse
from tests.failover.load.history_file import HistoryFile, now_us

_PATIENCE_SECONDS = 120.0


async def run(task: Task, history: HistoryFile) -> None:
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=task.bootstrap, client_id=task.client, enable_auto_commit=False, group_id=None
    )
    await consumer.start()
    known = {where: aiokafka.TopicPartition(where.topic, where.partition) for where in task.topic_partitions}
    consumer.assign(list(known.values()))
    await consumer.seek_to_beginning(*known.values())
    ends = await consumer.end_offsets(list(known.values()))
    unread = {where: ends[name] for where, name in known.items() if ends[name] > 0}
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while unread and time.monotonic() < deadline:
        since = now_us()
        for name, records in (await consumer.getmany(timeout_ms=200, max_records=5000)).items():
            where = TopicPartition(name.topic, name.partition)
            history.read(where, [(record.offset, record.value or b"") for record in records], since, final=True)
            deadline = time.monotonic() + _PATIENCE_SECONDS
            if records[-1].offset + 1 >= unread.get(where, 0):
                unread.pop(where, None)
    if unread:
        history.failed(f"nothing new for {_PATIENCE_SECONDS} s, not read to the end: {sorted(unread)}")
    await consumer.stop()


def main() -> int:
    task = parse()
    with HistoryFile(task.history, task.client) as history:
        asyncio.run(run(task, history))
    return 0


if __name__ == "__main__":
    sys.exit(main())
