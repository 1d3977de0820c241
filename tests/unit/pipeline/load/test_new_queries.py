"""What a new query looks at before Spark is started and a table is made."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from barnabas.launcher.sockets import free_port
from barnabas.pipeline.jobs.job import JobFailed, Run
from barnabas.pipeline.load.job import LoadConfig
from barnabas.pipeline.load.job import run as run_load
from barnabas.runtime.loop_thread import LoopThread
from tests.unit.client.small_cluster import SmallCluster


@pytest.fixture
def bootstrap() -> Iterator[str]:
    """A cluster that has the topic t."""
    with LoopThread("cluster of a test") as loop:
        small = loop.run(_enter(SmallCluster(brokers=1)))
        small.add_topic("t")
        yield f"127.0.0.1:{small.ports[1]}"
        loop.run(small.__aexit__(None, None, None))


async def _enter(small: SmallCluster) -> SmallCluster:
    return await small.__aenter__()


class SparkStarted(Exception):
    pass


def load(folder: Path, monkeypatch: pytest.MonkeyPatch, *, bootstrap: str, topics: list[str]) -> None:
    def start(_run: Run[LoadConfig]) -> None:
        raise SparkStarted

    monkeypatch.setattr(Run, "spark", start)
    config = {
        "name": "events",
        "checkpoint": str(folder / "checkpoint"),
        "cluster": {"bootstrap_servers": bootstrap},
        "source": {"topics": topics},
        "table": {"path": str(folder / "table")},
    }
    run_load(Run("load", msgspec.convert(config, LoadConfig)))


def test_a_cluster_that_does_not_answer_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(JobFailed, match="no connection to 127"):
        load(tmp_path, monkeypatch, bootstrap=f"127.0.0.1:{free_port()}", topics=["t"])
    assert list((tmp_path / "table").iterdir()) == []


def test_a_topic_that_does_not_exist_is_told(bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(JobFailed, match="there is no topic typo; create it first"):
        load(tmp_path, monkeypatch, bootstrap=bootstrap, topics=["t", "typo"])
    with pytest.raises(SparkStarted):
        load(tmp_path, monkeypatch, bootstrap=bootstrap, topics=["t"])


def test_of_an_older_query_the_stream_finds_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "checkpoint" / "stream").mkdir(parents=True)
    (tmp_path / "checkpoint" / "stream" / "metadata").write_text('{"id": "c"}')
    with pytest.raises(SparkStarted):
        load(tmp_path, monkeypatch, bootstrap=f"127.0.0.1:{free_port()}", topics=["t"])
