"""What `barnabas status` makes of the processes and of what ZooKeeper says."""

from pathlib import Path

import pytest

from barnabas.launcher.cluster_status import ClusterStatus, ProcessStatus


def member(port: int, state: str = "running") -> ProcessStatus:
    return ProcessStatus("127.0.0.1", port, None if state == "stopped" else 1, state, Path("log"))


@pytest.mark.parametrize(
    ("registered", "controller"),
    [(1, 1), (2, 2), (3, None), (None, None), (9, None)],
    ids=["running", "starting", "stopped", "none", "stranger"],
)
def test_a_broker_that_does_not_run_is_not_the_controller(registered: int | None, controller: int | None) -> None:
    brokers = {1: member(9092), 2: member(9093, "starting"), 3: member(9094, "stopped")}
    status = ClusterStatus(Path("data"), member(2181), brokers, registered)
    document = status.to_json()
    assert status.controller == document["controller"] == controller
    assert [broker["id"] for broker in document["brokers"] if broker["is_controller"]] == (
        [] if controller is None else [controller]
    )


def test_clients_start_with_the_brokers_that_run() -> None:
    brokers = {1: member(9092, "stopped"), 2: member(9093), 3: member(9094)}
    assert ClusterStatus(Path("data"), member(2181), brokers, None).bootstrap_servers == "127.0.0.1:9093,127.0.0.1:9094"
