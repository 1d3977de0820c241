"""The same mirror as queries of Spark."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from barnabas.client import Codec
from barnabas.client.partitioner import partition_of_key
from barnabas.pipeline.jobs.job import JobFailed, Run
from barnabas.pipeline.mirror.config import MirrorConfig
from barnabas.pipeline.mirror.job import run as mirror
from tests.pipeline.mirror.clusters import (
    Clusters,
    Sent,
    make_topic,
    mirror_config,
    partition_count,
    read,
    source,
    write,
)

pytestmark = [pytest.mark.processes]


class GivenRun(Run[MirrorConfig]):
    """A run with the Spark of the tests."""

    def __init__(self, config: dict[str, Any], spark: SparkSession) -> None:
        super().__init__("mirror", msgspec.convert(config, MirrorConfig))
        self.session = spark

    def spark(self) -> SparkSession:
        return self.session


def test_records_arrive_once_and_as_they_are(
    clusters: Clusters, name: str, tmp_path: Path, spark: SparkSession
) -> None:
    same, keyed = f"{name}-same", f"{name}-keyed"
    make_topic(clusters.paris, same, 2)
    make_topic(clusters.paris, keyed, 3)
    make_topic(clusters.world, f"paris.{keyed}", 2)
    config = mirror_config(
        clusters.world,
        "world",
        name,
        source(clusters.paris, "paris", pattern=f"{name}-.*"),
        engine="spark",
        checkpoint=str(tmp_path / "checkpoint"),
    )
    for part in range(2):
        for topic in (same, keyed):
            records = [
                Sent(
                    b"key %d" % (at % 40) if at % 7 else None,
                    b"%d %d" % (part, at) if at % 11 else None,
                    timestamp=1_600_000_000_000 + at,
                    headers=(("h", b"x"), ("n", None)) if at % 5 == 0 else (),
                )
                for at in range(800)
            ]
            write(clusters.paris, topic, records, codec=Codec.LZ4, transactions=lambda number: number % 4 != 2)
        given = GivenRun(config, spark)
        mirror(given)
        assert given.report.counts["records"] == 1200
    assert partition_count(clusters.world, f"paris.{same}") == 2
    there, here = read(clusters.paris, same), read(clusters.world, f"paris.{same}")
    for partition in range(2):
        assert [each.content for each in here if each.partition == partition] == [
            each.content for each in there if each.partition == partition
        ]
    there, here = read(clusters.paris, keyed), read(clusters.world, f"paris.{keyed}")
    assert sorted(map(repr, (each.content for each in here))) == sorted(map(repr, (each.content for each in there)))
    assert all(each.partition == partition_of_key(each.key, 2) for each in here if each.key is not None)


def test_both_engines_do_not_take_turns_and_circles_are_refused(
    clusters: Clusters, name: str, tmp_path: Path, spark: SparkSession
) -> None:
    make_topic(clusters.paris, name)
    write(clusters.paris, name, [Sent(None, b"v")])
    config = mirror_config(clusters.lima, "lima", name, source(clusters.paris, "paris", topics=[name]), naming="same")
    with_spark = {**config, "engine": "spark", "checkpoint": str(tmp_path / "checkpoint")}
    mirror(GivenRun(with_spark, spark))
    with pytest.raises(JobFailed, match="has run with engine='spark'"):
        mirror(GivenRun(config, spark))
    back = mirror_config(clusters.paris, "paris", name, source(clusters.lima, "lima", topics=[name]), naming="same")
    with pytest.raises(JobFailed, match="would go round in a circle"):
        mirror(GivenRun({**back, "engine": "spark", "checkpoint": str(tmp_path / "back")}, spark))
    other = {**config, "name": f"{name}-other", "naming": "alias"}
    mirror(GivenRun(other, spark))
    with pytest.raises(JobFailed, match="has run with engine='client'"):
        mirror(GivenRun({**other, "engine": "spark", "checkpoint": str(tmp_path / "other")}, spark))
    assert len(read(clusters.lima, name)) == 1
