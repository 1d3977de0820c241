"""The launcher with real processes: a cluster comes up, is found again by a later command, leaves nothing behind."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.launcher.broker_process import answers_api_versions
from barnabas.launcher.cluster import ClusterBusy, ClusterError, LocalCluster
from barnabas.launcher.processes import identify
from barnabas.launcher.sockets import free_port
from barnabas.runtime.disk import SystemDisk
from tests.support.cluster import new_cluster

pytestmark = pytest.mark.processes


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    made = new_cluster(tmp_path / "data", brokers=2)
    yield made
    made.stop()


def pids_below(directory: Path) -> list[int]:
    """Live processes whose command names a file below `directory`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and identify(int(entry.name)) is not None:
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if os.fsencode(f"{directory}/") in command:
                found.append(int(entry.name))
    return sorted(found)


def test_a_cluster_starts_heals_and_stops(cluster: LocalCluster) -> None:
    status = cluster.start()
    assert {broker_id: broker.state for broker_id, broker in status.brokers.items()} == {1: "running", 2: "running"}
    assert status.zookeeper.state == "running"
    assert status.controller in {1, 2}
    pids = [status.zookeeper.pid, *(broker.pid for broker in status.brokers.values())]
    assert sorted(pid for pid in pids if pid) == pids_below(cluster.directory)

    cluster.kill(1)
    killed = cluster.status()
    assert (killed.brokers[1].state, killed.brokers[1].pid) == ("stopped", None)
    assert killed.brokers[2].pid == status.brokers[2].pid

    # A later command knows the cluster from its directory alone, and starts only what is missing.
    later = LocalCluster(cluster.directory, properties={"zookeeper.session.timeout.ms": "2000"})
    healed = later.start()
    assert healed.brokers[1].state == "running"
    assert healed.brokers[1].port == status.brokers[1].port
    assert healed.brokers[1].pid != status.brokers[1].pid
    assert (healed.zookeeper.pid, healed.brokers[2].pid) == (status.zookeeper.pid, status.brokers[2].pid)

    assert later.stop() == ["broker 1", "broker 2", "ZooKeeper"]
    assert later.stop() == []
    assert pids_below(cluster.directory) == []
    stopped = later.status()
    assert {stopped.zookeeper.state, *(broker.state for broker in stopped.brokers.values())} == {"stopped"}


def test_a_broker_can_be_restarted_paused_and_outlive_zookeeper(cluster: LocalCluster) -> None:
    cluster.start()
    before = cluster.pid(1)
    cluster.restart(1)
    assert cluster.pid(1) not in {None, before}
    cluster.pause(1)
    assert not answers_api_versions(cluster.host, cluster.port(1), timeout_s=0.2)
    cluster.resume(1)
    cluster.wait_for_broker(1)
    cluster.kill_zookeeper()
    assert cluster.status().zookeeper.state == "stopped"
    assert cluster.status().controller is None
    cluster.start_zookeeper()
    assert cluster.start().zookeeper.state == "running"


def test_a_broker_that_cannot_start_ends_the_start_with_its_last_words_and_takes_back_the_rest(tmp_path: Path) -> None:
    cluster = new_cluster(tmp_path / "data", brokers=1, properties={"num.partitions": "many"})
    with pytest.raises(ClusterError, match=r"(?s)broker 1 ended with 1; .*num\.partitions"):
        cluster.start()
    assert pids_below(cluster.directory) == []


def test_a_start_that_takes_too_long_is_taken_back(tmp_path: Path) -> None:
    cluster = new_cluster(tmp_path / "data", brokers=1)
    with pytest.raises(ClusterError):
        cluster.start(timeout_s=0.2)
    assert pids_below(cluster.directory) == []


def test_a_taken_port_is_refused_before_anything_listens_there(tmp_path: Path) -> None:
    cluster = new_cluster(tmp_path / "data", brokers=1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        asked = LocalCluster(cluster.directory, brokers=1, port=port, zookeeper_port=0)
        with pytest.raises(ClusterError, match=f"broker 1 cannot listen on 127.0.0.1:{port}: another process does"):
            asked.start()
    assert pids_below(cluster.directory) == []


def test_commands_on_one_directory_take_turns(tmp_path: Path) -> None:
    cluster = new_cluster(tmp_path / "data", brokers=1)
    cluster.directory.mkdir()
    lock = SystemDisk().lock(str(cluster.directory / ".lock"))
    for action in (cluster.start, cluster.stop):
        with pytest.raises(ClusterBusy):
            action()
    lock.release()


def barnabas(*arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "barnabas.admin.main", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run_barnabas(*arguments: str) -> tuple[int, str, str]:
    process = barnabas(*arguments)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def test_up_status_and_down_from_the_command_line(cluster: LocalCluster, tmp_path: Path) -> None:
    data = tmp_path / "data"
    status, _, err = run_barnabas("status", "--data", str(data))
    assert (status, "there is no cluster" in err) == (3, True)
    with socket.create_server(("127.0.0.1", 0)) as free, socket.create_server(("127.0.0.1", 0)) as other:
        port, zookeeper_port = free.getsockname()[1], other.getsockname()[1]
    where = ("--port", str(port), "--zookeeper-port", str(zookeeper_port), "--data", str(data))
    status, out, err = run_barnabas("up", "--detach", "--brokers", "1", *where)
    assert status == 0, err
    assert f"bootstrap servers: 127.0.0.1:{port}" in out
    again, _, err = run_barnabas("up", "--detach", "--data", str(data))
    assert again == 0, err
    _, out, _ = run_barnabas("status", "--data", str(data), "-o", "json")
    document = json.loads(out)
    assert document["controller"] == 1
    assert document["zookeeper"]["address"] == f"127.0.0.1:{zookeeper_port}"
    (broker,) = document["brokers"]
    assert broker["log_dirs"] == [str(data / "broker-1" / "logs")]
    assert sorted([broker["pid"], document["zookeeper"]["pid"]]) == pids_below(data)
    moved, _, err = run_barnabas("up", "--detach", "--data", str(data), "--port", str(port + 1))
    assert (moved, "stop the cluster first" in err) == (1, True)
    assert run_barnabas("down", "--data", str(data))[:2] == (0, "stopped: broker 1, ZooKeeper\n")
    assert run_barnabas("down", "--data", str(data))[:2] == (0, f"nothing runs in {data}\n")
    assert pids_below(data) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_up_in_the_foreground_takes_its_cluster_with_it(tmp_path: Path, number: signal.Signals) -> None:
    data = new_cluster(tmp_path / "data", brokers=1).directory
    where = ("--port", str(free_port()), "--zookeeper-port", str(free_port()), "--data", str(data))
    command = barnabas("up", "--brokers", "1", *where)
    assert command.stdout is not None
    while "Ctrl-C" not in (line := command.stdout.readline()):
        assert line or command.poll() is None, command.stderr and command.stderr.read()
    assert len(pids_below(data)) >= 2
    command.send_signal(number)
    command.communicate(timeout=30)
    assert command.returncode == 0
    assert pids_below(data) == []
