"""What is written to a broker so that its directory holds everything a log can: every message format, codec, kind of
producer, transactions in every state, compaction, deleted records, many segments.

`write_first` makes the topics, `write_second` goes on after a restart. Times, keys, values and
headers follow from their place.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import confluent_kafka
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from barnabas.protocol.ids import TopicPartition
from tests.compatibility.messages import CODECS
from tests.support.topics import create_topic, wait_for_leaders

# Producers whose last records are older than a week are forgotten.
T0_MS: Final = int(time.time()) * 1000 - 3_600_000
_PATIENCE_SECONDS: Final = 60.0
SMALL: Final = {"segment.bytes": "8000", "index.interval.bytes": "300", "segment.index.bytes": "4096"}
KEPT: Final = {"retention.ms": "-1", "message.timestamp.difference.max.ms": str((1 << 63) - 1)}
COMPACTED: Final = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "1",
}
OLD_CODECS: Final = CODECS[:4]
MAGIC_0, MAGIC_1 = "magic-0", "magic-1"
FORMATS: Final = {MAGIC_0: "0.9.0.1", MAGIC_1: "0.10.2"}

CODED, MIXED, DELETED, APPEND_TIME = "coded", "mixed", "deleted", "append-time"
TRANSACTIONS, UNDECIDED = "transactions", "undecided"
CLEANED, CLEANED_TRANSACTIONS, CLEANED_OLD = "cleaned", "cleaned-transactions", "cleaned-magic-1"


@dataclass(frozen=True, slots=True)
class Life:
    """The topics that a broker gets; those of transactions need a coordinator, `cleans` those that are compacted."""

    bootstrap: str
    prefix: str = ""
    transactions: bool = True
    cleans: bool = True

    def settings(self) -> dict[str, tuple[int, Mapping[str, str]]]:
        """Partitions and settings of each topic."""
        topics: dict[str, tuple[int, Mapping[str, str]]] = {
            CODED: (len(CODECS), SMALL),
            DELETED: (1, SMALL),
            APPEND_TIME: (1, {**SMALL, "message.timestamp.type": "LogAppendTime"}),
            MIXED: (2, {**SMALL, "message.format.version": FORMATS[MAGIC_0]}),
            **{
                name: (len(OLD_CODECS), {**SMALL, "message.format.version": version})
                for name, version in FORMATS.items()
            },
        }
        if self.transactions:
            topics[TRANSACTIONS] = (1, SMALL)
            topics[UNDECIDED] = (4, SMALL)
        if self.cleans:
            topics[CLEANED] = (1, {**SMALL, **COMPACTED})
            topics[CLEANED_OLD] = (1, {**SMALL, **COMPACTED, "message.format.version": FORMATS[MAGIC_1]})
        if self.cleans and self.transactions:
            topics[CLEANED_TRANSACTIONS] = (1, {**SMALL, **COMPACTED})
        return {self.prefix + name: (count, {**KEPT, **settings}) for name, (count, settings) in topics.items()}

    def partitions(self) -> list[TopicPartition]:
        """All of them."""
        counts = {name: count for name, (count, _) in self.settings().items()}
        return [TopicPartition(name, number) for name, count in counts.items() for number in range(count)]

    def write_first(self) -> None:
        """Make the topics and write to all of them, in part of one topic in the next message format."""
        for name, (partitions, settings) in self.settings().items():
            create_topic(self.bootstrap, name, partitions=partitions, settings=settings)
        self.write(start=0)
        self._set(self.prefix + MIXED, "message.format.version", FORMATS[MAGIC_1])
        self.write([MIXED], start=100)
        self._delete_records(45)
        if self.transactions:
            self._leave_a_transaction_open()
            self._commit_offsets()

    def write_second(self) -> None:
        """Go on after a restart."""
        wait_for_leaders(self.bootstrap, self.partitions())
        self._set(self.prefix + MIXED, "message.format.version", "2.7")
        self.write(start=200)
        if self.transactions:
            producer = confluent_kafka.Producer(self._producer_settings("none", idempotent=True))
            topic = self.prefix + UNDECIDED
            for partition in range(self.settings()[topic][0]):
                self._send(producer, topic, partition, range(500, 501))

    def write(self, names: Iterable[str] = (), *, start: int) -> None:
        """Write some records to some topics, or to all."""
        for topic, (partitions, _) in self.settings().items():
            name = topic.removeprefix(self.prefix)
            if name == UNDECIDED or (names and name not in names):
                continue
            if name in {TRANSACTIONS, CLEANED_TRANSACTIONS}:
                self._write_transactions(topic, start)
                continue
            old = name in {*FORMATS, MIXED, CLEANED_OLD}
            for partition in range(partitions):
                producer = confluent_kafka.Producer(self._producer_settings(CODECS[partition], idempotent=not old))
                self._send(producer, topic, partition, range(start, start + 100), headers=not old)

    def _write_transactions(self, topic: str, start: int) -> None:
        """Two producers, whose transactions overlap: one commits, the other aborts, over several segments."""
        commits, aborts = self._transactional(f"{topic}-commits"), self._transactional(f"{topic}-aborts")
        for round_start in range(start, start + 100, 25):
            commits.begin_transaction()
            aborts.begin_transaction()
            for at in range(round_start, round_start + 25, 5):
                self._send(commits, topic, 0, range(at, at + 5))
                self._send(aborts, topic, 0, range(10_000 + at, 10_000 + at + 5))
            aborts.abort_transaction(_PATIENCE_SECONDS)
            commits.commit_transaction(_PATIENCE_SECONDS)

    def _leave_a_transaction_open(self) -> None:
        producer = self._transactional("stays-open")
        producer.begin_transaction()
        topic = self.prefix + UNDECIDED
        for partition in range(self.settings()[topic][0]):
            self._send(producer, topic, partition, range(partition, partition + 3))

    def _commit_offsets(self) -> None:
        """Of a group that its members joined, and of one that nobody joined."""
        settings = {"bootstrap.servers": self.bootstrap, "auto.offset.reset": "earliest", "log_level": 0}
        for group, joins in (("joined", True), ("only-commits", False)):
            consumer = confluent_kafka.Consumer({**settings, "group.id": group, "enable.auto.commit": False})
            try:
                if joins:
                    consumer.subscribe([self.prefix + CODED])
                    wait_until(partial(_reads, consumer), "nothing was read")
                topic = self.prefix + CODED
                offsets = [confluent_kafka.TopicPartition(topic, number, 10 + number, "note") for number in range(3)]
                consumer.commit(offsets=offsets, asynchronous=False)
            finally:
                consumer.close()

    def _send(self, producer: Any, topic: str, partition: int, numbers: Sequence[int], *, headers: bool = True) -> None:
        errors: list[str] = []
        for number in numbers:
            cleaned = topic.startswith(self.prefix + CLEANED)
            key = b"key-%d" % (number % 7 if cleaned else number)
            producer.produce(
                topic,
                None if number % 11 == 10 else b"value of %d " % number * (number % 20 + 1),
                None if number % 3 == 0 and not cleaned else key,
                partition=partition,
                timestamp=T0_MS + number * 10 - (25 if number % 10 == 5 else 0),
                headers=[("number", b"%d" % number), ("none", None), ("number", b"")] if headers else None,
                on_delivery=lambda error, _: errors.append(error.str()) if error else None,
            )
            if number % 10 == 9:
                producer.flush(_PATIENCE_SECONDS)
        assert producer.flush(_PATIENCE_SECONDS) == 0
        assert errors == []

    def _producer_settings(self, codec: str, *, idempotent: bool) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap,
            "compression.type": codec,
            "enable.idempotence": idempotent,
            "linger.ms": 20,
            "message.timeout.ms": int(_PATIENCE_SECONDS * 1000),
            "log_level": 0,
        }

    def _transactional(self, name: str) -> Any:
        settings = {"transactional.id": name, "transaction.timeout.ms": 600_000}
        producer = confluent_kafka.Producer({**self._producer_settings("none", idempotent=True), **settings})
        producer.init_transactions(_PATIENCE_SECONDS)
        return producer

    def _set(self, topic: str, name: str, value: str) -> None:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        admin = self._admin()
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(_PATIENCE_SECONDS)

    def _delete_records(self, before: int) -> None:
        """The first offset that stays lies within a batch."""
        wanted = [confluent_kafka.TopicPartition(self.prefix + DELETED, 0, before)]
        admin = self._admin()
        for future in admin.delete_records(wanted).values():
            assert future.result(_PATIENCE_SECONDS).low_watermark == before

    def _admin(self) -> AdminClient:
        # Its requests end with a client that nobody holds.
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})


def _reads(consumer: confluent_kafka.Consumer) -> bool:
    return consumer.poll(0.2) is not None


def wait_until(holds: Callable[[], bool], otherwise: str, *, seconds: float = _PATIENCE_SECONDS) -> None:
    """Return when it holds; fails with `otherwise` after that time."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"{otherwise} after {seconds} s"
        time.sleep(0.05)
