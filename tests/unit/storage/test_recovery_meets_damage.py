"""Damage in what was synced: a start keeps it, and what follows it, and makes up nothing from it."""

import pytest

from barnabas.storage.boot_record import BOOT_RECORD
from barnabas.storage.damage import Damage, DamagedRange
from barnabas.storage.file_names import CLEAN_SHUTDOWN_MARKER, LOG_SUFFIX, RECOVERY_POINT_CHECKPOINT, segment_file
from barnabas.storage.log_config import LogConfig
from barnabas.storage.scan import CorruptSegment
from tests.unit.storage.logs import NOW, TP, append, batch, offset_for_timestamp, read_bytes
from tests.unit.storage.stores import open_store
from tests.unit.storage.test_recovery import change, offsets

LOG = "topic-0/00000000000000000000.log"
THREE = (b"v" * 20, b"w" * 20, b"x" * 20)
ONE = len(batch(*THREE))
CONFIG = LogConfig(index_interval_bytes=ONE)
COMPACTED = LogConfig(compact=True)
COUNT = 6
BASE_OFFSET, LENGTH, MAGIC, ATTRIBUTES, LAST_DELTA = 4, 8, 16, 21, 23
PRODUCER, EPOCH, SEQUENCE, RECORDS, PAYLOAD = 43, 51, 53, 57, 80


async def written(root, *, flush_batches=None, config=CONFIG):
    """A log of batches of three records each, stopped cleanly, or killed when these were flushed."""
    store = await open_store(str(root), config=config)
    log = store.directories.create_log(TP)
    for number in range(COUNT):
        append(log, batch(*THREE, timestamp=NOW + number, producer=(7, 0, 3 * number)), leader_epoch=number // 2)
    if flush_batches is None:
        await store.directories.close()
        return
    log.flush(3 * flush_batches)
    await store.directories.directories[0].checkpoint_all()
    store.kill()


async def opened(root, config=CONFIG):
    store = await open_store(str(root), config=config)
    return store.directories.log(TP)


def damaged(log):
    return [(each.start_offset, each.end_offset) for each in log.damage]


def flip(root, position):
    path = root / LOG
    change(path, position, bytes([path.read_bytes()[position] ^ 0x10]))


@pytest.mark.parametrize("at", [LENGTH + 1, LENGTH + 3, MAGIC, LAST_DELTA + 3, SEQUENCE, RECORDS + 3, PAYLOAD])
async def test_the_last_batch_is_checked_after_a_clean_stop_and_its_offsets_stay(tmp_path, at):
    await written(tmp_path)
    flip(tmp_path, (COUNT - 1) * ONE + at)
    log = await opened(tmp_path)
    assert (log.log_end_offset, damaged(log)) == (18, [(15, 18)])
    with pytest.raises(CorruptSegment):
        read_bytes(log, 15)
    assert log.producers.get(7).last_sequence == 14
    append(log, batch(*THREE), leader_epoch=3)
    assert read_bytes(log, 18)[:8] == (18).to_bytes(8, "big")


async def test_a_file_that_lost_its_end_in_a_batch_keeps_the_offsets_that_were_synced(tmp_path):
    await written(tmp_path)
    path = tmp_path / LOG
    path.write_bytes(path.read_bytes()[: 4 * ONE + 10])
    log = await opened(tmp_path)
    assert (log.log_end_offset, damaged(log)) == (18, [(12, 18)])
    assert log.leader_epochs.latest_epoch == 2, "it begins in what is damaged"


@pytest.mark.parametrize("at", [BASE_OFFSET, LENGTH + 1, LENGTH + 3, MAGIC, RECORDS])
@pytest.mark.parametrize("place", [0, 1, 3])
async def test_a_damaged_header_below_the_recovery_point_is_kept_with_what_follows(tmp_path, at, place):
    await written(tmp_path, flush_batches=4)
    flip(tmp_path, place * ONE + at)
    log = await opened(tmp_path)
    assert (log.log_end_offset, damaged(log)) == (18, [(3 * place, 3 * place + 3)])
    assert log.size_bytes == COUNT * ONE
    assert len(read_bytes(log, 3 * place + 3)) == (COUNT - place - 1) * ONE
    assert log.recovery_point == 11


@pytest.mark.parametrize(("place", "end"), [(3, 12), (4, 12)])
async def test_damage_to_the_end_is_kept_up_to_the_recovery_point_and_cut_behind_it(tmp_path, place, end):
    await written(tmp_path, flush_batches=4)
    change(tmp_path / LOG, place * ONE, b"\xff" * ((COUNT - place) * ONE))
    log = await opened(tmp_path)
    assert (log.log_end_offset, damaged(log)) == (end, [(9, 12)] if place < 4 else [])


async def test_a_torn_tail_behind_the_recovery_point_is_cut_though_there_is_damage_below(tmp_path):
    await written(tmp_path, flush_batches=4)
    flip(tmp_path, ONE + MAGIC)
    flip(tmp_path, 5 * ONE + PAYLOAD)
    log = await opened(tmp_path)
    assert (log.log_end_offset, damaged(log)) == (15, [(3, 6)])
    assert log.size_bytes == 5 * ONE


async def test_a_closed_segment_that_holds_the_recovery_point_is_damaged_up_to_the_next_one(tmp_path):
    config = LogConfig(segment_bytes=3 * ONE, index_interval_bytes=ONE)
    await written(tmp_path, flush_batches=2, config=config)
    change(tmp_path / LOG, ONE, b"\xff" * (2 * ONE))
    log = await opened(tmp_path, config)
    assert (log.log_end_offset, damaged(log), len(log.segments)) == (18, [(3, 9)], 2)
    assert len(read_bytes(log, 9)) == 3 * ONE


@pytest.mark.parametrize("at", [PRODUCER, PRODUCER + 6, EPOCH, SEQUENCE + 1])
async def test_a_flipped_bit_makes_up_no_producer(tmp_path, at):
    await written(tmp_path, flush_batches=5)
    flip(tmp_path, 2 * ONE + at)
    log = await opened(tmp_path)
    assert [(entry.producer_id, entry.epoch, entry.last_sequence) for entry in log.producers] == [(7, 0, 17)]
    assert damaged(log) == [(6, 9)]


@pytest.mark.parametrize("at", [PRODUCER, PRODUCER + 6, EPOCH, SEQUENCE + 1, ATTRIBUTES + 1])
async def test_a_flipped_bit_in_an_earlier_segment_makes_up_no_producer_and_no_transaction(tmp_path, at):
    config = LogConfig(segment_bytes=4 * ONE, index_interval_bytes=ONE)
    await written(tmp_path, flush_batches=5, config=config)
    for path in (tmp_path / "topic-0").glob("*.snapshot"):
        path.unlink()
    flip(tmp_path, 2 * ONE + at)
    log = await opened(tmp_path, config)
    assert [(entry.producer_id, entry.epoch) for entry in log.producers] == [(7, 0)]
    assert log.producers.first_unstable_offset is None
    assert (offsets(log), log.hidden_from) == (list(range(18)), 6)


@pytest.mark.parametrize("kept", [0, 1, 2])
@pytest.mark.parametrize("is_clean", [True, False])
async def test_a_closed_segment_that_lost_whole_batches_is_damaged_though_what_is_left_is_sound(
    tmp_path, kept, is_clean
):
    """Its index still tells of them. Without that the gap would pass for one that compaction left."""
    config = LogConfig(segment_bytes=4 * ONE, index_interval_bytes=ONE)
    await written(tmp_path, flush_batches=None if is_clean else 5, config=config)
    (tmp_path / LOG).write_bytes((tmp_path / LOG).read_bytes()[: kept * ONE])
    log = await opened(tmp_path, config)
    assert (log.log_end_offset, damaged(log)) == (18, [(3 * kept, 12)])
    for offset in (3 * kept, 11):
        with pytest.raises(CorruptSegment):
            read_bytes(log, offset)
    assert len(read_bytes(log, 12)) == 2 * ONE
    if kept:
        assert len(read_bytes(log, 0)) == kept * ONE


@pytest.mark.parametrize("kept", [0, 1])
@pytest.mark.parametrize("is_clean", [True, False])
async def test_a_lost_end_is_known_after_a_clean_stop_though_nobody_scrubs(tmp_path, kept, is_clean):
    config = LogConfig(segment_bytes=2 * ONE, index_interval_bytes=1)
    await written(tmp_path, flush_batches=None if is_clean else 5, config=config)
    (tmp_path / LOG).write_bytes((tmp_path / LOG).read_bytes()[: kept * ONE])
    store = await open_store(str(tmp_path), config=config)
    found = list(store.directories.log(TP).damage)
    assert store.directories.log(TP).segments.first.growing is None, "its index was written"
    assert [(each.start_offset, each.end_offset) for each in found] == [(3 * kept, 6)]
    for _ in range(2):
        await store.directories.close()
        store = await open_store(str(tmp_path), config=config)
        assert list(store.directories.log(TP).damage) == found


@pytest.mark.parametrize("kept", [0, 2])
async def test_a_search_by_time_does_not_step_over_a_lost_end(tmp_path, kept):
    config = LogConfig(segment_bytes=4 * ONE, index_interval_bytes=ONE)
    await written(tmp_path, config=config)
    (tmp_path / LOG).write_bytes((tmp_path / LOG).read_bytes()[: kept * ONE])
    log = await opened(tmp_path, config)
    found = [offset_for_timestamp(log, NOW + number).offset for number in range(kept)]
    assert found == [3 * number for number in range(kept)]
    for number in range(kept, COUNT):
        with pytest.raises(CorruptSegment, match="damaged: offsets"):
            offset_for_timestamp(log, NOW + number)
    log.set_high_watermark(18)
    log.advance_log_start_offset(12)
    assert offset_for_timestamp(log, NOW).offset == 12


def test_a_lost_end_that_is_found_again_is_one():
    damage = Damage([DamagedRange(0, 100, 100, 6, 12, "once")])
    again = DamagedRange(0, 100, 100, 6, 13, "again")
    damage.add(again)
    assert list(damage) == [again]
    for other in (DamagedRange(0, 50, 100, 3, 6, "before"), DamagedRange(13, 100, 100, 16, 20, "elsewhere")):
        damage.add(other)
        assert again in damage


def test_damage_of_which_a_cut_leaves_no_byte_is_forgotten():
    damage = Damage([DamagedRange(0, 100, 200, 6, 12, "cut in the middle of its offsets")])
    damage.keep_within(start_offset=0, end_offset=9, end_position=100)
    assert not damage


async def test_what_is_lost_is_not_forgotten_by_looking_at_what_is_left(tmp_path):
    config = LogConfig(segment_bytes=4 * ONE, index_interval_bytes=ONE)
    await written(tmp_path, config=config)
    (tmp_path / LOG).write_bytes((tmp_path / LOG).read_bytes()[: 2 * ONE])
    log = await opened(tmp_path, config)
    (lost,) = log.damage
    log.damage.forget(0, position=0, end_position=2 * ONE)
    log.damage.keep_within(start_offset=0, end_offset=18, end_position=2 * ONE)
    assert list(log.damage) == [lost]
    log.damage.keep_within(start_offset=0, end_offset=9, end_position=2 * ONE)
    assert damaged(log) == [(6, 9)]
    log.damage.keep_within(start_offset=9, end_offset=18, end_position=2 * ONE)
    assert not log.damage


async def test_a_read_that_ends_where_damage_does_is_not_taken_for_the_place_of_what_follows(tmp_path):
    await written(tmp_path)
    log = await opened(tmp_path)
    third = DamagedRange(0, 2 * ONE, 3 * ONE, 6, 9, "for a while")
    log.damage.add(third)
    assert len(read_bytes(log, 0, upper=9)) == 2 * ONE
    log.damage.remove(third)
    assert read_bytes(log, 9)[:8] == (9).to_bytes(8, "big")
    assert read_bytes(log, 6)[:8] == (6).to_bytes(8, "big")


@pytest.mark.parametrize("base_offset", [0, 14, 16, 1 << 40])
async def test_a_last_batch_with_another_base_offset_does_not_say_where_the_log_ends(tmp_path, base_offset):
    """No checksum covers it; what a clean stop wrote beside the log does."""
    await written(tmp_path)
    change(tmp_path / LOG, (COUNT - 1) * ONE, base_offset.to_bytes(8, "big"))
    log = await opened(tmp_path)
    assert (log.log_end_offset, damaged(log)) == (18, [(15, 18)])
    assert len(read_bytes(log, 0)) == (COUNT - 1) * ONE


@pytest.mark.parametrize("kept", [0, 2, COUNT - 1])
async def test_an_active_segment_that_lost_whole_batches_is_damaged_and_the_log_ends_where_it_did(tmp_path, kept):
    await written(tmp_path)
    (tmp_path / LOG).write_bytes((tmp_path / LOG).read_bytes()[: kept * ONE])
    log = await opened(tmp_path)
    assert (log.log_end_offset, damaged(log)) == (18, [(3 * kept, 18)])
    with pytest.raises(CorruptSegment):
        read_bytes(log, 3 * kept)
    append(log, batch(*THREE), leader_epoch=3)
    assert read_bytes(log, 18)[:8] == (18).to_bytes(8, "big")


@pytest.mark.parametrize(("kept", "expected"), [(0, [(0, 12)]), (3, [(9, 12)]), (4, []), (5, [])])
async def test_a_killed_log_that_lost_whole_batches_ends_no_lower_than_it_was_synced(tmp_path, kept, expected):
    await written(tmp_path, flush_batches=4)
    (tmp_path / LOG).write_bytes((tmp_path / LOG).read_bytes()[: kept * ONE])
    for _ in range(2):
        store = await open_store(str(tmp_path), config=CONFIG)
        log = store.directories.log(TP)
        assert (log.log_end_offset, damaged(log)) == (max(3 * kept, 12), expected)
        store.kill()


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("kept", [0, 3])
@pytest.mark.parametrize("config", [CONFIG, COMPACTED])
async def test_what_is_appended_behind_a_lost_end_is_not_cut_by_the_next_kill(tmp_path, config, kept, count):
    await written(tmp_path, flush_batches=4, config=config)
    (tmp_path / LOG).write_bytes((tmp_path / LOG).read_bytes()[: kept * ONE])
    store = await open_store(str(tmp_path), config=config)
    for _ in range(count):
        append(store.directories.log(TP), batch(*THREE), leader_epoch=3)
    store.kill()
    log = await opened(tmp_path, config)
    assert (log.log_end_offset, damaged(log)) == (12 + 3 * count, [(3 * kept, 12)])
    assert len(read_bytes(log, 12)) == count * ONE


@pytest.mark.parametrize(
    ("flush_batches", "kept", "expected"),
    [(3, 0, [(0, 9)]), (2, 1, [(3, 9)]), (2, 2, []), (2, 0, [(0, 9)])],
)
async def test_segments_behind_one_that_lost_synced_batches_stay(tmp_path, flush_batches, kept, expected):
    config = LogConfig(segment_bytes=3 * ONE, index_interval_bytes=ONE)
    await written(tmp_path, flush_batches=flush_batches, config=config)
    (tmp_path / LOG).write_bytes((tmp_path / LOG).read_bytes()[: kept * ONE])
    log = await opened(tmp_path, config)
    assert (log.log_end_offset, damaged(log)) == (18 if expected else 3 * kept, expected)


@pytest.mark.parametrize("recovery_point", [0, 9])
async def test_a_snapshot_that_the_checkpoint_does_not_agree_with_does_not_say_where_the_log_ends(
    tmp_path, recovery_point
):
    """As where a checkpoint was left behind when a directory was copied: nothing is cut or taken for damaged."""
    await written(tmp_path)
    snapshots = sorted((tmp_path / "topic-0").glob("*.snapshot"))
    snapshots[-1].rename(tmp_path / "topic-0" / f"{12:020}.snapshot")
    (tmp_path / "recovery-point-offset-checkpoint").write_text(f"0\n1\ntopic 0 {recovery_point}\n")
    log = await opened(tmp_path)
    assert (log.log_end_offset, damaged(log)) == (18, [])


async def test_a_clean_stop_of_a_damaged_log_does_not_end_it_at_an_older_snapshot(tmp_path):
    """The one of the last roll stands right below the end of a log whose last segment holds one record."""
    single = batch(b"v" * 20)
    config = LogConfig(segment_bytes=3 * len(single))
    store = await open_store(str(tmp_path), config=config)
    log = store.directories.create_log(TP)
    for _ in range(7):
        append(log, batch(b"v" * 20))
    log.flush(5)
    await store.directories.directories[0].checkpoint_all()
    store.kill()
    change(tmp_path / f"topic-0/{3:020}.log", MAGIC, b"\x07")
    store = await open_store(str(tmp_path), config=config)
    log = store.directories.log(TP)
    assert (log.log_end_offset, damaged(log), log.snapshots.offsets[-1]) == (7, [(3, 4)], 6)
    await store.directories.close()
    log = await opened(tmp_path, config)
    assert log.log_end_offset == 7
    assert len(read_bytes(log, 6)) == len(single)


async def test_a_clean_stop_of_a_damaged_log_without_snapshots_does_not_forget_producers(tmp_path):
    await written(tmp_path, flush_batches=4)
    flip(tmp_path, 3 * ONE + MAGIC)
    for _ in range(2):
        store = await open_store(str(tmp_path), config=CONFIG)
        log = store.directories.log(TP)
        assert (log.log_end_offset, log.hidden_from) == (18, 9)
        assert log.producers.get(7) is not None
        await store.directories.close()
        store.kill()
        assert not list((tmp_path / "topic-0").glob("*.snapshot"))


# Directories of a Kafka that was killed.


async def test_kafka_says_exactly_how_far_it_synced(tmp_path):
    await written(tmp_path, flush_batches=4)
    (tmp_path / RECOVERY_POINT_CHECKPOINT).write_bytes(b"0\n1\ntopic 0 12\n")
    flip(tmp_path, 4 * ONE + PAYLOAD)
    log = await opened(tmp_path)
    assert (log.log_end_offset, damaged(log)) == (12, [])


async def with_a_gap(tmp_path):
    """A compacted log whose segments begin at 0 and at 50 and hold three records each, of a broker that was killed."""
    await (await open_store(str(tmp_path), config=COMPACTED)).directories.close()
    (tmp_path / CLEAN_SHUTDOWN_MARKER).unlink()
    (tmp_path / "topic-0").mkdir()
    for base_offset in (0, 50):
        data = batch(*THREE, base_offset=base_offset)
        (tmp_path / "topic-0" / segment_file(base_offset, LOG_SUFFIX)).write_bytes(data)


@pytest.mark.parametrize("was_here", [False, True])
async def test_a_compacted_copy_of_kafka_has_gaps_between_segments(tmp_path, was_here):
    await with_a_gap(tmp_path)
    (tmp_path / RECOVERY_POINT_CHECKPOINT).write_bytes(b"0\n1\ntopic 0 0\n")
    if not was_here:
        (tmp_path / BOOT_RECORD).unlink()
    store = await open_store(str(tmp_path), config=COMPACTED)
    assert store.directories.log(TP).log_end_offset == 53
    store.kill()
    assert (tmp_path / RECOVERY_POINT_CHECKPOINT).read_bytes() == b"0\n1\ntopic 0  52\n", "it is ours from now on"
    assert (await opened(tmp_path, COMPACTED)).log_end_offset == 53


async def test_a_compacted_log_of_ours_that_lost_the_end_of_a_segment_is_cut_there(tmp_path):
    await with_a_gap(tmp_path)
    assert (await opened(tmp_path, COMPACTED)).log_end_offset == 3
