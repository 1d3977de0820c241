"""A real file system that is cut at one of the changes made through it (a `Disk`).

Counts changes as the simulated disk does: a write that is durable is five of them. At the chosen one `on_cut` is
called, before the change or after it, and every later call raises `Crashed`.
"""

from collections.abc import Callable

from barnabas.runtime.disk import SystemDisk, SystemFileLock
from barnabas.runtime.files import Buffer, File
from barnabas.simulation.disk import Crashed
from tests.support.file_around import FileAround


class CuttingDisk(SystemDisk):
    """See the module. `cut_at` None counts only; `changes` names what was done."""

    def __init__(self, on_cut: Callable[[], None] = lambda: None) -> None:
        self.changes: list[tuple[str, str]] = []
        self.cut_at: int | None = None
        self.after = False
        self.is_dead = False
        self._on_cut = on_cut
        self._files: list[File] = []
        self._locks: list[SystemFileLock] = []

    def arm(self, change: int, *, after: bool) -> None:
        """Cut at the `change`th change from now."""
        self.cut_at, self.after = len(self.changes) + change, after

    def change(self, kind: str, path: str, done: Callable[[], object]) -> None:
        """Make a change, or cut at it."""
        self.check()
        if self.cut_at is not None and len(self.changes) >= self.cut_at:
            if self.after:
                done()
            self.is_dead = True
            self._on_cut()
            raise Crashed
        done()
        self.changes.append((kind, path))

    def check(self) -> None:
        if self.is_dead:
            raise Crashed

    def kill(self) -> None:
        """Let go of every descriptor, as the end of a process does."""
        self.is_dead = True
        for file in self._files:
            file.close()
        for lock in self._locks:
            lock.release()
        self._files, self._locks = [], []

    def restart(self) -> None:
        self.is_dead, self.cut_at = False, None

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        self.check()
        file = CutFile(self, super().open(path, create=create, writable=writable))
        self._files.append(file)
        return file

    def make_directory(self, path: str) -> None:
        self.change("make_directory", path, lambda: SystemDisk.make_directory(self, path))

    def rename(self, source: str, target: str) -> None:
        self.change("rename", source, lambda: SystemDisk.rename(self, source, target))

    def remove(self, path: str) -> None:
        self.change("remove", path, lambda: SystemDisk.remove(self, path))

    def remove_tree(self, path: str) -> None:
        self.change("remove_tree", path, lambda: SystemDisk.remove_tree(self, path))

    def fsync_directory(self, path: str) -> None:
        self.change("fsync_directory", path, lambda: SystemDisk.fsync_directory(self, path))

    def write_durably(self, path: str, data: Buffer) -> None:
        file = self.open(path + ".tmp", create=True)
        file.truncate(0)
        file.pwrite(data, 0)
        file.fsync()
        file.close()
        self.rename(path + ".tmp", path)
        self.fsync_directory(path.rpartition("/")[0])

    def lock(self, path: str) -> SystemFileLock:
        self.check()
        lock = super().lock(path)
        self._locks.append(lock)
        return lock


class CutFile(FileAround):
    """A file whose changes are counted."""

    __slots__ = ("_disk",)

    def __init__(self, disk: CuttingDisk, file: File) -> None:
        super().__init__(file)
        self._disk = disk

    def pwrite(self, data: Buffer, position: int) -> None:
        self._disk.change("pwrite", self.path, lambda: self._within.pwrite(data, position))

    def truncate(self, size: int) -> None:
        self._disk.change("truncate", self.path, lambda: self._within.truncate(size))

    def fsync(self) -> None:
        self._disk.change("fsync", self.path, self._within.fsync)
