"""Consume, transform, produce by librdkafka: one transaction for what one call brought."""

import random
import sys
from typing import Any

import confluent_kafka

from tests.failover.load.arguments import is_told_to_end
from tests.failover.load.transactional import (
    CALL_SECONDS,
    Broken,
    ConfluentTransactions,
    Job,
    MustAbort,
    call,
    parse,
)


class Copier:
    """Reads, and writes what it read to the partition of the same number."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._random = random.Random(job.seed)
        self._log = job.log.open("a", buffering=1)
        self._count = 0
        self._revoked = False
        self._transactions = ConfluentTransactions(job)
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": job.bootstrap,
                "group.id": job.group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                # With it the offsets of transactions that are not ended yet are waited for (KIP-447).
                "isolation.level": "read_committed",
                "session.timeout.ms": 6000,
                "socket.timeout.ms": 10_000,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
            }
        )
        if job.partition < 0:
            self._consumer.subscribe([job.source], on_revoke=self._on_revoke, on_lost=self._on_revoke)
        else:
            self._consumer.assign(
                [confluent_kafka.TopicPartition(job.source, job.partition, confluent_kafka.OFFSET_STORED)]
            )

    def _on_revoke(self, *_: object) -> None:
        self._revoked = True

    def step(self) -> None:
        self._revoked = False
        messages = [each for each in self._consumer.consume(self._job.most, 0.1) if each.error() is None]
        if not messages:
            return
        if self._revoked:
            # Some were read before the rebalance, and may be another's now.
            self._rewind()
            return
        if not self._copy(messages):
            self._rewind()

    def _copy(self, messages: list[Any]) -> bool:
        self._count += 1
        producer = self._transactions.producer
        self._log.write(f"b {self._count}\n")
        producer.begin_transaction()
        wanted = bool(self._random.randrange(self._job.abort_one_in))
        ends: dict[int, int] = {}
        try:
            for message in messages:
                producer.produce(self._job.target, message.value(), partition=message.partition())
                ends[message.partition()] = message.offset() + 1
            offsets = [confluent_kafka.TopicPartition(self._job.source, *end) for end in ends.items()]
            call(producer.send_offsets_to_transaction, offsets, self._consumer.consumer_group_metadata())
        except MustAbort:
            wanted = False
        except confluent_kafka.KafkaException as exception:
            # `produce` in a transaction that broke down meanwhile.
            if exception.args[0].fatal():
                raise Broken(exception.args[0]) from exception
            wanted = False
        committed = self._transactions.end(commit=wanted)
        self._log.write(f"{'c' if committed else 'a'} {self._count}\n")
        return committed

    def _rewind(self) -> None:
        """Back to what the group committed."""
        assigned = self._consumer.assignment()
        while assigned:
            try:
                found = self._consumer.committed(assigned, timeout=CALL_SECONDS)
                for each in found:
                    each.offset = max(each.offset, 0)
                    self._consumer.seek(each)
            except confluent_kafka.KafkaException as exception:
                self._log.write(f"? rewind: {exception.args[0].str()}\n")
                assigned = self._consumer.assignment()
            else:
                return

    def close(self) -> None:
        self._consumer.close()


def main() -> int:
    job = parse()
    try:
        copier = Copier(job)
        while not is_told_to_end():
            copier.step()
    except Broken as broken:
        print(f"{job.transactional_id}: {broken}")
        return broken.status
    copier.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
