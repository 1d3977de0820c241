"""Load by aiokafka: an idempotent producer with acks=all."""

import asyncio
import contextlib
import sys
import time

import aiokafka
from aiokafka.errors import KafkaError, KafkaTimeoutError

from barnabas.protocol.ids import TopicPartition
from tests.failover.load.arguments import Pace, Task, is_told_to_end, parse
from tests.failover.load.history_file import HistoryFile

_TURN_SECONDS = 0.01
_PATIENCE_SECONDS = 120.0
_REQUEST_TIMEOUT_MS = 8_000


async def deliver(
    producer: aiokafka.AIOKafkaProducer, history: HistoryFile, where: TopicPartition, size_bytes: int
) -> asyncio.Task[None]:
    """Put one record into the producer, in order, and write down how it ends later."""
    sequence, value = history.sends(where, size_bytes=size_bytes)
    answer = await _taken(producer, where, value)

    async def end() -> None:
        try:
            sent = await answer
        except KafkaError as error:
            history.gave_up(where.partition, sequence, repr(error))
        else:
            history.acknowledged(where.partition, sequence, sent.offset)

    return asyncio.create_task(end())


async def _taken(
    producer: aiokafka.AIOKafkaProducer, where: TopicPartition, value: bytes
) -> asyncio.Future[aiokafka.structs.RecordMetadata]:
    """Put the value into the producer's buffer, which takes none while a partition without a leader has filled it."""
    while True:
        with contextlib.suppress(KafkaTimeoutError):
            return await producer.send(where.topic, value, partition=where.partition)


async def run(task: Task, history: HistoryFile) -> None:
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=task.bootstrap,
        client_id=task.client,
        enable_idempotence=True,
        acks="all",
        linger_ms=5,
        request_timeout_ms=_REQUEST_TIMEOUT_MS,
        retry_backoff_ms=50,
        metadata_max_age_ms=5_000,
    )
    await producer.start()
    open_records: set[asyncio.Task[None]] = set()
    pace = Pace(task.rate, time.monotonic())
    turn = 0
    while not is_told_to_end():
        for _ in range(min(pace.due(time.monotonic()), task.most_open - len(open_records))):
            where = task.topic_partitions[turn % task.partitions]
            turn += 1
            pace.sent(1)
            delivery = await deliver(producer, history, where, task.value_bytes)
            open_records.add(delivery)
            delivery.add_done_callback(open_records.discard)
        history.flush()
        await asyncio.sleep(_TURN_SECONDS)
    if open_records:
        await asyncio.wait(open_records, timeout=_PATIENCE_SECONDS)
    if open_records:
        history.failed(f"{len(open_records)} records have no answer after {_PATIENCE_SECONDS} s")
    await producer.stop()


def main() -> int:
    task = parse()
    with HistoryFile(task.history, task.client) as history:
        asyncio.run(run(task, history))
    return 0


if __name__ == "__main__":
    sys.exit(main())
