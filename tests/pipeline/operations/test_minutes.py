"""The table of minutes against a computation of our own."""

import json
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from barnabas.pipeline.jobs.config import ClusterConfig
from barnabas.pipeline.jobs.job import JobFailed, Run
from barnabas.pipeline.lake.tables import open_table
from barnabas.pipeline.operations.config import MinutesConfig, OperationsConfig
from barnabas.pipeline.operations.figures import Figure, Sample, encode
from barnabas.pipeline.operations.minutes import run as make_minutes
from tests.pipeline.mirror.clusters import Sent, make_topic, read, write
from tests.support.broker_process import BrokerProcess

pytestmark = [pytest.mark.processes]

BEGIN_MS = 1_800_000_000_000 - 1_800_000_000_000 % 60_000
Minutes = dict[tuple[Any, ...], tuple[float, float, float, int]]


class GivenRun(Run[OperationsConfig]):
    """A run with the Spark of the tests."""

    def __init__(self, config: OperationsConfig, spark: SparkSession) -> None:
        super().__init__("minutes", config)
        self.session = spark

    def spark(self) -> SparkSession:
        return self.session


def drawn_samples(draw: random.Random, seconds: range) -> list[Sample]:
    return [
        Sample(
            BEGIN_MS + second * 1000,
            "h",
            broker,
            [Figure("cpu", draw.random()), *(Figure("disk", draw.random(), {"disk": each}) for each in ("/a", "/b"))],
        )
        for second in seconds
        for broker in (None, 1)
    ]


def wanted(samples: list[Sample]) -> Minutes:
    values: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for sample in samples:
        for each in sample.figures:
            labels = json.dumps(each.labels, separators=(",", ":"))
            values[sample.time // 60_000, sample.host, sample.broker, each.metric, labels].append(each.value)
    return {
        key: (min(found), sum(found) / len(found), max(found), len(found))
        for key, found in sorted(values.items(), key=str)
    }


def feed(broker: BrokerProcess, topic: str, samples: list[Sample]) -> None:
    write(broker, topic, [Sent(each.key, encode(each), timestamp=each.time) for each in samples])


def config(broker: BrokerProcess, samples_topic: str, **minutes: Any) -> OperationsConfig:
    return OperationsConfig(
        cluster=ClusterConfig(bootstrap_servers=broker.bootstrap),
        topic=samples_topic,
        minutes=MinutesConfig(mode="catch_up", **minutes),
    )


def minutes_in(path: Path) -> Minutes:
    table = open_table(str(path))
    found: Minutes = {}
    for file in table.snapshot().files:
        for row in pa.parquet.read_table(Path(table.location) / file.path, partitioning=None).to_pylist():
            key = int(row["minute"].timestamp()) // 60, row["host"], row["broker"], row["metric"], row["labels"]
            assert key not in found, "a minute is there once"
            found[key] = row["least"], row["mean"], row["greatest"], row["count"]
    return found


@pytest.mark.parametrize("kind", ["delta", "parquet"])
def test_minutes_go_into_a_table_once(
    measured: BrokerProcess, spark: SparkSession, tmp_path: Path, seed: int, kind: str
) -> None:
    draw = random.Random(seed)
    topic = f"minutes-{kind}"
    make_topic(measured, topic, 2)
    samples = drawn_samples(draw, range(200))
    given = config(
        measured, topic, checkpoint=str(tmp_path / "checkpoint"), table=str(tmp_path / "table"), format=kind, late_s=5
    )
    for part in (samples[:200], samples[200:]):
        feed(measured, topic, part)
        make_minutes(GivenRun(given, spark))
    # What is left open is told when a later figure comes.
    feed(measured, topic, [Sample(BEGIN_MS + 600_000, "h", None, [Figure("cpu", 0.5)])])
    for _ in range(2):
        make_minutes(GivenRun(given, spark))
    found = minutes_in(tmp_path / "table")
    assert found.keys() == wanted(samples).keys()
    for key, value in wanted(samples).items():
        assert found[key] == pytest.approx(value)


def test_minutes_go_into_a_topic(measured: BrokerProcess, spark: SparkSession, tmp_path: Path, seed: int) -> None:
    make_topic(measured, "minutes-in")
    make_topic(measured, "minutes-out")
    samples = drawn_samples(random.Random(seed), range(130))
    feed(measured, "minutes-in", [*samples, Sample(BEGIN_MS + 600_000, "h", None, [])])
    feed(measured, "minutes-in", [Sample(BEGIN_MS + 600_000, "h", None, [Figure("cpu", 1)])])
    write(measured, "minutes-in", [Sent(None, b"no sample")])
    given = config(measured, "minutes-in", checkpoint=str(tmp_path / "checkpoint"), topic="minutes-out")
    for _ in range(2):
        make_minutes(GivenRun(given, spark))
    found = [json.loads(each.value or b"") for each in read(measured, "minutes-out")]
    assert len(found) == len(wanted(samples))
    assert sum(each["count"] for each in found) == 130 * 2 * 3


def test_without_a_section_there_is_nothing_to_make(measured: BrokerProcess, spark: SparkSession) -> None:
    given = OperationsConfig(cluster=ClusterConfig(bootstrap_servers=measured.bootstrap))
    with pytest.raises(JobFailed, match=r"no section \[minutes\]"):
        make_minutes(GivenRun(given, spark))
