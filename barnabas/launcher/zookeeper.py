"""The real ZooKeeper as one local process: its configuration, its start, and what "ready" means.

Ready means that a session opened and closed again. A port that answers says less: with a jar missing ZooKeeper
answers every probe and opens no session, and an early four-letter probe makes it log an exception. The session is
opened by the forty bytes of ZooKeeper's own handshake, so that waiting needs no client.

Members of an ensemble are started with `launch`, all of them, and waited for afterwards: none serves without a quorum.

Leaves out: TLS, authentication. One process listens on one address, loopback unless told otherwise.
"""

import contextlib
import importlib.resources
import logging
import os
import signal
import socket
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from barnabas.launcher.jars import zookeeper_class_path
from barnabas.launcher.java import find_java
from barnabas.launcher.processes import LocalProcess
from barnabas.launcher.sockets import free_port, receive
from barnabas.runtime.clock import Clock, SystemClock

log = logging.getLogger(__name__)

DEFAULT_PORT: Final = 2181
START_TIMEOUT_S: Final = 30.0

_POLL_S: Final = 0.05
_STOP_GRACE_S: Final = 10.0
_PORT_TRIES: Final = 3
_MAIN_CLASS: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
# length, protocol version, last zxid, session timeout, session id, length of the password, password, read only
_CONNECT: Final = struct.Struct(">iiqiqi16s?")
# protocol version, granted session timeout
_CONNECTED: Final = struct.Struct(">ii")
_CLOSE_SESSION: Final = struct.pack(">iii", 8, 1, -11)


class ZooKeeperNotStarted(Exception):
    """The process ended, or opened no session in time. The text carries the end of its log."""


@dataclass(frozen=True, slots=True)
class ZooKeeperSettings:
    """What differs between an embedded ZooKeeper and one of a test. Times are milliseconds.

    `servers` are all members of an ensemble by id, each as `host:quorum port:election port`; `server_id` is this one.
    """

    host: str = "127.0.0.1"
    tick_time_ms: int = 500
    min_session_timeout_ms: int = 1000
    max_session_timeout_ms: int = 60_000
    fsync: bool = True
    servers: tuple[tuple[int, str], ...] = ()
    server_id: int | None = None

    def zoo_cfg(self, *, data_directory: Path, port: int) -> str:
        """The text of `zoo.cfg`."""
        lines = {
            "tickTime": self.tick_time_ms,
            # The granted timeout is cut to these bounds without a word; by default they are 2 and 20 ticks.
            "minSessionTimeout": self.min_session_timeout_ms,
            "maxSessionTimeout": self.max_session_timeout_ms,
            "initLimit": 10,
            "syncLimit": 4,
            "dataDir": data_directory,
            "clientPort": port,
            "clientPortAddress": self.host,
            "maxClientCnxns": 0,
            "admin.enableServer": "false",
            "autopurge.snapRetainCount": 3,
            "autopurge.purgeInterval": 24,
        }
        members = {f"server.{server_id}": server for server_id, server in self.servers}
        return "".join(f"{key}={value}\n" for key, value in (lines | members).items())


class LocalZooKeeper:
    """One ZooKeeper, its files below `directory`; the same directory started again has the same data.

    With port 0 a free one is picked at the first start and kept. `wrapper` is the command in front of Java's.
    """

    def __init__(
        self,
        directory: Path,
        *,
        port: int = 0,
        settings: ZooKeeperSettings | None = None,
        java: Path | None = None,
        class_path: list[Path] | None = None,
        wrapper: Sequence[str] = (),
        clock: Clock | None = None,
    ) -> None:
        self.directory = directory
        self.port = port
        self.settings = settings or ZooKeeperSettings()
        self._java = java
        self._class_path = class_path
        self._wrapper = list(wrapper)
        self._clock = clock or SystemClock()
        self._process: LocalProcess | None = None

    @property
    def connect_string(self) -> str:
        """For `zookeeper.connect`."""
        return f"{self.settings.host}:{self.port}"

    @property
    def log_file(self) -> Path:
        return self.directory / "zookeeper.log"

    @property
    def process(self) -> LocalProcess:
        assert self._process is not None, "not started"
        return self._process

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.return_code is None

    def start(
        self, timeout_s: float = START_TIMEOUT_S, *, on_process: Callable[[LocalProcess], None] | None = None
    ) -> None:
        """Start the process and return when a session opened. `on_process` is told of each process at once.

        Raises:
            JavaMissing, JarsUnavailable: there is nothing to start.
            ZooKeeperNotStarted: it ended, or opened no session within `timeout_s`; no process is left.
        """
        assert not self.is_running, "already started"
        picks_port = self.port == 0
        for attempt in range(1, _PORT_TRIES + 1):
            if picks_port:
                self.port = free_port(self.settings.host)
            process = self.launch()
            if on_process is not None:
                on_process(process)
            try:
                self.wait_until_ready(timeout_s)
            except ZooKeeperNotStarted as error:
                process.kill()
                # Between picking a free port and binding it somebody else may have taken it.
                if not picks_port or attempt == _PORT_TRIES or "BindException" not in str(error):
                    raise
            else:
                log.info("pid %d: ZooKeeper listens on %s", self.process.pid, self.connect_string)
                return

    def launch(self) -> LocalProcess:
        """Start the process and wait for nothing."""
        assert not self.is_running, "already started"
        assert self.port, "a port is picked by `start`"
        self._process = LocalProcess(self._command(), log_file=self.log_file)
        return self._process

    def wait_until_ready(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Return when a session opened.

        Raises:
            ZooKeeperNotStarted: it ended, or opened no session within `timeout_s`.
        """
        process = self.process
        ready = wait_until(
            lambda: opens_session(self.settings.host, self.port),
            self._clock,
            timeout_s=timeout_s,
            give_up=lambda: process.wait(_POLL_S),
        )
        if not ready:
            code = process.return_code
            what = f"opened no session in {timeout_s:g} s" if code is None else f"ended with {code}"
            raise ZooKeeperNotStarted(f"ZooKeeper on {self.connect_string} {what}; its log:\n{process.log_tail()}")

    def stop(self) -> None:
        """End the process; it may have ended already."""
        if self._process is not None:
            self._process.stop(grace_s=_STOP_GRACE_S)

    def kill(self) -> None:
        self.process.kill()

    def pause(self) -> None:
        """Let it answer nothing, its connections open, until `resume`."""
        self.process.pause()

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _command(self) -> list[str]:
        java = self._java = self._java or find_java()
        class_path = self._class_path = self._class_path or zookeeper_class_path()
        data = self.directory / "data"
        data.mkdir(parents=True, exist_ok=True)
        config = self.directory / "zoo.cfg"
        config.write_text(self.settings.zoo_cfg(data_directory=data, port=self.port))
        if self.settings.server_id is not None:
            (data / "myid").write_text(f"{self.settings.server_id}\n")
        log4j = self.directory / "log4j2.xml"
        log4j.write_text(importlib.resources.files("barnabas.launcher").joinpath("log4j2.xml").read_text())
        return [
            *self._wrapper,
            str(java),
            "-Xmx128m",
            "-XX:+UseSerialGC",
            f"-Dlog4j2.configurationFile={log4j}",
            *([] if self.settings.fsync else ["-Dzookeeper.forceSync=no"]),
            "-cp",
            os.pathsep.join(str(jar) for jar in class_path),
            _MAIN_CLASS,
            str(config),
        ]


def wait_until(condition: Callable[[], bool], clock: Clock, *, timeout_s: float, give_up: Callable[[], bool]) -> bool:
    """Whether `condition` came true in time; between two looks `give_up` waits a little and says whether to stop."""
    deadline_ms = clock.monotonic_ms() + int(timeout_s * 1000)
    while not condition():
        if give_up() or clock.monotonic_ms() > deadline_ms:
            return False
    return True


def opens_session(host: str, port: int, *, timeout_s: float = 2.0) -> bool:
    """Whether ZooKeeper there opens a session. The session is closed again."""
    request = _CONNECT.pack(_CONNECT.size - 4, 0, 0, 4000, 0, 16, bytes(16), False)
    try:
        with contextlib.closing(socket.create_connection((host, port), timeout_s)) as connection:
            connection.sendall(request)
            (length,) = struct.unpack(">i", receive(connection, 4))
            if not _CONNECTED.size <= length < 1024:
                return False
            _, granted_ms = _CONNECTED.unpack_from(receive(connection, length))
            connection.sendall(_CLOSE_SESSION)
            # The answer to the close; until then the session's end is not certain.
            receive(connection, 4)
    except OSError:
        return False
    return bool(granted_ms > 0)
