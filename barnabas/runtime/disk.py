"""The disk port: every touch of a file goes through here, and through the open files that it gives (`files`).

Errors are the `OSError`s of the system, unchanged: whoever owns a log directory decides that the directory is lost.
A write is whole or raises. Nothing is mapped into memory: a store into a sparse mapped file on a full disk
kills the process with SIGBUS.

Durable metadata is written by `write_durably`: a temporary file, fsync, rename, fsync of the directory. A rename
or a new file that must survive a power cut is followed by `fsync_directory`.
"""

import contextlib
import errno
import fcntl
import os
import shutil
from typing import Final, Protocol

from barnabas.runtime.files import Buffer, File, SystemFile

OUT_OF_RESOURCES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""Errors that say nothing of the device: the process or the machine has too much open."""


class Disk(Protocol):
    """The file system. Paths are absolute strings."""

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        """Open `path`. With `create` a missing file is made; without, FileNotFoundError."""
        ...

    def exists(self, path: str) -> bool: ...

    def is_directory(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int: ...

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Let a file seem to have been changed last at that time; it lasts as a write does, until the next one."""
        ...

    def list_directory(self, path: str) -> list[str]:
        """Names in the directory, sorted."""
        ...

    def make_directory(self, path: str) -> None:
        """Make it and its parents; it may exist."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Put `source` in the place of `target`, atomically."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file; it may be missing."""
        ...

    def remove_tree(self, path: str) -> None:
        """Remove a directory with all below it; it may be missing."""
        ...

    def fsync_directory(self, path: str) -> None: ...

    def read_bytes(self, path: str) -> bytes: ...

    def write_durably(self, path: str, data: Buffer) -> None:
        """Replace the content of `path` so that after a power cut it is whole: the old or the new."""
        ...

    def lock(self, path: str) -> "FileLock":
        """Take an exclusive lock on `path`, made if missing; BlockingIOError when another process holds it."""
        ...


class FileLock(Protocol):
    """A lock that is held until released or the process ends."""

    def release(self) -> None: ...


class SystemFileLock:
    """An flock on a file of the machine."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class SystemDisk:
    """The file systems of the machine."""

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        flags = (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return SystemFile(path, os.open(path, flags, 0o644))

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def list_directory(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def remove_tree(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)

    def fsync_directory(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def read_bytes(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def write_durably(self, path: str, data: Buffer) -> None:
        temporary = path + ".tmp"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            file = SystemFile(temporary, descriptor)
            file.pwrite(data, 0)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
        self.fsync_directory(os.path.dirname(path))

    def lock(self, path: str) -> SystemFileLock:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise
        return SystemFileLock(descriptor)
