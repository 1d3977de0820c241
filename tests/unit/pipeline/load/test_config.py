"""Configurations: what they stand for, and what is refused by name."""

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from barnabas.pipeline.jobs.config import ConfigError, duration_ms, load_config
from barnabas.pipeline.lake.folder import absolute
from barnabas.pipeline.lake.table import LakeError
from barnabas.pipeline.load.checkpoint import BackfillPlan, Checkpoints
from barnabas.pipeline.load.config import LoadConfig, PartitionConfig, check
from barnabas.pipeline.load.steps import LoadRefused
from barnabas.pipeline.load.streaming import event_time, source_options, time_ms
from barnabas.pipeline.source.options import parse_stream_options

MINIMAL = """
name = "events"
checkpoint = "/lake/checkpoint"
[cluster]
bootstrap_servers = "localhost:9092"
[source]
topics = ["a", "b"]
[table]
path = "/lake/events"
"""


def config(*overrides: str, tmp_path: Path) -> LoadConfig:
    path = tmp_path / "load.toml"
    path.write_text(MINIMAL)
    return load_config(path, overrides, LoadConfig)


def test_a_small_file_is_enough(tmp_path: Path) -> None:
    found = config(tmp_path=tmp_path)
    check(found)
    options = source_options(found)
    assert options["subscribe"] == "a,b"
    assert options["kafka.isolation.level"] == "read_committed"
    assert options["startingOffsets"] == "earliest"
    parse_stream_options(options)


def test_options_of_the_client_and_the_source_are_handed_on(tmp_path: Path) -> None:
    found = config(
        'cluster.options={"kafka.client.id" = "lake", "request.timeout.ms" = "5000"}',
        'source.options={minPartitions = "7"}',
        "source.read_committed=false",
        "source.topic_pattern=x.*",
        "source.topics=[]",
        tmp_path=tmp_path,
    )
    check(found)
    parsed = parse_stream_options(source_options(found))
    assert (parsed.min_partitions, parsed.read_committed) == (7, False)
    assert (parsed.fetching.client_id, parsed.fetching.request_timeout_ms) == ("lake", 5000)


@pytest.mark.parametrize(
    ("override", "why"),
    [
        ("name=a/b", "name = 'a/b': it goes into names of files"),
        ("source.topics=[]", "name topics, or a topic_pattern"),
        ("source.topic_pattern=x", "name topics, or a topic_pattern, and not both"),
        ("source.max_offsets_per_batch=0", "source.max_offsets_per_batch = 0: it must be greater than 0"),
        ('source.options={startingOffsets = "latest"}', "source.options.startingOffsets = 'latest': say source.start"),
        ("table.file_mib=0", "table.file_mib = 0"),
        ("table.row_group_mib=2048", "a row group has 1024 MiB at most"),
        ('table={path = "/x", compression = "lz4", compression_level = 3}', "it is of zstd and gzip alone"),
        ("every=soon", "every = 'soon': it must be a time such as 30s"),
        ("partitions.late_after=1", "partitions.late_after = '1'"),
        ("partitions.event_time=at", "raw values have no fields"),
        ("payload.kind=json", "it needs payload.schema or payload.schema_file"),
        ("payload.schema=a int", "payload.schema = 'a int': it does not act on payload.kind raw"),
        ("payload.kind=avro", "it needs payload.schema_file"),
        ("payload.kind=confluent-avro", "it needs payload.schemas"),
        ("dead_letters.max_dead_letters=-1", "it must be 0 or more"),
        ("dead_letters.max_dead_letter_fraction=2.0", "it must be 0 to 1"),
        ("compaction.every_batches=-1", "it must be 0"),
        ("compaction.small_mib=300", "it must be 1 to target_mib"),
        ("compaction.least_files=1", "fewer than 2 files"),
        ("mode=backfill", "needs a section"),
    ],
)
def test_what_cannot_be_is_refused_by_name(override: str, why: str, tmp_path: Path) -> None:
    found = config(override.replace("1", '"1"', 1) if "late_after" in override else override, tmp_path=tmp_path)
    with pytest.raises(ConfigError) as error:
        check(found)
    assert why in str(error.value)


def test_keys_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="colour"):
        config("table.colour=red", tmp_path=tmp_path)


def backfill(**values: Any) -> LoadConfig:
    whole = {
        "name": "events",
        "checkpoint": "/c",
        "cluster": {"bootstrap_servers": "x:1"},
        "source": {"topics": ["a"]},
        "table": {"path": "/t"},
        "mode": "backfill",
        "backfill": {"id": "may", "start_time": "2024-05-01", "end_time": "2024-06-01", **values},
    }
    return msgspec.convert(whole, LoadConfig)


def test_a_backfill_has_two_edges() -> None:
    check(backfill())
    for values, why in (
        ({"start_time": None}, "backfill.start_time or backfill.start_offsets must be given"),
        ({"end_offsets": {"a": {"0": 1}}}, "backfill.end_time or backfill.end_offsets must be given, and not both"),
        ({"id": "a/b"}, "backfill.id = 'a/b'"),
    ):
        with pytest.raises(ConfigError, match=why):
            check(backfill(**values))


def test_times_and_durations() -> None:
    assert time_ms("x", "2024-05-01") == time_ms("x", "2024-05-01T02:00:00+02:00") == 1_714_521_600_000
    with pytest.raises(ConfigError, match="x = 'May': it must be a time as 2024-05-01T12:00:00Z"):
        time_ms("x", "May")
    assert [duration_ms("x", each) for each in ("5ms", "2 s", "1m", "1h", "7d")] == [
        5,
        2000,
        60_000,
        3_600_000,
        604_800_000,
    ]


def test_event_time_must_be_a_field_that_is_a_time() -> None:
    payload = pa.struct([("at", pa.int64()), ("user", pa.string())])
    assert event_time(PartitionConfig(event_time="at"), payload).field == "at"
    for wrong, why in (("user", "it is string, which is no time"), ("when", "the payload has no such field")):
        with pytest.raises(ConfigError, match=why):
            event_time(PartitionConfig(event_time=wrong), payload)
    with pytest.raises(ConfigError, match="it is not after earliest"):
        event_time(PartitionConfig(latest="1970-01-01"), payload)


def test_paths_are_of_file_systems() -> None:
    assert absolute("file:///lake/events") == "/lake/events"
    for path in ("s3://bucket/x", "hdfs://host/x"):
        with pytest.raises(LakeError, match="tables are written to file systems"):
            absolute(path)
    with pytest.raises(LakeError, match="empty"):
        absolute("")


def test_a_backfill_is_planned_once(tmp_path: Path) -> None:
    checkpoints = Checkpoints(str(tmp_path), "may")
    asked = {"startingTimestamp": "1"}
    assert checkpoints.plan(asked) is None
    plan = BackfillPlan(asked=asked, starts={"a": {"0": 5}}, ends={"a": {"0": 9}})
    checkpoints.keep(plan)
    assert checkpoints.plan(asked) == plan
    with pytest.raises(LoadRefused, match="begun with other edges"):
        checkpoints.plan({"startingTimestamp": "2"})
    with pytest.raises(LoadRefused, match="just made by another process"):
        checkpoints.keep(plan)


def test_the_id_of_a_checkpoint_is_sparks(tmp_path: Path) -> None:
    checkpoints = Checkpoints(str(tmp_path))
    assert checkpoints.id() is None
    (tmp_path / "stream").mkdir()
    (tmp_path / "stream" / "metadata").write_text('{"id":"abc"}')
    assert checkpoints.id() == "abc"
    (tmp_path / "stream" / "metadata").write_text("{")
    with pytest.raises(LoadRefused, match="is not what Spark writes there"):
        checkpoints.id()
