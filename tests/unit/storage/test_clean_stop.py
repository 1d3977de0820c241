"""What a clean stop costs: logs are closed side by side, and what is on disk already is not synced again."""

from collections import Counter

from barnabas.protocol.ids import TopicPartition
from tests.support.crash_disk import CrashDisk
from tests.unit.storage.logs import NOW, TP, append, batch, read_bytes
from tests.unit.storage.stores import open_store

MANY = [TopicPartition("topic", number) for number in range(20)]


async def stopped(disk, *, appends=()):
    """Start on the disk, append to some logs, stop; what was done to the disk while stopping, and the store."""
    store = await open_store("/data", disk=disk)
    for topic_partition in MANY:
        store.directories.create_log(topic_partition)
    for topic_partition in appends:
        append(store.directories.log(topic_partition), batch(b"v", producer=(7, 0, 0)))
    done = Counter()
    disk.on_operation = lambda kind, path: done.update([(kind, path)])
    await store.directories.close()
    disk.on_operation = None
    disk.kill()
    disk.restart()
    return done, store


async def test_logs_that_nobody_has_touched_are_not_synced_again():
    disk = CrashDisk(lambda: NOW)
    await stopped(disk, appends=MANY)
    done, _ = await stopped(disk)
    assert [path for kind, path in done if kind == "fsync" and "/topic-" in path] == []


async def test_what_was_appended_since_is_synced_with_its_indexes():
    disk = CrashDisk(lambda: NOW)
    await stopped(disk, appends=MANY)
    store = await open_store("/data", disk=disk)
    append(store.directories.log(TP), batch(b"w", producer=(7, 0, 1)))
    await store.directories.close()
    disk.power_cut()
    disk.restart()
    store = await open_store("/data", disk=disk)
    log = store.directories.log(TP)
    assert (log.log_end_offset, log.producers.get(7).last_sequence) == (2, 1)
    assert len(read_bytes(log, 0)) == log.size_bytes
    assert store.directories.directories[0].was_clean


async def test_a_log_that_was_cut_is_synced_though_it_is_as_long_as_before():
    disk = CrashDisk(lambda: NOW)
    await stopped(disk, appends=[TP])
    store = await open_store("/data", disk=disk)
    log = store.directories.log(TP)
    await store.directories.truncate({TP: 0})
    append(log, batch(b"w", producer=(7, 0, 0)), leader_epoch=3)
    await store.directories.close()
    disk.power_cut()
    disk.restart()
    log = (await open_store("/data", disk=disk)).directories.log(TP)
    assert (log.log_end_offset, log.leader_epochs.latest_epoch) == (1, 3)


async def test_logs_are_closed_side_by_side():
    disk = CrashDisk(lambda: NOW)
    _, store = await stopped(disk, appends=MANY)
    lanes = {lane for lane in store.offload.lanes if lane.startswith("close ")}
    assert len(lanes) > 4
