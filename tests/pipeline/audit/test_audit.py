"""The job audit on a real Spark and a broker: what is planted is found and named, what is right balances."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from pyspark.sql import SparkSession

from barnabas.client import Producer, open_cluster
from barnabas.pipeline.audit.config import AuditConfig
from barnabas.pipeline.audit.job import run as run_audit
from barnabas.pipeline.audit.producer_counts import ProducerCounts
from barnabas.pipeline.jobs.config import load_config
from barnabas.pipeline.jobs.job import JobFailed, Run, carry_out
from barnabas.pipeline.jobs.report import Status
from tests.compatibility.brokers import RunningBroker
from tests.pipeline.audit.lakes import write_lake, write_ledger
from tests.pipeline.source.events import Event, counted, delete_records, new_topic, produce, send

pytestmark = pytest.mark.timeout(600)


class Audited(Run[AuditConfig]):
    """A run in the session of the tests, which lives on."""

    def __init__(self, config: AuditConfig, session: SparkSession) -> None:
        super().__init__("audit", config)
        self._session = session

    def spark(self) -> SparkSession:
        return self._session


class Place:
    """A topic, a lake, and an audit of both."""

    def __init__(self, spark: SparkSession, broker: RunningBroker, folder: Path) -> None:
        self._spark = spark
        self.broker = broker
        self.folder = folder
        self.lake = folder / "lake"
        self.told: dict[str, Any] = {}

    def audit(self, topic: str, *overrides: str) -> str | None:
        """Run it; None where it balances, else what it says. The report is in `told`."""
        file = self.folder / "audit.toml"
        cluster = f'[cluster]\nbootstrap_servers = "{self.broker.bootstrap}"\n'
        file.write_text(f'topics = ["{topic}"]\n{cluster}[lake]\npath = "{self.lake}"\n')
        run = Audited(load_config(file, overrides, AuditConfig), self._spark)
        try:
            status = carry_out(run, run_audit, self.folder / "report.json", self.told.update)
        except JobFailed as error:
            assert self.told["status"] == "failed"
            return str(error)
        assert status is Status.SUCCEEDED
        assert self.told["facts"]["balances"]
        return None

    def differing(self) -> dict[tuple[int, str], list[str]]:
        """By partition and hour."""
        return {
            (each["partition"], each["hour"]): each["differences"]
            for each in self.told["facts"]["cells"]
            if not each["balances"]
        }


@pytest.fixture
def place(spark: SparkSession, broker: RunningBroker, tmp_path: Path) -> Place:
    return Place(spark, broker, tmp_path)


HOURS = ["2023-11-14T22:00Z", "2023-11-14T23:00Z"]
"""In which the records of `produced` lie: 3600 of them a second after each other, from 22:13:20 on."""


def produced(place: Place, **settings: Any) -> tuple[str, list[Event]]:
    topic = new_topic(place.broker, partitions=2)
    return topic, sorted(produce(place.broker.bootstrap, topic, counted(3600, partitions=2), **settings))


@pytest.mark.parametrize(("kind", "parsed"), [("delta", False), ("parquet", True)])
def test_a_lake_with_every_record_once_balances(place: Place, kind: Any, parsed: bool) -> None:
    topic, events = produced(place)
    dead = [each for each in events if each.offset % 600 == 7]
    write_lake(place.lake, topic, [each for each in events if each not in dead], kind=kind, parsed=parsed)
    assert place.audit(topic) is not None
    write_lake(place.folder / "lake_dead_letters", topic, dead, kind=kind)
    assert place.audit(topic) is None
    assert place.told["counts"] == {
        "producer_records": 0,
        "topic_records": 3600,
        "table_rows": 3594,
        "dead_letters": 6,
        "expired_rows": 0,
        "records_beyond": 0,
        "hours": 4,
        "hours_that_differ": 0,
        "holes": 0,
    }


def lose(events: Sequence[Event]) -> list[Event]:
    return [each for each in events if (each.partition, each.offset) != (1, 120)]


def double(events: Sequence[Event]) -> list[Event]:
    return [*events, next(each for each in events if (each.partition, each.offset) == (1, 120))]


def do_everything(events: Sequence[Event]) -> list[Event]:
    """Many lost, one changed, one moved by an hour, one made up; one lost and another twice, so that counts fit."""
    rows = [replace(events[0], offset=9999)]
    for each in events:
        match each.partition, each.offset:
            case 0, offset if 100 <= offset <= 120:
                continue
            case 0, 7:
                rows.append(replace(each, value=b"!"))
            case 0, 9:
                rows.append(replace(each, timestamp_ms=each.timestamp_ms + 3_600_000))
            case 1, 120:
                rows += [each, each]
            case 1, 121:
                continue
            case _:
                rows.append(each)
    return rows


@pytest.mark.parametrize(
    ("plant", "named"),
    [
        (lose, {(1, HOURS[0]): ["offset 120 missing in the lake (1 record)"]}),
        (double, {(1, HOURS[0]): ["offset 120 more than once in the lake (1 record, 1 row too many)"]}),
        (
            do_everything,
            {
                (0, HOURS[0]): [
                    "offset 7 with another key or value in the lake (1 record)",
                    "offset 9 with another timestamp in the lake (1 record)",
                    "offsets 100 to 120 missing in the lake (21 records)",
                    "offset 9999 in the lake and not in the topic (1 record)",
                ],
                (0, HOURS[1]): ["the topic has 400 records, the lake has 401"],
                (1, HOURS[0]): [
                    "offset 120 more than once in the lake (1 record, 1 row too many)",
                    "offset 121 missing in the lake (1 record)",
                ],
            },
        ),
    ],
)
def test_what_is_planted_is_found_and_named(
    place: Place, plant: Callable[[Sequence[Event]], list[Event]], named: dict[tuple[int, str], list[str]]
) -> None:
    topic, events = produced(place)
    write_lake(place.lake, topic, plant(events))
    failure = place.audit(topic)
    assert failure is not None
    assert failure.startswith(f"the audit does not balance: {len(named)} of 4 hours differ, the first is {topic}-")
    assert place.differing() == named


def test_markers_and_aborted_records_are_no_gaps(place: Place) -> None:
    topic = new_topic(place.broker)
    producer = confluent_kafka.Producer({"bootstrap.servers": place.broker.bootstrap, "transactional.id": topic})
    producer.init_transactions(60)
    committed: list[Event] = []
    aborted: list[Event] = []
    for number in range(6):
        producer.begin_transaction()
        for event in counted(10, mark=f"{number} "):
            send(producer, topic, event, aborted if number % 2 else committed)
        producer.flush(60)
        producer.abort_transaction(60) if number % 2 else producer.commit_transaction(60)
    write_lake(place.lake, topic, committed)
    assert place.audit(topic) is None
    write_lake(place.folder / "dirty", topic, committed + aborted)
    place.lake = place.folder / "dirty"
    assert "offsets 11 to 20, 33 to 42, 55 to 64 in the lake and not in the topic (30 records)" in str(
        place.audit(topic)
    )
    assert place.audit(topic, "isolation_level=read_uncommitted") is None


def test_what_retention_took_and_what_is_not_loaded_yet_is_no_loss(place: Place) -> None:
    topic, events = produced(place)
    loaded = [each for each in events if each.offset < 1500]
    write_lake(place.lake, topic, loaded)
    delete_records(place.broker.bootstrap, topic, 0, 400)
    assert "offsets 1500 to 1799 missing in the lake (300 records)" in str(place.audit(topic))
    write_ledger(place.folder / "lake_ledger", topic, {0: 1500, 1: 1500})
    assert place.audit(topic, "range.through=loaded") is None
    assert place.told["counts"]["expired_rows"] == 400
    assert place.told["counts"]["records_beyond"] == 600
    assert place.audit(topic, "range.until=2023-11-14T23:00:00Z", "range.since=2023-11-14T22:00:00Z") is None
    assert place.told["counts"]["hours"] == 2


def counting_producer(place: Place, topic: str, audit: str, records: int, *, tell: bool = True) -> None:
    async def work() -> None:
        async with open_cluster(place.broker.bootstrap) as cluster, Producer(cluster) as producer:
            counts = ProducerCounts(producer, name="web", topic=audit)
            for at in range(records):
                await counts.send(topic, None, b"%d" % at, timestamp=1_700_000_000_000 + 1000 * at, partition=at % 2)
                if at % 1000 == 999:
                    await producer.flush()
                    await counts.publish()
            if tell:
                await counts.close()

    asyncio.run(work())


def test_what_producers_counted_is_compared_too(place: Place) -> None:
    topic, audit = new_topic(place.broker, partitions=2), new_topic(place.broker)
    counting_producer(place, topic, audit, 2500)
    events = [Event(at % 2, at // 2, None, b"%d" % at, 1_700_000_000_000 + 1000 * at) for at in range(2500)]
    write_lake(place.lake, topic, events)
    assert place.audit(topic, f"producers.topic={audit}") is None
    assert place.told["counts"]["producer_records"] == 2500
    assert place.told["counts"]["count_events"] == 3
    # Somebody writes what nobody counted, and a producer ends without a word.
    late = produce(place.broker.bootstrap, topic, [Event(1, -1, None, b"late", 1_700_000_000_000)])
    write_lake(place.folder / "later", topic, events + late)
    place.lake = place.folder / "later"
    counting_producer(place, new_topic(place.broker, partitions=2), audit, 1000, tell=False)
    produce(place.broker.bootstrap, audit, [Event(0, -1, None, b"no event", 1_700_000_000_000)])
    assert place.audit(topic, f"producers.topic={audit}") is not None
    assert place.differing() == {(1, HOURS[0]): ["producers counted 1250 records, there are 1251"]}
    (silent,) = place.told["facts"]["producers_not_ended"]
    assert (silent["producer"], silent["events"], silent["is_closed"]) == ("web", 1, False)
    assert place.told["counts"]["unreadable_count_events"] == 1


def test_what_is_asked_for_and_not_there_is_named(place: Place) -> None:
    topic = new_topic(place.broker)
    assert f"there is no table at {place.lake}" in str(place.audit(topic))
    write_lake(place.lake, topic, [])
    assert place.audit(topic) is None
    assert "there is no topic nowhere" in str(place.audit("nowhere"))
    assert "range.since = 2023-11-14T22:30:00+00:00 is not the beginning of an hour" in str(
        place.audit(topic, "range.since=2023-11-14T22:30:00Z")
    )
