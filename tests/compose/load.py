"""Writes to one topic from this host while containers come and go, and reads all of it back at the end."""

import threading
import time
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer
from confluent_kafka import TopicPartition as At

from barnabas.protocol.ids import TopicPartition
from barnabas.simulation.history import History, Produce
from barnabas.simulation.history_values import Written, value_of

_IN_FLIGHT: Final = 500
_DELIVERY_TIMEOUT_MS: Final = 120_000


class Load:
    """An idempotent producer with acks=all that writes until `stop`; what it was told stands in `history`."""

    def __init__(self, bootstrap: str, topic: str, *, partitions: int) -> None:
        self.history = History()
        self.acknowledged = 0
        self._bootstrap = bootstrap
        self._topic = topic
        self._partitions = partitions
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 5,
                "message.timeout.ms": _DELIVERY_TIMEOUT_MS,
                "reconnect.backoff.max.ms": 500,
            }
        )
        self._under_way = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, name="load", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Write no more; returns when every record was acknowledged or given up."""
        self._stop.set()
        self._thread.join()
        self._producer.flush(_DELIVERY_TIMEOUT_MS / 1000)

    def goes_on(self, records: int = 200, *, timeout_s: float = 60) -> None:
        """Wait until so many more records are acknowledged."""
        goal, deadline = self.acknowledged + records, time.monotonic() + timeout_s
        while self.acknowledged < goal:
            assert time.monotonic() < deadline, f"nothing more was acknowledged in {timeout_s:g} s"
            time.sleep(0.05)

    def _write(self) -> None:
        sequence = 0
        while not self._stop.is_set():
            self._producer.poll(0)
            if self._under_way >= _IN_FLIGHT:
                self._producer.poll(0.01)
                continue
            partition = sequence % self._partitions
            at = TopicPartition(self._topic, partition)
            value = value_of(Written(at, "load", 0, sequence // self._partitions), size_bytes=100)
            operation = self.history.produce("load", at, value, time.monotonic_ns())
            self._under_way += 1

            def told(error: KafkaError | None, message: Message, operation: Produce = operation) -> None:
                self._told(operation, error, message)

            self._producer.produce(self._topic, value, partition=partition, on_delivery=told)
            sequence += 1

    def _told(self, operation: Produce, error: KafkaError | None, message: Message) -> None:
        self._under_way -= 1
        if error is None:
            operation.ok(message.offset(), time.monotonic_ns())
            self.acknowledged += 1
        else:
            operation.unknown(str(error), time.monotonic_ns())

    def read_all(self) -> None:
        """Read every partition from its start to its end into the history."""
        consumer = Consumer(
            {"bootstrap.servers": self._bootstrap, "group.id": "none", "enable.partition.eof": True}
            | {"enable.auto.commit": False, "check.crcs": True}
        )
        try:
            for number in range(self._partitions):
                at = TopicPartition(self._topic, number)
                poll = self.history.poll("reader", at, time.monotonic_ns(), position=0, final=True)
                consumer.assign([At(self._topic, number, OFFSET_BEGINNING)])
                poll.ok(_read_to_end(consumer), time.monotonic_ns())
        finally:
            consumer.close()


def _read_to_end(consumer: Consumer) -> list[tuple[int, bytes]]:
    records: list[tuple[int, bytes]] = []
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for message in consumer.consume(10_000, timeout=1):
            error = message.error()
            if error is None:
                offset, value = message.offset(), message.value()
                assert offset is not None
                assert isinstance(value, bytes)
                records.append((offset, value))
            elif error.code() == KafkaError._PARTITION_EOF:
                return records
    raise AssertionError(f"the end was not reached; {len(records)} records so far")
