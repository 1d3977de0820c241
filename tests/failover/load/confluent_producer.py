"""Load by librdkafka: an idempotent producer with acks=all that gives nothing up."""

import sys
import time
from typing import Any

import confluent_kafka

from barnabas.protocol.ids import TopicPartition
from tests.failover.load.arguments import Pace, Task, is_told_to_end, parse
from tests.failover.load.history_file import HistoryFile

_POLL_SECONDS = 0.004
_PATIENCE_SECONDS = 120.0


class Load:
    """One producer, taking partitions in turn."""

    def __init__(self, task: Task, history: HistoryFile) -> None:
        self._task = task
        self._history = history
        self._partitions = task.topic_partitions
        self._turn = 0
        self.open = 0
        self.producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": task.bootstrap,
                "client.id": task.client,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 5,
                "message.timeout.ms": 0,
                "queue.buffering.max.messages": task.most_open + 1000,
                "queue.buffering.max.kbytes": 1 << 20,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "retry.backoff.ms": 20,
                "socket.timeout.ms": 10_000,
                "socket.connection.setup.timeout.ms": 2_000,
                # Of a leader that is gone it learns when it asks, and by itself it asks once a second at best.
                "topic.metadata.refresh.interval.ms": 250,
                "topic.metadata.refresh.fast.interval.ms": 50,
                "error_cb": self._on_error,
                # What it says of its producer id and epoch goes into the client's output.
                "debug": "eos",
                "log_level": 7,
            }
        )

    def send(self) -> None:
        where = self._partitions[self._turn % len(self._partitions)]
        self._turn += 1
        sequence, value = self._history.sends(where, size_bytes=self._task.value_bytes)
        self.open += 1
        self.producer.produce(
            where.topic, value, partition=where.partition, on_delivery=_Delivery(self, where, sequence)
        )

    def on_delivery(self, where: TopicPartition, sequence: int, error: Any, sent: Any) -> None:
        self.open -= 1
        if error is None:
            self._history.acknowledged(where.partition, sequence, sent.offset())
        else:
            self._history.gave_up(where.partition, sequence, error.str())

    def _on_error(self, error: Any) -> None:
        if error.fatal():
            self._history.failed(error.str())


class _Delivery:
    """Remembers which record an answer is for."""

    __slots__ = ("_load", "_sequence", "_where")

    def __init__(self, load: Load, where: TopicPartition, sequence: int) -> None:
        self._load, self._where, self._sequence = load, where, sequence

    def __call__(self, error: Any, sent: Any) -> None:
        self._load.on_delivery(self._where, self._sequence, error, sent)


def main() -> int:
    task = parse()
    with HistoryFile(task.history, task.client) as history:
        load = Load(task, history)
        pace = Pace(task.rate, time.monotonic())
        while not is_told_to_end():
            due = min(pace.due(time.monotonic()), task.most_open - load.open, 500)
            for _ in range(due):
                load.send()
            pace.sent(max(0, due))
            load.producer.poll(_POLL_SECONDS)
            history.flush()
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while load.producer.flush(0.05) and time.monotonic() < deadline:
            history.flush()
        if load.open:
            history.failed(f"{load.open} records have no answer after {_PATIENCE_SECONDS} s")
    return int(load.open > 0)


if __name__ == "__main__":
    sys.exit(main())
