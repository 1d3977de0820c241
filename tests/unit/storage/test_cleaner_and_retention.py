"""The cleaner and what else changes its logs: retention, restarts, replacements."""

import asyncio
from dataclasses import replace

import pytest

from barnabas.protocol.ids import TopicPartition
from barnabas.storage import cleaner
from barnabas.storage.maintenance import sweep_log
from tests.unit.storage.cleaning_store import CONFIG, CleaningStore


async def dirty_store(*, retention_ms: int, rounds: int = 10) -> CleaningStore:
    """One with something to clean, and to delete once so much time has passed."""
    store = CleaningStore(config=replace(CONFIG, delete=True, retention_ms=retention_ms))
    await store.open()
    store.put_all([1, 2, 3] * rounds)
    await store.settle()
    return store


async def test_where_retention_deletes_too_it_comes_after_the_cleaning() -> None:
    store = await dirty_store(retention_ms=60_000)
    store.clock.advance(60_001)
    assert await store.cleaner.clean_filthiest()
    assert (store.log.log_start_offset, store.records()) == (30, [])


async def test_retention_leaves_a_log_alone_that_is_being_cleaned() -> None:
    store = await dirty_store(retention_ms=60_000, rounds=20)
    store.clock.advance(60_001)
    cleaning = asyncio.ensure_future(store.cleaner.clean_filthiest())
    for _ in range(4):
        await asyncio.sleep(0)
    sweep_log(store.directory, store.log, store.clock.wall_ms())
    assert store.log.log_start_offset == 0
    assert await cleaning
    assert store.log.log_start_offset == 60


@pytest.mark.parametrize("change", ["restart", "retention"])
async def test_a_log_that_changes_while_others_are_looked_at_is_left_for_the_next_time(
    change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await dirty_store(retention_ms=1000)
    store.store.directories.create_log(TopicPartition("other", 0))
    # The first log is looked at, then the loop turns.
    monkeypatch.setattr(cleaner, "_LOGS_AT_ONCE", 2)

    async def change_log() -> None:
        if change == "restart":
            store.log.truncate_fully_and_start_at(100)
        else:
            sweep_log(store.directory, store.log, store.clock.wall_ms() + 10_000)

    changing = asyncio.ensure_future(change_log())
    assert not await store.cleaner.clean_filthiest()
    assert changing.done()
    assert store.cleaner.figures.runs == 0


async def test_retention_leaves_a_log_alone_while_its_files_are_replaced() -> None:
    store = await dirty_store(retention_ms=1000)
    start, later = store.log.log_start_offset, store.clock.wall_ms() + 10_000
    store.directory.replacing[store.log] = asyncio.Event()
    sweep_log(store.directory, store.log, later)
    assert store.log.log_start_offset == start
    del store.directory.replacing[store.log]
    sweep_log(store.directory, store.log, later)
    assert store.log.log_start_offset > start
