"""The machine's disk, beyond what every disk does: whole writes, durable replacement, descriptors, slices."""

import errno
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.runtime import files
from barnabas.runtime.disk import SystemDisk
from barnabas.runtime.files import File, FileSlice
from barnabas.runtime.page_cache import pages_in_memory, pages_of

DISK = SystemDisk()


@pytest.fixture
def file(tmp_path: Path) -> Iterator[File]:
    file = DISK.open(str(tmp_path / "file"), create=True)
    yield file
    file.close()


@pytest.fixture
def size_limit() -> Iterator[int]:
    """The kernel writes no file beyond so many bytes: a write over it is short, the next one fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    yield 100_000
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    signal.signal(signal.SIGXFSZ, before)


def test_a_write_that_the_kernel_cuts_short_is_carried_on_or_fails(file: File, size_limit: int) -> None:
    with pytest.raises(OSError, match="too large") as raised:
        file.pwrite(b"x" * 150_000, 0)
    assert raised.value.errno == errno.EFBIG
    assert file.size() == size_limit
    file.pwrite(b"y" * size_limit, 0)
    assert file.pread(size_limit + 1, 0) == b"y" * size_limit


@pytest.mark.parametrize("size", [262_143, 262_144, 262_145, 1_000_003])
def test_a_write_of_any_size_is_whole_and_in_its_place(file: File, size: int) -> None:
    data = bytes(number * 7 % 251 for number in range(size))
    file.pwrite(memoryview(data), 11)
    assert file.size() == 11 + size
    assert file.pread(size, 11) == data


def test_short_writes_and_reads_are_put_together(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    write, read = os.pwrite, os.pread
    monkeypatch.setattr(os, "pwrite", lambda descriptor, data, at: write(descriptor, bytes(data)[:7], at))
    monkeypatch.setattr(os, "pread", lambda descriptor, size, at: read(descriptor, min(size, 5), at))
    data = bytes(range(100))
    file.pwrite(data, 3)
    assert file.pread(100, 3) == data
    assert file.pread(1000, 50) == data[47:]
    file.pwrite(memoryview(bytearray(data))[10:20], 0)
    assert file.pread(10, 0) == data[10:20]


def test_a_device_that_takes_nothing_fails_the_write(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = iter([3, 0])
    monkeypatch.setattr(os, "pwrite", lambda *_: next(taken))
    with pytest.raises(OSError, match="no bytes"):
        file.pwrite(b"abcdef", 0)


def test_content_is_replaced_in_the_order_that_survives_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "file")
    done: list[str] = []

    def name_of(descriptor: int) -> str:
        return os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))

    write, sync, replace = os.pwrite, os.fsync, os.replace

    def noted_write(descriptor: int, data: bytes, at: int) -> int:
        done.append(f"write {name_of(descriptor)}")
        return write(descriptor, data, at)

    def noted_sync(descriptor: int) -> None:
        done.append(f"sync {name_of(descriptor)}")
        sync(descriptor)

    def noted_replace(old: str, new: str) -> None:
        done.append("rename")
        replace(old, new)

    monkeypatch.setattr(os, "pwrite", noted_write)
    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(os, "replace", noted_replace)
    DISK.write_durably(path, b"new")
    assert done == ["write file.tmp", "sync file.tmp", "rename", f"sync {tmp_path.name}"]
    assert DISK.read_bytes(path) == b"new"


def test_content_that_cannot_be_written_leaves_the_old_one(tmp_path: Path, size_limit: int) -> None:
    path = str(tmp_path / "file")
    DISK.write_durably(path, b"old")
    with pytest.raises(OSError, match="too large"):
        DISK.write_durably(path, b"x" * 150_000)
    assert DISK.read_bytes(path) == b"old"
    DISK.write_durably(path, b"new")
    assert DISK.list_directory(str(tmp_path)) == ["file"]


def descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def test_no_descriptor_stays_open(tmp_path: Path, size_limit: int) -> None:
    before = descriptors()
    path = str(tmp_path / "file")
    DISK.write_durably(path, b"x")
    with pytest.raises(OSError, match="too large"):
        DISK.write_durably(path, b"x" * 150_000)
    DISK.fsync_directory(str(tmp_path))
    DISK.read_bytes(path)
    file = DISK.open(path)
    file.read_ahead(0, 1)
    lock = DISK.lock(str(tmp_path / "lock"))
    with pytest.raises(BlockingIOError):
        DISK.lock(str(tmp_path / "lock"))
    for _ in range(2):
        file.close()
        lock.release()
    assert descriptors() == before


def test_descriptors_do_not_reach_processes_that_are_started(file: File, tmp_path: Path) -> None:
    lock = DISK.lock(str(tmp_path / "lock"))
    for descriptor in (file.fileno(), lock._descriptor):
        assert not os.get_inheritable(descriptor)
    lock.release()


def test_a_file_opened_for_reading_is_not_written_to(file: File) -> None:
    reader = DISK.open(file.path, writable=False)
    with pytest.raises(OSError, match="descriptor"):
        reader.pwrite(b"x", 0)
    reader.close()


def test_times_of_files_are_milliseconds(file: File) -> None:
    os.utime(file.path, ns=(1_600_000_000_123_456_789, 1_600_000_000_123_456_789))
    assert DISK.modified_ms(file.path) == 1_600_000_000_123


# What is in the page cache.


def test_what_was_just_written_is_in_memory(file: File) -> None:
    file.pwrite(bytes(1_000_000), 0)
    for position, size in ((0, 1), (0, 1_000_000), (999_999, 1), (123, 131_073)):
        assert file.is_cached(position, size)


def test_what_is_read_ahead_is_read_to_its_end_or_that_of_the_file(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    file.pwrite(bytes(1_000_000), 0)
    asked: list[tuple[int, int]] = []
    send = os.sendfile

    def send_some(out: int, descriptor: int, at: int, size: int) -> int:
        asked.append((at, size))
        return send(out, descriptor, at, min(size, 400_000))

    monkeypatch.setattr(os, "sendfile", send_some)
    file.read_ahead(100_000, 800_000)
    assert asked == [(100_000, 800_000), (500_000, 400_000)]
    asked.clear()
    file.read_ahead(700_000, 800_000)
    assert asked == [(700_000, 800_000), (1_000_000, 500_000)]


def test_a_range_that_is_let_go_is_all_that_the_kernel_is_told_of(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, ...]] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda *said: told.append(said))
    file.let_go(8192, 4096)
    assert told == [(file.fileno(), 8192, 4096, os.POSIX_FADV_DONTNEED)]


def test_a_file_system_that_does_not_send_is_read(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    file.pwrite(bytes(1_000_000), 0)
    asked: list[tuple[int, int]] = []
    read = os.pread

    def refuse(*_: object) -> int:
        raise OSError(errno.EINVAL, "Invalid argument")

    def noted(descriptor: int, size: int, at: int) -> bytes:
        asked.append((at, size))
        return read(descriptor, size, at)

    monkeypatch.setattr(os, "sendfile", refuse)
    monkeypatch.setattr(os, "pread", noted)
    file.read_ahead(600_000, 300_000)
    assert asked == [(600_000, 256 * 1024), (600_000 + 256 * 1024, 300_000 - 256 * 1024)]
    file.read_ahead(900_000, 300_000)


def test_what_cannot_be_read_ahead_is_an_error(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "sendfile", fail)
    with pytest.raises(OSError, match="Input/output"):
        file.read_ahead(0, 10)


def uncounted(*_: object) -> None:
    """A kernel that cannot count what is in memory."""


@pytest.mark.parametrize("cold", [0, 128 * 1024, 300_000, 999_999])
def test_a_range_is_cold_when_one_of_its_parts_is(file: File, monkeypatch: pytest.MonkeyPatch, cold: int) -> None:
    file.pwrite(bytes(1_000_000), 0)
    probed: list[int] = []

    def preadv(_: int, __: object, at: int, flags: int) -> int:
        assert flags == os.RWF_NOWAIT
        probed.append(at)
        if at <= cold < at + 128 * 1024:
            raise BlockingIOError
        return 1

    monkeypatch.setattr(files, "pages_in_memory", uncounted)
    monkeypatch.setattr(os, "preadv", preadv)
    assert not file.is_cached(0, 1_000_000)
    probed.clear()
    assert file.is_cached(cold + 128 * 1024, 1) or cold + 128 * 1024 < 1_000_000
    assert len(probed) == 1


class Probes:
    """Every probe finds its page in memory; how often there was one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.probed: list[int] = []
        monkeypatch.setattr(os, "preadv", self._preadv)

    def _preadv(self, _: int, __: object, at: int, ___: int) -> int:
        self.probed.append(at)
        return 1

    def taken(self) -> list[int]:
        taken, self.probed = self.probed, []
        return taken


def test_of_a_range_that_is_counted_whole_the_last_byte_alone_is_probed(
    file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.pwrite(bytes(1_000_000), 0)
    if pages_in_memory(file.fileno(), 0, 1) is None:
        monkeypatch.setattr(files, "pages_in_memory", lambda _, position, size: pages_of(position, size))
    probes = Probes(monkeypatch)
    for position in (0, 1, 4095, 4096, 131_073):
        assert file.is_cached(position, 800_000)
        assert probes.taken() == [position + 799_999]


def test_a_range_is_probed_each_time_until_it_is_counted_whole(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "pages_in_memory", lambda _, position, size: pages_of(position, size) - 1)
    probes = Probes(monkeypatch)
    for _ in range(2):
        assert file.is_cached(0, 300_000)
        assert probes.taken() == [0, 128 * 1024, 256 * 1024, 299_999]
    monkeypatch.setattr(files, "pages_in_memory", lambda _, position, size: pages_of(position, size))
    assert file.is_cached(0, 300_000)
    assert probes.taken() == [299_999]


def not_there(*_: object) -> int:
    """A read that would wait for the device."""
    raise BlockingIOError


def test_what_is_counted_and_still_comes_from_the_device_is_cold(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "pages_in_memory", lambda _, position, size: pages_of(position, size))
    monkeypatch.setattr(os, "preadv", not_there)
    assert not file.is_cached(0, 1_000_000)


@pytest.mark.parametrize("told", [None, 0])
def test_a_file_system_whose_pages_cannot_be_counted_is_asked_to_once(
    file: File, monkeypatch: pytest.MonkeyPatch, told: int | None
) -> None:
    counted: list[int] = []

    def count(_: int, position: int, __: int) -> int | None:
        counted.append(position)
        return told

    monkeypatch.setattr(files, "pages_in_memory", count)
    Probes(monkeypatch)
    assert file.is_cached(0, 1000)
    assert counted == []
    for _ in range(2):
        assert file.is_cached(0, 1_000_000)
        assert file.is_cached(0, 1000)
    assert counted == [0]


def test_a_file_whose_pages_are_not_there_yet_is_counted_again(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as cold:
        cold.setattr(files, "pages_in_memory", lambda *_: 0)
        cold.setattr(os, "preadv", not_there)
        assert not file.is_cached(0, 1_000_000)
    monkeypatch.setattr(files, "pages_in_memory", lambda _, position, size: pages_of(position, size))
    probes = Probes(monkeypatch)
    assert file.is_cached(0, 1_000_000)
    assert probes.taken() == [999_999]


@pytest.mark.parametrize("code", [errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS])
def test_a_file_system_that_cannot_say_is_asked_once(file: File, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    asked: list[int] = []

    def preadv(*_: object) -> int:
        asked.append(1)
        raise OSError(code, "no")

    monkeypatch.setattr(os, "preadv", preadv)
    assert file.is_cached(0, 10)
    assert file.is_cached(0, 10)
    assert len(asked) == 1


def test_a_device_that_fails_while_it_is_asked_is_not_taken_for_memory(
    file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    def preadv(*_: object) -> int:
        raise OSError(errno.EIO, "gone")

    monkeypatch.setattr(os, "preadv", preadv)
    with pytest.raises(OSError, match="gone"):
        file.is_cached(0, 10)


# Slices.


class Pin:
    def __init__(self) -> None:
        self.pins = 0
        self.unpins = 0

    def pin(self) -> None:
        self.pins += 1

    def unpin(self) -> None:
        self.unpins += 1


def test_a_slice_pins_its_owner_once_and_lets_go_once(file: File) -> None:
    file.pwrite(b"0123456789", 0)
    pin = Pin()
    part = FileSlice(file, 2, 5, pin)
    assert (len(part), part.read(), pin.pins, pin.unpins) == (5, b"23456", 1, 0)
    part.release()
    part.release()
    assert (pin.pins, pin.unpins) == (1, 1)
    FileSlice(file, 0, 1).release()
