"""What every disk does, the machine's and the one in memory that crashes."""

import errno

import pytest

from barnabas.runtime.disk import SystemDisk
from tests.support.crash_disk import CrashDisk


@pytest.fixture(params=["system", "crash"])
def place(request, tmp_path):
    """A disk and a directory on it."""
    if request.param == "system":
        return SystemDisk(), str(tmp_path)
    disk = CrashDisk()
    disk.make_directory("/data")
    return disk, "/data"


def test_what_is_written_is_read_at_its_position(place):
    disk, root = place
    file = disk.open(f"{root}/a", create=True)
    file.pwrite(b"world", 6)
    file.pwrite(memoryview(bytearray(b"hello")), 0)
    assert file.size() == 11
    assert file.pread(100, 0) == b"hello\0world"
    assert file.pread(3, 6) == b"wor"
    assert file.pread(3, 50) == b""
    assert disk.read_bytes(f"{root}/a") == b"hello\0world"
    assert disk.size(f"{root}/a") == 11


def test_what_is_read_ahead_is_in_memory(place):
    disk, root = place
    file = disk.open(f"{root}/a", create=True)
    file.pwrite(bytes(300_000), 0)
    file.fsync()
    for position, size in ((0, 300_000), (250_000, 50_000)):
        file.let_go(0, 300_000)
        file.read_ahead(position, size)
        assert file.is_cached(position, size)
    file.read_ahead(250_000, 100_000)
    file.read_ahead(400_000, 10)


def test_truncate_cuts_and_extends_with_zeros(place):
    disk, root = place
    file = disk.open(f"{root}/a", create=True)
    file.pwrite(b"abcdef", 0)
    file.truncate(2)
    file.truncate(4)
    assert file.pread(10, 0) == b"ab\0\0"


def test_a_missing_file_is_made_only_when_asked_for(place):
    disk, root = place
    with pytest.raises(FileNotFoundError):
        disk.open(f"{root}/a")
    with pytest.raises(FileNotFoundError):
        disk.read_bytes(f"{root}/a")
    with pytest.raises(FileNotFoundError):
        disk.open(f"{root}/no/a", create=True)
    disk.open(f"{root}/a", create=True).close()
    assert disk.exists(f"{root}/a")
    assert not disk.is_directory(f"{root}/a")


def test_directories_are_made_with_their_parents_and_listed_in_order(place):
    disk, root = place
    disk.make_directory(f"{root}/x/y")
    disk.make_directory(f"{root}/x/y")
    for name in "bca":
        disk.open(f"{root}/x/{name}", create=True).close()
    assert disk.list_directory(f"{root}/x") == ["a", "b", "c", "y"]
    assert disk.is_directory(f"{root}/x/y")
    with pytest.raises(FileNotFoundError):
        disk.list_directory(f"{root}/none")


def test_a_rename_replaces_and_takes_open_files_along(place):
    disk, root = place
    old = disk.open(f"{root}/a", create=True)
    old.pwrite(b"a", 0)
    disk.open(f"{root}/b", create=True).pwrite(b"b", 0)
    disk.rename(f"{root}/a", f"{root}/b")
    assert disk.list_directory(root) == ["b"]
    old.pwrite(b"A", 0)
    assert disk.read_bytes(f"{root}/b") == b"A"
    with pytest.raises(FileNotFoundError):
        disk.rename(f"{root}/a", f"{root}/c")


def test_a_renamed_directory_keeps_its_files(place):
    disk, root = place
    disk.make_directory(f"{root}/x")
    disk.open(f"{root}/x/a", create=True).pwrite(b"a", 0)
    disk.rename(f"{root}/x", f"{root}/y")
    assert disk.read_bytes(f"{root}/y/a") == b"a"
    assert not disk.exists(f"{root}/x")


def test_removal_takes_what_is_there_and_minds_nothing_else(place):
    disk, root = place
    file = disk.open(f"{root}/a", create=True)
    file.pwrite(b"a", 0)
    disk.remove(f"{root}/a")
    disk.remove(f"{root}/a")
    assert file.pread(1, 0) == b"a", "an open file outlives its name"
    disk.make_directory(f"{root}/x/y")
    disk.remove_tree(f"{root}/x")
    disk.remove_tree(f"{root}/x")
    disk.remove(f"{root}/x/y/a")
    disk.remove_tree(f"{root}/x/y")
    assert disk.list_directory(root) == []


def test_a_durable_write_replaces_the_content_and_leaves_nothing_else(place):
    disk, root = place
    disk.write_durably(f"{root}/a", b"first and long")
    disk.write_durably(f"{root}/a", b"second")
    assert disk.read_bytes(f"{root}/a") == b"second"
    assert disk.list_directory(root) == ["a"]


def test_a_lock_is_exclusive_until_released(place):
    disk, root = place
    lock = disk.lock(f"{root}/.lock")
    with pytest.raises(BlockingIOError):
        disk.lock(f"{root}/.lock")
    lock.release()
    disk.lock(f"{root}/.lock").release()


def test_a_closed_file_takes_and_gives_nothing(place):
    disk, root = place
    file = disk.open(f"{root}/a", create=True)
    file.close()
    for call in (lambda: file.pwrite(b"a", 0), lambda: file.pread(1, 0)):
        with pytest.raises(OSError, match="descriptor") as raised:
            call()
        assert raised.value.errno == errno.EBADF


def test_syncing_is_possible_for_files_and_directories(place):
    disk, root = place
    file = disk.open(f"{root}/a", create=True)
    file.pwrite(b"a", 0)
    file.fsync()
    disk.fsync_directory(root)
    with pytest.raises(FileNotFoundError):
        disk.fsync_directory(f"{root}/none")


def test_a_file_can_seem_to_be_as_old_as_another_until_it_is_written_to(place):
    disk, root = place
    file = disk.open(f"{root}/a", create=True)
    file.pwrite(b"x", 0)
    disk.set_modified_ms(f"{root}/a", 1_600_000_000_123)
    file.fsync()
    disk.rename(f"{root}/a", f"{root}/b")
    assert disk.modified_ms(f"{root}/b") == 1_600_000_000_123
    file.pwrite(b"y", 1)
    assert disk.modified_ms(f"{root}/b") != 1_600_000_000_123
    file.close()
