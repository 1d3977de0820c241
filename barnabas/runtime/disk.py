"""The disk port: every touch of a file goes through here.

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

from barnabas.runtime.page_cache import pages_in_memory, pages_of

Buffer = bytes | bytearray | memoryview

OUT_OF_RESOURCES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""Errors that say nothing of the device: the process or the machine has too much open."""

_PROBE_STRIDE: Final = 128 * 1024
_PIECE_BYTES: Final = 256 * 1024
"""Of a large write. The page cache takes memory in pieces as large as what is written at once: small ones cost more
(1.45 s of CPU by GB with 64 KiB, 1.33 with this), and larger ones are of blocks that a virtual machine has given back
to its host and asks for again (with 1 MB 0.96 to 1.61 s by GB, with this 0.88 to 1.12).
"""


class File(Protocol):
    """An open file. Positions and sizes are bytes."""

    @property
    def path(self) -> str: ...

    def pread(self, size: int, position: int) -> bytes:
        """Up to `size` bytes; shorter only at the end of the file."""
        ...

    def pwrite(self, data: Buffer, position: int) -> None:
        """Write all of `data`, or raise OSError; after an error the file's content there is unknown."""
        ...

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def fsync(self) -> None:
        """Return once content and size would survive a power cut. Never call it again after it failed."""
        ...

    def fileno(self) -> int:
        """The descriptor, for sendfile. A simulated file raises: its slices are read through `pread`."""
        ...

    def is_cached(self, position: int, size: int) -> bool:
        """Whether reading that range would (very probably) not wait for the device."""
        ...

    def read_ahead(self, position: int, size: int) -> None:
        """Return when what the file has of that range is in memory; waits for the device."""
        ...

    def let_go(self, position: int, size: int) -> None:
        """Say that the range need not stay in memory: it was read once and will not be read soon."""
        ...

    def close(self) -> None: ...


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


class FileSlice:
    """A range of a file that a connection can send without the bytes passing through Python.

    It pins what it reads from: `release` is called exactly once, by whoever sent or dropped it.
    """

    __slots__ = ("_owner", "file", "position", "size")

    def __init__(self, file: File, position: int, size: int, owner: "Pinned | None" = None) -> None:
        self.file = file
        self.position = position
        self.size = size
        self._owner = owner
        if owner is not None:
            owner.pin()

    @property
    def owner(self) -> "Pinned | None":
        """What is pinned."""
        return self._owner

    def release(self) -> None:
        owner, self._owner = self._owner, None
        if owner is not None:
            owner.unpin()

    def read(self) -> bytes:
        """The bytes themselves, for what cannot use a descriptor."""
        return self.file.pread(self.size, self.position)

    def __len__(self) -> int:
        return self.size


class Pinned(Protocol):
    """Something that must not close its file while slices of it are under way."""

    def pin(self) -> None: ...

    def unpin(self) -> None: ...


class SystemFile:
    """A file of the machine, by descriptor."""

    __slots__ = ("_counts", "_descriptor", "_path", "_probes")

    def __init__(self, path: str, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        self._counts = self._probes = True

    @property
    def path(self) -> str:
        return self._path

    def pread(self, size: int, position: int) -> bytes:
        data = os.pread(self._descriptor, size, position)
        if len(data) == size or not data:
            return data
        parts = [data]
        got = len(data)
        while got < size and (more := os.pread(self._descriptor, size - got, position + got)):
            parts.append(more)
            got += len(more)
        return b"".join(parts)

    def pwrite(self, data: Buffer, position: int) -> None:
        size = len(data)
        written = os.pwrite(self._descriptor, data, position) if size <= _PIECE_BYTES else 0
        if written == size:
            return
        view = memoryview(data)
        while written < size:
            count = os.pwrite(self._descriptor, view[written : written + _PIECE_BYTES], position + written)
            if count == 0:
                raise OSError(errno.EIO, "the device accepted no bytes", self._path)
            written += count

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def fsync(self) -> None:
        os.fsync(self._descriptor)

    def fileno(self) -> int:
        return self._descriptor

    def is_cached(self, position: int, size: int) -> bool:
        if not self._probes:
            return True
        byte = bytearray(1)
        at, last = position, position + size - 1
        counts = self._counts and size > _PROBE_STRIDE
        counted = pages_in_memory(self._descriptor, position, size) if counts else None
        if counted is not None and counted == pages_of(position, size):
            # It may be on its way from the device, for others: its last page comes last.
            at = last
        try:
            while at < last:
                os.preadv(self._descriptor, [byte], at, os.RWF_NOWAIT)
                at += _PROBE_STRIDE
            os.preadv(self._descriptor, [byte], last, os.RWF_NOWAIT)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                raise
            # File systems that live in memory do not know the flag; there is nothing to wait for either.
            self._probes = False
        if counts and not counted:
            # The kernel cannot count here, or finds nothing of what is there.
            self._counts = False
        return True

    def read_ahead(self, position: int, size: int) -> None:
        # Sent nowhere: a read would copy it too (by GB 0.03 s of CPU and not 0.13), and what POSIX_FADV_WILLNEED brings
        # lies in single pages, which cost more to send (0.26, and 0.08 s at each later sending where this has 0.02).
        end = position + size
        with open(os.devnull, "wb", buffering=0) as nowhere:
            while position < end and (taken := self._send_to(nowhere.fileno(), position, end - position)):
                position += taken

    def _send_to(self, descriptor: int, position: int, size: int) -> int:
        try:
            return os.sendfile(descriptor, self._descriptor, position, size)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            # Not a file system that sends.
            return len(os.pread(self._descriptor, min(size, _PIECE_BYTES), position))

    def let_go(self, position: int, size: int) -> None:
        os.posix_fadvise(self._descriptor, position, size, os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


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

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> SystemFile:
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
