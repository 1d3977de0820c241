"""A whole cluster on this machine: one ZooKeeper and N brokers, each a process with its files below one directory.

    DIR/cluster.json                       ports and processes, see `cluster_state`
    DIR/zookeeper/{zoo.cfg,data,zookeeper.log}
    DIR/broker-1/{server.properties,logs,broker.log}

`start` starts what does not run and leaves the rest alone; a later run of the program finds the processes again. A
process is touched only if it is the very one that was started. Commands on one directory take turns by a lock.

Everything here blocks. In async code call it through `asyncio.to_thread`.
"""

import contextlib
import logging
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Self

from barnabas.launcher import processes
from barnabas.launcher.broker_process import (
    answers_api_versions,
    broker_log_file,
    broker_properties,
    log_directory,
    start_broker,
)
from barnabas.launcher.cluster_state import ClusterState, Member, load_state
from barnabas.launcher.cluster_status import ClusterStatus, ProcessStatus
from barnabas.launcher.cluster_view import read_view, wait_for_members
from barnabas.launcher.processes import LocalProcess
from barnabas.launcher.sockets import address, free_port, is_free, reachable
from barnabas.launcher.zookeeper import DEFAULT_PORT as DEFAULT_ZOOKEEPER_PORT
from barnabas.launcher.zookeeper import (
    LocalZooKeeper,
    ZooKeeperNotStarted,
    ZooKeeperSettings,
    opens_session,
    wait_until,
)
from barnabas.runtime.clock import Clock, SystemClock
from barnabas.runtime.disk import SystemDisk

log = logging.getLogger(__name__)

DEFAULT_BROKERS: Final = 3
DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 9092
START_TIMEOUT_S: Final = 60.0

_POLL_S: Final = 0.05
_STOP_GRACE_S: Final = 30.0
_REAP_S: Final = 5.0
_VIEW_TIMEOUT_S: Final = 2.0
_LOCK_FILE: Final = ".lock"


class ClusterError(Exception):
    """The cluster could not be brought into the state that was asked for; the text says why."""


class ClusterTimedOut(ClusterError):
    """It took longer than it was given."""


class ClusterBusy(ClusterError):
    """Another command is at work on the same directory."""


class LocalCluster:
    """The cluster of one directory. Arguments left at None are as they were, or the defaults in a new directory.

    With port 0 each broker, or ZooKeeper, gets a free port at its first start and keeps it. `properties` go into every
    broker's server.properties over what the launcher writes.

    Raises:
        StateUnreadable: the directory's cluster.json is not one.
        ClusterError: the arguments contradict what runs.
    """

    def __init__(
        self,
        directory: Path,
        *,
        brokers: int | None = None,
        host: str | None = None,
        port: int | None = None,
        zookeeper_port: int | None = None,
        properties: Mapping[str, str] | None = None,
        zookeeper_settings: ZooKeeperSettings | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.directory = directory.absolute()
        if "," in str(self.directory):
            raise ClusterError(f"{self.directory}: log.dirs is a list with commas between, so a path cannot hold one")
        self._properties = dict(properties or {})
        self._zookeeper_settings = zookeeper_settings or ZooKeeperSettings()
        self._clock = clock or SystemClock()
        self._children: dict[int, LocalProcess] = {}
        self._state = load_state(self.directory) or ClusterState(DEFAULT_HOST, Member(DEFAULT_ZOOKEEPER_PORT))
        self._adopt(host=host, port=port, zookeeper_port=zookeeper_port)
        count = brokers or len(self._state.brokers) or DEFAULT_BROKERS
        base = DEFAULT_PORT if port is None else port
        for broker_id in range(1, count + 1):
            if broker_id not in self._state.brokers:
                first = self._state.brokers.get(1)
                start = base if port is not None or first is None else first.port
                self._state.brokers[broker_id] = Member(start and start + broker_id - 1)
        self._wanted = range(1, count + 1)

    # What it is.

    @property
    def host(self) -> str:
        return self._state.host

    @property
    def connect_string(self) -> str:
        """Of ZooKeeper."""
        return address(self._zookeeper_settings.host, self._state.zookeeper.port)

    @property
    def bootstrap_servers(self) -> str:
        """All brokers, whether they run or not."""
        return ",".join(address(reachable(self.host), member.port) for member in self._state.brokers.values())

    @property
    def broker_ids(self) -> list[int]:
        return sorted(self._state.brokers)

    def port(self, broker_id: int) -> int:
        """Where a broker listens."""
        return self._state.brokers[broker_id].port

    def pid(self, broker_id: int) -> int | None:
        """A broker's process while it runs."""
        return self._state.brokers[broker_id].pid

    def log_file(self, broker_id: int) -> Path:
        """What a broker has said, over all its starts."""
        return broker_log_file(self.directory, broker_id)

    def log_directory(self, broker_id: int) -> Path:
        """Where a broker keeps its partitions."""
        return log_directory(self.directory, broker_id)

    @property
    def is_running(self) -> bool:
        """Whether any of its processes runs."""
        return self._state.is_running

    def status(self) -> ClusterStatus:
        """How every member is now."""
        zookeeper = self._state.zookeeper
        answers = zookeeper.is_alive and opens_session(self._zookeeper_settings.host, zookeeper.port)
        view = read_view(self.connect_string, timeout_s=_VIEW_TIMEOUT_S) if answers else None
        return ClusterStatus(
            directory=self.directory,
            zookeeper=ProcessStatus(
                host=self._zookeeper_settings.host,
                port=zookeeper.port,
                pid=zookeeper.pid,
                state="running" if answers else "starting" if zookeeper.is_alive else "stopped",
                log_file=self._zookeeper().log_file,
            ),
            brokers={broker_id: self._broker_status(broker_id) for broker_id in self.broker_ids},
            registered_controller=None if view is None else view.controller,
        )

    # All of it.

    def start(self, *, timeout_s: float = START_TIMEOUT_S) -> ClusterStatus:
        """Start what is missing; returns when every broker is registered and serves, and one is the controller.

        Raises:
            JavaMissing, JarsUnavailable: there is no ZooKeeper to start.
            ClusterError: a process ended, or a port is taken; what this call had started is stopped again.
            ClusterTimedOut: not within `timeout_s`; likewise.
            ClusterBusy: another command is at work here.
        """
        deadline_ms = self._clock.monotonic_ms() + int(timeout_s * 1000)
        with self._lock(), contextlib.ExitStack() as undo:
            if not self._state.zookeeper.is_alive:
                undo.callback(self._stop_member, self._state.zookeeper)
                self._start_zookeeper(self._left_s(deadline_ms))
            for broker_id in self._wanted:
                if not self._state.brokers[broker_id].is_alive:
                    undo.callback(self._stop_member, self._state.brokers[broker_id])
                    self._spawn(broker_id)
            for broker_id in self._wanted:
                self._wait_for_broker(broker_id, self._left_s(deadline_ms))
            self._wait_for_registrations(self._left_s(deadline_ms))
            undo.pop_all()
        return self.status()

    def stop(self) -> list[str]:
        """End every process, brokers first; the data stays. Says what was stopped.

        Raises:
            ClusterBusy: another command is at work here.
        """
        stopped: list[str] = []
        if not self.directory.is_dir():
            return stopped
        with self._lock():
            brokers = [(broker_id, member) for broker_id, member in self._state.brokers.items() if member.is_alive]
            for _, member in brokers:
                self._ask_to_end(member)
            for broker_id, member in brokers:
                stopped.append(f"broker {broker_id}" + ("" if self._stop_member(member) else " (killed)"))
            if self._state.zookeeper.is_alive:
                stopped.append("ZooKeeper" + ("" if self._stop_member(self._state.zookeeper) else " (killed)"))
            self._state.save(self.directory)
        return stopped

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # One broker.

    def start_broker(self, broker_id: int, *, wait: bool = True, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start one broker that does not run; with `wait` return when it serves."""
        assert not self._state.brokers[broker_id].is_alive, f"broker {broker_id} runs"
        self._spawn(broker_id)
        if wait:
            self.wait_for_broker(broker_id, timeout_s=timeout_s)

    def wait_for_broker(self, broker_id: int, *, timeout_s: float = START_TIMEOUT_S) -> None:
        """Return when the broker serves.

        Raises:
            ClusterError: it ended.
            ClusterTimedOut: not within `timeout_s`.
        """
        self._wait_for_broker(broker_id, timeout_s)

    def stop_broker(self, broker_id: int) -> bool:
        """Ask one broker to end, and kill it if it does not. Whether it ended by itself."""
        return self._stop_member(self._state.brokers[broker_id])

    def kill(self, broker_id: int) -> None:
        """SIGKILL, and return when it is gone."""
        self._kill_member(self._state.brokers[broker_id])

    def restart(self, broker_id: int, *, timeout_s: float = START_TIMEOUT_S) -> None:
        """Stop one broker if it runs, start it, and return when it serves."""
        self.stop_broker(broker_id)
        self.start_broker(broker_id, timeout_s=timeout_s)

    def pause(self, broker_id: int) -> None:
        """SIGSTOP: its connections stay open and nothing is answered."""
        self._signal(self._state.brokers[broker_id], signal.SIGSTOP)

    def resume(self, broker_id: int) -> None:
        """SIGCONT."""
        self._signal(self._state.brokers[broker_id], signal.SIGCONT)

    # ZooKeeper.

    def kill_zookeeper(self) -> None:
        """SIGKILL, and return when it is gone."""
        self._kill_member(self._state.zookeeper)

    def start_zookeeper(self, *, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start ZooKeeper on the same port with the same data; return when it opens sessions."""
        assert not self._state.zookeeper.is_alive, "ZooKeeper runs"
        self._start_zookeeper(timeout_s)

    def pause_zookeeper(self) -> None:
        """SIGSTOP."""
        self._signal(self._state.zookeeper, signal.SIGSTOP)

    def resume_zookeeper(self) -> None:
        """SIGCONT."""
        self._signal(self._state.zookeeper, signal.SIGCONT)

    def wait_for_ends(self, timeout_s: float) -> list[str]:
        """Names of the members whose process ended since the last call; waits that long for a first one."""
        known = [(name, member) for name, member in self._members() if member.process is not None]
        processes.wait_for_any_end([member.process for _, member in known if member.process is not None], timeout_s)
        ended = [(name, member) for name, member in known if not member.is_alive]
        for _, member in ended:
            self._reap(member)
        return [name for name, _ in ended]

    # Inside.

    def _members(self) -> list[tuple[str, Member]]:
        brokers = [(f"broker {broker_id}", self._state.brokers[broker_id]) for broker_id in self.broker_ids]
        return [("ZooKeeper", self._state.zookeeper), *brokers]

    def _adopt(self, *, host: str | None, port: int | None, zookeeper_port: int | None) -> None:
        """Take over what was asked for where it changes nothing that runs."""
        state = self._state
        if host is not None and host != state.host:
            self._refuse_while_running([*state.brokers], f"listen on {state.host}")
            state.host = host
        if zookeeper_port is not None and zookeeper_port != state.zookeeper.port:
            if state.zookeeper.is_alive:
                raise ClusterError(f"ZooKeeper runs on port {state.zookeeper.port}: stop the cluster first")
            state.zookeeper.port = zookeeper_port
        for broker_id, member in state.brokers.items():
            wanted = None if port is None else port and port + broker_id - 1
            if wanted is not None and wanted != member.port:
                self._refuse_while_running([broker_id], f"listen on port {member.port}")
                member.port = wanted

    def _refuse_while_running(self, broker_ids: list[int], what: str) -> None:
        running = [broker_id for broker_id in broker_ids if self._state.brokers[broker_id].is_alive]
        if running:
            raise ClusterError(f"running brokers ({', '.join(map(str, running))}) {what}: stop the cluster first")

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        """Keep other commands off the directory, and see what they have done before."""
        self.directory.mkdir(parents=True, exist_ok=True)
        try:
            lock = SystemDisk().lock(str(self.directory / _LOCK_FILE))
        except BlockingIOError:
            raise ClusterBusy(f"another command starts or stops the cluster in {self.directory}") from None
        try:
            saved = load_state(self.directory)
            if saved is not None:
                self._state.zookeeper.process = saved.zookeeper.process
                for broker_id, member in saved.brokers.items():
                    self._state.brokers.setdefault(broker_id, member).process = member.process
            yield
        finally:
            lock.release()

    def _left_s(self, deadline_ms: int) -> float:
        left_ms = deadline_ms - self._clock.monotonic_ms()
        if left_ms <= 0:
            raise ClusterTimedOut("the cluster was not ready in time")
        return left_ms / 1000

    def _zookeeper(self) -> LocalZooKeeper:
        return LocalZooKeeper(
            self.directory / "zookeeper",
            port=self._state.zookeeper.port,
            settings=self._zookeeper_settings,
            clock=self._clock,
        )

    def _start_zookeeper(self, timeout_s: float) -> None:
        member, zookeeper = self._state.zookeeper, self._zookeeper()
        self._check_port("ZooKeeper", self._zookeeper_settings.host, member.port)

        def remember(process: LocalProcess) -> None:
            member.port = zookeeper.port
            self._remember(member, process)

        try:
            zookeeper.start(timeout_s, on_process=remember)
        except ZooKeeperNotStarted as error:
            raise ClusterError(str(error)) from error

    def _spawn(self, broker_id: int) -> None:
        member = self._state.brokers[broker_id]
        member.port = member.port or free_port(self.host)
        self._check_port(f"broker {broker_id}", self.host, member.port)
        properties = broker_properties(
            self.directory,
            broker_id,
            host=self.host,
            port=member.port,
            zookeeper=self.connect_string,
            overrides=self._properties,
        )
        self._remember(member, start_broker(self.directory, broker_id, properties))
        log.info("broker %d: started as pid %s on %s:%d", broker_id, member.pid, self.host, member.port)

    def _remember(self, member: Member, process: LocalProcess) -> None:
        member.process = process.identity
        self._children[process.pid] = process
        self._state.save(self.directory)

    def _check_port(self, name: str, host: str, port: int) -> None:
        try:
            free = port == 0 or is_free(host, port)
        except OSError as error:
            raise ClusterError(f"{name} cannot listen on {host}:{port}: {error.strerror}") from error
        if not free:
            raise ClusterError(f"{name} cannot listen on {host}:{port}: another process does")

    def _broker_status(self, broker_id: int) -> ProcessStatus:
        member = self._state.brokers[broker_id]
        serves = member.is_alive and answers_api_versions(self.host, member.port)
        state = "running" if serves else "starting" if member.is_alive else "stopped"
        return ProcessStatus(self.host, member.port, member.pid, state, self.log_file(broker_id))

    def _wait_for_broker(self, broker_id: int, timeout_s: float) -> None:
        member = self._state.brokers[broker_id]
        assert member.process is not None
        process = member.process
        serves = wait_until(
            lambda: answers_api_versions(self.host, member.port),
            self._clock,
            timeout_s=timeout_s,
            give_up=lambda: processes.wait_for_end(process, _POLL_S),
        )
        # What answers there may be somebody else's while ours could not bind.
        if not member.is_alive:
            raise ClusterError(f"broker {broker_id} ended{self._last_words(member, self.log_file(broker_id))}")
        if not serves:
            raise ClusterTimedOut(
                f"broker {broker_id} did not serve within {timeout_s:.0f} s: {self.log_file(broker_id)}"
            )

    def _wait_for_registrations(self, timeout_s: float) -> None:
        brokers = [self._state.brokers[broker_id] for broker_id in self._wanted]
        view = wait_for_members(
            self.connect_string,
            self._wanted,
            timeout_s=timeout_s,
            give_up=lambda: not all(member.is_alive for member in brokers),
        )
        if view is not None:
            return
        for broker_id in self._wanted:
            member = self._state.brokers[broker_id]
            if not member.is_alive:
                raise ClusterError(f"broker {broker_id} ended{self._last_words(member, self.log_file(broker_id))}")
        raise ClusterTimedOut(f"brokers {list(self._wanted)} were not registered, with a controller, in time")

    def _last_words(self, member: Member, log_file: Path) -> str:
        child = self._children.get(member.process.pid) if member.process is not None else None
        if child is None:
            return f"; its log is {log_file}"
        # A process whose main thread is gone counts as dead a moment before its status can be had.
        child.wait(_REAP_S)
        return f" with {child.return_code}; its log {log_file} ends:\n{child.log_tail()}"

    def _ask_to_end(self, member: Member) -> None:
        assert member.process is not None
        processes.send_signal(member.process, signal.SIGTERM)

    def _stop_member(self, member: Member) -> bool:
        """Whether it ended by itself, or had ended."""
        by_itself = member.process is None or processes.stop(member.process, grace_s=_STOP_GRACE_S)
        self._reap(member)
        return by_itself

    def _kill_member(self, member: Member) -> None:
        assert member.process is not None
        processes.kill(member.process)
        self._reap(member)

    def _signal(self, member: Member, number: signal.Signals) -> None:
        assert member.process is not None
        sent = processes.send_signal(member.process, number)
        assert sent, "the process has ended"

    def _reap(self, member: Member) -> None:
        """Leave no zombie of a process that has ended."""
        if member.process is not None and (child := self._children.pop(member.process.pid, None)) is not None:
            child.wait(_REAP_S)
        member.process = None
