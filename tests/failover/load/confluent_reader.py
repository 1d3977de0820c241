"""Reads by librdkafka: on and on while the load runs, or, with `--rate 0`, once from the starts to the ends.

It assigns itself the partitions; the offsets of an assignment are its own and no group keeps them.
"""

import sys
import time
from collections import defaultdict

import confluent_kafka

from barnabas.protocol.ids import TopicPartition
from tests.failover.load.arguments import Task, is_told_to_end, parse
from tests.failover.load.history_file import HistoryFile, now_us
from tests.failover.load.watermarks import watermarks

_PATIENCE_SECONDS = 120.0


def open_consumer(task: Task) -> confluent_kafka.Consumer:
    return confluent_kafka.Consumer(
        {
            "bootstrap.servers": task.bootstrap,
            "client.id": task.client,
            "group.id": "not-joined",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            "fetch.error.backoff.ms": 50,
            "topic.metadata.refresh.fast.interval.ms": 50,
            "log_level": 0,
        }
    )


def take(
    consumer: confluent_kafka.Consumer, history: HistoryFile, *, seconds: float, final: bool
) -> dict[TopicPartition, int]:
    """One read; the end of what it gave of each partition."""
    since = now_us()
    given: dict[TopicPartition, list[tuple[int, bytes]]] = defaultdict(list)
    for record in consumer.consume(2000, timeout=seconds):
        error = record.error()
        if error is not None:
            # Everything else is mended by librdkafka itself.
            if error.fatal() or error.code() in {error.OFFSET_OUT_OF_RANGE, error._AUTO_OFFSET_RESET, error._BAD_MSG}:
                history.failed(f"{record.topic()}-{record.partition()}: {error.str()}")
            continue
        topic, partition, offset = record.topic(), record.partition(), record.offset()
        assert topic is not None
        assert partition is not None
        assert offset is not None
        given[TopicPartition(topic, partition)].append((offset, record.value() or b""))
    for where, records in given.items():
        history.read(where, records, since, final=final)
    return {where: records[-1][0] + 1 for where, records in given.items()}


def read_on(consumer: confluent_kafka.Consumer, history: HistoryFile) -> None:
    while not is_told_to_end():
        take(consumer, history, seconds=0.1, final=False)
        history.flush()


def read_to_the_ends(consumer: confluent_kafka.Consumer, history: HistoryFile, task: Task) -> None:
    unread = {}
    for where in task.topic_partitions:
        _, end = watermarks(consumer, where.topic, where.partition, seconds=_PATIENCE_SECONDS)
        if end > 0:
            unread[where] = end
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while unread:
        if time.monotonic() > deadline:
            history.failed(f"nothing new for {_PATIENCE_SECONDS} s, not read to the end: {sorted(unread)}")
            return
        for where, end in take(consumer, history, seconds=0.2, final=True).items():
            deadline = time.monotonic() + _PATIENCE_SECONDS
            if end >= unread.get(where, 0):
                unread.pop(where, None)


def main() -> int:
    task = parse()
    with HistoryFile(task.history, task.client) as history:
        consumer = open_consumer(task)
        consumer.assign(
            [
                confluent_kafka.TopicPartition(where.topic, where.partition, confluent_kafka.OFFSET_BEGINNING)
                for where in task.topic_partitions
            ]
        )
        if task.rate:
            read_on(consumer, history)
        else:
            read_to_the_ends(consumer, history, task)
        consumer.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
