"""The ZooKeeper port: what the rest of the product may ask of a session.

Two implementations stand behind it, `session.KazooSession` and the in-memory `memory.MemorySession`; one contract
suite runs against both.

Events reach `listen`ers on the event loop, in the order in which ZooKeeper sent them, and before the result of any
read that shows the change they announce. A watch fires once. Every lost connection drops all watches, also when the
session lives on; after each (re)connection exactly one `Resync` is emitted: re-read and re-arm everything.

While the connection is away requests wait for it, and reads that were under way are sent again; with the session they
fail with SessionLost, as does whatever is asked between `Expired` and the `Resync` of the new session. Who listens
before the session is opened hears the first `Resync` too.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from zk_schema.ops import Op, OpResult, Stat, Znode


@dataclass(frozen=True, slots=True)
class DataChanged:
    """A watched znode was made, changed or removed."""

    path: str


@dataclass(frozen=True, slots=True)
class ChildrenChanged:
    """A child of a watched znode was made or removed, or the znode itself was removed."""

    path: str


@dataclass(frozen=True, slots=True)
class Resync:
    """The session is connected (again); no watch is armed. `new_session` tells whether ephemeral znodes are gone."""

    session_id: int
    new_session: bool


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The connection is lost; the session may still live, and other brokers may still see our ephemeral znodes."""


@dataclass(frozen=True, slots=True)
class Expired:
    """The session is over and its ephemeral znodes are gone. A new one is being opened; `Resync` will tell."""


ZooKeeperEvent = DataChanged | ChildrenChanged | Resync | Disconnected | Expired
Listener = Callable[[ZooKeeperEvent], None]


class ZooKeeper(Protocol):
    """A session. Paths are absolute within the chroot of `zookeeper.connect`."""

    @property
    def session_id(self) -> int:
        """Of the present session, 0 while there is none."""
        ...

    @property
    def previous_session_id(self) -> int:
        """Of the session before the present one, 0 if this is the first; its ephemeral znodes may linger."""
        ...

    @property
    def is_connected(self) -> bool: ...

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Hand events to `listener` from now on; what is returned ends it."""
        ...

    async def get(self, path: str, *, watch: bool = False) -> Znode | None:
        """The znode, or None; `watch` arms one `DataChanged`, on a missing znode too."""
        ...

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None: ...

    async def children(self, path: str, *, watch: bool = False) -> list[str] | None:
        """Names of the children, sorted, or None; `watch` arms one `ChildrenChanged` if the znode is there."""
        ...

    async def write(self, *operations: Op) -> list[OpResult]:
        """Perform one operation, or several as one atomic multi.

        Writes are sent in the order of the calls, several may be in flight.

        Raises:
            WriteRefused: (a subclass) nothing was done.
            OutcomeUnknown: the connection went; it may or may not have been done.
            SessionLost: it was not sent.
        """
        ...

    async def close(self) -> None:
        """End the session; its ephemeral znodes go at once."""
        ...
