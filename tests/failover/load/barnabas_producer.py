"""Load by our own producer: idempotent, with acks=all, and it gives nothing up while the world is in trouble."""

import asyncio
import random
import sys
import time

from barnabas.client.cluster import Cluster, ClusterOptions
from barnabas.client.connection import Address
from barnabas.client.errors import ClientError
from barnabas.client.outgoing import Callback, RecordMetadata
from barnabas.client.producer import Producer
from barnabas.client.producer_options import ProducerOptions
from tests.failover.load.arguments import Pace, Task, is_told_to_end, parse
from tests.failover.load.history_file import HistoryFile

_TURN_SECONDS = 0.004
_PATIENCE_SECONDS = 120.0
_NEVER_MS = 24 * 3_600_000


def open_load_cluster(task: Task) -> Cluster:
    """The cluster as the load clients reach it: a broker that is cut off is given up after seconds, the task is not."""
    places = [place.rsplit(":", 1) for place in task.bootstrap.split(",")]
    options = ClusterOptions(
        client_id=task.client,
        connect_timeout_ms=2_000,
        request_timeout_ms=10_000,
        timeout_ms=int(_PATIENCE_SECONDS * 1000),
    )
    return Cluster([Address(host, int(port)) for host, port in places], random=random.Random(), options=options)


class Load:
    """One producer, taking partitions in turn."""

    def __init__(self, task: Task, history: HistoryFile, producer: Producer[bytes, bytes]) -> None:
        self._task = task
        self._history = history
        self._producer = producer
        self._partitions = task.topic_partitions
        self._turn = 0
        self.open = 0

    async def send(self) -> None:
        where = self._partitions[self._turn % len(self._partitions)]
        self._turn += 1
        sequence, value = self._history.sends(where, size_bytes=self._task.value_bytes)
        self.open += 1
        answered = self._answered(where.partition, sequence)
        await self._producer.send(where.topic, None, value, partition=where.partition, callback=answered)

    def _answered(self, partition: int, sequence: int) -> Callback:
        def on_answer(sent: RecordMetadata | None, error: ClientError | None) -> None:
            self.open -= 1
            if sent is not None:
                self._history.acknowledged(partition, sequence, sent.offset)
            else:
                self._history.gave_up(partition, sequence, repr(error))

        return on_answer


async def run(task: Task, history: HistoryFile) -> None:
    options = ProducerOptions(delivery_timeout_ms=_NEVER_MS)
    async with open_load_cluster(task) as cluster:
        producer = Producer(cluster, options=options)
        load = Load(task, history, producer)
        pace = Pace(task.rate, time.monotonic())
        try:
            while not is_told_to_end():
                due = min(pace.due(time.monotonic()), task.most_open - load.open, 500)
                for _ in range(due):
                    await load.send()
                pace.sent(max(0, due))
                history.flush()
                await asyncio.sleep(_TURN_SECONDS)
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await producer.flush()
        except (ClientError, TimeoutError) as error:
            history.failed(f"{load.open} records have no answer: {error!r}")
        finally:
            await producer.close()


def main() -> int:
    task = parse()
    with HistoryFile(task.history, task.client) as history:
        asyncio.run(run(task, history))
    return 0


if __name__ == "__main__":
    sys.exit(main())
