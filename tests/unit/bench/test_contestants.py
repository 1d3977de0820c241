"""How brokers of contestants are started, and who leads what is made."""

from collections.abc import Mapping
from pathlib import Path

from barnabas.launcher.processes import LocalProcess
from bench.side_by_side.contestants import Contestant, RunningCluster


def test_every_broker_forgets_deleted_topics_at_once_and_a_row_adds_its_own(tmp_path: Path) -> None:
    told: list[Mapping[str, str]] = []

    def launch(_: Path, __: int, properties: Mapping[str, str]) -> LocalProcess:
        told.append(properties)
        return LocalProcess(["true"], log_file=tmp_path / "log")

    cluster = RunningCluster(Contestant("Any", "1", launch), tmp_path, brokers=2, properties={"a": "b"})
    for broker_id in cluster.ports:
        cluster.launch(broker_id)
        cluster.wait_for_end(broker_id)
    assert [each["broker.id"] for each in told] == ["1", "2"]
    assert all((each["log.segment.delete.delay.ms"], each["a"]) == ("1000", "b") for each in told)
