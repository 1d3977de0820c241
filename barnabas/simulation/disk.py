"""A disk in memory that forgets what was not synced and fails where it is told to (a `Disk`).

`kill` ends the process that uses the disk: all it wrote is still there. `power_cut` ends the machine; what stays, says
`disk_image`. `crash_at(n)` does the nth change from now only in part and then ends the process: every later call raises
`Crashed` until `restart`.

`fail` lets operations of one kind raise; after an fsync that failed the unsynced writes stay readable but never become
durable, as on Linux. `capacity_bytes` bounds the sum of all file sizes: a write over it is done in part and raises
ENOSPC. `on_operation` hears of every operation, and can let time pass in it; `on_cut` of files that were cut.
"""

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from barnabas.runtime.files import Buffer
from barnabas.simulation.disk_image import Directory, Inode, Names, used_bytes


class Crashed(BaseException):
    """The process that called is no more."""


@dataclass(slots=True)
class DiskFault:
    """`times` None is for ever; the first `skip` operations that match are spared."""

    kind: str
    path_part: str
    error: int
    times: int | None = None
    skip: int = 0
    hits: int = 0


class PlantedError(OSError):
    """What a device says because a fault was asked for: whatever else goes wrong is nobody's fault but the broker's."""


class SimulatedFile:
    """An open file of a SimulatedDisk."""

    def __init__(self, disk: "SimulatedDisk", path: str, inode: Inode) -> None:
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
            self._disk.full_hits += 1
            raise PlantedError(errno.ENOSPC, "No space left on device", self._path)

    def size(self) -> int:
        self._check()
        return len(self._inode.data)

    def truncate(self, size: int) -> None:
        self._check()
        self._disk.maybe_fail("truncate", self._path)
        is_cut = size < self.size()
        self._disk.step(lambda part: self._inode.change(size) if part else None)
        if is_cut and self._disk.on_cut is not None:
            self._disk.on_cut(self._path)

    def fsync(self) -> None:
        self._check()
        try:
            self._disk.maybe_fail("fsync", self._path)
        except OSError:
            self._inode.drop_pending()
            raise
        self._disk.step(lambda part: self._inode.sync() if part else None)

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "a file in memory has no descriptor", self._path)

    def is_cached(self, position: int, size: int) -> bool:  # noqa: ARG002 - all of it is
        return True

    def read_ahead(self, position: int, size: int) -> None:
        """All of it is in memory."""

    def let_go(self, position: int, size: int) -> None:
        """There is nowhere else for it to be."""

    def close(self) -> None:
        self._open = False

    def _check(self) -> None:
        self._disk.check_alive(self._life)
        if not self._open:
            raise OSError(errno.EBADF, "Bad file descriptor", self._path)


class SimulatedLock:
    """A lock that ends with its process."""

    def __init__(self, disk: "SimulatedDisk", path: str) -> None:
        self._disk = disk
        self._path = path

    def release(self) -> None:
        self._disk.locked.discard(self._path)


class SimulatedDisk:
    """See the module. `operations` counts the changes made so far."""

    def __init__(self, now_ms: Callable[[], int] = lambda: 0) -> None:
        self.now_ms = now_ms
        self.life = 0
        self.operations = 0
        self.capacity_bytes: int | None = None
        self.locked: set[str] = set()
        self._root = Directory()
        self._crash_at: int | None = None
        self._dead = False
        self.lost_changes = 0
        self.full_hits = 0
        self.failures = 0
        """How many operations failed as they were told to."""

        self.swaps = 0
        """How often a cleaned segment was put in the place of others."""

        self.on_crash: Callable[[], None] | None = None
        self.on_operation: Callable[[str, str], None] | None = None
        self.on_cut: Callable[[str], None] | None = None
        self._faults: list[DiskFault] = []
        self._random = Random(0)

    # What a test does to it

    def fail(
        self, kind: str, path_part: str = "", *, error: int = errno.EIO, times: int | None = None, skip: int = 0
    ) -> DiskFault:
        """Let operations of this kind (pwrite, fsync, rename, ...) on such paths raise, for so many times."""
        fault = DiskFault(kind, path_part, error, times, skip)
        self._faults.append(fault)
        return fault

    def heal(self) -> None:
        self._faults.clear()
        self.capacity_bytes = None

    def crash_at(self, change: int, random: Random) -> None:
        """Crash in the middle of the `change`th change from now (0 is the next)."""
        self._crash_at = self.operations + change
        self._random = random

    def crash_no_more(self) -> None:
        """Forget a crash that did not come."""
        self._crash_at = None

    @property
    def is_troubled(self) -> bool:
        """Whether something is to fail, or takes its time."""
        return bool(self._faults) or self.capacity_bytes is not None or self.on_operation is not None

    @property
    def used_bytes(self) -> int:
        """The sizes of all files."""
        return used_bytes(self._root)

    def kill(self) -> None:
        """End the process: its files are closed and its locks free, all that it wrote is there."""
        self._dead = True
        self.locked.clear()

    def power_cut(self, random: Random | None = None) -> None:
        """End the machine. Without `random` exactly what was synced survives, else that and some of the rest."""
        self.kill()
        self.lost_changes += self._root.lose_power(random)

    def restart(self) -> None:
        self._dead = False
        self._crash_at = None
        self.life += 1

    def files_in(self, path: str) -> list[tuple[str, Inode]]:
        """The files of a directory by path, in order: a look from outside, which nothing notices."""
        node: Inode | Directory | None = self._root
        for name in _names(path):
            node = node.children.get(name) if isinstance(node, Directory) else None
        children = node.children if isinstance(node, Directory) else {}
        return [(f"{path}/{name}", file) for name, file in sorted(children.items()) if isinstance(file, Inode)]

    # What files ask of it

    def check_alive(self, life: int) -> None:
        if self._dead or life != self.life:
            raise Crashed

    def room_bytes(self) -> int:
        return 1 << 62 if self.capacity_bytes is None else max(0, self.capacity_bytes - used_bytes(self._root))

    def step(self, change: Callable[[float], None]) -> None:
        """Make a change, given as what part of it is to be done; or crash in it."""
        if self._crash_at is not None and self.operations >= self._crash_at:
            change(self._random.choice([0.0, self._random.random(), 1.0]))
            self.kill()
            if self.on_crash is not None:
                self.on_crash()
            raise Crashed
        self.operations += 1
        change(1.0)

    def maybe_fail(self, kind: str, path: str) -> None:
        """Tell of an operation, and raise where it is to fail."""
        if self.on_operation is not None:
            self.on_operation(kind, path)
        for fault in self._faults:
            if fault.kind == kind and fault.path_part in path:
                if fault.skip > 0:
                    fault.skip -= 1
                    continue
                fault.hits += 1
                self.failures += 1
                if fault.hits == fault.times:
                    self._faults.remove(fault)
                raise PlantedError(fault.error, os.strerror(fault.error), path)

    # The port

    def open(
        self,
        path: str,
        *,
        create: bool = False,
        writable: bool = True,  # noqa: ARG002 - whoever opens to read does not write
    ) -> SimulatedFile:
        self.check_alive(self.life)
        self.maybe_fail("open", path)
        parent, name = self._parent(path)
        node = parent.children.get(name)
        if node is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
            node = self._make(parent, name, path)
        if isinstance(node, Directory):
            raise IsADirectoryError(errno.EISDIR, "Is a directory", path)
        return SimulatedFile(self, path, node)

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def is_directory(self, path: str) -> bool:
        return isinstance(self._find(path), Directory)

    def size(self, path: str) -> int:
        return len(self._file(path).data)

    def modified_ms(self, path: str) -> int:
        return self._file(path).modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self._file(path).modified_ms = modified_ms

    def list_directory(self, path: str) -> list[str]:
        return sorted(self._directory(path).children)

    def make_directory(self, path: str) -> None:
        self.check_alive(self.life)
        self.maybe_fail("make_directory", path)
        node = self._root
        for name in _names(path):
            child = node.children.get(name)
            if child is None:
                child = Directory()
                self._step_names(node, {name: child})
            if not isinstance(child, Directory):
                raise NotADirectoryError(errno.ENOTDIR, "Not a directory", path)
            node = child

    def rename(self, source: str, target: str) -> None:
        self.check_alive(self.life)
        self.maybe_fail("rename", source)
        self.swaps += target.endswith(".swap")
        old_parent, old_name = self._parent(source)
        new_parent, new_name = self._parent(target)
        assert old_parent is new_parent, "a rename stays in its directory"
        node = old_parent.children.get(old_name)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", source)
        replaced = old_parent.children.get(new_name)
        if isinstance(replaced, Directory) and replaced.children:
            raise OSError(errno.ENOTEMPTY, "Directory not empty", target)
        self._step_names(old_parent, {old_name: None, new_name: node})

    def remove(self, path: str) -> None:
        self.check_alive(self.life)
        self.maybe_fail("remove", path)
        node = self._find(path)
        if isinstance(node, Directory):
            raise IsADirectoryError(errno.EISDIR, "Is a directory", path)
        if node is not None:
            parent, name = self._parent(path)
            self._step_names(parent, {name: None})

    def remove_tree(self, path: str) -> None:
        self.check_alive(self.life)
        self.maybe_fail("remove_tree", path)
        if self._find(path) is not None:
            parent, name = self._parent(path)
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

    def lock(self, path: str) -> SimulatedLock:
        self.open(path, create=True)
        if path in self.locked:
            raise BlockingIOError(errno.EWOULDBLOCK, "Resource temporarily unavailable", path)
        self.locked.add(path)
        return SimulatedLock(self, path)

    def _make(self, parent: Directory, name: str, path: str) -> Inode:
        if self.room_bytes() <= 0:
            self.full_hits += 1
            raise PlantedError(errno.ENOSPC, "No space left on device", path)
        node = Inode()
        node.modified_ms = self.now_ms()
        self._step_names(parent, {name: node})
        return node

    def _step_names(self, parent: Directory, changes: "Names") -> None:
        self.step(lambda part: parent.change(changes) if part else None)

    def _find(self, path: str) -> "Inode | Directory | None":
        self.check_alive(self.life)
        node: Inode | Directory | None = self._root
        for name in _names(path):
            if not isinstance(node, Directory):
                return None
            node = node.children.get(name)
        return node

    def _file(self, path: str) -> Inode:
        self.maybe_fail("pread", path)
        node = self._find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        if isinstance(node, Directory):
            raise IsADirectoryError(errno.EISDIR, "Is a directory", path)
        return node

    def _directory(self, path: str) -> Directory:
        node = self._find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        if not isinstance(node, Directory):
            raise NotADirectoryError(errno.ENOTDIR, "Not a directory", path)
        return node

    def _parent(self, path: str) -> tuple[Directory, str]:
        directory, _, name = path.rpartition("/")
        return self._directory(directory), name


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name]
