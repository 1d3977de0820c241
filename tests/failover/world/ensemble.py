"""Three ZooKeepers that agree, each on a host of its own."""

import contextlib
import socket
import time
from collections.abc import Sequence
from pathlib import Path

from barnabas.launcher.jars import zookeeper_class_path
from barnabas.launcher.java import find_java
from barnabas.launcher.zookeeper import LocalZooKeeper, ZooKeeperSettings
from tests.failover.world.network import Host
from tests.support.zookeeper_session import end_session

TICK_MS = 1000
_CLIENT_PORT, _QUORUM_PORT, _ELECTION_PORT = 2181, 2888, 3888
_PATIENCE_SECONDS = 40.0


class Ensemble:
    """ZooKeepers by id, from 1 on. Their files are below `directory`."""

    def __init__(self, directory: Path, hosts: Sequence[Host]) -> None:
        self.hosts = dict(enumerate(hosts, start=1))
        servers = tuple(
            (server_id, f"{host.address}:{host.port(_QUORUM_PORT)}:{host.port(_ELECTION_PORT)}")
            for server_id, host in self.hosts.items()
        )
        java, class_path = find_java(), zookeeper_class_path()
        self.members = {
            server_id: LocalZooKeeper(
                directory / f"zookeeper-{server_id}",
                port=host.port(_CLIENT_PORT),
                settings=ZooKeeperSettings(
                    host=host.address, tick_time_ms=TICK_MS, servers=servers, server_id=server_id
                ),
                java=java,
                class_path=class_path,
                wrapper=host.wrapper,
            )
            for server_id, host in self.hosts.items()
        }

    @property
    def connect_string(self) -> str:
        return ",".join(member.connect_string for member in self.members.values())

    def start(self) -> None:
        """Start who does not run; returns when all serve."""
        for member in self.members.values():
            if not member.is_running:
                member.launch()
        for member in self.members.values():
            member.wait_until_ready(_PATIENCE_SECONDS)

    def stop(self) -> None:
        for member in self.members.values():
            with contextlib.suppress(ProcessLookupError):
                member.stop()

    def leader(self) -> int | None:
        """Who leads, as the members say."""
        return next((server_id for server_id, mode in self.modes().items() if mode == "leader"), None)

    def await_leader(self, *, other_than: int | None = None) -> int:
        """Return when somebody leads."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while (found := self.leader()) in {None, other_than}:
            assert time.monotonic() < deadline, f"no leader among ZooKeepers: {self.modes()}"
            time.sleep(0.1)
        assert found is not None
        return found

    def modes(self) -> dict[int, str]:
        """`leader`, `follower`, or `none` of who serves nobody. Only for members that have served already."""
        return {server_id: self._mode(member) for server_id, member in self.members.items()}

    def end_session(self, session_id: int) -> None:
        """Expire somebody's session."""
        end_session(self.members[self.await_leader()].connect_string, session_id)

    def _mode(self, member: LocalZooKeeper) -> str:
        if not member.is_running:
            return "none"
        try:
            with socket.create_connection((member.settings.host, member.port), 1) as connection:
                connection.settimeout(1)
                connection.sendall(b"srvr")
                answer = b"".join(iter(lambda: connection.recv(4096), b"")).decode()
        except OSError:
            return "none"
        return next((line[6:] for line in answer.splitlines() if line.startswith("Mode: ")), "none")
