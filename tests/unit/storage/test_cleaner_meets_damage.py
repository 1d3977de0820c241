"""The cleaner and the scrubber, and what mends: a damaged log is told of, left alone, and cleaned when it is whole."""

from dataclasses import replace

import pytest

from barnabas.storage.cleaner_report import FAILED
from barnabas.storage.damage import DamagedRange
from barnabas.storage.scan import iterate_file_headers
from barnabas.storage.scrubber import PIECE_BATCHES, Scrubber, ScrubSettings
from tests.unit.storage.cleaning_store import CONFIG, CleaningStore
from tests.unit.storage.logs import TP


@pytest.fixture
async def store() -> CleaningStore:
    store = CleaningStore()
    await store.open()
    return store


async def test_a_log_that_is_damaged_is_told_to_the_scrubber_and_cleaned_when_it_is_mended(
    store: CleaningStore,
) -> None:
    store.put_all([1, 2, 3] * 20)
    await store.settle()
    path = store.log.segments[1].path(".log")
    good = store.disk.read_bytes(path)
    file = store.disk.open(path)
    file.pwrite(b"\xff" * 10, 70)
    assert not await store.clean()
    assert [(member, "CRC" in why or "checksum" in why) for _, member, why in store.cleaner.uncleanable()] == [
        (store.log, True)
    ]
    assert (store.cleaner.runs[TP].state, list(store.directory.suspects)) == (FAILED, [store.log])
    # Nothing is new about it: the worker is spared, until the scrubber has found it and the mender mended it.
    started_ms = store.cleaner.runs[TP].started_ms
    store.clock.advance(60_000)
    assert not await store.clean()
    assert store.cleaner.runs[TP].started_ms == started_ms
    damaged = DamagedRange(store.log.segments[1].base_offset, 0, 80, store.log.segments[1].base_offset, 8, "found")
    store.log.damage.add(damaged)
    file.pwrite(good, 0)
    store.log.generation += 1
    assert not await store.clean()
    store.log.damage.remove(damaged)
    assert await store.clean()
    assert not list(store.cleaner.uncleanable())


async def test_a_log_in_which_the_scrubber_finds_nothing_is_tried_again_after_a_while(store: CleaningStore) -> None:
    store.put_all([1, 2, 3] * 20)
    await store.settle()
    file = store.disk.open(store.log.segments[1].path(".log"))
    good = file.pread(80, 0)
    file.pwrite(b"\xff" * 10, 70)
    assert not await store.clean()
    file.pwrite(good, 0)
    store.clock.advance(9 * 60_000)
    assert not await store.clean()
    store.clock.advance(60_000)
    assert await store.clean()


async def test_a_log_that_is_mended_or_found_damaged_just_now_is_left_alone(store: CleaningStore) -> None:
    store.put_all([1, 2, 3] * 20)
    await store.settle()
    store.directory.mending = store.log
    assert not await store.cleaner.clean_filthiest()
    store.directory.mending = None
    store.log.damage.add(DamagedRange(0, 0, 80, 0, 1, "found"))
    assert not await store.cleaner.clean_filthiest()
    assert (TP in store.cleaner.runs, store.directory.cleaning) == (False, None)


async def test_a_segment_that_is_cleaned_while_it_is_checked_is_checked_from_its_beginning() -> None:
    store = CleaningStore(config=replace(CONFIG, segment_bytes=200_000))
    await store.open()
    scrubber = Scrubber(
        store.store.directories,
        disk=store.disk,
        clock=store.clock,
        offload=store.store.offload,
        settings=ScrubSettings(),
        on_damage=lambda _: None,
    )
    scrubber.recall()
    store.put((b"key 1", b"of another length"))
    store.put_all(range(1500))
    assert await scrubber.step(store.directory)
    assert await store.clean()
    first = store.log.segments.first
    assert sum(1 for _ in iterate_file_headers(first.log_file, 0, first.size_bytes)) > PIECE_BATCHES
    while await scrubber.step(store.directory):
        pass
    assert (scrubber.count.found, scrubber.count.passes) == (0, 1)


async def test_a_log_that_lacks_what_damage_hid_of_aborted_transactions_is_not_cleaned(store: CleaningStore) -> None:
    store.put_all([1, 2, 3] * 20)
    await store.settle()
    store.log.note_hidden(1)
    assert not await store.clean()
    store.log.hidden_from = None
    assert await store.clean()
