"""The embedded ZooKeeper itself: it starts, keeps its data, and says why when it does not start."""

import socket
from pathlib import Path

import pytest

from barnabas.launcher.processes import is_alive
from barnabas.launcher.sockets import free_port
from barnabas.launcher.zookeeper import ZooKeeperNotStarted, ZooKeeperSettings, opens_session
from tests.support.zookeeper import new_zookeeper


def test_it_is_ready_after_start_and_gone_after_stop(tmp_path: Path) -> None:
    zookeeper = new_zookeeper(tmp_path)
    with zookeeper:
        assert opens_session("127.0.0.1", zookeeper.port)
        process = zookeeper.process.identity
        assert is_alive(process)
    assert not is_alive(process)
    assert not opens_session("127.0.0.1", zookeeper.port)
    zookeeper.start()
    zookeeper.kill()
    assert "binding to port" in zookeeper.log_file.read_text()


def test_a_taken_port_ends_the_start_with_the_log(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        zookeeper = new_zookeeper(tmp_path, port=taken.getsockname()[1])
        with pytest.raises(ZooKeeperNotStarted, match="Address already in use"):
            zookeeper.start(timeout_s=20)
    assert not zookeeper.is_running


def test_a_port_that_answers_nothing_opens_no_session() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert not opens_session("127.0.0.1", silent.getsockname()[1], timeout_s=0.05)
    assert not opens_session("127.0.0.1", free_port(), timeout_s=0.05)


def test_the_settings_stand_in_zoo_cfg(tmp_path: Path) -> None:
    text = ZooKeeperSettings(host="127.0.0.2").zoo_cfg(data_directory=tmp_path, port=4)
    assert {"tickTime=500", "minSessionTimeout=1000", "maxSessionTimeout=60000", "clientPort=4"} <= set(text.split())
    assert "clientPortAddress=127.0.0.2" in text
    assert "admin.enableServer=false" in text
