"""The znodes of the in-memory ZooKeeper: values in, values out, no sessions, no watches. Pure.

Rules as in ZooKeeper 3.9: one zxid per multi, all of it or nothing; versions count sets; a sequential name carries the
number of children ever made under its parent; an ephemeral znode has no children. A write that passes returns the
changes in the order in which ZooKeeper fires watches for them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from zk_schema.ops import (
    ANY_VERSION,
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
    Set,
    Stat,
    VersionMoved,
    WriteForbidden,
    WriteRefused,
    Written,
    Znode,
)

_Undo = Callable[[], None]


class Change(NamedTuple):
    """What a watch may be for. `is_deletion` fires data and child watches of the path itself."""

    path: str
    is_deletion: bool = False
    of_children: bool = False


@dataclass(slots=True)
class _Node:
    data: bytes | None
    owner: int
    czxid: int
    created_ms: int
    mzxid: int
    modified_ms: int
    version: int = 0
    creations: int = 0
    children: set[str] = field(default_factory=set)

    def stat(self) -> Stat:
        return Stat(
            czxid=self.czxid,
            mzxid=self.mzxid,
            created_ms=self.created_ms,
            modified_ms=self.modified_ms,
            version=self.version,
            # ZooKeeper counts creations and shows creations and deletions.
            children_version=2 * self.creations - len(self.children),
            ephemeral_owner=self.owner,
            children_count=len(self.children),
        )


@dataclass(slots=True)
class _Write:
    """One multi on its way: who writes, when, and how to undo what was done so far."""

    session_id: int
    zxid: int
    now_ms: int
    changes: list[Change] = field(default_factory=list)
    undo: list[_Undo] = field(default_factory=list)


class ZnodeTree:
    """All znodes, the root included."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {"/": _Node(None, 0, 0, 0, 0, 0)}

    def get(self, path: str) -> Znode | None:
        node = self._nodes.get(path)
        return None if node is None else Znode(node.data or b"", node.stat())

    def children(self, path: str) -> list[str] | None:
        """Names, sorted."""
        node = self._nodes.get(path)
        return None if node is None else sorted(node.children)

    def owned_by(self, session_id: int) -> list[str]:
        """Paths of a session's ephemeral znodes, in the order in which they were made."""
        owned = [(node.czxid, path) for path, node in self._nodes.items() if node.owner == session_id]
        return [path for _, path in sorted(owned)]

    def apply(
        self, operations: Sequence[Op], *, session_id: int, zxid: int, now_ms: int
    ) -> tuple[tuple[OpResult, ...], list[Change]]:
        """Perform all operations.

        Raises:
            WriteRefused: (a subclass) one cannot be; nothing has changed.
        """
        write = _Write(session_id, zxid, now_ms)
        results: list[OpResult] = []
        try:
            for index, operation in enumerate(operations):
                results.append(self._apply_one(operation, index, write))
        except WriteRefused:
            for undo in reversed(write.undo):
                undo()
            raise
        return tuple(results), write.changes

    def _apply_one(self, operation: Op, index: int, write: _Write) -> OpResult:
        match operation:
            case Create():
                return self._create(operation, index, write)
            case Set():
                return self._set(operation, index, write)
            case Delete():
                return self._delete(operation, index, write)
            case Check():
                self._versioned(operation, index)
                return Done()

    def _create(self, operation: Create, index: int, write: _Write) -> Created:
        parent_path, name = split(operation.path)
        parent = self._nodes.get(parent_path)
        if operation.path == "/" and not operation.sequential:
            raise NodeExists(operation, index)
        if parent is None:
            raise NodeMissing(operation, index)
        if operation.sequential:
            name = f"{name}{parent.creations:010d}"
        path = join(parent_path, name)
        if path in self._nodes:
            raise NodeExists(operation, index)
        if parent.owner:
            raise WriteForbidden(operation, index)
        owner = write.session_id if operation.ephemeral else 0
        self._nodes[path] = _Node(operation.data, owner, write.zxid, write.now_ms, write.zxid, write.now_ms)
        parent.children.add(name)
        parent.creations += 1

        def undo() -> None:
            del self._nodes[path]
            parent.children.remove(name)
            parent.creations -= 1

        write.undo.append(undo)
        write.changes += (Change(path), Change(parent_path, of_children=True))
        return Created(path)

    def _set(self, operation: Set, index: int, write: _Write) -> Written:
        node = self._versioned(operation, index)
        before = (node.data, node.version, node.mzxid, node.modified_ms)
        node.data = operation.data
        node.version += 1
        node.mzxid = write.zxid
        node.modified_ms = write.now_ms

        def undo() -> None:
            node.data, node.version, node.mzxid, node.modified_ms = before

        write.undo.append(undo)
        write.changes.append(Change(operation.path))
        return Written(node.stat())

    def _delete(self, operation: Delete, index: int, write: _Write) -> Done:
        path = operation.path
        if path == "/":
            raise WriteForbidden(operation, index)
        node = self._versioned(operation, index)
        if node.children:
            raise NodeHasChildren(operation, index)
        parent_path, name = split(path)
        parent = self._nodes[parent_path]
        del self._nodes[path]
        parent.children.remove(name)

        def undo() -> None:
            self._nodes[path] = node
            parent.children.add(name)

        write.undo.append(undo)
        write.changes += (Change(path, is_deletion=True), Change(parent_path, of_children=True))
        return Done()

    def _versioned(self, operation: Set | Delete | Check, index: int) -> _Node:
        node = self._nodes.get(operation.path)
        if node is None:
            raise NodeMissing(operation, index)
        if operation.version not in (ANY_VERSION, node.version):
            raise VersionMoved(operation, index)
        return node


def split(path: str) -> tuple[str, str]:
    """The parent's path, and the name below it."""
    parent, _, name = path.rpartition("/")
    return parent or "/", name


def join(parent_path: str, name: str) -> str:
    """The path of `name` below `parent_path`."""
    return f"/{name}" if parent_path == "/" else f"{parent_path}/{name}"
