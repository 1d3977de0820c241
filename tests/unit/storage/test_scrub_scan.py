"""What a piece of a segment holds: every kind of damage is found, and where the good batches go on."""

import time
from random import Random

import pytest

from barnabas.protocol.entries import iterate_entries
from barnabas.runtime.disk import SystemDisk
from barnabas.storage.leader_epochs import EpochEntry
from barnabas.storage.scrub_scan import Extent, Place, check_piece
from tests.unit.storage.logs import batch


def segment(*sizes, base=0, epoch=0):
    """Batches of so many records each, one after the other."""
    data, offset = bytearray(), base
    for size in sizes:
        values = [b"value %06d" % (offset + number) for number in range(size)]
        data += batch(*values, base_offset=offset, leader_epoch=epoch)
        offset += size
    return data


def starts(data):
    return [(position, header.base_offset) for position, header in iterate_entries(bytes(data))]


FIRST = (EpochEntry(0, 0),)


def check(tmp_path, data, *, base=0, next_base=100, epochs=FIRST, max_bytes=1 << 20, end=None):
    """All that is found in a file of these bytes, piece by piece."""
    path = tmp_path / "segment"
    path.write_bytes(bytes(data))
    extent = Extent(base, next_base, len(data) if end is None else end, epochs, 1 << 20)
    file = SystemDisk().open(str(path), writable=False)
    place, found, batches = Place(0, base), [], 0
    while place.position < extent.end:
        piece = check_piece(file, extent, place, max_bytes=max_bytes)
        assert piece.place.position > place.position
        place, batches = piece.place, batches + piece.batches
        found += piece.damaged
    file.close()
    return [(each.position, each.end_position, each.start_offset, each.end_offset) for each in found], batches


GOOD = segment(2, 1, 3, 2, 4)


@pytest.mark.parametrize("max_bytes", [1, 200, 1 << 20])
def test_a_good_segment_has_no_damage(tmp_path, max_bytes):
    assert check(tmp_path, GOOD, max_bytes=max_bytes) == ([], 5)


def test_a_piece_ends_after_so_many_batches_or_bytes(tmp_path):
    path = tmp_path / "segment"
    path.write_bytes(bytes(GOOD))
    file = SystemDisk().open(str(path), writable=False)
    extent = Extent(0, 100, len(GOOD), FIRST, 1 << 20)
    pieces = [
        check_piece(file, extent, Place(0, 0), max_bytes=max_bytes, max_batches=max_batches)
        for max_bytes, max_batches in ((1 << 20, 2), (1, 2), (1 << 20, 9))
    ]
    file.close()
    assert [piece.batches for piece in pieces] == [2, 1, 5]
    assert [piece.place.position for piece in pieces] == [starts(GOOD)[2][0], starts(GOOD)[1][0], len(GOOD)]


@pytest.mark.parametrize("max_bytes", [1, 1 << 20])
def test_one_flipped_bit_anywhere_is_found_and_costs_no_batch_but_its_own_and_the_next(tmp_path, max_bytes):
    where = starts(GOOD)
    ends = [*where[1:], (len(GOOD), 100)]
    for position in range(len(GOOD)):
        data = bytearray(GOOD)
        data[position] ^= 1 << (position % 8)
        found, _ = check(tmp_path, data, next_base=12, max_bytes=max_bytes)
        number = max(place for place, (start, _) in enumerate(where) if start <= position)
        assert len(found) == 1, position
        start, end, first, last = found[0]
        assert (start, first) == where[number]
        # Where a base offset went ahead the next batch is in doubt too.
        assert (end, last if end < len(GOOD) else 100) in ends[number : number + 2]


def test_bytes_that_became_zero_are_found_up_to_the_next_batch(tmp_path):
    where = starts(GOOD)
    data = bytearray(GOOD)
    data[where[1][0] + 3 : where[3][0] - 10] = bytes(where[3][0] - 10 - where[1][0] - 3)
    assert check(tmp_path, data) == ([(where[1][0], where[3][0], 2, 6)], 3)


def test_a_file_that_is_shorter_than_it_should_be_is_damaged_to_its_end(tmp_path):
    where = starts(GOOD)
    cut = GOOD[: where[3][0] + 20]
    assert check(tmp_path, cut, end=len(GOOD)) == ([(where[3][0], len(GOOD), 6, 100)], 3)


def test_two_damaged_places_are_two_ranges(tmp_path):
    where = starts(GOOD)
    data = bytearray(GOOD)
    data[where[0][0] + 70] ^= 1
    data[where[3][0] + 70] ^= 1
    found, batches = check(tmp_path, data)
    assert (found, batches) == (
        [(where[0][0], where[1][0], 0, 2), (where[3][0], where[4][0], 6, 8)],
        3,
    )


def test_gaps_that_compaction_left_are_no_damage(tmp_path):
    data = segment(2, base=10) + segment(1, base=15) + segment(3, base=20)
    assert check(tmp_path, data, base=8) == ([], 3)


def test_where_offsets_go_back_after_a_gap_both_batches_are_in_doubt(tmp_path):
    data = segment(2, base=0) + segment(1, base=9) + segment(1, base=3) + segment(1, base=10)
    first, second = len(segment(2)), len(data) - len(segment(1))
    assert check(tmp_path, data)[0] == [(first, second, 2, 10)]


def test_a_batch_whose_offset_was_damaged_along_is_not_taken_for_a_good_one(tmp_path):
    where = starts(GOOD)
    data = bytearray(GOOD)
    data[where[0][0] : where[2][0] + 8] = bytes(where[2][0] + 8 - where[0][0])
    assert check(tmp_path, data)[0] == [(0, where[3][0], 0, 6)]
    data[where[2][0] + 7] = 2
    assert check(tmp_path, data)[0] == [(0, where[3][0], 0, 6)]


def test_a_leader_epoch_that_the_log_does_not_know_there_is_damage(tmp_path):
    data = segment(2, epoch=1) + segment(2, base=2, epoch=3)
    epochs = (EpochEntry(1, 0), EpochEntry(3, 2))
    assert check(tmp_path, data, epochs=epochs) == ([], 2)
    data[15] ^= 4
    assert check(tmp_path, data, epochs=epochs)[0] == [(0, starts(segment(2, 2))[1][0], 0, 2)]


def test_before_the_first_epoch_that_is_known_none_is_expected(tmp_path):
    assert check(tmp_path, segment(2, epoch=7), epochs=(EpochEntry(8, 2),)) == ([], 1)


def test_a_batch_greater_than_the_window_is_checked_in_pieces(tmp_path):
    large = bytearray(batch(b"x" * 3_000_000, b"y" * 10, leader_epoch=0))
    data = large + segment(1, base=2)
    assert check(tmp_path, data) == ([], 2)
    data[2_000_000] ^= 8
    assert check(tmp_path, data) == ([(0, len(large), 0, 2)], 1)


def test_a_long_range_of_zeros_is_gone_over_quickly(tmp_path):
    """The search holds up the broker's loop, a piece at a time."""
    zeros = bytes(32 << 20)
    data = segment(2) + zeros + segment(3, base=9)
    began_s = time.process_time()
    found, batches = check(tmp_path, data)
    assert time.process_time() - began_s < 0.4  # 0.03 on a quiet machine; 1.0 where each zero is looked at
    good = len(segment(2))
    assert (found, batches) == ([(good, good + len(zeros), 2, 9)], 2)


def test_random_damage_never_hides_itself_nor_a_batch_far_from_it(tmp_path, seed):
    random = Random(seed)
    whole = segment(*[random.randrange(1, 6) for _ in range(40)])
    where = starts(whole)
    for _ in range(60):
        data, at = bytearray(whole), random.randrange(len(whole))
        size = random.choice([1, 3, 50, 400])
        kind = random.choice(["noise", "zeros"])
        data[at : at + size] = random.randbytes(size) if kind == "noise" else bytes(size)
        del data[len(whole) :]
        if data == whole:
            continue
        found, _ = check(tmp_path, data, next_base=1000)
        changed = [place for place, (old, new) in enumerate(zip(whole, data, strict=True)) if old != new]
        for place in changed:
            assert any(start <= place < end for start, end, _, _ in found), (kind, at, size)
        last = max(position for position, _ in where if position <= changed[-1])
        after = [position for position, _ in where if position > last]
        for start, end, _, _ in found:
            # One batch beyond the damage may be in doubt.
            assert end <= ([*after, len(whole), len(whole)])[1], (kind, at, size, start)
