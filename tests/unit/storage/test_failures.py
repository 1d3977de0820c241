"""A disk that fails: the directory is lost for good, nothing else is, and nothing is acknowledged after it."""

import asyncio
import errno

import pytest

from barnabas.protocol.ids import BrokerId, TopicPartition
from barnabas.runtime.offload import SystemOffload
from barnabas.storage.append import AppendOrigin
from barnabas.storage.boot_record import BootRecord
from barnabas.storage.directory_loading import StorageStartError
from barnabas.storage.file_names import CLEAN_SHUTDOWN_MARKER
from barnabas.storage.log import LogOffline
from barnabas.storage.log_config import LogConfig
from barnabas.storage.unsynced_mark import UNSYNCED_MARK, sync_or_mark, write_again
from barnabas.storage.write_pace import LOOKS_CLOSER_US, SLOW_WRITE_US, STALL_US, STALLED_WRITE_US
from tests.support.crash_disk import CrashDisk
from tests.unit.storage.logs import NOW, append, batch, read_bytes
from tests.unit.storage.stores import BOOT_ID, make_store, open_store

IN_A, IN_B = TopicPartition("t", 0), TopicPartition("t", 1)


async def two_directories(config=None):
    disk = CrashDisk()
    store = await open_store("/a", "/b", disk=disk, config=config)
    for topic_partition in (IN_A, IN_B):
        append(store.directories.create_log(topic_partition), batch(b"before"))
    return store, disk


def prepare(log, data=None):
    return log.prepare_append(data or batch(b"x"), leader_epoch=0, origin=AppendOrigin.CLIENT, now_ms=NOW)


def check_only_a_is_lost(store, disk):
    a, b = store.directories.directories
    assert (a.is_offline, b.is_offline) == (True, False)
    assert store.failures == ["/a"]
    assert store.directories.offline_directories() == ["/a"]
    disk.heal()
    lost = store.directories.log(IN_A)
    end = lost.log_end_offset
    for refused in (lambda: append(lost, batch(b"after")), lambda: read_bytes(lost, 0)):
        with pytest.raises(LogOffline):
            refused()
    assert lost.log_end_offset == end
    append(store.directories.log(IN_B), batch(b"after"))
    with pytest.raises(LogOffline):
        store.directories.create_log(TopicPartition("t", 2), is_new=False)
    made = store.directories.create_log(TopicPartition("t", 2))
    assert store.directories.directory_of(made.topic_partition).path == "/b"
    with pytest.raises(LogOffline):
        store.directories.delete_log(IN_A)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EROFS])
async def test_a_failed_write_takes_its_directory_offline(error):
    store, disk = await two_directories()
    disk.fail("pwrite", "/a/", error=error, times=1)
    prepared = prepare(store.directories.log(IN_A))
    with pytest.raises(LogOffline):
        store.directories.directories[0].try_write_inline(prepared)
    with pytest.raises(LogOffline):
        store.directories.log(IN_A).publish(prepared)
    check_only_a_is_lost(store, disk)


async def test_a_full_disk_leaves_a_torn_batch_that_the_next_start_cuts():
    store, disk = await two_directories()
    disk.capacity_bytes = sum(disk.size(f"/{name}") for name in ("a/.lock",)) + 450
    log = store.directories.log(IN_A)
    with pytest.raises(LogOffline):
        store.directories.directories[0].try_write_inline(prepare(log, batch(b"x" * 1000)))
    check_only_a_is_lost(store, disk)
    assert disk.size("/a/t-0/00000000000000000000.log") > log.size_bytes
    disk.kill()
    disk.restart()
    store = await open_store("/a", "/b", disk=disk)
    assert store.directories.log(IN_A).log_end_offset == 1
    append(store.directories.log(IN_A), batch(b"again"))


async def test_a_write_that_fails_in_the_thread_takes_the_directory_offline():
    store, disk = await two_directories()
    disk.fail("pwrite", "/a/")
    with pytest.raises(LogOffline):
        await store.directories.directories[0].write_in_thread(prepare(store.directories.log(IN_A)))
    check_only_a_is_lost(store, disk)


async def test_a_failed_fsync_takes_the_directory_offline_and_is_never_repeated():
    store, disk = await two_directories()
    disk.fail("fsync", "/a/", times=1)
    directory, log = store.directories.directories[0], store.directories.log(IN_A)
    with pytest.raises(LogOffline):
        await directory.flush(log, 1)
    assert log.recovery_point == 0
    with pytest.raises(LogOffline):
        await directory.flush(log, 1)
    assert log.recovery_point == 0, "a second fsync would have said that all is well"
    check_only_a_is_lost(store, disk)


async def test_a_rename_that_fails_while_rolling_or_deleting_takes_the_directory_offline():
    store, disk = await two_directories()
    disk.fail("rename", "/a/")
    with pytest.raises(LogOffline):
        store.directories.delete_log(IN_A)
    assert store.failures == ["/a"]
    assert not store.directories.directories[1].is_offline


async def test_a_segment_that_cannot_be_made_takes_the_log_offline():
    store, disk = await two_directories(LogConfig(segment_bytes=100))
    disk.fail("open", "/a/t-0/00000000000000000001", error=errno.ENOSPC)
    log = store.directories.log(IN_A)
    with pytest.raises(OSError, match="No space"):
        prepare(log)
    with pytest.raises(LogOffline):
        prepare(log)


async def test_a_checkpoint_that_cannot_be_written_takes_the_directory_offline():
    store, disk = await two_directories()
    disk.fail("rename", "/a/recovery-point")
    await store.directories.directories[0].checkpoint_all()
    check_only_a_is_lost(store, disk)


async def test_a_failed_directory_is_closed_without_the_marker():
    store, disk = await two_directories()
    disk.fail("fsync", "/a/t-0")
    await store.directories.close()
    assert store.failures == ["/a"]
    disk.kill()
    disk.restart()
    disk.heal()
    assert not disk.exists("/a/.kafka_cleanshutdown")
    assert disk.exists("/b/.kafka_cleanshutdown")


async def test_a_directory_that_cannot_be_read_at_start_is_offline_and_the_others_serve():
    store, disk = await two_directories()
    await store.directories.close()
    disk.kill()
    disk.restart()
    disk.fail("open", "/a/t-0")
    store = await open_store("/a", "/b", disk=disk)
    assert store.failures == ["/a"]
    assert store.directories.log(IN_A) is None
    assert store.directories.log(IN_B).log_end_offset == 1
    assert disk.exists("/a/.kafka_cleanshutdown"), "what it says is still true"


async def test_without_any_directory_there_is_no_start():
    disk = CrashDisk()
    disk.fail("make_directory", error=errno.EROFS)
    with pytest.raises(StorageStartError, match="no log directory can be used"):
        await make_store("/a", "/b", disk=disk).directories.open(broker_id=BrokerId(1), cluster_id="c")


async def test_writes_go_through_the_thread_after_a_slow_one_and_inline_again_later():
    store, _ = await two_directories()
    directory, log = store.directories.directories[0], store.directories.log(IN_A)
    slow = prepare(log)
    slow.file = SlowFile(slow.file, store.clock.advance, SLOW_WRITE_US // 1000 + 1)
    assert directory.try_write_inline(slow)
    log.publish(slow)
    threaded = 0
    while not directory.writes_inline:
        prepared = prepare(log)
        assert not directory.try_write_inline(prepared)
        await directory.write_in_thread(prepared)
        log.publish(prepared)
        threaded += 1
    assert 1 <= threaded <= 30
    assert store.offload.lanes.count("write:/a") == threaded


async def test_a_write_whose_thread_lost_its_core_is_no_sign_of_a_slow_disk():
    store, _ = await two_directories()
    directory, log = store.directories.directories[0], store.directories.log(IN_A)

    async def write(pass_time=None):
        """Whether on the loop."""
        prepared = prepare(log)
        if pass_time:
            prepared.file = SlowFile(prepared.file, pass_time, SLOW_WRITE_US // 1000 + 1)
        is_inline = directory.writes_inline
        if is_inline:
            assert directory.try_write_inline(prepared)
        else:
            await directory.write_in_thread(prepared)
        log.publish(prepared)
        return is_inline

    async def until_inline():
        assert any([await write() for _ in range(30)])

    sleep, work, lose_core = store.clock.advance, store.clock.work, store.clock.lose_core
    # Of the first nobody knows why it was slow.
    assert await write(lose_core)
    assert not directory.writes_inline
    await until_inline()
    for _ in range(3):
        assert await write(lose_core)
        assert directory.writes_inline
    for slow in (sleep, work):
        assert await write(slow)
        assert not directory.writes_inline
        await until_inline()
    # And after a while without a slow one nobody counts.
    store.clock.advance(LOOKS_CLOSER_US // 1000)
    assert await write(lose_core)
    assert not directory.writes_inline


async def test_a_directory_that_is_slow_in_the_thread_too_gets_no_write_from_the_loop_for_a_while():
    store, _ = await two_directories()
    directory, log = store.directories.directories[0], store.directories.log(IN_A)
    slow = prepare(log)
    slow.file = SlowFile(slow.file, store.clock.advance, STALLED_WRITE_US // 1000 + 1)
    await directory.write_in_thread(slow)
    log.publish(slow)
    for advance_ms, is_inline in ((0, False), (STALL_US // 1000 - 1, False), (1, True)):
        store.clock.advance(advance_ms)
        for _ in range(40):
            prepared = prepare(log)
            await directory.write_in_thread(prepared)
            log.publish(prepared)
        assert directory.writes_inline is is_inline


class SlowFile:
    """A file whose writes take that long by the clock."""

    def __init__(self, file, pass_time, took_ms):
        self._file, self._pass_time, self._took_ms = file, pass_time, took_ms

    def pwrite(self, data, position):
        self._file.pwrite(data, position)
        self._pass_time(self._took_ms)


class CountingDisk(CrashDisk):
    """Counts the syncs of segments, and waits in each until it may go on."""

    def __init__(self):
        super().__init__()
        self.syncs = 0

    def maybe_fail(self, kind, path):
        if kind == "fsync" and path.endswith(".log"):
            self.syncs += 1
        super().maybe_fail(kind, path)


async def test_those_who_wait_for_a_flush_share_it():
    disk = CountingDisk()
    store = await open_store("/a", disk=disk)
    directory = store.directories.directories[0]
    offload = SystemOffload()
    directory._offload = offload
    log = store.directories.create_log(IN_A)
    for _ in range(20):
        append(log, batch(b"v"))
    waiting = [asyncio.create_task(directory.flush(log, offset + 1)) for offset in range(20)]
    while not log.segments.active.is_pinned:  # noqa: ASYNC110
        await asyncio.sleep(0)
    append(log, batch(b"after it began"))
    waiting.append(asyncio.create_task(directory.flush(log, 21)))
    await asyncio.gather(*waiting)
    offload.close()
    assert log.recovery_point == 21
    assert disk.syncs == 2


class SlowOffload:
    """Does the work of a lane when the test says so."""

    def __init__(self):
        self.may_go_on = asyncio.Event()

    async def thread(self, lane, call, *args, **kwargs):
        await self.may_go_on.wait()
        return call(*args, **kwargs)


async def slow_store():
    store = await open_store("/a", disk=CrashDisk())
    log = store.directories.create_log(IN_A)
    directory = store.directories.directories[0]
    directory._offload = SlowOffload()
    return store, log, directory


async def test_who_is_cancelled_in_a_write_leaves_a_log_that_takes_batches():
    store, log, directory = await slow_store()
    task = asyncio.create_task(directory.write_in_thread(prepare(log, batch(b"abandoned" * 9))))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done(), "the thread still writes there"
    directory._offload.may_go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert append(log, batch(b"v")).first_offset == 0
    assert read_bytes(log, 0).endswith(b"v\0")
    assert store.failures == []


async def test_who_is_cancelled_in_a_flush_leaves_it_to_the_others():
    store, log, directory = await slow_store()
    append(log, batch(b"v"))
    first = asyncio.create_task(directory.flush(log, 1))
    second = asyncio.create_task(directory.flush(log, 1))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    assert not log.offline
    directory._offload.may_go_on.set()
    await second
    assert log.recovery_point == 1
    assert store.failures == []


async def test_a_truncation_overtakes_a_flush_that_is_under_way():
    store, _ = await two_directories()
    log = store.directories.log(IN_A)
    append(log, batch(b"v"))
    flush = log.plan_flush()
    flush.sync()
    log.truncate_to(1)
    append(log, batch(b"other"))
    log.finish_flush(flush, succeeded=True)
    assert log.recovery_point == 0, "the other batch at offset 1 was not synced"


async def test_deleting_a_partition_while_it_is_flushed_harms_nothing():
    store, disk = await two_directories()
    log = store.directories.log(IN_A)
    flush = log.plan_flush()
    store.directories.delete_log(IN_A)
    with pytest.raises(FileNotFoundError):
        flush.sync()
    log.finish_flush(flush, succeeded=False)
    assert store.failures == []
    del disk


async def killed_after_a_failed_sync():
    store, disk = await two_directories()
    disk.fail("fsync", "/a/t-0", times=1)
    with pytest.raises(LogOffline):
        await store.directories.directories[0].flush(store.directories.log(IN_A), 1)
    disk.kill()
    disk.restart()
    return disk


async def test_what_a_failed_sync_left_in_memory_is_written_again_by_the_next_start():
    disk = await killed_after_a_failed_sync()
    for _ in range(2):
        store = await open_store("/a", "/b", disk=disk)
        assert store.directories.log(IN_A).log_end_offset == 1
        assert not disk.exists(f"/a/{UNSYNCED_MARK}")
        disk.kill()
        disk.restart()
    disk.power_cut()
    disk.restart()
    store = await open_store("/a", "/b", disk=disk)
    assert store.directories.log(IN_A).log_end_offset == 1


async def test_what_a_failed_sync_left_is_doubtful_until_the_boot_record_says_so():
    disk = await killed_after_a_failed_sync()
    for _ in range(2):
        store = make_store("/a", "/b", disk=disk)
        await store.directories.open(broker_id=BrokerId(1), cluster_id="cluster")
        assert not store.directories.have_survived(BOOT_ID)
        disk.kill()
        disk.restart()
    store = make_store("/a", "/b", disk=disk)
    await store.directories.open(broker_id=BrokerId(1), cluster_id="cluster")
    store.directories.record_boot(BootRecord(BOOT_ID, is_intact=False))
    assert not disk.exists(f"/a/{UNSYNCED_MARK}")
    disk.kill()
    disk.restart()
    store = await open_store("/a", "/b", disk=disk)
    assert store.directories.have_survived(BOOT_ID), "open_store says so"


async def test_a_mark_counts_for_more_than_a_clean_stop():
    store, disk = await two_directories()
    await store.directories.close()
    disk.open(f"/a/{UNSYNCED_MARK}", create=True).close()
    disk.restart()
    store = await open_store("/a", "/b", disk=disk)
    assert [each.was_clean for each in store.directories.directories] == [False, True]
    assert not disk.exists(f"/a/{CLEAN_SHUTDOWN_MARKER}")


async def test_the_sync_of_a_partition_that_is_deleted_meanwhile_is_no_failed_one():
    store, disk = await two_directories()
    directory, log = store.directories.directories[0], store.directories.log(IN_A)
    flush = log.plan_flush()
    store.directories.delete_log(IN_A)
    with pytest.raises(FileNotFoundError):
        sync_or_mark(flush.sync, disk, directory.path)
    assert not disk.exists(f"/a/{UNSYNCED_MARK}")


def test_only_what_was_not_synced_is_written_again():
    disk = CrashDisk()
    disk.write_durably("/file", b"0123")
    file = disk.open("/file")
    file.pwrite(b"456789", 4)
    disk.fail("fsync", "/file", times=1)
    with pytest.raises(OSError, match="Input/output"):
        file.fsync()
    write_again(file, 6, 10)
    file.fsync()
    disk.power_cut()
    disk.restart()
    assert disk.read_bytes("/file") == b"0123\0\x006789"
    with pytest.raises(OSError, match="ends at byte 10, expected 12"):
        write_again(disk.open("/file"), 4, 12)
