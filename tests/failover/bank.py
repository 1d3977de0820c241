"""What transactions left behind, read by real clients and judged."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import aclosing
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from barnabas.client import TopicPartition as Place
from barnabas.client import open_cluster
from barnabas.client.consumer import Consumer as OwnConsumer
from barnabas.client.consumer_options import ConsumerOptions, IsolationLevel, OffsetReset

Values = list[list[bytes]]
"""Of each partition, in the order of their offsets."""

_SECONDS: Final = 60.0


def read_by_librdkafka(bootstrap: str, topic: str, partitions: int) -> Values:
    """All that is committed, up to where a reader of committed records may read."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "not-joined",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(settings)
    values: Values = [[] for _ in range(partitions)]
    ended: set[int | None] = set()
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        heard_s = time.monotonic()
        while len(ended) < partitions:
            # It waits for so many, or for that time.
            messages = consumer.consume(1000, 0.1)
            heard_s = time.monotonic() if messages else heard_s
            assert time.monotonic() < heard_s + _SECONDS, f"{topic}: nothing for {_SECONDS} s, ended: {ended}"
            for message in messages:
                if message.error():
                    ended.add(message.partition())
                else:
                    partition, value = message.partition(), message.value()
                    assert partition is not None
                    assert isinstance(value, bytes)
                    values[partition].append(value)
    finally:
        consumer.close()
    return values


def read_by_barnabas(bootstrap: str, topic: str, counts: list[int]) -> Values:
    """As many of each partition as there should be, and what comes with them; fails when they do not come."""
    values: Values = [[] for _ in counts]

    async def read() -> None:
        options = ConsumerOptions(offset_reset=OffsetReset.EARLIEST, isolation_level=IsolationLevel.READ_COMMITTED)
        async with open_cluster(bootstrap) as cluster, OwnConsumer(cluster, options) as consumer:
            consumer.assign([Place(topic, number) for number in range(len(counts))])
            async with aclosing(consumer.batches()) as batches:
                while any(len(found) < count for found, count in zip(values, counts, strict=True)):
                    batch = await asyncio.wait_for(anext(batches), _SECONDS)
                    values[batch.topic_partition.partition] += [record.value or b"" for record in batch.records]

    asyncio.run(read())
    return values


def read_by_java(read: Path, partitions: int) -> Values:
    """What `TransactionalCopier read` wrote there."""
    values: Values = [[] for _ in range(partitions)]
    with read.open("rb") as lines:
        for line in lines:
            number, _, value = line.rstrip(b"\n").partition(b" ")
            values[int(number)].append(value)
    return values


def logged(logs: Iterable[Path]) -> dict[str, set[str]]:
    """The transactions of these clients by what they said of them last, as in load/transactional.py."""
    last: dict[str, str] = {}
    for log in logs:
        for line in log.read_text().splitlines():
            kind, _, name = line.partition(" ")
            last[name] = kind
    return {kind: {name for name, said in last.items() if said == kind} for kind in "bca"}


def balance(values: Values, said: dict[str, set[str]], *, opening: int) -> list[str]:
    """What is wrong with the books: a transfer that is not whole, was lost, or should not be there; the sum."""
    legs: Counter[str] = Counter()
    accounts: Counter[int] = Counter()
    for value in (each for found in values for each in found):
        transfer, account, delta = value.decode().split("|")
        legs[transfer] += 1
        accounts[int(account)] += int(delta)
    transfers = {name: count for name, count in legs.items() if name != "opening"}
    found = [f"{name} has {count} records" for name, count in transfers.items() if count != 2]
    found += [f"{name} was committed and is not there" for name in sorted(said["c"] - transfers.keys())]
    found += [f"{name} was aborted and is there" for name in sorted(said["a"] & transfers.keys())]
    found += [f"{name} nobody began" for name in sorted(transfers.keys() - said["a"] - said["b"] - said["c"])]
    if sum(accounts.values()) != opening:
        found.append(f"the accounts have {sum(accounts.values())}, not {opening}")
    return found
