"""What a broker's log directory lies on: a plain directory, a small tmpfs, or an ext4 of its own on a loop device.

Cutting the power of the ext4 is the ioctl EXT4_IOC_SHUTDOWN without a flush: what was not synced is gone, every later
call answers EIO, and mounting it again replays the journal, as after a real cut. The page cache that outlives a
`kill -9` does not outlive this. Needs `isolation` as real root.
"""

import contextlib
import fcntl
import os
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

_SHUTDOWN = 0x8004587D
_NO_LOG_FLUSH = 2
_LOOP_MAJOR = 7
_BLKIO = Path("/sys/fs/cgroup/blkio")
_BUSY_SECONDS = 20.0


class PowerCut(Exception):
    """The power of this file system could not be cut, or what was cut still writes."""


class Disk(Protocol):
    """Where one broker's log directory lies. `mount` makes it ready, `unmount` takes it away; both may be repeated."""

    path: Path

    def mount(self) -> None: ...

    def unmount(self) -> None: ...


class PlainDirectory:
    """A directory of the machine's own disk."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def mount(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)

    def unmount(self) -> None:
        """The machine's disk stays."""


class SmallMemory:
    """A tmpfs of a fixed size: what is full is full. Its content ends with `unmount`."""

    def __init__(self, path: Path, *, size_bytes: int) -> None:
        self.path = path
        self.size_bytes = size_bytes
        self._mounted = False

    def mount(self) -> None:
        if not self._mounted:
            self.path.mkdir(parents=True, exist_ok=True)
            _run("mount", "-t", "tmpfs", "-o", f"size={self.size_bytes}", "none", str(self.path))
            self._mounted = True

    def grow(self, size_bytes: int) -> None:
        """Make room."""
        _run("mount", "-o", f"remount,size={size_bytes}", str(self.path))

    def unmount(self) -> None:
        if self._mounted:
            _run("umount", str(self.path))
            self._mounted = False


class Ext4Image:
    """An ext4 in a file, on a loop device while it is mounted."""

    def __init__(self, path: Path, *, image: Path, size_bytes: int) -> None:
        self.path = path
        self._image = image
        self._size_bytes = size_bytes
        self._mounted = False

    def mount(self) -> None:
        if self._mounted:
            return
        if not self._image.exists():
            self._image.parent.mkdir(parents=True, exist_ok=True)
            with self._image.open("wb") as file:
                file.truncate(self._size_bytes)
            # No lazy work after the first mount: it would write for seconds.
            options = "lazy_itable_init=0,lazy_journal_init=0"
            _run("mkfs.ext4", "-q", "-F", "-E", options, str(self._image))
        self.path.mkdir(parents=True, exist_ok=True)
        _run("mount", "-o", "loop", str(self._image), str(self.path))
        self._mounted = True

    def cut_power(self) -> None:
        """Everything that was not synced is gone. Raises PowerCut unless a write is refused afterwards."""
        cut_power(self.path)

    def unmount(self) -> None:
        if not self._mounted:
            return
        deadline = time.monotonic() + _BUSY_SECONDS
        while (tried := subprocess.run(["umount", self.path], capture_output=True, text=True, check=False)).returncode:
            # A process that was just killed lets go of its files a moment later.
            if time.monotonic() > deadline:
                raise PowerCut(tried.stderr.strip())
            time.sleep(0.05)
        self._mounted = False

    @contextlib.contextmanager
    def slowed(self, *, bytes_a_second: int, pids: list[int]) -> Iterator[None]:
        """Let these processes write to the device at that rate only. Needs the blkio controller of cgroup v1."""
        device = os.stat(self.path).st_dev
        group = _BLKIO / f"barnabas-{os.getpid()}-{device}"
        group.mkdir()
        try:
            line = f"{os.major(device)}:{os.minor(device)} {bytes_a_second}"
            (group / "blkio.throttle.write_bps_device").write_text(line)
            for pid in pids:
                (group / "cgroup.procs").write_text(str(pid))
            yield
        finally:
            for left in (group / "cgroup.procs").read_text().split():
                with contextlib.suppress(ProcessLookupError):
                    (_BLKIO / "cgroup.procs").write_text(left)
            group.rmdir()


def cut_power(path: Path | str) -> None:
    """Cut the power of the ext4 on a loop device that is mounted there. Raises PowerCut."""
    # The ioctl takes any directory and ends the file system on which it lies, the machine's own as well.
    if not os.path.ismount(path) or os.major(os.stat(path).st_dev) != _LOOP_MAJOR:
        raise PowerCut(f"{path} is not where a loop device is mounted")
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.ioctl(descriptor, _SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
    except OSError as error:
        raise PowerCut(f"the power of {path} cannot be cut: {error}") from None
    finally:
        os.close(descriptor)
    try:
        Path(path, "written-after-the-cut").write_bytes(b"x")
    except OSError:
        return
    raise PowerCut(f"{path} takes writes after its power was cut")


def free_bytes(path: Path) -> int:
    """Room for data there."""
    status = os.statvfs(path)
    return status.f_bavail * status.f_frsize


def _run(*arguments: str) -> None:
    done = subprocess.run(arguments, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PowerCut(f"{' '.join(arguments)}: {done.stderr.strip()}")
