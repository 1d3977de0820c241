"""The indexes, in memory and in their files, against a plain search."""

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.storage.index import OFFSET_ENTRY, TIME_ENTRY, CorruptIndex, OffsetIndex, StoredIndex, TimeIndex
from tests.support.crash_disk import CrashDisk

ENTRIES = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 500)), max_size=200).map(
    lambda steps: [
        (sum(step[0] for step in steps[: place + 1]), sum(step[1] for step in steps[: place + 1]))
        for place in range(len(steps))
    ]
)


def stored(data, entry):
    disk = CrashDisk()
    file = disk.open("/index", create=True)
    file.pwrite(data, 0)
    return StoredIndex(file, entry)


@given(ENTRIES, st.integers(0, 3000), st.integers(0, 3000))
def test_an_offset_index_finds_the_last_entry_at_or_before(entries, target, position):
    index = OffsetIndex()
    for entry in entries:
        index.append(*entry)
    before = [entry for entry in entries if entry[0] <= target]
    assert index.lookup(target) == (before[-1][1] if before else 0)
    after = [entry for entry in entries if entry[1] >= position]
    assert index.offset_from(position) == (after[0][0] if after else None)
    on_disk = stored(index.encode() + bytes(8 * 7), OFFSET_ENTRY)
    assert len(on_disk) == len(entries)
    assert on_disk.last_at_most(target) == (before[-1] if before else None)
    assert on_disk.first_at_least(position) == (after[0] if after else None)
    log_bytes = entries[-1][1] + 1 if entries else 0
    assert OffsetIndex.decode(index.encode() + bytes(8 * 7), log_bytes=log_bytes).encode() == index.encode()
    index.truncate_to(target)
    assert len(index) == len([entry for entry in entries if entry[0] < target])


@given(ENTRIES, st.integers(0, 3000))
def test_a_time_index_finds_the_last_entry_at_or_before(entries, target):
    index = TimeIndex()
    for offset, timestamp in entries:
        assert index.maybe_append(timestamp, offset)
        assert not index.maybe_append(timestamp, offset + 1)
    before = [entry for entry in entries if entry[1] <= target]
    assert index.lookup(target) == (before[-1][0] if before else 0)
    on_disk = stored(index.encode() + bytes(12 * 7), TIME_ENTRY)
    assert on_disk.last_at_most(target) == (before[-1][::-1] if before else None)
    assert TimeIndex.decode(index.encode() + bytes(12 * 7)).encode() == index.encode()
    index.truncate_to(target)
    assert len(index) == len([entry for entry in entries if entry[0] < target])


def test_the_bytes_are_kafkas():
    offsets, times = OffsetIndex(), TimeIndex()
    offsets.append(5, 4200)
    times.maybe_append(1_600_000_000_000, 5)
    assert offsets.encode() == pack(">ii", 5, 4200)
    assert times.encode() == pack(">qi", 1_600_000_000_000, 5)
    offsets.append(9, 9000)
    assert offsets.encode(1) == pack(">ii", 9, 9000)


@pytest.mark.parametrize(
    "entries",
    [[(5, 100), (5, 200)], [(5, 100), (6, 100)], [(5, 100), (4, 200)], [(-5, 100)], [(5, 5000)], [(5, 0), (6, 0)]],
)
def test_entries_that_cannot_be_true_are_refused(entries):
    with pytest.raises(CorruptIndex):
        OffsetIndex.decode(b"".join(pack(">ii", *entry) for entry in entries), log_bytes=5000)


@pytest.mark.parametrize("entries", [[(5, 1), (5, 2)], [(5, 2), (6, 1)], [(-5, 1)]])
def test_timestamps_that_do_not_rise_are_refused(entries):
    with pytest.raises(CorruptIndex):
        TimeIndex.decode(b"".join(pack(">qi", *entry) for entry in entries))


def test_a_record_without_a_timestamp_is_not_indexed():
    assert not TimeIndex().maybe_append(-1, 5)
