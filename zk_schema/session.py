"""A session on a real ZooKeeper, through kazoo. The only file that imports kazoo.

kazoo runs one thread per client. All that happens in it, changes of state, watches, answers, is handed to the event
loop by `call_soon_threadsafe` in the order in which it came off the wire, tagged with the client's generation; the
loop drops what an earlier client still says. kazoo's own worker threads, which would let a watch and an answer
overtake each other, are not started.

kazoo connects again by itself, to the same session or to a new one. Its thread can die (an answer that it cannot
read, a refused authentication): then a new client is made, for as long as it takes (KAFKA-5473). Names that cannot be
resolved are tried for as long as it takes, too. A server that takes a connection and says nothing, as one that is just
starting may, gets a third of the session timeout; kazoo would wait until the session is over.

Every write, also of one operation, is a multi: one way to send and one to read the answer, and only a multi can
create a znode with null data. The chroot is put before every path here, not by kazoo, so that it can be created.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any, Final

import kazoo.exceptions as kazoo_errors
from kazoo.client import KazooClient, TransactionRequest
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol import serialization as wire
from kazoo.protocol.states import EventType, KazooState, KeeperState, WatchedEvent, ZnodeStat
from kazoo.retry import KazooRetry
from kazoo.security import OPEN_ACL_UNSAFE

from zk_schema.ops import (
    Check,
    Create,
    Created,
    Delete,
    Done,
    NodeExists,
    NodeHasChildren,
    NodeMissing,
    Op,
    OpResult,
    OutcomeUnknown,
    ReadForbidden,
    SessionLost,
    Set,
    Stat,
    VersionMoved,
    WriteForbidden,
    WriteRefused,
    Written,
    Znode,
    ZooKeeperError,
    ZooKeeperUnreachable,
    is_acceptable_path,
)
from zk_schema.paths import parents
from zk_schema.pipeline import (
    DEFAULT_MAX_IN_FLIGHT,
    Answer,
    GetChildren,
    GetData,
    GetStat,
    PipelinedSession,
    ReadMissed,
    Request,
    Ticket,
    Write,
)
from zk_schema.port import ChildrenChanged, DataChanged
from zk_schema.readiness import await_ready

log = logging.getLogger(__name__)

_FIRST_RETRY_S: Final = 0.05
_MAX_RETRY_S: Final = 1.0
_RENEWAL_S: Final = 1.0
_STILL_WAITING_S: Final = 5.0
_MIN_PATIENCE_S: Final = 1.0
_CLOSE_S: Final = 10.0

_REFUSALS: Final = {
    kazoo_errors.NoNodeError: NodeMissing,
    kazoo_errors.NodeExistsError: NodeExists,
    kazoo_errors.BadVersionError: VersionMoved,
    kazoo_errors.NotEmptyError: NodeHasChildren,
}
# Not what failed: undone because another operation of the multi failed, or not tried after it.
_BYSTANDERS: Final = (kazoo_errors.RolledBackError, kazoo_errors.RuntimeInconsistency)
_UNKNOWN_OUTCOMES: Final = (
    kazoo_errors.ConnectionLoss,
    kazoo_errors.SessionMovedError,
    kazoo_errors.OperationTimeoutError,
    kazoo_errors.RequestTimeoutError,
    kazoo_errors.SystemZookeeperError,
)

_ToLoop = Callable[[Callable[[], None]], None]


class _QuietLogger(logging.LoggerAdapter[logging.Logger]):
    """kazoo tells of every attempt; we tell of every change. Its lines are for debugging, but for its exceptions."""

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        super().log(level if kwargs.get("exc_info") else min(level, logging.DEBUG), msg, *args, **kwargs)

    def process(self, msg: object, kwargs: MutableMapping[str, Any]) -> tuple[object, MutableMapping[str, Any]]:
        return msg, kwargs


class _InlineHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """Callbacks run where they arise, in kazoo's connection thread, so they keep the order of the wire.

    `patience_s` is how long a server may take to accept a connection, and to say the next bytes of what it owes.
    """

    def __init__(
        self, on_result: Callable[[Any], None], on_thread_end: Callable[[], None], *, patience_s: float
    ) -> None:
        super().__init__()
        self._on_result = on_result
        self._on_thread_end = on_thread_end
        self._patience_s = patience_s

    def create_connection(self, *args: Any, timeout: float, **kwargs: Any) -> Any:
        return super().create_connection(*args, timeout=min(timeout, self._patience_s), **kwargs)

    def select(self, readable: Sequence[Any], writable: Sequence[Any], _: Sequence[Any], timeout: float | None) -> Any:
        # Two sockets are watched while nothing is owed: the connection, and the one that tells of new requests.
        if timeout is not None and len(readable) == 1:
            timeout = min(timeout, self._patience_s)
        return await_ready(readable, writable, timeout)

    def start(self) -> None:
        """No workers."""

    def stop(self) -> None:
        """No workers."""

    def dispatch_callback(self, callback: Any) -> None:
        callback.func(*callback.args)

    def async_result(self) -> Any:
        """Linked before the request is sent: linking later could let a later event overtake this answer."""
        result = super().async_result()
        result.rawlink(self._on_result)
        return result

    def spawn(self, func: Callable[..., object], *args: Any, **kwargs: Any) -> Any:
        def run() -> None:
            # kazoo has logged what ended its loop; the session makes a new client.
            with contextlib.suppress(Exception):
                func(*args, **kwargs)
            self._on_thread_end()

        return super().spawn(run)


class _Link:
    """One kazoo client. Its methods run on the loop, its callbacks in kazoo's thread."""

    def __init__(self, session: "KazooSession", hosts: str, *, session_timeout_ms: int, to_loop: _ToLoop) -> None:
        self._session = session
        self._to_loop = to_loop
        self._tickets: dict[Any, tuple[Ticket, int]] = {}
        handler = _InlineHandler(
            self._on_result,
            lambda: to_loop(lambda: session.on_thread_end(self)),
            patience_s=max(session_timeout_ms / 3000, _MIN_PATIENCE_S),
        )
        retry = KazooRetry(
            max_tries=-1, delay=_FIRST_RETRY_S, backoff=1.5, max_delay=_MAX_RETRY_S, sleep_func=handler.sleep_func
        )
        self._handler = handler
        self._client = KazooClient(
            hosts,
            timeout=session_timeout_ms / 1000,
            handler=handler,
            connection_retry=retry,
            logger=_QuietLogger(log.getChild("kazoo"), {}),
        )
        self._client.add_listener(self._on_state)

    @property
    def credentials(self) -> tuple[int, bytes] | None:
        """Id and password of the session, while connected."""
        credentials: tuple[int, bytes] | None = self._client.client_id
        return credentials

    def start(self) -> None:
        self._client.start_async()

    def send(self, ticket: Ticket, chroot: str) -> None:
        """Put `chroot` before the paths and hand the request to kazoo."""
        result = self._submit(ticket.request, lambda path: chroot + path if path != "/" else chroot or "/")
        # The answer comes through the loop, so not before this.
        self._tickets[result] = (ticket, ticket.generation)

    def close(self, on_closed: Callable[[], None]) -> None:
        """End session, connection and thread; kazoo waits for that, so in a thread of its own."""

        def close() -> None:
            with contextlib.suppress(Exception):
                self._client.stop()
            with contextlib.suppress(Exception):
                self._client.close()
            self._to_loop(on_closed)

        SequentialThreadingHandler.spawn(self._handler, close)

    def _submit(self, request: Request, absolute: Callable[[str], str]) -> Any:
        match request:
            case GetData(path, watch):
                return self._client.get_async(absolute(path), watch=self._on_data_watch if watch else None)
            case GetStat(path, watch):
                return self._client.exists_async(absolute(path), watch=self._on_data_watch if watch else None)
            case GetChildren(path, watch):
                return self._client.get_children_async(absolute(path), watch=self._on_child_watch if watch else None)
            case Write(operations):
                multi = TransactionRequest(self._client)
                multi.operations.extend(_wire_operation(operation, absolute) for operation in operations)
                return multi.commit_async()

    # In kazoo's thread.

    def _on_state(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            session_id = self._client.client_id[0]
            self._to_loop(lambda: self._session.on_link_connected(self, session_id))
        elif state == KazooState.SUSPENDED:
            self._to_loop(lambda: self._session.on_link_disconnected(self))
        elif self._client.client_state == KeeperState.EXPIRED_SESSION:
            self._to_loop(lambda: self._session.on_link_expired(self))

    def _on_data_watch(self, event: WatchedEvent) -> None:
        # kazoo ends watches that a lost connection dropped with an event of no type.
        if event.type != EventType.NONE:
            self._to_loop(lambda: self._session.on_link_event(self, DataChanged, event.path))

    def _on_child_watch(self, event: WatchedEvent) -> None:
        if event.type != EventType.NONE:
            self._to_loop(lambda: self._session.on_link_event(self, ChildrenChanged, event.path))

    def _on_result(self, result: Any) -> None:
        self._to_loop(lambda: self._on_answer(result))

    # On the loop again.

    def _on_answer(self, result: Any) -> None:
        ticket, generation = self._tickets.pop(result)
        answer: Answer | Exception
        try:
            answer = _read_answer(ticket.request, result.get_nowait())
        except Exception as error:  # noqa: BLE001 - it goes to whoever asked
            cause = _read_error(ticket.request, error)
            if cause is None:
                return
            answer = cause
        self._session.on_link_answer(self, ticket, generation, answer)


class KazooSession(PipelinedSession):
    """A session on the ensemble of `zookeeper.connect`, `host:port[,host:port…][/chroot]`. Made on a running loop."""

    def __init__(self, connect: str, *, session_timeout_ms: int, max_in_flight: int = DEFAULT_MAX_IN_FLIGHT) -> None:
        super().__init__(self._hand_over, max_in_flight=max_in_flight)
        self._hosts, self._chroot = split_connect_string(connect)
        self._connect_string = connect
        self._session_timeout_ms = session_timeout_ms
        self._loop = asyncio.get_running_loop()
        self._connected = asyncio.Event()
        self._link: _Link | None = None
        self._renewal: asyncio.TimerHandle | None = None

    @property
    def credentials(self) -> tuple[int, bytes] | None:
        """Id and password of the session, while connected: who has them can take it over or end it."""
        return None if self._link is None else self._link.credentials

    async def open(self, *, timeout_ms: int) -> None:
        """Return once a session is open and the chroot exists.

        Raises:
            ZooKeeperUnreachable: not within `timeout_ms`; the session is closed.
            WriteRefused: the chroot could not be made; the session is closed.
        """
        log.info("connecting to ZooKeeper at %s", self._connect_string)
        self._start_link()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._wait_until_connected(timeout_ms)
                await self._create_chroot()
        except TimeoutError:
            await self.close()
            raise ZooKeeperUnreachable(
                f"no session with ZooKeeper at {self._connect_string} within {timeout_ms} ms"
            ) from None
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End the session; its ephemeral znodes go at once, if it is connected."""
        if self._is_closed:
            return
        self._on_closed()
        if self._renewal is not None:
            self._renewal.cancel()
        if self._link is not None:
            closed = asyncio.Event()
            self._link.close(closed.set)
            try:
                async with asyncio.timeout(_CLOSE_S):
                    await closed.wait()
            except TimeoutError:
                log.warning("ZooKeeper at %s has not confirmed the session's end", self._connect_string)
        self._on_ended()

    # From the link, on the loop.

    def on_link_connected(self, link: _Link, session_id: int) -> None:
        """The link has (again) a connection."""
        if link is self._link and not self._is_closed:
            self._on_connected(session_id)
            self._connected.set()

    def on_link_disconnected(self, link: _Link) -> None:
        """The link's connection went."""
        if link is self._link and not self._is_closed:
            self._on_disconnected()

    def on_link_expired(self, link: _Link) -> None:
        """ZooKeeper does not know the session any more; the link is making a new one."""
        if link is self._link and not self._is_closed:
            self._on_expired()

    def on_link_event(self, link: _Link, kind: type[DataChanged | ChildrenChanged], path: str) -> None:
        """A watch fired; its path has the chroot."""
        if link is self._link:
            self._on_event(kind(self._without_chroot(path)), self._generation)

    def on_link_answer(self, link: _Link, ticket: Ticket, generation: int, answer: Answer | Exception) -> None:
        """A request is answered."""
        if link is self._link:
            self._on_answer(ticket, generation, answer)

    def on_thread_end(self, link: _Link) -> None:
        """Kazoo gave up. Its session, if there was one, counts as lost: only a new client can go on."""
        if link is not self._link or self._is_closed:
            return
        self._link = None
        log.error("ZooKeeper client for %s ended; a new one follows in %g s", self._connect_string, _RENEWAL_S)
        self._on_expired()
        link.close(lambda: None)
        self._renewal = self._loop.call_later(_RENEWAL_S, self._start_link)

    # Inside.

    def _start_link(self) -> None:
        self._link = _Link(self, self._hosts, session_timeout_ms=self._session_timeout_ms, to_loop=self._call_on_loop)
        self._link.start()

    def _call_on_loop(self, call: Callable[[], None]) -> None:
        # A loop that is closed already hears nothing more.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call)

    async def _wait_until_connected(self, timeout_ms: int) -> None:
        started = self._loop.time()
        while not self._connected.is_set():
            try:
                async with asyncio.timeout(_STILL_WAITING_S):
                    await self._connected.wait()
            except TimeoutError:
                waited_s = self._loop.time() - started
                log.warning(
                    "ZooKeeper at %s: no session after %.0f s, waiting for %.0f s in all",
                    self._connect_string,
                    waited_s,
                    timeout_ms / 1000,
                )

    async def _create_chroot(self) -> None:
        chroot, self._chroot = self._chroot, ""
        while chroot:
            try:
                if await self.exists(chroot) is not None:
                    break
                for path in (*parents(chroot), chroot):
                    with contextlib.suppress(NodeExists):
                        await self.write(Create(path, None))
                log.info("chroot %s created", chroot)
            except (OutcomeUnknown, SessionLost):
                await asyncio.sleep(_FIRST_RETRY_S)
        self._chroot = chroot

    def _hand_over(self, ticket: Ticket) -> None:
        assert self._link is not None
        self._link.send(ticket, self._chroot)

    def _without_chroot(self, path: str) -> str:
        return path[len(self._chroot) :] or "/"


def split_connect_string(connect: str) -> tuple[str, str]:
    """The hosts of a `zookeeper.connect`, and its chroot, empty if there is none.

    Raises:
        ValueError: it names no host, a port that is none, or a chroot that no znode could have.
    """
    hosts, slash, chroot = connect.partition("/")
    chroot = (slash + chroot).rstrip("/")
    if chroot and not is_acceptable_path(chroot):
        raise ValueError(f"{connect!r}: {chroot!r} is no path")
    for host in hosts.split(","):
        name, colon, port = host.strip().rpartition(":") if not host.strip().endswith("]") else (host, "", "")
        if colon and not (port.isdecimal() and 0 < int(port) < 65536):
            raise ValueError(f"{connect!r}: {port!r} is no port")
        if not (name if colon else host.strip()):
            raise ValueError(f"{connect!r}: a host is missing")
    return hosts, chroot


def _wire_operation(operation: Op, absolute: Callable[[str], str]) -> Any:
    path = absolute(operation.path)
    match operation:
        case Create():
            flags = (1 if operation.ephemeral else 0) | (2 if operation.sequential else 0)
            return wire.Create(path, operation.data, OPEN_ACL_UNSAFE, flags)
        case Set():
            return wire.SetData(path, operation.data, operation.version)
        case Delete():
            return wire.Delete(path, operation.version)
        case Check():
            return wire.CheckVersion(path, operation.version)


def _read_answer(request: Request, value: Any) -> Answer:
    match request:
        case GetData():
            data, stat = value
            return Znode(data or b"", _stat(stat))
        case GetStat():
            return None if value is None else _stat(value)
        case GetChildren():
            return list(value)
        case Write(operations):
            failed = [index for index, result in enumerate(value) if isinstance(result, Exception)]
            if failed:
                culprit = next((index for index in failed if not isinstance(value[index], _BYSTANDERS)), failed[0])
                raise _refusal(value[culprit], operations[culprit], culprit)
            return tuple(_result(operation, result) for operation, result in zip(operations, value, strict=True))


def _result(operation: Op, value: Any) -> OpResult:
    match operation:
        case Create():
            # What ZooKeeper appends to a sequential name has ten digits; before it stands the path as asked.
            return Created(operation.path + (value[-10:] if operation.sequential else ""))
        case Set():
            return Written(_stat(value))
        case Delete() | Check():
            return Done()


def _read_error(request: Request, error: Exception) -> Exception | None:
    """What whoever asked gets; None when the end of the connection or the session says it better."""
    if isinstance(error, ZooKeeperError):
        return error
    if isinstance(error, kazoo_errors.ConnectionLoss):
        return None
    if isinstance(error, kazoo_errors.SessionExpiredError):
        return SessionLost("ZooKeeper has ended the session")
    if isinstance(request, Write):
        if isinstance(error, kazoo_errors.ZookeeperError) and not isinstance(error, _UNKNOWN_OUTCOMES):
            return _refusal(error, request.operations[0], 0)
        return OutcomeUnknown(f"{type(error).__name__}: {error}")
    if isinstance(error, kazoo_errors.NoNodeError):
        return ReadMissed()
    if isinstance(error, kazoo_errors.NoAuthError):
        return ReadForbidden(request.path)
    return ZooKeeperError(f"{request.path}: {type(error).__name__}: {error}")


def _refusal(error: Exception, operation: Op, index: int) -> WriteRefused:
    return _REFUSALS.get(type(error), WriteForbidden)(operation, index)


def _stat(stat: ZnodeStat) -> Stat:
    return Stat(
        czxid=stat.czxid,
        mzxid=stat.mzxid,
        created_ms=stat.ctime,
        modified_ms=stat.mtime,
        version=stat.version,
        children_version=stat.cversion,
        ephemeral_owner=stat.ephemeralOwner,
        children_count=stat.numChildren,
    )
