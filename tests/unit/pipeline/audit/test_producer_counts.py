"""What producers tell of what they sent: once, all of it, and nothing that was aborted."""

import contextlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.client import KafkaError, Producer, ProducerOptions
from barnabas.pipeline.audit.count_events import BadCountEvent, CountEvent, counts_of, decode_event
from barnabas.pipeline.audit.producer_counts import CountBook, ProducerCounts, new_instance
from barnabas.pipeline.audit.tallies import HOUR_MS, Cell, Tally, add_up
from barnabas.pipeline.columns.checksums import content_checksums_of, total
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey, TopicPartition
from tests.support.virtual_time import virtual_time
from tests.unit.client.memory_wire import MemoryWire
from tests.unit.client.small_cluster import SmallCluster
from tests.unit.client.test_producer_in_time import refusal
from tests.unit.client.test_producer_transactions import Coordinator, stage

HOUR = 1_700_000_000_000 // HOUR_MS * HOUR_MS
GOOD = {"version": 1, "producer": "p", "instance": "i", "sequence": 1}
COUNT = {"topic": "t", "partition": 0, "hour": "2026-11-22T13:00:00Z", "records": 1, "checksum": "0" * 16}


def told(events: Iterable[bytes]) -> dict[Cell, Tally]:
    return add_up(each for event in events for each in counts_of(decode_event(event)))


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.none() | st.binary(max_size=9), st.integers(-1, 1000))),
    st.integers(1, 40),
)
def test_a_book_tells_of_each_record_once(records: list[tuple[int, int, bytes | None, int]], taken_every: int) -> None:
    book = CountBook("web", "one")
    events: list[bytes] = []
    for at, (partition, hour, value, offset) in enumerate(records, 1):
        book.add("t", partition, None, value, timestamp_ms=HOUR + hour * HOUR_MS + 5, offset=offset)
        if at % taken_every == 0:
            events += book.take()
    events += book.take(is_last=True)
    wanted = add_up(
        (
            Cell("t", partition, HOUR + hour * HOUR_MS),
            Tally(1, total(content_checksums_of([None], [value])), 0, offset, offset),
        )
        for partition, hour, value, offset in records
    )
    assert told(events) == wanted
    decoded = [decode_event(each) for each in events]
    assert [each.sequence for each in decoded] == list(range(1, len(events) + 1))
    assert [each.last for each in decoded] == [False] * (len(events) - 1) + [True]
    assert {(each.producer, each.instance) for each in decoded} == {("web", "one")}


def test_a_book_of_many_hours_fills_several_events() -> None:
    book = CountBook("web", "one")
    for hour in range(1201):
        book.add("t", 0, None, b"x", timestamp_ms=hour * HOUR_MS)
    events = book.take()
    assert [len(decode_event(each).counts) for each in events] == [500, 500, 201]
    assert book.take() == []
    assert len(told(events)) == 1201


def test_what_is_held_of_records_is_bounded() -> None:
    book = CountBook("web", "one")
    for _ in range(3):
        book.add("t", 0, None, bytes(1 << 19), timestamp_ms=0)
    assert book._waiting_bytes == 1 << 19


def test_an_event_reads_as_the_documentation_says() -> None:
    book = CountBook("web", "5f0c")
    book.add("views", 0, b"k", b"v", timestamp_ms=HOUR, offset=4000)
    (event,) = book.take()
    assert json.loads(event) == {
        "version": 1,
        "producer": "web",
        "instance": "5f0c",
        "sequence": 1,
        "last": False,
        "counts": [
            {
                "topic": "views",
                "partition": 0,
                "hour": "2023-11-14T22:00:00Z",
                "records": 1,
                "checksum": f"{total(content_checksums_of([b'k'], [b'v'])):016x}",
                "first_offset": 4000,
                "last_offset": 4000,
            }
        ],
    }


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, "it has no value"),
        (b"", "Input data was truncated"),
        (b"\xff{}", "invalid"),
        (b"[]", "Expected `object`, got `array`"),
        (b'{"version": 2, "new": 1}', "it is of version 2, and 1 is known"),
        (json.dumps({**GOOD, "sequence": 0}).encode(), r"Expected `int` >= 1 - at `\$.sequence`"),
        (json.dumps({**GOOD, "counts": [{**COUNT, "checksum": "xyz"}]}).encode(), r"at `\$.counts\[0\].checksum`"),
        (
            json.dumps({**GOOD, "counts": [{**COUNT, "hour": "2026-11-22T13:30:00Z"}]}).encode(),
            "2026-11-22T13:30:00.00:00 is not the beginning of an hour of UTC",
        ),
        (
            json.dumps({**GOOD, "counts": [{**COUNT, "hour": "2026-11-22T13:00:00"}]}).encode(),
            "is not the beginning of an hour of UTC",
        ),
    ],
)
def test_what_is_no_event_is_refused(value: bytes | None, why: str) -> None:
    with pytest.raises(BadCountEvent, match=why):
        decode_event(value)


def test_keys_that_are_not_known_do_not_hinder() -> None:
    event = decode_event(json.dumps({**GOOD, "host": "a", "counts": [{**COUNT, "bytes": 7}]}).encode())
    assert counts_of(event)[0].tally.records == 1


def written(small: SmallCluster, topic: str) -> list[CountEvent]:
    """The events that stand in a topic's only partition, aborted ones too."""
    return [decode_event(each.value) for each in small.logs[TopicPartition(topic, 0)].records()]


@dataclass
class Place:
    """A cluster with topics, in virtual time."""

    wire: MemoryWire
    coordinator: Coordinator

    @property
    def events(self) -> list[CountEvent]:
        return written(self.wire.small, "audit")


def place() -> Place:
    wire, coordinator = stage()
    wire.small.add_topic("views", 2)
    wire.small.add_topic("audit")
    wire.small.on_request = lambda _: None
    return Place(wire, coordinator)


@virtual_time
async def test_what_was_written_is_told_and_the_end_too() -> None:
    at = place()
    async with at.wire.cluster() as cluster, Producer(cluster) as producer:
        counts = ProducerCounts(producer, name="web", topic="audit")
        for number in range(5):
            await counts.send("views", b"k", b"v%d" % number, partition=number % 2, timestamp=HOUR + number)
        await producer.flush()
        await counts.publish()
        await counts.publish()
        await counts.send("views", None, b"late", partition=0, timestamp=HOUR + HOUR_MS)
        await counts.close()
    assert [(each.sequence, each.last) for each in at.events] == [(1, False), (2, True)]
    tallies = add_up(each for event in at.events for each in counts_of(event))
    assert {cell: (tally.records, tally.least_offset, tally.most_offset) for cell, tally in tallies.items()} == {
        Cell("views", 0, HOUR): (3, 0, 2),
        Cell("views", 1, HOUR): (2, 0, 1),
        Cell("views", 0, HOUR + HOUR_MS): (1, 3, 3),
    }


@virtual_time
async def test_after_a_transaction_that_failed_another_instance_tells() -> None:
    at = place()
    at.wire.small.on_request = at.coordinator.answer
    options = ProducerOptions(transactional_id="web")
    async with at.wire.cluster() as cluster, Producer(cluster, options=options) as producer:
        counts = ProducerCounts(producer, name="web", topic="audit")
        async with counts.transaction():
            await counts.send("views", None, b"1", partition=0, timestamp=HOUR)
        with contextlib.suppress(ZeroDivisionError):
            async with counts.transaction():
                await counts.send("views", None, b"2", partition=0, timestamp=HOUR)
                await producer.flush()
                raise ZeroDivisionError
        async with counts.transaction():
            await counts.send("views", None, b"3", partition=0, timestamp=HOUR)
        await counts.close()
    assert at.coordinator.ends == [True, False, True, True]
    assert [(each.sequence, each.last) for each in at.events] == [(1, False), (1, False), (2, True)]
    assert at.events[0].instance != at.events[1].instance == at.events[2].instance
    assert sum(each.records for event in at.events for each in event.counts) == 2


@virtual_time
async def test_a_record_that_is_given_up_is_not_told_of() -> None:
    at = place()
    async with at.wire.cluster() as cluster, Producer(cluster) as producer:
        counts = ProducerCounts(producer, name="web", topic="audit")
        await counts.send("views", None, b"v", partition=0, timestamp=HOUR)
        await producer.flush()
        at.wire.small.on_request = lambda asked: (
            refusal(asked, ErrorCode.INVALID_RECORD) if asked.key is ApiKey.PRODUCE else None
        )
        sent = await counts.send("views", None, b"bad", partition=0, timestamp=HOUR)
        with pytest.raises(KafkaError):
            await sent
        at.wire.small.on_request = lambda _: None
        await counts.publish()
        with pytest.raises(KafkaError):
            await counts.close()
        await counts.close()
    assert [each.records for event in at.events for each in event.counts] == [1]


def test_instances_are_told_apart() -> None:
    dice = Random(1)
    assert new_instance(dice) != new_instance(dice)
