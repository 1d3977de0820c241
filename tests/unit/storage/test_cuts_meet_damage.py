"""A log that is to be cut where it is damaged: what is not committed goes, the rest stays to be mended."""

import pytest

from barnabas.protocol.entries import iterate_entries
from barnabas.storage.damage import DamagedRange
from barnabas.storage.log import Log
from barnabas.storage.log_config import LogConfig
from barnabas.storage.scan import CorruptSegment
from tests.unit.storage.logs import NOW, Owner, append, batch, make_log, make_ports, read_bytes

ONE = len(batch(b"v" * 20))


def log_of_ten(tmp_path, *, high_watermark: int) -> tuple[Log, Owner]:
    """Ten batches of one record each, five in a segment, the producer's sequences as their offsets."""
    owner = Owner()
    log = make_log(str(tmp_path), LogConfig(segment_bytes=5 * ONE, index_interval_bytes=1), make_ports(owner=owner))
    for number in range(10):
        append(log, batch(b"v" * 20, timestamp=NOW + number, producer=(7, 0, number)), leader_epoch=number // 2)
    owner.work()
    log.flush()
    log.advance_high_watermark(high_watermark)
    return log, owner


def damage(log: Log, first: int, end: int, *, known: bool = True) -> None:
    """Ruin headers and content of the batches of these offsets, which are in one segment."""
    segment = log.segments[log.segments.place_of(first)]
    position, size = (first - segment.base_offset) * ONE, (end - first) * ONE
    segment.log_file.pwrite(b"\xff" * size, position)
    segment._places.clear()
    if known:
        log.damage.add(DamagedRange(segment.base_offset, position, position + size, first, end, "ruined"))


def bases(log: Log) -> list[int]:
    found, offset = [], log.log_start_offset
    while data := read_bytes(log, offset):
        found += [header.base_offset for _, header in iterate_entries(data)]
        offset = found[-1] + 1
    return found


def bases_without(log: Log, first: int, end: int) -> list[int]:
    """Those of a log of which these offsets cannot be read."""
    found, offset = [], log.log_start_offset
    while offset < log.log_end_offset:
        if first <= offset < end:
            with pytest.raises(CorruptSegment):
                read_bytes(log, offset)
            offset = end
            continue
        found += [header.base_offset for _, header in iterate_entries(read_bytes(log, offset))]
        offset = found[-1] + 1
    return found


@pytest.mark.parametrize(
    ("first", "end", "cut", "high_watermark"),
    [
        (6, 9, 7, 6),  # in it
        (6, 9, 6, 3),  # where it begins
        (6, 8, 9, 6),  # after it
        (2, 4, 8, 2),  # in an earlier segment
        (5, 6, 5, 5),  # where its segment begins
    ],
)
def test_a_cut_that_meets_uncommitted_damage_ends_where_it_begins(tmp_path, first, end, cut, high_watermark) -> None:
    log, owner = log_of_ten(tmp_path, high_watermark=high_watermark)
    damage(log, first, end)
    log.lower_recovery_point(cut)
    assert log.recovery_point == first
    assert log.truncate_to(cut)
    assert (log.log_end_offset, log.high_watermark) == (first, min(high_watermark, first))
    assert not log.damage
    assert log.producers.get(7).last_sequence == first - 1
    assert log.leader_epochs.latest_epoch == (first - 1) // 2
    for number in range(first, 12):
        append(log, batch(b"w" * 20, timestamp=NOW + number, producer=(7, 0, number)), leader_epoch=9)
    owner.work()
    assert bases(log) == list(range(12))


def test_damage_below_the_high_watermark_stays_when_the_log_is_cut_behind_it(tmp_path) -> None:
    log, _ = log_of_ten(tmp_path, high_watermark=5)
    damage(log, 1, 3)
    (known,) = log.damage
    assert log.truncate_to(8)
    assert (log.log_end_offset, list(log.damage)) == (8, [known])


@pytest.mark.parametrize(
    ("cut", "high_watermark", "kept"),
    [
        (7, 7, (6, 7)),  # in it
        (8, 7, (6, 8)),  # in it, above what is committed
        (7, 8, (6, 7)),  # in what is committed, of which the cut itself gives up a part
        (9, 8, (6, 9)),  # where it ends
        (10, 8, None),  # nothing is cut
    ],
)
def test_a_cut_of_damage_that_is_committed_in_part_leaves_what_lies_below_it(
    tmp_path, cut, high_watermark, kept
) -> None:
    log, owner = log_of_ten(tmp_path, high_watermark=high_watermark)
    damage(log, 6, 9)
    log.lower_recovery_point(cut)
    assert log.truncate_to(cut) == (kept is not None)
    assert log.log_end_offset == cut
    assert [(each.start_offset, each.end_offset) for each in log.damage] == [kept or (6, 9)]
    assert (log.producers.get(7).last_sequence, log.hidden_from) == ((5, 6) if kept else (9, None))
    for number in range(cut, 12):
        append(log, batch(b"w" * 20, timestamp=NOW + number), leader_epoch=9)
    owner.work()
    assert next(header.base_offset for _, header in iterate_entries(read_bytes(log, cut))) == cut
    assert bases_without(log, 6, cut if kept else 9) == [*range(6), *range(cut if kept else 9, 12)]


def test_what_is_read_for_a_cut_is_read_around_damage_that_waits_for_the_high_watermark(tmp_path) -> None:
    log, _ = log_of_ten(tmp_path, high_watermark=7)
    damage(log, 6, 8)
    log.producers.end_offset = 10
    assert log.truncate_to(9)
    assert (log.log_end_offset, log.producers.get(7).last_sequence, log.hidden_from) == (9, 8, 6)
    assert [(each.start_offset, each.end_offset) for each in log.damage] == [(6, 8)]


def test_a_cut_below_what_damage_hid_leaves_nothing_that_is_hidden(tmp_path) -> None:
    log, _ = log_of_ten(tmp_path, high_watermark=7)
    damage(log, 6, 8)
    assert log.truncate_to(7)
    assert log.hidden_from == 6
    assert log.truncate_to(6)
    assert (log.log_end_offset, log.producers.get(7).last_sequence, log.hidden_from) == (6, 5, None)


def test_a_cut_waits_for_committed_damage_before_it(tmp_path) -> None:
    log, _ = log_of_ten(tmp_path, high_watermark=8)
    # What follows the segment's first batch has to be read for the producers.
    log.producers.end_offset = 10
    damage(log, 6, 8)
    known = list(log.damage)
    with pytest.raises(CorruptSegment):
        log.truncate_to(9)
    assert (log.log_end_offset, list(log.damage), log.segments.active.size_bytes) == (10, known, 5 * ONE)


@pytest.mark.parametrize("ruined", [6, 7])
def test_damage_that_nobody_knows_of_stops_a_cut_before_anything_is_changed(tmp_path, ruined) -> None:
    log, owner = log_of_ten(tmp_path, high_watermark=5)
    damage(log, ruined, ruined + 1, known=False)
    with pytest.raises(CorruptSegment):
        log.truncate_to(8 if ruined == 6 else 7)
    assert (log.log_end_offset, len(log.segments), log.segments.active.size_bytes) == (10, 2, 5 * ONE)
    assert owner.suspects == [(log, 5 if ruined == 6 else 7)]
    append(log, batch(b"v" * 20, producer=(7, 0, 10)), leader_epoch=9)


def test_producers_of_a_snapshot_where_the_damage_begins_are_taken_as_they_are(tmp_path) -> None:
    log = make_log(str(tmp_path), LogConfig(index_interval_bytes=1), make_ports())
    for number in range(10):
        if number == 7:
            log.write_snapshot()
        append(log, batch(b"v" * 20, timestamp=NOW + number, producer=(7, 0, number)))
    damage(log, 7, 8)
    assert log.truncate_to(9)
    assert (log.log_end_offset, log.producers.get(7).last_sequence) == (7, 6)
