"""ZooKeeper operations as values, their results and their errors.

Whoever decides makes a list of these; a session performs them. A list of more than one is one atomic multi.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

ANY_VERSION: Final = -1


@dataclass(frozen=True, slots=True)
class Stat:
    """What ZooKeeper knows of a znode beside its data."""

    czxid: int
    mzxid: int
    created_ms: int
    modified_ms: int
    version: int
    children_version: int
    ephemeral_owner: int
    children_count: int


@dataclass(frozen=True, slots=True)
class Znode:
    """A znode as read: its data (empty when it has none) and its stat."""

    data: bytes
    stat: Stat


@dataclass(frozen=True, slots=True)
class Create:
    """Make a znode; with `sequential` ZooKeeper appends ten digits to the path. `data` may be None, as Kafka does."""

    path: str
    data: bytes | None = b""
    ephemeral: bool = False
    sequential: bool = False


@dataclass(frozen=True, slots=True)
class Set:
    """Replace a znode's data if its version is `version`."""

    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove a znode that has no children, if its version is `version`."""

    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Check:
    """Let the multi pass only while the znode's version is `version`: the fence of a controller's writes."""

    path: str
    version: int


Op = Create | Set | Delete | Check


@dataclass(frozen=True, slots=True)
class Created:
    """The path that was made, with the sequence number if it has one."""

    path: str


@dataclass(frozen=True, slots=True)
class Written:
    """The znode's stat after a Set."""

    stat: Stat


@dataclass(frozen=True, slots=True)
class Done:
    """A Delete or a Check that passed."""


OpResult = Created | Written | Done


class ZooKeeperError(Exception):
    """Base of what a session raises."""


class WriteRefused(ZooKeeperError):
    """ZooKeeper answered no, and nothing of the write was done.

    `index` is the operation of the list that failed, `operation` that operation.
    """

    def __init__(self, operation: Op, index: int = 0) -> None:
        super().__init__(f"{type(self).__name__} at operation {index}: {operation}")
        self.operation = operation
        self.index = index


class NodeMissing(WriteRefused):
    """The znode, or the parent of one to be made, is not there."""


class NodeExists(WriteRefused):
    """The znode to be made is there already."""


class VersionMoved(WriteRefused):
    """The znode's version is not the one that was named."""


class NodeHasChildren(WriteRefused):
    """The znode to be removed has children."""


class WriteForbidden(WriteRefused):
    """The ACL of the znode forbids it, or the path or the data is not acceptable."""


class OutcomeUnknown(ZooKeeperError):
    """The connection went while a write was under way: it may or may not have been done. Re-read, then decide."""


class SessionLost(ZooKeeperError):
    """There is no session: it expired or was closed. Reads and writes that were not sent were not done."""


class ReadForbidden(ZooKeeperError):
    """The ACL of the znode forbids to read it."""


class ZooKeeperUnreachable(ZooKeeperError):
    """No session could be opened in the time that was given."""


# One packet holds at most 1 MiB less one byte (jute.maxbuffer); a larger one ends the connection without an answer.
MAX_WRITE_BYTES: Final = 1_040_000
_OPERATION_OVERHEAD_BYTES: Final = 80
# What ZooKeeper refuses in a path beside empty, "." and ".." parts.
_FORBIDDEN: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]")


def is_acceptable_path(path: str) -> bool:
    """Whether a znode could stand at `path`."""
    if path == "/":
        return True
    parts = path.split("/")
    return (
        len(parts) > 1
        and not parts[0]
        and not any(part in {"", ".", ".."} for part in parts[1:])
        and not _FORBIDDEN.search(path)
    )


def most_bytes(operation: Op) -> int:
    """An operation takes no more of a packet than this."""
    data = operation.data if isinstance(operation, Create | Set) else None
    return len(operation.path.encode()) + len(data or b"") + _OPERATION_OVERHEAD_BYTES


def check_acceptable(operations: Sequence[Op]) -> None:
    """Find what would be refused, or would end the connection, before it is sent.

    Raises:
        WriteForbidden: a path is no path, or all operations together do not fit into one packet.
    """
    total_bytes = 0
    for index, operation in enumerate(operations):
        if not is_acceptable_path(operation.path):
            raise WriteForbidden(operation, index)
        total_bytes += most_bytes(operation)
        if total_bytes > MAX_WRITE_BYTES:
            raise WriteForbidden(operation, index)
