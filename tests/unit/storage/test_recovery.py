"""Damage: what a broker that was killed may find, what it cuts, and that it says so."""

import os
from struct import pack

import pytest

from barnabas.protocol.batch import HEADER_BYTES
from barnabas.protocol.entries import iterate_entries
from barnabas.storage.log_config import LogConfig
from tests.unit.storage.logs import NOW, TP, append, batch, offset_for_timestamp, read_bytes, replicate
from tests.unit.storage.stores import open_store

LOG = "topic-0/00000000000000000000.log"
ONE = len(batch(b"v" * 20))
THREE_SEGMENTS = LogConfig(segment_bytes=3 * ONE, index_interval_bytes=ONE)


async def killed(root, count=9, config=THREE_SEGMENTS, flush_to=None, producer=None):
    """A directory whose broker was killed after `count` batches of one record."""
    store = await open_store(str(root), config=config)
    log = store.directories.create_log(TP)
    for number in range(count):
        append(log, batch(b"v" * 20, timestamp=NOW + number, producer=(producer, 0, number) if producer else (-1,) * 3))
    if flush_to is not None:
        log.flush(flush_to)
        await store.directories.directories[0].checkpoint_all()
    store.kill()


async def recovered(root, caplog, config=THREE_SEGMENTS):
    caplog.set_level("INFO")
    store = await open_store(str(root), config=config)
    return store.directories.log(TP)


def offsets(log):
    found, offset = [], log.log_start_offset
    while data := read_bytes(log, offset):
        for _, header in iterate_entries(data):
            found += range(header.base_offset, header.next_offset)
        offset = found[-1] + 1
    return found


def change(path, position, data):
    with open(path, "r+b") as file:
        file.seek(position)
        file.write(data)


def extend(path, data):
    path.write_bytes(path.read_bytes() + data)


async def test_a_torn_last_batch_is_cut(tmp_path, caplog):
    await killed(tmp_path, 2)
    path = tmp_path / LOG
    os.truncate(path, 2 * ONE - 7)
    log = await recovered(tmp_path, caplog)
    assert offsets(log) == [0]
    assert path.stat().st_size == ONE
    assert f"cut {ONE - 7} bytes of" in caplog.text
    append(log, batch(b"again"))
    assert offsets(log) == [0, 1]


async def test_a_flipped_bit_cuts_there_and_removes_later_segments(tmp_path, caplog):
    await killed(tmp_path)
    change(tmp_path / LOG, ONE + HEADER_BYTES + 5, b"\xff")
    log = await recovered(tmp_path, caplog)
    assert offsets(log) == [0]
    assert len(log.segments) == 1
    assert "the checksum is" in caplog.text
    assert "the later segment at offset 3" in caplog.text
    assert "the later segment at offset 6" in caplog.text
    assert [name for name in os.listdir(tmp_path / "topic-0") if name.endswith(".log")] == [os.path.basename(LOG)]


@pytest.mark.parametrize("position", range(12))
async def test_no_flipped_bit_outside_of_the_checksum_loses_an_earlier_batch_or_lies(tmp_path, caplog, position):
    await killed(tmp_path)
    path = tmp_path / LOG
    change(path, ONE + position, bytes([path.read_bytes()[ONE + position] ^ 0x40]))
    log = await recovered(tmp_path, caplog)
    assert offsets(log) == [0], "the changed batch is the bad one, not the one after it"


async def test_a_batch_that_jumped_ahead_is_the_bad_one_and_not_its_successor(tmp_path, caplog):
    await killed(tmp_path, config=LogConfig())
    path = tmp_path / LOG
    change(path, 4 * ONE + 7, bytes([4 | 0x40]))
    log = await recovered(tmp_path, caplog, LogConfig())
    assert offsets(log) == [0, 1, 2, 3]
    assert "base offset 68 is ahead of what follows" in caplog.text


async def test_a_zero_filled_tail_is_cut(tmp_path, caplog):
    await killed(tmp_path, 2)
    os.truncate(tmp_path / LOG, 1_000_000)
    log = await recovered(tmp_path, caplog, LogConfig())
    assert offsets(log) == [0, 1]
    assert "cut 999" in caplog.text


async def test_what_lies_below_the_recovery_point_is_neither_scanned_nor_cut(tmp_path, caplog):
    await killed(tmp_path, flush_to=7)
    change(tmp_path / LOG, ONE + HEADER_BYTES + 5, b"\xff")
    log = await recovered(tmp_path, caplog)
    assert (log.log_end_offset, len(log.segments)) == (9, 3)
    assert "scanned 1 segments, 3 batches" in caplog.text
    assert len(read_bytes(log, 0)) == 3 * ONE


async def test_a_corrupt_recovery_point_lets_everything_be_scanned(tmp_path, caplog):
    await killed(tmp_path, flush_to=7)
    (tmp_path / "recovery-point-offset-checkpoint").write_bytes(b"0\n7\ngarbage\n")
    log = await recovered(tmp_path, caplog)
    assert offsets(log) == list(range(9))
    assert "scanned 3 segments" in caplog.text
    assert "recovery-point-offset-checkpoint: goes unused" in caplog.text


@pytest.mark.parametrize(
    "name", ["replication-offset-checkpoint", "log-start-offset-checkpoint", "cleaner-offset-checkpoint"]
)
async def test_another_corrupt_checkpoint_goes_unused(tmp_path, caplog, name):
    await killed(tmp_path, flush_to=7)
    (tmp_path / name).write_bytes(b"\xff\xfe")
    log = await recovered(tmp_path, caplog)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (0, 0, 9)
    assert f"{name}: goes unused" in caplog.text


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("clean", [True, False])
async def test_a_missing_index_is_built_again(tmp_path, caplog, suffix, clean):
    await stopped(tmp_path) if clean else await killed(tmp_path, flush_to=9)
    for path in (tmp_path / "topic-0").glob(f"*{suffix}"):
        path.unlink()
    log = await recovered(tmp_path, caplog)
    assert offsets(log) == list(range(9))
    assert [offset_for_timestamp(log, NOW + number).offset for number in range(9)] == list(range(9))
    assert "are built again" in caplog.text


async def stopped(root, count=9, config=THREE_SEGMENTS):
    store = await open_store(str(root), config=config)
    log = store.directories.create_log(TP)
    for number in range(count):
        append(log, batch(b"v" * 20, timestamp=NOW + number), leader_epoch=number)
    await store.directories.close()


@pytest.mark.parametrize("base", [0, 3, 6])
async def test_an_index_that_points_past_the_log_is_built_again(tmp_path, caplog, base):
    await stopped(tmp_path)
    path = tmp_path / f"topic-0/{base:020d}.index"
    path.write_bytes(pack(">iiii", 1, ONE, 2, 50 * ONE))
    log = await recovered(tmp_path, caplog)
    assert offsets(log) == list(range(9))
    assert f"entry points to byte {50 * ONE}" in caplog.text
    assert "cut" not in caplog.text.replace("cut nothing", "")


@pytest.mark.parametrize("base", [0, 6])
async def test_an_index_with_a_tail_of_zeros_is_read_up_to_it(tmp_path, caplog, base):
    await stopped(tmp_path)
    for suffix, size in ((".index", 8), (".timeindex", 12)):
        path = tmp_path / f"topic-0/{base:020d}{suffix}"
        os.truncate(path, path.stat().st_size + 1000 * size)
    log = await recovered(tmp_path, caplog)
    assert offsets(log) == list(range(9))
    assert [offset_for_timestamp(log, NOW + number).offset for number in range(9)] == list(range(9))
    assert "built again" not in caplog.text
    assert "scanned" not in caplog.text


async def test_a_corrupt_snapshot_is_removed_and_the_state_read_from_the_log(tmp_path, caplog):
    await killed(tmp_path, producer=7, flush_to=7)
    for path in (tmp_path / "topic-0").glob("*.snapshot"):
        change(path, 10, b"\x77")
    log = await recovered(tmp_path, caplog)
    assert log.producers.get(7).last_sequence == 8
    assert "an older one is taken: the checksum does not match" in caplog.text
    assert append(log, batch(b"v" * 20, producer=(7, 0, 8))).duplicate


async def test_corrupt_leader_epochs_are_read_from_the_log(tmp_path, caplog):
    await stopped(tmp_path)
    (tmp_path / "topic-0/leader-epoch-checkpoint").write_bytes(b"0\n1\nx y\n")
    log = await recovered(tmp_path, caplog)
    assert [tuple(entry) for entry in log.leader_epochs.entries] == [(number, number) for number in range(9)]
    assert "leader epochs are read from the log" in caplog.text


async def test_damage_after_a_clean_stop_in_the_last_segment_is_still_found_when_the_end_is_read(tmp_path, caplog):
    await stopped(tmp_path, 2, LogConfig())
    extend(tmp_path / LOG, b"\0" * 30)
    log = await recovered(tmp_path, caplog, LogConfig())
    assert offsets(log) == [0, 1]
    assert "cut 30 bytes" in caplog.text


async def test_a_log_that_ends_below_its_start_begins_again_there(tmp_path, caplog):
    await killed(tmp_path, 2)
    (tmp_path / "log-start-offset-checkpoint").write_bytes(b"0\n1\ntopic 0 50\n")
    log = await recovered(tmp_path, caplog)
    assert (log.log_start_offset, log.log_end_offset) == (50, 50)
    assert "everything is dropped" in caplog.text
    assert append(log, batch(b"a")).first_offset == 50


async def test_a_flipped_magic_is_damage_not_an_old_format(tmp_path, caplog):
    await killed(tmp_path, 2)
    change(tmp_path / LOG, ONE + 16, b"\0")
    log = await recovered(tmp_path, caplog)
    assert offsets(log) == [0]


async def test_gaps_that_compaction_leaves_are_no_damage(tmp_path, caplog):
    store = await open_store(str(tmp_path))
    log = store.directories.create_log(TP)
    for base in (0, 5, 6, 20):
        replicate(log, batch(b"v" * 20, base_offset=base))
    store.kill()
    log = await recovered(tmp_path, caplog)
    assert (offsets(log), log.log_end_offset) == ([0, 5, 6, 20], 21)
    assert "cut nothing" in caplog.text


async def test_a_stray_index_and_unfinished_files_are_removed(tmp_path, caplog):
    await killed(tmp_path, 2)
    partition = tmp_path / "topic-0"
    strays = ["00000000000000000007.index", "00000000000000000003.log.deleted", "00000000000000000000.log.cleaned"]
    strays += ["leader-epoch-checkpoint.tmp", "00000000000000000000.index.swap"]
    for name in strays:
        (partition / name).write_bytes(b"x")
    log = await recovered(tmp_path, caplog)
    assert offsets(log) == [0, 1]
    assert not set(strays) & set(os.listdir(partition))


async def test_a_finished_compaction_is_put_into_place(tmp_path, caplog):
    await killed(tmp_path, flush_to=7)
    partition = tmp_path / "topic-0"
    kept = (partition / "00000000000000000000.log").read_bytes()[:ONE] + (
        partition / "00000000000000000003.log"
    ).read_bytes()[2 * ONE :]
    (partition / "00000000000000000000.log.swap").write_bytes(kept)
    log = await recovered(tmp_path, caplog)
    assert offsets(log) == [0, 5, 6, 7, 8]
    assert [segment.base_offset for segment in log.segments] == [0, 6]


async def test_a_swap_of_an_unfinished_split_is_dropped(tmp_path, caplog):
    await killed(tmp_path, flush_to=7)
    partition = tmp_path / "topic-0"
    (partition / "00000000000000000003.log.swap").write_bytes(b"half")
    (partition / "00000000000000000000.log.cleaned").write_bytes(b"half")
    log = await recovered(tmp_path, caplog)
    assert offsets(log) == list(range(9))


async def test_a_large_segment_is_scanned_in_a_worker_process(tmp_path, monkeypatch):
    await killed(tmp_path)
    monkeypatch.setattr("barnabas.storage.recovery.LARGE_SCAN_BYTES", 1)
    store = await open_store(str(tmp_path), config=THREE_SEGMENTS)
    assert store.directories.log(TP).log_end_offset == 9
    assert store.offload.lanes.count("process") == 3


async def test_a_batch_greater_than_the_scans_window_is_checked_in_pieces(tmp_path, caplog):
    config = LogConfig(max_message_bytes=10_000_000)
    store = await open_store(str(tmp_path), config=config)
    log = store.directories.create_log(TP)
    append(log, batch(b"v" * 3_000_000))
    append(log, batch(b"v" * 2_500_000))
    store.kill()
    log = await recovered(tmp_path, caplog)
    assert offsets(log) == [0, 1]
    for segment in log.segments:
        segment.close_files()
    (tmp_path / ".lock").unlink()
    change(tmp_path / LOG, log.size_bytes - 9, b"\xff")
    log = await recovered(tmp_path, caplog)
    assert offsets(log) == [0]


@pytest.mark.parametrize("clean", [True, False])
async def test_a_time_index_that_was_built_again_tells_of_the_greatest_timestamp_after_the_next_start(tmp_path, clean):
    # The last of the four batches of a segment has no entry of its own in the indexes.
    config = LogConfig(segment_bytes=4 * ONE, index_interval_bytes=ONE)
    await stopped(tmp_path, config=config) if clean else await killed(tmp_path, flush_to=9, config=config)
    (tmp_path / "topic-0/00000000000000000004.timeindex").unlink()
    for _ in range(2):
        store = await open_store(str(tmp_path), config=config)
        log = store.directories.log(TP)
        assert log.segments[1].max_timestamp == NOW + 7
        assert offset_for_timestamp(log, NOW + 7).offset == 7
        await store.directories.close()


@pytest.mark.parametrize("policy", ["delete", "compact"])
async def test_a_last_batch_that_jumped_ahead_is_bad_where_compaction_was_not(tmp_path, caplog, policy):
    config = LogConfig(compact=policy == "compact")
    await killed(tmp_path, 5, config=config)
    change(tmp_path / LOG, 4 * ONE + 7, bytes([4 | 0x40]))
    log = await recovered(tmp_path, caplog, config)
    assert (offsets(log), log.log_end_offset) == {
        "delete": ([0, 1, 2, 3], 4),
        "compact": ([0, 1, 2, 3, 68], 69),
    }[policy]


@pytest.mark.parametrize(("policy", "kept"), [("delete", [0, 1, 2]), ("compact", [0, 1, 2, 67])])
async def test_what_jumped_ahead_of_a_torn_tail_is_kept_where_compaction_may_have_left_a_gap(
    tmp_path, caplog, policy, kept
):
    config = LogConfig(compact=policy == "compact")
    await killed(tmp_path, 5, config=config)
    change(tmp_path / LOG, 3 * ONE + 7, bytes([3 | 0x40]))
    os.truncate(tmp_path / LOG, 4 * ONE + 20)
    log = await recovered(tmp_path, caplog, config)
    assert (offsets(log), log.log_end_offset) == (kept, kept[-1] + 1)
