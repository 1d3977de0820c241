"""The machine's disk with faults that a test switches on and off while a broker runs, and a journal of what was done.

`FaultControl` is the test's side, `FaultyDisk` the broker's; between them stands one directory. A fault names the kind
of operation, a part of the path, and what happens: an error, so many times, or a delay. The journal has a line for
each operation that changes or syncs something, with the time before and after it (of the monotonic clock, which all
processes of a machine share), so that a test can show that its fault acted and what came after it.
"""

import errno
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, TypeVar

from barnabas.runtime.disk import SystemDisk
from barnabas.runtime.files import Buffer, File
from tests.support.file_around import FileAround

T = TypeVar("T")

ENVIRONMENT: Final = "BARNABAS_TEST_FAULTS"
PWRITE: Final = "pwrite"
FSYNC: Final = "fsync"
RENAME: Final = "rename"
OPEN: Final = "open"


@dataclass(slots=True)
class Fault:
    """`times` None is for ever. With `delay_ms` alone the operation succeeds, later."""

    kind: str
    path_part: str
    error: int | None = None
    delay_ms: int = 0
    times: int | None = None


@dataclass(slots=True)
class Entry:
    """One operation. `error` is the name of the errno that it raised."""

    kind: str
    path: str
    begin_ns: int
    end_ns: int
    position: int = 0
    size: int = 0
    error: str | None = None


class FaultControl:
    """The test's side."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.set()

    @property
    def environment(self) -> dict[str, str]:
        """What a broker process needs in its environment."""
        return {ENVIRONMENT: str(self.directory)}

    def set(self, *faults: Fault) -> None:
        """Let these faults, and no others, be there from now on."""
        fresh = self.directory / "faults.new"
        fresh.write_text(json.dumps([asdict(fault) for fault in faults]))
        fresh.rename(self.directory / "faults")

    def journal(self) -> list[Entry]:
        """Everything so far, in the order in which the operations ended."""
        path = self.directory / "journal"
        return [Entry(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


class FaultyFile(FileAround):
    """A file of a FaultyDisk."""

    __slots__ = ("_disk",)

    def __init__(self, disk: "FaultyDisk", within: File) -> None:
        super().__init__(within)
        self._disk = disk

    def pwrite(self, data: Buffer, position: int) -> None:
        self._disk.act(PWRITE, self.path, lambda: self._within.pwrite(data, position), position, len(data))

    def fsync(self) -> None:
        self._disk.act(FSYNC, self.path, self._within.fsync)


class FaultyDisk(SystemDisk):
    """The broker's side. Goes to worker processes as its directory alone."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._journal = os.open(f"{directory}/journal", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._faults: list[Fault] = []
        self._version = (0, 0)

    def __reduce__(self) -> tuple[type["FaultyDisk"], tuple[str]]:
        return FaultyDisk, (self._directory,)

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        if not create:
            return FaultyFile(self, super().open(path, create=create, writable=writable))
        return FaultyFile(self, self.act(OPEN, path, lambda: SystemDisk.open(self, path, create=True)))

    def rename(self, source: str, target: str) -> None:
        self.act(RENAME, target, lambda: os.replace(source, target))

    def fsync_directory(self, path: str) -> None:
        self.act(FSYNC, path, lambda: SystemDisk.fsync_directory(self, path))

    def write_durably(self, path: str, data: Buffer) -> None:
        self.act(FSYNC, path, lambda: SystemDisk.write_durably(self, path, data))

    def act(self, kind: str, path: str, operation: Callable[[], T], position: int = 0, size: int = 0) -> T:
        """Carry out an operation with the faults that are set for it, and write it down."""
        entry = Entry(kind, path, time.monotonic_ns(), 0, position, size)
        fault = self._take_fault(kind, path)
        try:
            if fault is not None:
                _suffer(fault, path)
            return operation()
        except OSError as error:
            entry.error = errno.errorcode.get(error.errno or 0, str(error))
            raise
        finally:
            entry.end_ns = time.monotonic_ns()
            os.write(self._journal, json.dumps(asdict(entry)).encode() + b"\n")

    def _take_fault(self, kind: str, path: str) -> Fault | None:
        self._maybe_read_faults()
        for fault in self._faults:
            if fault.kind == kind and fault.path_part in path and fault.times != 0:
                if fault.times is not None:
                    fault.times -= 1
                return fault
        return None

    def _maybe_read_faults(self) -> bool:
        path = f"{self._directory}/faults"
        status = os.stat(path)
        version = (status.st_ino, status.st_mtime_ns)
        if version == self._version:
            return False
        with open(path) as file:
            self._faults = [Fault(**values) for values in json.load(file)]
        self._version = version
        return True


def _suffer(fault: Fault, path: str) -> None:
    time.sleep(fault.delay_ms / 1000)
    if fault.error is not None:
        raise OSError(fault.error, os.strerror(fault.error), path)
