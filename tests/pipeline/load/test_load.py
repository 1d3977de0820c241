"""Loads on a real Spark from a broker of ours: what was produced is in the table, once, or it is told why not."""

import json
import threading
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from pyspark.sql import SparkSession

from barnabas.pipeline.jobs.job import JobFailed, Run
from barnabas.pipeline.lake.table import BatchCommit, TableSchema
from barnabas.pipeline.lake.tables import open_table
from barnabas.pipeline.load.job import run as run_load
from barnabas.pipeline.load.ledger import dead_letter_location, read_coverage
from barnabas.protocol.ids import TopicPartition
from tests.compatibility.brokers import RunningBroker
from tests.pipeline.load.lake import Loading, parquet_files
from tests.pipeline.source.events import Event, counted, make_anew, new_topic, produce, send

DAY_MS = 86_400_000
START_MS = 1_714_521_600_000  # 2024-05-01


@pytest.fixture
def loading(spark: SparkSession, broker: RunningBroker, tmp_path: Path) -> Loading:
    return Loading(broker.bootstrap, new_topic(broker, partitions=2), tmp_path)


def places(events: list[Event]) -> list[tuple[int, int, bytes | None, bytes | None]]:
    return sorted((each.partition, each.offset, each.key, each.value) for each in events)


def of_json(*values: Any, partition: int = 0, time_ms: int = START_MS) -> list[Event]:
    texts = [value if isinstance(value, bytes) else json.dumps(value).encode() for value in values]
    return [Event(partition, -1, b"k", text, time_ms + at) for at, text in enumerate(texts)]


@pytest.mark.parametrize("kind", ["delta", "parquet"])
def test_what_was_produced_is_in_the_table_and_a_second_run_adds_what_came_since(loading: Loading, kind: str) -> None:
    loading.kind = kind
    produced = produce(loading.bootstrap, loading.topic, counted(3000, partitions=2))
    counts = loading.run(source={"max_offsets_per_batch": 1000})
    assert (counts["rows"], counts["batches"]) == (3000, 3)
    assert loading.loaded() == places(produced)
    produced += produce(loading.bootstrap, loading.topic, counted(500, partitions=2, mark="later "))
    assert loading.run()["rows"] == 500
    assert loading.run() == {}
    assert loading.loaded() == places(produced)
    coverage = read_coverage(loading.table)
    assert sum(coverage.ends.values()) == len(produced)
    assert sum(coverage.rows["rows"].to_pylist()) == len(produced)


def test_rows_are_put_into_folders_by_their_time_and_late_ones_are_counted(loading: Loading) -> None:
    days = [Event(0, -1, None, b"%d" % at, START_MS + at * DAY_MS // 2) for at in range(6)]
    produce(loading.bootstrap, loading.topic, days)
    assert loading.run()["late"] == 0
    late = [Event(0, -1, None, b"late", START_MS), Event(0, -1, None, b"now", START_MS + 3 * DAY_MS)]
    produce(loading.bootstrap, loading.topic, [*late, Event(0, -1, None, b"wrong clock", 2**52)])
    assert loading.run(partitions={"late_after": "1d"})["late"] == 1
    assert loading.rows("event_date::varchar, decode(value)") == [
        ("2024-05-01", "0"),
        ("2024-05-01", "1"),
        ("2024-05-02", "2"),
        ("2024-05-02", "3"),
        ("2024-05-03", "4"),
        ("2024-05-03", "5"),
        ("2024-05-01", "late"),
        ("2024-05-04", "now"),
        (None, "wrong clock"),
    ]


def test_aborted_records_are_not_loaded_and_are_told_as_gaps(loading: Loading) -> None:
    settings = {"bootstrap.servers": loading.bootstrap, "transactional.id": loading.topic, "linger.ms": 5}
    producer = confluent_kafka.Producer(settings)
    producer.init_transactions(60)
    kept: list[Event] = []
    for number in range(4):
        producer.begin_transaction()
        for event in counted(10, mark=f"{number} "):
            send(producer, loading.topic, event, kept if number % 2 == 0 else [])
        producer.flush(60)
        producer.commit_transaction(60) if number % 2 == 0 else producer.abort_transaction(60)
    counts = loading.run()
    assert loading.loaded() == places(kept)
    assert (counts["rows"], counts["gaps"], counts["offsets"]) == (20, 24, 44)


def test_json_that_cannot_be_read_goes_to_the_dead_letters(loading: Loading) -> None:
    loading.sections = {
        "payload": {"kind": "json", "schema": "user string, age int, at timestamp"},
        "partitions": {"event_time": "at"},
    }
    good = {"user": "anna", "age": 7, "at": "2024-05-02T00:00:00Z"}
    produce(loading.bootstrap, loading.topic, of_json(good, b"{bad", {"age": 8}, {"age": "9"}))
    with pytest.raises(
        JobFailed, match=r"2 of 4 records of batch 0 cannot be read, .*-0 at offset 1: JSON is malformed"
    ):
        loading.run()
    assert (loading.rows(), open_table(loading.table).committed("events")) == ([], None)
    counts = loading.run(dead_letters={"max_dead_letter_fraction": 0.5})
    assert (counts["rows"], counts["dead_letters"]) == (2, 2)
    assert loading.rows('"offset", value.user, value.age, event_date::varchar') == [
        (0, "anna", 7, "2024-05-02"),
        (2, None, 8, None),
    ]
    letters = loading.rows('"offset", key, value, error', path=dead_letter_location(loading.table))
    assert [each[:3] for each in letters] == [(1, b"k", b"{bad"), (3, b"k", b'{"age": "9"}')]
    assert "Expected `int | null`, got `str` - at `$.age`" in letters[1][3]


def test_a_backfill_loads_its_range_once_and_nothing_that_is_there(loading: Loading) -> None:
    produced = produce(loading.bootstrap, loading.topic, counted(200))
    loading.run(source={"start": "latest"})
    produced += produce(loading.bootstrap, loading.topic, counted(50, mark="new "))
    assert loading.run(source={"start": "latest"})["rows"] == 50
    whole = {loading.topic: {"0": 0, "1": 0}}
    most = {loading.topic: {"0": 201, "1": 0}}
    with pytest.raises(JobFailed, match=r"-0 0 to 201, and query events has put .*-0 200 to 250 into the table"):
        loading.run(mode="backfill", backfill={"id": "a", "start_offsets": whole, "end_offsets": most})
    older = {loading.topic: {"0": 200, "1": 0}}
    for expected in ({"rows": 200}, {}):
        counts = loading.run(mode="backfill", backfill={"id": "b", "start_offsets": whole, "end_offsets": older})
        assert counts.get("rows") == expected.get("rows")
    assert loading.loaded() == places(produced)
    assert open_table(loading.table).committed("events.backfill.b") == 0
    times = {"start_time": "2023-11-14T22:13:20Z", "end_time": "2023-11-14T22:14:20Z"}
    other = Loading(loading.bootstrap, loading.topic, loading.folder / "other")
    assert other.run(mode="backfill", backfill={"id": "minute", **times})["rows"] == 60


def test_a_checkpoint_that_is_not_the_tables_is_refused(loading: Loading) -> None:
    produce(loading.bootstrap, loading.topic, counted(10))
    loading.run()
    with pytest.raises(
        JobFailed, match=r"has batches 0 to 0 of query events, and their checkpoint .*/new/stream is not"
    ):
        loading.run(checkpoint=str(loading.folder / "new"))
    with pytest.raises(JobFailed, match=r"to load .*-0 0 to 10, and query events has put"):
        loading.run(name="other", checkpoint=str(loading.folder / "other"))
    loading.run(table={"path": str(loading.folder / "elsewhere")}, checkpoint=str(loading.folder / "elsewhere-c"))
    with pytest.raises(JobFailed, match="is another one"):
        loading.run(checkpoint=str(loading.folder / "elsewhere-c"))
    produce(loading.bootstrap, loading.topic, counted(10))
    with pytest.raises(JobFailed, match=r"is at batch 1, and the table .* has no batch of it"):
        loading.run(table={"path": str(loading.folder / "fresh")})
    assert len(loading.loaded()) == 10


def test_a_batch_that_was_committed_before_a_crash_is_not_loaded_again(loading: Loading) -> None:
    produced = produce(loading.bootstrap, loading.topic, counted(10))
    loading.run()
    # Spark's own mark that the batch is done is what a crash after the commit lacks.
    for mark in (loading.folder / "checkpoint" / "stream" / "commits").iterdir():
        mark.unlink()
    produced += produce(loading.bootstrap, loading.topic, counted(5, mark="more "))
    counts = loading.run()
    assert (counts["batches"], counts["rows"]) == (2, 5)
    assert loading.loaded() == places(produced)


def test_another_writer_of_the_same_query_is_told(loading: Loading) -> None:
    produce(loading.bootstrap, loading.topic, counted(10))
    loading.run()
    table = open_table(loading.table)
    table.commit(BatchCommit("events", 1, 0, (), {}), table.schema())
    produce(loading.bootstrap, loading.topic, counted(10))
    with pytest.raises(
        JobFailed, match=r"the last commit of the query .* is none of this job's, .*: another writer took the name"
    ):
        loading.run()


def test_a_topic_that_was_made_anew_ends_the_load(loading: Loading, broker: RunningBroker) -> None:
    loading.topic = new_topic(broker)
    before = produce(loading.bootstrap, loading.topic, counted(100))
    loading.run()
    make_anew(broker, loading.topic)
    produce(loading.bootstrap, loading.topic, counted(150, mark="anew "))
    with pytest.raises(JobFailed, match=f"{loading.topic}-0 at offset 100: the log is another one"):
        loading.run()
    assert loading.loaded() == places(before)


def test_another_payload_or_a_place_that_is_not_writable_is_told(loading: Loading, tmp_path: Path) -> None:
    produce(loading.bootstrap, loading.topic, counted(10))
    loading.run()
    with pytest.raises(JobFailed, match=r"column value is binary in the table, not struct<a: int32>; column checksum"):
        loading.run(payload={"kind": "json", "schema": "a int"})
    with pytest.raises(JobFailed, match=r"payload.schema = 'a nothing': Spark takes it for no schema"):
        loading.run(payload={"kind": "json", "schema": "a nothing"})
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(JobFailed, match="a part of the path is a file"):
        loading.run(table={"path": str(tmp_path / "file" / "table")})
    with pytest.raises(JobFailed, match=r"there is no topic nobody-made-it"):
        Loading(loading.bootstrap, "nobody-made-it", tmp_path / "none").run()


def test_small_files_are_merged_and_left_ones_removed(loading: Loading) -> None:
    produced = produce(loading.bootstrap, loading.topic, counted(600))
    counts = loading.run(source={"max_offsets_per_batch": 100}, compaction={"every_batches": 4, "least_files": 2})
    assert counts["batches"] == 6
    files = len(open_table(loading.table).snapshot().files)
    assert files < counts["files"]
    assert loading.run(mode="compact", compaction={"least_files": 2})["files_merged"] > 0
    assert loading.loaded() == places(produced)
    orphan = Path(loading.table) / "event_date=2023-11-14" / "events-00000000-0011223344556677-9-0.parquet"
    orphan.write_bytes(b"a lost attempt")
    assert loading.run(mode="vacuum")["files_removed"] == 1
    assert not orphan.exists()
    assert len(parquet_files(loading.table)) > len(open_table(loading.table).snapshot().files)
    assert loading.loaded() == places(produced)


def test_a_load_that_goes_on_ends_when_it_is_asked_to(loading: Loading) -> None:
    produced = produce(loading.bootstrap, loading.topic, counted(100))
    run = Run("load", loading.config(every="1s"))
    working = threading.Thread(target=run_load, args=(run,))
    working.start()
    while run.report.counts.get("rows") != 100:
        assert working.is_alive()
        working.join(0.05)
    run.stopping.set()
    working.join(120)
    assert not working.is_alive()
    assert loading.loaded() == places(produced)
    assert read_coverage(loading.table).ends == {TopicPartition(loading.topic, 0): 100}


def test_the_table_says_its_columns(loading: Loading) -> None:
    produce(loading.bootstrap, loading.topic, counted(1))
    loading.run(partitions={"by": "hour"})
    schema: TableSchema = open_table(loading.table).schema()
    assert schema.partitions.names == ["event_date", "event_hour"]
    assert schema.columns.names == ["topic", "partition", "offset", "timestamp", "key", "headers", "value"]
    assert loading.rows("event_date::varchar, event_hour") == [("2023-11-14", 22)]
