"""Log directories: owners, locks, placement, deletion, failure, the clean stop."""

import os

import pytest

from barnabas.protocol.ids import BrokerId, TopicPartition
from barnabas.storage.directories import LogDirectories
from barnabas.storage.directory_loading import StorageStartError
from barnabas.storage.file_names import CLEANER_CHECKPOINT
from barnabas.storage.log import LogOffline
from barnabas.storage.log_config import LogConfig
from tests.unit.storage.logs import TP, append, batch, read_bytes
from tests.unit.storage.stores import make_store, open_store

OTHER = TopicPartition("topic", 1)


async def test_a_clean_stop_keeps_everything_and_needs_no_recovery(tmp_path, caplog):
    config = LogConfig(segment_bytes=300)
    store = await open_store(str(tmp_path), config=config)
    log = store.directories.create_log(TP)
    for number in range(10):
        append(log, batch(b"%d" % number * 50, producer=(7, 0, number)), leader_epoch=number // 4)
    log.advance_high_watermark(9)
    before = read_bytes(log, 9)
    await store.directories.close()
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    caplog.set_level("INFO")
    store = await open_store(str(tmp_path), config=config)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    assert "recovered" not in caplog.text
    log = store.directories.log(TP)
    assert (log.log_end_offset, log.high_watermark, log.recovery_point) == (10, 9, 10)
    assert read_bytes(log, 9) == before
    assert [tuple(entry) for entry in log.leader_epochs.entries] == [(0, 0), (1, 4), (2, 8)]
    assert log.producers.get(7).last_sequence == 9


async def test_without_the_marker_the_log_is_scanned_and_says_so(tmp_path, caplog):
    store = await open_store(str(tmp_path))
    log = store.directories.create_log(TP)
    append(log, batch(b"a", b"b", producer=(7, 0, 0)), leader_epoch=2)
    store.kill()
    caplog.set_level("INFO")
    store = await open_store(str(tmp_path))
    log = store.directories.log(TP)
    assert (log.log_end_offset, log.leader_epochs.latest_epoch) == (2, 2)
    assert log.producers.get(7).last_sequence == 1
    assert "topic-0: recovered: scanned 1 segments, 1 batches" in caplog.text
    assert "cut nothing; ends at offset 2" in caplog.text


async def test_it_is_said_what_a_directory_went_through(tmp_path, caplog):
    caplog.set_level("INFO")

    async def said():
        caplog.clear()
        store = await open_store(str(tmp_path))
        return store, caplog.text

    store, text = await said()
    assert "loaded 0 logs in 0 ms; the directory is new" in text
    store.kill()
    store, text = await said()
    assert "loaded 0 logs in 0 ms after an unclean stop" in text, "it has an owner"
    await store.directories.close()
    store, text = await said()
    assert "loaded 0 logs in 0 ms after a clean stop" in text
    store.directories.create_log(TP)
    store.kill()
    (tmp_path / "meta.properties").unlink()
    _, text = await said()
    assert "loaded 1 logs in 0 ms after an unclean stop" in text


async def test_a_second_broker_on_the_directory_is_refused(tmp_path):
    await open_store(str(tmp_path))
    with pytest.raises(StorageStartError, match="in use by another process"):
        make_store(str(tmp_path)).directories.acquire("cluster")


@pytest.mark.parametrize(
    ("broker_id", "cluster_id", "message"),
    [(2, "cluster", r"broker\.id is 2"), (1, "another", "belongs to cluster cluster")],
)
async def test_another_owner_is_refused(tmp_path, broker_id, cluster_id, message):
    store = await open_store(str(tmp_path))
    await store.directories.close()
    with pytest.raises(StorageStartError, match=message):
        await make_store(str(tmp_path)).directories.open(broker_id=BrokerId(broker_id), cluster_id=cluster_id)


async def test_directories_of_different_brokers_are_refused(tmp_path):
    for number in (1, 2):
        store = make_store(str(tmp_path / str(number)))
        await store.directories.open(broker_id=BrokerId(number), cluster_id="cluster")
        store.directories.write_meta_properties(BrokerId(number), "cluster")
        await store.directories.close()
    with pytest.raises(StorageStartError, match="different brokers"):
        make_store(str(tmp_path / "1"), str(tmp_path / "2")).directories.acquire("cluster")


async def test_logs_are_spread_over_the_directories(tmp_path):
    store = await open_store(str(tmp_path / "a"), str(tmp_path / "b"))
    for partition in range(4):
        store.directories.create_log(TopicPartition("t", partition))
    assert [len(directory.logs) for directory in store.directories.directories] == [2, 2]


async def test_a_deleted_log_is_gone_at_once_and_its_files_after_the_delay(tmp_path):
    store = await open_store(str(tmp_path), config=LogConfig(file_delete_delay_ms=1000))
    log = store.directories.create_log(TP)
    append(log, batch(b"a"))
    read = log.read(0, max_bytes=1000, upper_bound_offset=1, min_one_batch=True)
    assert store.directories.delete_log(TP)
    assert store.directories.log(TP) is None
    assert not store.directories.delete_log(TP)
    with pytest.raises(LogOffline):
        append(log, batch(b"b"))
    (renamed,) = [name for name in os.listdir(tmp_path) if name.endswith("-delete")]
    directory = store.directories.directories[0]
    await directory.carry_out_removals()
    assert (tmp_path / renamed).exists(), "the delay is not over"
    store.clock.advance(1000)
    await directory.carry_out_removals()
    assert (tmp_path / renamed).exists(), "a slice is under way"
    assert len(read.slice.read()) == len(read)
    read.slice.release()
    store.clock.advance(1000)
    await directory.carry_out_removals()
    assert not (tmp_path / renamed).exists()


async def test_a_partition_made_again_remembers_nothing_of_its_former_life(tmp_path):
    store = await open_store(str(tmp_path))
    log = store.directories.create_log(TP)
    append(log, batch(*[b"a"] * 9))
    log.advance_high_watermark(9)
    log.advance_log_start_offset(5)
    await store.directories.directories[0].checkpoint_all()
    store.directories.delete_log(TP)
    log = store.directories.create_log(TP)
    append(log, batch(b"new"))
    store.kill()
    store = await open_store(str(tmp_path))
    log = store.directories.log(TP)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (0, 1, 0)


async def test_what_waited_for_its_removal_is_removed_after_a_restart(tmp_path):
    store = await open_store(str(tmp_path))
    store.directories.create_log(TP)
    store.directories.delete_log(TP)
    await store.directories.close()
    store = await open_store(str(tmp_path))
    assert store.directories.logs() == []
    store.clock.advance(60_000)
    await store.directories.directories[0].carry_out_removals()
    assert [name for name in os.listdir(tmp_path) if name.endswith("-delete")] == []


async def test_strange_directories_are_left_alone(tmp_path):
    (tmp_path / "lost+found").mkdir()
    store = await open_store(str(tmp_path))
    assert store.directories.logs() == []
    assert (tmp_path / "lost+found").exists()


async def test_a_partition_in_two_directories_stops_the_start(tmp_path):
    for name in ("a", "b"):
        store = await open_store(str(tmp_path / name))
        store.directories.create_log(TP)
        await store.directories.close()
    with pytest.raises(StorageStartError, match="topic-0 is in"):
        await open_store(str(tmp_path / "a"), str(tmp_path / "b"))


async def test_a_close_before_loading_does_not_claim_a_clean_stop(tmp_path):
    store = await open_store(str(tmp_path))
    append(store.directories.create_log(TP), batch(b"a"))
    store.kill()
    store = make_store(str(tmp_path))
    store.directories.acquire("cluster")
    await store.directories.close()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_the_same_path_twice_is_one_directory(tmp_path):
    store = make_store(str(tmp_path), str(tmp_path))
    assert isinstance(store.directories, LogDirectories)
    assert len(store.directories.directories) == 1


async def test_what_is_appended_where_a_batch_was_cut_is_not_taken_for_clean(tmp_path):
    store = await open_store(str(tmp_path), config=LogConfig(compact=True, delete=False))
    log = store.directories.create_log(TP)
    append(log, batch(b"a"))
    append(log, batch(b"b", b"c", b"d"))
    directory = store.directories.directories[0]
    directory.first_dirty[TP] = 4
    await store.directories.truncate({TP: 3})
    assert (log.log_end_offset, directory.first_dirty[TP]) == (1, 1)
    assert directory.read_checkpoint(CLEANER_CHECKPOINT) == {TP: 1}
