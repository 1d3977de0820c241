"""The job activity on a real Spark and a broker: counts are exact, also after kills, and late events are told."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from barnabas.pipeline.activity.config import ActivityConfig
from barnabas.pipeline.activity.job import run as run_activity
from barnabas.pipeline.jobs.config import load_config
from barnabas.pipeline.jobs.job import JobFailed, Run, carry_out
from tests.compatibility.brokers import RunningBroker
from tests.pipeline.activity.views import (
    MINUTE_MS,
    START_MS,
    Result,
    View,
    closed,
    draw_views,
    records,
    results_of,
    sessions,
    value_of,
    windows,
)
from tests.pipeline.source.events import Event, new_topic, produce

pytestmark = pytest.mark.timeout(600)
SECONDS = 300
WATERMARK_MS = 2 * MINUTE_MS


class Counting(Run[ActivityConfig]):
    """A run in the session of the tests, which lives on."""

    def __init__(self, config: ActivityConfig, session: SparkSession) -> None:
        super().__init__("activity", config)
        self._session = session

    def spark(self) -> SparkSession:
        return self._session

    def close(self) -> None:
        """The session is of others too."""


class Place:
    """A topic with views, one for results, and a job from one to the other."""

    def __init__(self, spark: SparkSession, broker: RunningBroker, folder: Path) -> None:
        self.spark = spark
        self.bootstrap = broker.bootstrap
        self.views = new_topic(broker, partitions=2)
        self.results = new_topic(broker, partitions=2)
        self.folder = folder
        self.config = folder / "activity.toml"
        self.config.write_text(f"""
checkpoint = "{folder / "checkpoint"}"
watermark = "{WATERMARK_MS}ms"
[cluster]
bootstrap_servers = "{broker.bootstrap}"
[source]
topics = ["{self.views}"]
max_offsets_per_batch = 300
[event]
time = "at"
time_format = "ms"
[output]
topic = "{self.results}"
[[counts]]
name = "pages"
keys = ["page.id"]
window = "10m"
slide = "5m"
[[sessions]]
name = "members"
keys = ["member"]
gap = "3m"
""")
        self.told: dict[str, Any] = {}

    def send(self, events: list[Event]) -> None:
        produce(self.bootstrap, self.views, events)

    def run(self, *overrides: str) -> dict[str, int]:
        """Count what there is; the report's counts."""
        run = Counting(load_config(self.config, overrides, ActivityConfig), self.spark)
        carry_out(run, run_activity, None, self.told.update)
        counts: dict[str, int] = self.told["counts"]
        return counts

    def found(self) -> Counter[Result]:
        table = (
            self.spark.read.format("barnabas")
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("kafka.isolation.level", "read_committed")
            .options(subscribe=self.results)
            .schema("value binary")
        )
        return results_of(json.loads(row.value) for row in table.load().collect())


@pytest.fixture
def place(spark: SparkSession, broker: RunningBroker, tmp_path: Path) -> Place:
    return Place(spark, broker, tmp_path)


def expected(views: list[View], *, with_sessions: bool = True) -> Counter[Result]:
    """What is written of these views once all have been seen."""
    watermark_ms = max(each.time_ms for each in views) - WATERMARK_MS
    whole = windows(views, "pages", 10 * MINUTE_MS, 5 * MINUTE_MS)
    if with_sessions:
        whole += sessions(views, "members", 3 * MINUTE_MS)
    return closed(whole, watermark_ms)


def test_windows_and_sessions_are_exact_over_runs_and_what_is_no_event_is_told(place: Place, seed: int) -> None:
    views = draw_views(900, Random(seed))
    place.send(records(views[:400]))
    assert place.run()["pages.records"] == 400
    assert place.found() == expected(views[:400])
    bad = [b"no json", b"{}", b'{"at":"soon","member":"m","page":{"id":"p"}}', b'{"at":1,"member":"m","page":3}']
    ahead = View(views[-1].time_ms + 3 * 86_400_000, "m0", "p0")
    noise = [Event(0, -1, None, each, views[400].time_ms) for each in [*bad, value_of(ahead)]]
    place.send([*records(views[400:]), *noise, Event(1, -1, None, None, START_MS)])
    counts = place.run()
    assert place.found() == expected(views)
    # `members` asks for no page, so that one of the bad ones is an event for it, and a late one.
    assert {key: counts[f"pages.{key}"] for key in ("records", "no_events", "ahead", "late")} == {
        "records": 506,
        "no_events": 5,
        "ahead": 1,
        "late": 0,
    }
    assert (counts["members.no_events"], counts["members.ahead"]) == (4, 1)
    assert sum(each["records"] for each in place.told["batches"]) == 2 * 506


def test_what_comes_behind_the_watermark_is_dropped_and_counted(place: Place) -> None:
    on_time = [View(START_MS + at * 30_000, "m", "p") for at in range(60)]
    place.send(records(on_time))
    place.run()
    before = place.found()
    late = [View(START_MS, "m", "p")] * 3
    place.send(records(late))
    counts = place.run()
    assert counts["pages.records"] == 3
    assert counts["pages.late"] > 0
    assert counts["members.late"] > 0
    assert place.found() == before == expected(on_time)


def test_another_description_of_a_count_is_not_mixed_with_what_was_counted(place: Place) -> None:
    place.send(records([View(START_MS, "m", "p")]))
    place.run()
    with pytest.raises(JobFailed, match=r"the checkpoint of pages in .* is of another watermark: what it has counted"):
        place.run("watermark=1h")
    with pytest.raises(JobFailed, match=r"^pages: .*there is no topic nowhere; create it first$"):
        place.run("source.topics=['nowhere']", f"checkpoint={place.folder / 'other'}")


def kill_in_batch(place: Place, batch: int) -> None:
    """Run the command, and kill it and all it started when a batch is planned and not yet committed.

    On a busy machine Spark may give up on a worker that starts slowly; the command is run again then, as by its user.
    """
    checkpoint = place.folder / "checkpoint" / "pages"
    planned, committed = checkpoint / "offsets" / str(batch), checkpoint / "commits" / str(batch)
    deadline_s = time.monotonic() + SECONDS
    while not planned.exists():
        process = start_command(place)
        try:
            while process.poll() is None and not planned.exists():
                assert time.monotonic() < deadline_s, (place.folder / "killed.log").read_text()
                time.sleep(0.002)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert not committed.exists()


def start_command(place: Place) -> subprocess.Popen[bytes]:
    """The command in a session of its own."""
    command: list[str | Path] = [Path(sys.executable).with_name("barnabas"), "pipeline", "activity", place.config]
    settings = ["--set", "spark.master=local[2]", "--set", "spark.settings={'spark.ui.enabled'='false'}"]
    with (place.folder / "killed.log").open("ab") as log:
        return subprocess.Popen([*command, *settings], stdout=log, stderr=log, start_new_session=True)


def test_results_are_exact_after_kills_between_plan_and_commit(place: Place, seed: int) -> None:
    views = draw_views(1500, Random(seed))
    place.send(records(views))
    # One query is enough, and starts in half the time.
    text = place.config.read_text()
    place.config.write_text(text[: text.index("[[sessions]]")])
    for batch in (1, 3):
        kill_in_batch(place, batch)
    place.run()
    assert place.found() == expected(views, with_sessions=False)
