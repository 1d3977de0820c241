"""An open file, and ranges of it that connections send: what of the disk port is on the way of each record.

See `barnabas.runtime.disk` for its rules.
"""

import errno
import os
from typing import Final, Protocol

from barnabas.runtime.page_cache import pages_in_memory, pages_of

Buffer = bytes | bytearray | memoryview

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
