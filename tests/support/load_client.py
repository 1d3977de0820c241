"""An idempotent producer (librdkafka, acks=all) that writes records without pause until told to stop, and a full read.

It keeps a `LoadHistory`. Records are small and batches too, so that a broker has many requests under way. What is not
acknowledged is tried again for as long as it takes: a record that is given up is a failure of its own.
"""

import json
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Final, Self

import confluent_kafka

from barnabas.protocol.ids import TopicPartition
from barnabas.simulation.history import Produce
from tests.support.load_history import LoadHistory

_MOST_OPEN: Final = 400
_POLL_SECONDS: Final = 0.002
_PATIENCE_SECONDS: Final = 60.0
_STATISTICS_MS: Final = 20


class LoadClient:
    """One producer in a thread of its own, taking partitions in turn."""

    def __init__(
        self,
        bootstrap: str,
        partitions: Sequence[TopicPartition],
        history: LoadHistory,
        *,
        name: str = "producer",
        value_bytes: int = 200,
    ) -> None:
        self.history = history
        self._partitions = partitions
        self._name = name
        self._value_bytes = value_bytes
        self._stopping = threading.Event()
        self._open = 0
        self._in_flight: tuple[float, int] = (0.0, 0)
        self._error: BaseException | None = None
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 1,
                "batch.num.messages": 10,
                "message.timeout.ms": int(_PATIENCE_SECONDS * 1000),
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
                "topic.metadata.refresh.fast.interval.ms": 20,
                "statistics.interval.ms": _STATISTICS_MS,
                "stats_cb": self._on_statistics,
                "error_cb": lambda error: None,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run, name=name)

    def wait_for_acknowledgements(self, more: int) -> None:
        """Return when so many more records are acknowledged than now."""
        wanted = self.history.acknowledged_count + more
        self._wait_until(lambda: self.history.acknowledged_count >= wanted, f"{more} more acknowledgements")

    def wait_for_request_in_flight(self, since: float) -> int:
        """How many requests had no answer at a moment after `since` (of time.monotonic); waits until there is one."""
        self._wait_until(lambda: self._in_flight[0] > since and self._in_flight[1] > 0, "a request in flight")
        return self._in_flight[1]

    def wait_until_cut_off(self, since: float) -> None:
        """Return when, after `since`, no request is under way and all that was answered before is in the history."""
        self._wait_until(lambda: self._in_flight[0] > since and self._in_flight[1] == 0, "the end of the connection")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join()
        if kind is not None:
            self._producer.purge()
        open_records = self._producer.flush(_PATIENCE_SECONDS)
        if kind is None:
            assert self._error is None, self._error
            assert open_records == 0, f"{open_records} records were neither acknowledged nor given up"

    def _run(self) -> None:
        number = 0
        try:
            while not self._stopping.is_set():
                if self._open < _MOST_OPEN:
                    self._send(self._partitions[number % len(self._partitions)])
                    number += 1
                    self._producer.poll(0 if number % 10 else _POLL_SECONDS)
                else:
                    self._producer.poll(_POLL_SECONDS)
        except BaseException as error:  # noqa: BLE001 - it is told to whoever ends the load
            self._error = error

    def _send(self, topic_partition: TopicPartition) -> None:
        sent = self.history.send(topic_partition, self._name, size_bytes=self._value_bytes)
        self._open += 1
        self._producer.produce(
            topic_partition.topic,
            sent.value,
            partition=topic_partition.partition,
            on_delivery=lambda error, answer: self._on_delivery(sent, error, answer),
        )

    def _on_delivery(self, sent: Produce, error: Any, answer: Any) -> None:
        self._open -= 1
        if error is None:
            self.history.acknowledge(sent, answer.offset())
        else:
            self.history.give_up(sent, error.str())

    def _on_statistics(self, text: str) -> None:
        statistics = json.loads(text)
        waiting = sum(broker["waitresp_cnt"] for broker in statistics["brokers"].values() if broker["nodeid"] >= 0)
        # librdkafka's `ts` is the monotonic clock in microseconds.
        self._in_flight = (statistics["ts"] / 1e6, waiting)

    def _wait_until(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not holds():
            assert self._error is None, self._error
            assert self._thread.is_alive(), "the load ended"
            assert time.monotonic() < deadline, f"waited {_PATIENCE_SECONDS} s for {what}"
            time.sleep(_POLL_SECONDS)


def read_everything(
    bootstrap: str, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, list[tuple[int, bytes]]]:
    """Offset and value of every record from the beginnings of the partitions to their ends."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "not-joined",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "fetch.wait.max.ms": 20,
        }
    )
    read: dict[TopicPartition, list[tuple[int, bytes]]] = {partition: [] for partition in partitions}
    try:
        wanted = {}
        for partition in partitions:
            known = confluent_kafka.TopicPartition(partition.topic, partition.partition)
            _, wanted[partition] = consumer.get_watermark_offsets(known, timeout=_PATIENCE_SECONDS)
        consumer.assign(
            [
                confluent_kafka.TopicPartition(topic, number, confluent_kafka.OFFSET_BEGINNING)
                for topic, number in partitions
            ]
        )
        unread = {partition for partition, end in wanted.items() if end > 0}
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while unread:
            assert time.monotonic() < deadline, f"not read to the end: {sorted(unread)}"
            for record in consumer.consume(2000, timeout=0.2):
                assert record.error() is None, record.error()
                partition = TopicPartition(record.topic(), record.partition())
                read[partition].append((record.offset(), record.value()))
                if record.offset() >= wanted[partition] - 1:
                    unread.discard(partition)
    finally:
        consumer.close()
    return read
