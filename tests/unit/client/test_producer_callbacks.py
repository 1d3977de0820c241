"""Who is told what became of a record: each callback, once, and before a flush returns."""

import asyncio

import pytest

from barnabas.client.errors import KafkaError
from barnabas.client.outgoing import OutgoingBatch
from barnabas.client.producer import Producer
from tests.support.virtual_time import virtual_time
from tests.unit.client.memory_wire import small_cluster


@virtual_time
async def test_callbacks_hear_once_of_each_record() -> None:
    wire = small_cluster()
    wire.small.max_message_bytes = 120
    heard: list[tuple[int, int | None, str | None]] = []
    async with wire.cluster() as cluster:
        producer = Producer(cluster)
        for number in range(10):
            size = 200 if number == 4 else 10
            await producer.send(
                "t",
                None,
                bytes(size),
                partition=0,
                callback=lambda where, error, number=number: heard.append(  # type: ignore[misc]
                    (number, where and where.offset, error and type(error).__name__)
                ),
            )
        with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
            await producer.flush()
        await producer.close()
    assert sorted(heard) == [
        (number, None if number == 4 else number - (number > 4), "KafkaError" if number == 4 else None)
        for number in range(10)
    ]


@virtual_time
async def test_callbacks_have_heard_of_what_was_flushed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of a batch that is written in the very turn of the loop in which the flush goes on."""
    done = OutgoingBatch.done
    heard: list[int] = []

    async def written_in_this_turn(batch: OutgoingBatch) -> None:
        await done(batch)
        asyncio.get_running_loop().call_soon(heard.append, batch.topic_partition.partition)

    monkeypatch.setattr(OutgoingBatch, "done", written_in_this_turn)
    async with small_cluster(partitions=2).cluster() as cluster, Producer(cluster) as producer:
        for number in range(2):
            await producer.send("t", None, b"v", partition=number)
        await producer.flush()
        assert heard == [0, 1]
