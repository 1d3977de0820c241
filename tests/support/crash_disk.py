"""A disk in memory that forgets what was not synced, and fails where a test wants it to.

Content is durable after `fsync` of its file, a name after `fsync_directory` of its directory. `kill` ends the process
that uses the disk: all it wrote is still there. `power_cut` ends the machine: of each file's unsynced writes any may be
there, whole or torn, of each directory's unsynced changes a prefix. `crash_at(n)` does the nth change from now only in
part and then ends the process: every later call raises `Crashed` until `restart`.

`fail` lets operations of one kind raise; after an fsync that failed the unsynced writes stay readable but never become
durable, as on Linux. `capacity_bytes` bounds the sum of all file sizes: a write over it is done in part and raises
ENOSPC.
"""

import errno
import os
from collections.abc import Callable
from random import Random

from barnabas.runtime.disk import Buffer


class Crashed(BaseException):
    """The process that called is no more."""


class _Inode:
    __slots__ = ("data", "modified_ms", "pending", "synced")

    def __init__(self) -> None:
        self.data = bytearray()
        self.synced = b""
        self.pending: list[tuple[int, bytes] | int] = []
        self.modified_ms = 0

    def apply(self, data: bytearray, operation: "tuple[int, bytes] | int") -> None:
        if isinstance(operation, int):
            if operation <= len(data):
                del data[operation:]
            else:
                data.extend(bytes(operation - len(data)))
            return
        position, written = operation
        if position > len(data):
            data.extend(bytes(position - len(data)))
        data[position : position + len(written)] = written

    def change(self, operation: "tuple[int, bytes] | int") -> None:
        self.apply(self.data, operation)
        self.pending.append(operation)

    def sync(self) -> None:
        # What a failed fsync dropped from `pending` is in `data` but must not become durable.
        durable = bytearray(self.synced)
        for operation in self.pending:
            self.apply(durable, operation)
        self.synced, self.pending = bytes(durable), []

    def lose_power(self, random: Random | None) -> None:
        survived = bytearray(self.synced)
        for operation in self.pending if random is not None else []:
            assert random is not None
            if random.random() < 0.5:
                continue
            if not isinstance(operation, int) and random.random() < 0.3:
                operation = (operation[0], operation[1][: random.randrange(len(operation[1]) + 1)])
            self.apply(survived, operation)
        self.data, self.synced, self.pending = survived, bytes(survived), []


class _Directory:
    __slots__ = ("children", "durable", "pending")

    def __init__(self) -> None:
        self.children: dict[str, _Inode | _Directory] = {}
        self.durable: dict[str, _Inode | _Directory] = {}
        self.pending: list[dict[str, _Inode | _Directory | None]] = []

    def change(self, changes: "dict[str, _Inode | _Directory | None]") -> None:
        _apply_names(self.children, changes)
        self.pending.append(changes)

    def sync(self) -> None:
        self.durable, self.pending = dict(self.children), []

    def lose_power(self, random: Random | None) -> None:
        kept = 0 if random is None else random.randrange(len(self.pending) + 1)
        for changes in self.pending[:kept]:
            _apply_names(self.durable, changes)
        self.children, self.pending = dict(self.durable), []
        for child in self.children.values():
            child.lose_power(random)


def _apply_names(names: "dict[str, _Inode | _Directory]", changes: "dict[str, _Inode | _Directory | None]") -> None:
    for name, node in changes.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


class CrashFile:
    """An open file of a CrashDisk."""

    def __init__(self, disk: "CrashDisk", path: str, inode: _Inode) -> None:
        self._disk = disk
        self._path = path
        self._inode = inode
        self._life = disk.life
        self._open = True

    @property
    def path(self) -> str:
        return self._path

    def pread(self, size: int, position: int) -> bytes:
        self._check()
        self._disk.maybe_fail("pread", self._path)
        return bytes(self._inode.data[position : position + size])

    def pwrite(self, data: Buffer, position: int) -> None:
        self._check()
        content = bytes(data)
        self._disk.maybe_fail("pwrite", self._path)
        grown = max(0, position + len(content) - len(self._inode.data))
        room = self._disk.room_bytes()
        fits = len(content) - max(0, grown - room)

        def write(part: float) -> None:
            self._inode.change((position, content[: int(min(fits, len(content) * part))]))
            self._inode.modified_ms = self._disk.now_ms()

        self._disk.step(write)
        if fits < len(content):
            raise OSError(errno.ENOSPC, "No space left on device", self._path)

    def size(self) -> int:
        self._check()
        return len(self._inode.data)

    def truncate(self, size: int) -> None:
        self._check()
        self._disk.maybe_fail("truncate", self._path)
        self._disk.step(lambda part: self._inode.change(size) if part else None)

    def fsync(self) -> None:
        self._check()
        try:
            self._disk.maybe_fail("fsync", self._path)
        except OSError:
            self._inode.pending = []
            raise
        self._disk.step(lambda part: self._inode.sync() if part else None)

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "a file in memory has no descriptor", self._path)

    def is_cached(self, position: int, size: int) -> bool:
        return True

    def close(self) -> None:
        self._open = False

    def _check(self) -> None:
        self._disk.check_alive(self._life)
        if not self._open:
            raise OSError(errno.EBADF, "Bad file descriptor", self._path)


class CrashLock:
    def __init__(self, disk: "CrashDisk", path: str) -> None:
        self._disk = disk
        self._path = path

    def release(self) -> None:
        self._disk.locked.discard(self._path)


class CrashDisk:
    """See the module. `operations` counts the changes made so far."""

    def __init__(self, now_ms: Callable[[], int] = lambda: 0) -> None:
        self.now_ms = now_ms
        self.life = 0
        self.operations = 0
        self.capacity_bytes: int | None = None
        self.locked: set[str] = set()
        self._root = _Directory()
        self._crash_at: int | None = None
        self._dead = False
        self._faults: list[tuple[str, str, int, int | None]] = []
        self._random = Random(0)

    # What a test does to it

    def fail(self, kind: str, path_part: str = "", *, error: int = errno.EIO, times: int | None = None) -> None:
        """Let operations of this kind (pwrite, fsync, rename, ...) on such paths raise, for so many times."""
        self._faults.append((kind, path_part, error, times))

    def heal(self) -> None:
        self._faults.clear()
        self.capacity_bytes = None

    def crash_at(self, change: int, random: Random) -> None:
        """Crash in the middle of the `change`th change from now (0 is the next)."""
        self._crash_at = self.operations + change
        self._random = random

    def kill(self) -> None:
        """End the process: its files are closed and its locks free, all that it wrote is there."""
        self._dead = True
        self.locked.clear()

    def power_cut(self, random: Random | None = None) -> None:
        """End the machine. Without `random` exactly what was synced survives, else that and some of the rest."""
        self.kill()
        self._root.lose_power(random)

    def restart(self) -> None:
        self._dead = False
        self._crash_at = None
        self.life += 1

    # What files ask of it

    def check_alive(self, life: int) -> None:
        if self._dead or life != self.life:
            raise Crashed

    def room_bytes(self) -> int:
        return 1 << 62 if self.capacity_bytes is None else max(0, self.capacity_bytes - _used(self._root))

    def step(self, change: Callable[[float], None]) -> None:
        """Make a change, given as what part of it is to be done; or crash in it."""
        if self._crash_at is not None and self.operations >= self._crash_at:
            change(self._random.choice([0.0, self._random.random(), 1.0]))
            self.kill()
            raise Crashed
        self.operations += 1
        change(1.0)

    def maybe_fail(self, kind: str, path: str) -> None:
        for place, (faulty, part, error, times) in enumerate(self._faults):
            if faulty == kind and part in path:
                if times == 1:
                    del self._faults[place]
                elif times is not None:
                    self._faults[place] = (faulty, part, error, times - 1)
                raise OSError(error, os.strerror(error), path)

    # The port

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> CrashFile:
        self.check_alive(self.life)
        self.maybe_fail("open", path)
        parent, name = self._parent(path)
        node = parent.children.get(name)
        if node is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
            node = self._make(parent, name, path)
        if isinstance(node, _Directory):
            raise IsADirectoryError(errno.EISDIR, "Is a directory", path)
        return CrashFile(self, path, node)

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def is_directory(self, path: str) -> bool:
        return isinstance(self._find(path), _Directory)

    def size(self, path: str) -> int:
        return len(self._file(path).data)

    def modified_ms(self, path: str) -> int:
        return self._file(path).modified_ms

    def list_directory(self, path: str) -> list[str]:
        return sorted(self._directory(path).children)

    def make_directory(self, path: str) -> None:
        self.check_alive(self.life)
        self.maybe_fail("make_directory", path)
        node = self._root
        for name in _names(path):
            child = node.children.get(name)
            if child is None:
                child = _Directory()
                self._step_names(node, {name: child})
            if not isinstance(child, _Directory):
                raise NotADirectoryError(errno.ENOTDIR, "Not a directory", path)
            node = child

    def rename(self, source: str, target: str) -> None:
        self.check_alive(self.life)
        self.maybe_fail("rename", source)
        old_parent, old_name = self._parent(source)
        new_parent, new_name = self._parent(target)
        assert old_parent is new_parent, "a rename stays in its directory"
        node = old_parent.children.get(old_name)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", source)
        replaced = old_parent.children.get(new_name)
        if isinstance(replaced, _Directory) and replaced.children:
            raise OSError(errno.ENOTEMPTY, "Directory not empty", target)
        self._step_names(old_parent, {old_name: None, new_name: node})

    def remove(self, path: str) -> None:
        self.check_alive(self.life)
        self.maybe_fail("remove", path)
        parent, name = self._parent(path)
        node = parent.children.get(name)
        if isinstance(node, _Directory):
            raise IsADirectoryError(errno.EISDIR, "Is a directory", path)
        if node is not None:
            self._step_names(parent, {name: None})

    def remove_tree(self, path: str) -> None:
        self.check_alive(self.life)
        self.maybe_fail("remove_tree", path)
        parent, name = self._parent(path)
        if name in parent.children:
            self._step_names(parent, {name: None})

    def fsync_directory(self, path: str) -> None:
        directory = self._directory(path)
        self.maybe_fail("fsync_directory", path)
        self.step(lambda part: directory.sync() if part else None)

    def read_bytes(self, path: str) -> bytes:
        return bytes(self._file(path).data)

    def write_durably(self, path: str, data: Buffer) -> None:
        temporary = path + ".tmp"
        file = self.open(temporary, create=True)
        file.truncate(0)
        file.pwrite(data, 0)
        file.fsync()
        self.rename(temporary, path)
        self.fsync_directory(path.rpartition("/")[0])

    def lock(self, path: str) -> CrashLock:
        self.open(path, create=True)
        if path in self.locked:
            raise BlockingIOError(errno.EWOULDBLOCK, "Resource temporarily unavailable", path)
        self.locked.add(path)
        return CrashLock(self, path)

    def _make(self, parent: _Directory, name: str, path: str) -> _Inode:
        if self.room_bytes() <= 0:
            raise OSError(errno.ENOSPC, "No space left on device", path)
        node = _Inode()
        node.modified_ms = self.now_ms()
        self._step_names(parent, {name: node})
        return node

    def _step_names(self, parent: _Directory, changes: "dict[str, _Inode | _Directory | None]") -> None:
        self.step(lambda part: parent.change(changes) if part else None)

    def _find(self, path: str) -> "_Inode | _Directory | None":
        self.check_alive(self.life)
        node: _Inode | _Directory | None = self._root
        for name in _names(path):
            if not isinstance(node, _Directory):
                return None
            node = node.children.get(name)
        return node

    def _file(self, path: str) -> _Inode:
        self.maybe_fail("pread", path)
        node = self._find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        if isinstance(node, _Directory):
            raise IsADirectoryError(errno.EISDIR, "Is a directory", path)
        return node

    def _directory(self, path: str) -> _Directory:
        node = self._find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        if not isinstance(node, _Directory):
            raise NotADirectoryError(errno.ENOTDIR, "Not a directory", path)
        return node

    def _parent(self, path: str) -> tuple[_Directory, str]:
        directory, _, name = path.rpartition("/")
        return self._directory(directory), name


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name]


def _used(node: "_Inode | _Directory") -> int:
    if isinstance(node, _Inode):
        return len(node.data)
    return sum(map(_used, node.children.values()))
