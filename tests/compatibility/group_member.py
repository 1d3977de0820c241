"""One member of a group, as a process: `group_member CLIENT BOOTSTRAP GROUP TOPIC ASSIGNOR`.

It reads from the earliest offset, commits after each poll, and says each record on a line `record PARTITION OFFSET`
before that. SIGTERM has it leave the group; who is killed leaves it to the session timeout.
"""

import asyncio
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import aclosing, suppress
from typing import Any, Final

from barnabas.client.assignors.range_assignor import RangeAssignor
from barnabas.client.assignors.round_robin_assignor import RoundRobinAssignor
from barnabas.client.assignors.sticky_assignor import CooperativeStickyAssignor, StickyAssignor
from barnabas.client.cluster import open_cluster
from barnabas.client.consumer import Consumer
from barnabas.client.consumer_options import CommitFailed, ConsumerOptions, OffsetReset

SESSION_MS: Final = 6000
_POLL_MS: Final = 100
_KAFKA_PYTHON_POLL_MS: Final = 3000
"""kafka-python 3.0.12 that is called away while it waits for SyncGroup takes itself for a member that has joined, sends
no heartbeat, and never asks again."""

ASSIGNORS: Final = {
    "confluent-kafka": ("range", "roundrobin", "cooperative-sticky"),
    "kafka-python": ("range", "roundrobin", "sticky"),
    "aiokafka": ("range", "roundrobin", "sticky"),
    "barnabas": ("range", "roundrobin", "sticky", "cooperative-sticky"),
}


def _say(records: Iterable[tuple[int, int]]) -> None:
    sys.stdout.write("".join(f"record {partition} {offset}\n" for partition, offset in records))
    sys.stdout.flush()


def _run_confluent(bootstrap: str, group: str, topic: str, assignor: str, stop: threading.Event) -> None:
    import confluent_kafka

    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 500,
            "partition.assignment.strategy": assignor,
        }
    )
    consumer.subscribe([topic])
    while not stop.is_set():
        messages = [each for each in consumer.consume(500, _POLL_MS / 1000) if each.error() is None]
        if messages:
            _say((each.partition(), each.offset()) for each in messages)
            try:
                consumer.commit(asynchronous=False)
            except confluent_kafka.KafkaException as error:
                # The group gathers anew, and whoever owns these next reads them again.
                sys.stderr.write(f"not committed: {error}\n")
    consumer.close()


def _run_kafka_python(bootstrap: str, group: str, topic: str, assignor: str, stop: threading.Event) -> None:
    import kafka
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    assignors = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
    }
    consumer = kafka.KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=500,
        partition_assignment_strategy=[assignors[assignor]],
    )
    while not stop.is_set():
        polled = consumer.poll(timeout_ms=_KAFKA_PYTHON_POLL_MS)
        if polled:
            _say((each.partition, each.offset) for records in polled.values() for each in records)
            try:
                consumer.commit()
            except kafka.errors.CommitFailedError as error:
                sys.stderr.write(f"not committed: {error}\n")
    consumer.close(autocommit=False)


def _run_aiokafka(bootstrap: str, group: str, topic: str, assignor: str, stop: threading.Event) -> None:
    asyncio.run(_consume_aiokafka(bootstrap, group, topic, assignor, stop))


async def _consume_aiokafka(bootstrap: str, group: str, topic: str, assignor: str, stop: threading.Event) -> None:
    import aiokafka
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    assignors = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
    }
    consumer = aiokafka.AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=500,
        partition_assignment_strategy=[assignors[assignor]],
    )
    await consumer.start()
    while not stop.is_set():
        polled = await consumer.getmany(timeout_ms=_POLL_MS)
        if polled:
            _say((each.partition, each.offset) for records in polled.values() for each in records)
            try:
                await consumer.commit()
            except aiokafka.errors.CommitFailedError as error:
                sys.stderr.write(f"not committed: {error}\n")
    await consumer.stop()


def _run_barnabas(bootstrap: str, group: str, topic: str, assignor: str, stop: threading.Event) -> None:
    asyncio.run(_consume_barnabas(bootstrap, group, topic, assignor, stop))


async def _consume_barnabas(bootstrap: str, group: str, topic: str, assignor: str, stop: threading.Event) -> None:
    assignors = (RangeAssignor(), RoundRobinAssignor(), StickyAssignor(), CooperativeStickyAssignor())
    options = ConsumerOptions(
        group_id=group,
        assignors=[each for each in assignors if each.name == assignor],
        offset_reset=OffsetReset.EARLIEST,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=500,
        auto_commit_interval_ms=None,
    )
    async with open_cluster(bootstrap) as cluster, Consumer(cluster, options) as consumer:
        await consumer.subscribe([topic])

        async def read() -> None:
            async with aclosing(consumer.batches()) as batches:
                async for batch in batches:
                    _say((batch.topic_partition.partition, each.offset) for each in batch.records)
                    try:
                        await consumer.commit()
                    except CommitFailed as error:
                        sys.stderr.write(f"not committed: {error}\n")

        reading = asyncio.ensure_future(read())
        while not stop.is_set() and not reading.done():  # noqa: ASYNC110 - a signal has no event of the loop
            await asyncio.sleep(_POLL_MS / 1000)
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading


_CLIENTS: Final[dict[str, Callable[..., None]]] = {
    "confluent-kafka": _run_confluent,
    "kafka-python": _run_kafka_python,
    "aiokafka": _run_aiokafka,
    "barnabas": _run_barnabas,
}


def main() -> None:
    """Be a member until SIGTERM."""
    client, bootstrap, group, topic, assignor = sys.argv[1:]
    stop = threading.Event()

    def leave(*_: Any) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, leave)
    _CLIENTS[client](bootstrap, group, topic, assignor, stop)


if __name__ == "__main__":
    main()
