import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import javaproperties
import pytest

from barnabas.launcher.broker_process import answers_api_versions, broker_properties, escape
from barnabas.launcher.cluster import ClusterError, LocalCluster
from barnabas.launcher.cluster_state import ClusterState, Member, StateUnreadable, load_state
from barnabas.launcher.processes import ProcessIdentity, identify
from barnabas.launcher.sockets import address, free_port, is_free

GONE = ProcessIdentity(1, 0, "another boot")


def test_a_state_is_read_as_it_was_saved(tmp_path: Path) -> None:
    state = ClusterState("h", Member(2181, GONE), {2: Member(9093), 1: Member(9092, GONE)})
    state.save(tmp_path)
    assert load_state(tmp_path) == state
    assert not state.is_running
    assert load_state(tmp_path / "none") is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 2}', '{"version": 1, "host": "h", "zookeeper": 5}'])
def test_a_state_that_is_none_is_refused_with_its_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "cluster.json").write_text(text)
    with pytest.raises(StateUnreadable, match=r"cluster\.json"):
        load_state(tmp_path)


def ports(cluster: LocalCluster) -> list[int]:
    return [cluster.port(broker_id) for broker_id in cluster.broker_ids]


def test_ports_are_the_defaults_at_first_and_then_as_before_unless_asked(tmp_path: Path) -> None:
    first = LocalCluster(tmp_path, brokers=2)
    assert (first.host, first.connect_string, ports(first)) == ("127.0.0.1", "127.0.0.1:2181", [9092, 9093])
    ClusterState("127.0.0.1", Member(5), {1: Member(7), 2: Member(8)}).save(tmp_path)
    again = LocalCluster(tmp_path)
    assert (again.connect_string, ports(again)) == ("127.0.0.1:5", [7, 8])
    assert ports(LocalCluster(tmp_path, brokers=3)) == [7, 8, 9]
    moved = LocalCluster(tmp_path, brokers=3, port=100, zookeeper_port=6, host="::1")
    assert (moved.connect_string, ports(moved)) == ("127.0.0.1:6", [100, 101, 102])
    assert moved.bootstrap_servers == "[::1]:100,[::1]:101,[::1]:102"


def test_nothing_that_runs_is_moved(tmp_path: Path) -> None:
    me = identify(own_pid())
    ClusterState("127.0.0.1", Member(5, me), {1: Member(7, me), 2: Member(8)}).save(tmp_path)
    for moved in ({"port": 9}, {"zookeeper_port": 6}, {"host": "0.0.0.0"}):
        with pytest.raises(ClusterError, match="stop the cluster first"):
            LocalCluster(tmp_path, **moved)
    assert ports(LocalCluster(tmp_path, port=7, zookeeper_port=5, host="127.0.0.1")) == [7, 8]


def own_pid() -> int:
    """Of a process that surely runs: this one."""
    import os

    return os.getpid()


def test_a_directory_that_a_list_of_directories_could_not_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="commas"):
        LocalCluster(tmp_path / "a,b")


def test_a_brokers_properties_name_its_place(tmp_path: Path) -> None:
    properties = broker_properties(
        tmp_path, 2, host="::1", port=9093, zookeeper="127.0.0.1:2181", overrides={"num.partitions": "6"}
    )
    assert properties["broker.id"] == "2"
    assert properties["listeners"] == "PLAINTEXT://[::1]:9093"
    assert properties["log.dirs"] == str(tmp_path / "broker-2" / "logs")
    assert properties["num.partitions"] == "6"
    assert "advertised.listeners" not in properties
    wide = broker_properties(tmp_path, 1, host="0.0.0.0", port=1, zookeeper="z", overrides={})
    assert wide["listeners"] == "PLAINTEXT://0.0.0.0:1"
    assert "0.0.0.0" not in wide["advertised.listeners"]


@pytest.mark.parametrize("value", ["/a b/ü\\x", "\U0001f600=:#!", "tab\tand\nline"])
def test_any_value_survives_a_properties_file(value: str) -> None:
    assert javaproperties.loads(f"key={escape(value)}\n".encode("ascii")) == {"key": value}


def test_no_outgoing_connection_takes_a_free_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        given = server.getsockname()[1]
    first = free_port(count=3)
    assert all(is_free("127.0.0.1", first + number) for number in range(3))
    lowest, highest = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    assert lowest <= given <= highest
    assert all(free_port() < lowest for _ in range(100))
    with pytest.raises(OSError, match="servers"):
        free_port(count=lowest)


def test_a_port_is_free_until_somebody_listens_there() -> None:
    port = free_port()
    assert is_free("127.0.0.1", port)
    with socket.create_server(("127.0.0.1", port)):
        assert not is_free("127.0.0.1", port)
    with pytest.raises(OSError, match=r"assign|address"):
        is_free("192.0.2.1", port)
    assert address("::1", 5) == "[::1]:5"


@contextmanager
def server_that(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """A port where one connection is answered like that."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                answer(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


def api_versions(error_code: int) -> bytes:
    body = struct.pack(">ihi", 1, error_code, 1) + struct.pack(">hhh", 18, 0, 3)
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize(
    ("answer", "serves"),
    [
        (api_versions(0), True),
        (api_versions(35), False),
        (b"", False),
        (struct.pack(">i", 2**31 - 1), False),
        (struct.pack(">i", 3) + b"abc", False),
        (api_versions(0)[:-1], False),
    ],
)
def test_a_broker_serves_when_it_answers_api_versions(answer: bytes, serves: bool) -> None:
    def reply(connection: socket.socket) -> None:
        connection.recv(1024)
        connection.sendall(answer)

    with server_that(reply) as port:
        assert answers_api_versions("127.0.0.1", port, timeout_s=2) == serves


def test_what_accepts_and_says_nothing_does_not_serve() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert not answers_api_versions("127.0.0.1", silent.getsockname()[1], timeout_s=0.05)
    assert not answers_api_versions("127.0.0.1", free_port(), timeout_s=0.05)
