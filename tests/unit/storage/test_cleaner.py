"""The cleaner as a whole on a disk in memory: what it picks, what it does, what it tells, and when it leaves off."""

import asyncio
from dataclasses import replace
from random import Random

import pytest

from barnabas.protocol.entries import iterate_entries
from barnabas.runtime.offload import WorkerLost
from barnabas.storage.cleaner import Cleaner
from barnabas.storage.cleaner_report import (
    CLEANED,
    GIVEN_UP,
    REPORT_FILE,
    RUNNING,
    decode_report,
    encode_report,
)
from barnabas.storage.cleaning.clean_job import CleanResult
from barnabas.storage.file_names import CLEANER_CHECKPOINT
from barnabas.storage.log import Log
from tests.unit.storage.cleaning_store import CONFIG, CleaningStore, last_values
from tests.unit.storage.logs import NOW, TP, offset_for_timestamp, read_bytes, replicate
from tests.unit.storage.stores import open_store

DAY_MS = 24 * 3600 * 1000


@pytest.fixture
async def store() -> CleaningStore:
    store = CleaningStore()
    await store.open()
    return store


async def test_the_last_value_of_each_key_stays_at_its_offset(store: CleaningStore) -> None:
    store.put_all([1, 2, 3] * 10)
    before, size = store.records(), store.log.size_bytes
    assert await store.clean()
    after = store.records()
    assert after == [(27, b"key 1", before[27][2]), (28, b"key 2", before[28][2]), (29, b"key 3", before[29][2])]
    assert store.log.size_bytes < size / 5
    assert (store.log.log_start_offset, store.log.log_end_offset) == (0, 30)
    assert not [name for name in store.names() if name.endswith((".cleaned", ".swap", ".deleted"))]
    assert not await store.clean()


async def test_what_is_clean_survives_a_stop_and_is_known_as_clean(store: CleaningStore) -> None:
    store.put_all([1, 2, 3] * 10)
    assert await store.clean()
    records = store.records()
    await store.reopen()
    assert store.records() == records
    assert store.directory.first_dirty == {TP: 30}
    assert store.disk.read_bytes(f"/data/{CLEANER_CHECKPOINT}") == b"0\n1\ntopic 0 30\n"
    assert not await store.clean()
    store.put_all([2])
    assert await store.clean()
    assert [offset for offset, _, _ in store.records()] == [27, 29, 30]


async def test_a_reader_of_what_was_replaced_reads_on_and_then_meets_no_gap(store: CleaningStore) -> None:
    store.put_all([1, 2, 3] * 10)
    expected = store.records()
    log = store.log
    read = log.read(0, max_bytes=1 << 20, upper_bound_offset=30, min_one_batch=True)
    assert await store.clean()
    assert read.slice is not None
    old = read.slice.read()
    assert old[57:61] == b"\0\0\0\1"
    read.slice.release()
    for offset in range(30):
        after = log.read(offset, max_bytes=1 << 20, upper_bound_offset=30, min_one_batch=True)
        assert after.slice is not None
        assert int.from_bytes(after.slice.read()[:8], "big") == max(27, offset)
        after.slice.release()
    found = offset_for_timestamp(log, NOW)
    assert found is not None
    assert found.offset == 27
    await store.directory.carry_out_removals()
    assert last_values(store.records()) == last_values(expected)


async def test_epochs_and_producers_are_as_before(store: CleaningStore) -> None:
    for number in range(30):
        store.put((b"key", b"v" * 30), producer=(7, 0, number))
    await store.settle()
    await store.directory.checkpoint_all()
    epochs, snapshots = store.log.leader_epochs.entries, store.log.snapshots.offsets
    assert await store.clean()
    assert (store.log.leader_epochs.entries, store.log.snapshots.offsets) == (epochs, snapshots)
    await store.reopen()
    entry = store.log.producers.get(7)
    assert entry is not None
    assert entry.last_sequence == 29
    store.put((b"key", b"x"), producer=(7, 0, 30))
    for _ in range(2):
        await store.settle()
        store.kill()
        store.disk.remove("/data/recovery-point-offset-checkpoint")
        await store.open()
        entry = store.log.producers.get(7)
        assert entry is not None
        assert entry.last_sequence == 30


async def test_tombstones_go_a_while_after_they_became_clean(store: CleaningStore) -> None:
    # Keys enough that segments stay apart: a segment is as old as the last one that went into it.
    store.put_all(range(1, 20))
    store.put((b"key 1", None))
    store.put_all(range(20, 30))
    assert await store.clean()
    assert last_values(store.records())[b"key 1"] is None
    for later_ms, is_there in ((DAY_MS // 2, True), (DAY_MS // 2 - 1, True), (1, False)):
        # What becomes clean now makes those before it older, at the next cleaning.
        store.clock.advance(later_ms)
        store.put_all(range(30, 60))
        assert await store.clean()
        store.put_all([99])
        assert await store.clean()
        assert (b"key 1" in last_values(store.records())) is is_there
    assert [key for _, key, _ in store.records()] == [b"key %d" % key for key in [*range(2, 60), 99]]


async def test_only_compacted_logs_are_cleaned() -> None:
    store = CleaningStore(config=replace(CONFIG, compact=False, delete=True))
    await store.open()
    store.put_all([1] * 30)
    assert not await store.clean()
    store.log.config = CONFIG
    assert await store.clean()


async def test_a_log_waits_until_it_is_dirty_enough() -> None:
    store = CleaningStore(config=replace(CONFIG, min_cleanable_dirty_ratio=0.5))
    await store.open()
    store.put_all(range(30))
    assert await store.clean()
    store.put_all(range(12))
    assert not await store.clean()
    assert 0.2 < store.cleaner.figures.max_dirty_ratio < 0.5
    store.put_all(range(12, 40))
    assert await store.clean()
    assert [key for _, key, _ in store.records()] == [b"key %d" % key for key in range(40)]


async def test_young_records_are_left_alone_and_old_ones_are_not_left_waiting() -> None:
    store = CleaningStore(config=replace(CONFIG, min_compaction_lag_ms=60_000))
    await store.open()
    store.put_all([1] * 30)
    assert not await store.clean()
    store.clock.advance(60_001)
    assert await store.clean()
    lazy = CleaningStore(config=replace(CONFIG, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=60_000))
    await lazy.open()
    lazy.put_all([1] * 30)
    assert not await lazy.clean()
    lazy.clock.advance(60_001)
    assert await lazy.clean()
    assert lazy.cleaner.figures.max_compaction_delay_ms == 1


async def test_an_open_transaction_holds_the_cleaner_back(store: CleaningStore) -> None:
    store.put_all([1] * 10)
    store.put((b"key 2", b"open" * 20), producer=(7, 0, 0), transactional=True)
    store.put_all([1] * 30)
    assert await store.clean()
    assert store.directory.first_dirty[TP] <= 10
    assert [key for _, key, _ in store.records()].count(b"key 1") > 30
    store.end_transaction(7, commit=False)
    assert await store.clean()
    assert [offset for offset, _, _ in store.records()] == [40]


async def test_a_cut_throws_the_cleaning_away(store: CleaningStore) -> None:
    store.put_all([1, 2, 3] * 20)
    await store.settle()
    records = store.records()
    cleaning = asyncio.ensure_future(store.cleaner.clean_filthiest())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await store.store.directories.truncate({TP: 40})
    assert not await cleaning
    assert store.cleaner.runs[TP].state == GIVEN_UP
    assert TP not in store.directory.first_dirty
    assert last_values(store.records()) == last_values(records[:40])
    assert not [name for name in store.names() if name.endswith((".cleaned", ".swap"))]
    assert await store.clean()
    assert [offset for offset, _, _ in store.records()] == [37, 38, 39]


async def test_a_cut_lowers_what_counts_as_clean_before_it_is_made(store: CleaningStore) -> None:
    store.put_all([1, 2, 3] * 20)
    assert await store.clean()
    await store.store.directories.truncate({TP: 50})
    assert store.directory.first_dirty == {TP: 50}
    assert store.disk.read_bytes(f"/data/{CLEANER_CHECKPOINT}").endswith(b"topic 0 50\n")


async def test_a_deleted_log_takes_its_cleaning_along(store: CleaningStore) -> None:
    store.put_all([1, 2, 3] * 20)
    assert await store.clean()
    store.put_all([1, 2, 3] * 20)
    await store.settle()
    for turns in (*range(1, 10), *range(10, 60, 7)):
        cleaning = asyncio.ensure_future(store.cleaner.clean_filthiest())
        for _ in range(turns):
            await asyncio.sleep(0)
        store.store.directories.delete_log(TP)
        await cleaning
        assert not store.store.failures
        assert store.directory.first_dirty == {} if store.store.directories.log(TP) else True
        store.store.directories.create_log(TP)
        assert not await store.cleaner.clean_filthiest()
        store.put_all([1, 2, 3] * 20)
        await store.settle()
    await store.directory.checkpoint_all()
    assert store.disk.read_bytes(f"/data/{CLEANER_CHECKPOINT}") == b"0\n0\n"


async def test_an_abort_whose_marker_is_in_the_active_segment_counts(store: CleaningStore) -> None:
    store.put((b"a", b"good"))
    store.put_all(range(6))
    store.put((b"a", b"bad"), producer=(7, 0, 0), transactional=True)
    store.put_all(range(10, 16))
    await store.settle()
    store.end_transaction(7, commit=False)
    store.put((b"z", b"zz"))
    store.log.set_high_watermark(store.log.log_end_offset)
    assert store.log.segments.active.size_bytes
    assert await store.cleaner.clean_filthiest()
    records = store.records()
    assert (0, b"a", b"good") in records
    assert not any(value == b"bad" for _, _, value in records)


async def test_a_failing_disk_takes_the_directory_offline(store: CleaningStore) -> None:
    store.put_all([1, 2, 3] * 20)
    await store.settle()
    store.disk.fail("fsync", ".cleaned")
    assert not await store.cleaner.clean_filthiest()
    assert store.store.failures == ["/data"]


async def test_a_checkpoint_outside_of_the_log_begins_again(store: CleaningStore) -> None:
    store.put_all([1, 2, 3] * 20)
    await store.settle()
    store.directory.first_dirty[TP] = 1000
    assert await store.clean()
    assert store.directory.first_dirty == {TP: 60}


async def test_the_last_run_is_told(store: CleaningStore) -> None:
    store.put_all([1, 2, 3] * 20)
    size = store.log.size_bytes
    assert await store.clean()
    run = store.cleaner.runs[TP]
    assert (run.state, run.progress, run.first_dirty_offset, run.records_read, run.records_kept) == (
        CLEANED,
        1.0,
        60,
        60,
        3,
    )
    assert run.bytes_written == store.log.size_bytes < size < run.bytes_read
    assert decode_report(store.disk.read_bytes(f"/data/{REPORT_FILE}")) == [run]
    figures = store.cleaner.figures
    assert (figures.runs, figures.bytes_read, figures.bytes_written) == (1, run.bytes_read, run.bytes_written)


async def test_a_cut_waits_for_a_replacement_that_has_begun(store: CleaningStore) -> None:
    # Even of what the cleaner has seen: an unclean leader may have less. A start would finish the swap, cut or not.
    store.put_all([1, 2, 3] * 20)
    await store.settle()
    cleaning = asyncio.ensure_future(store.cleaner.clean_filthiest())
    while not store.directory.replacing:  # noqa: ASYNC110 - a step of the loop at a time
        await asyncio.sleep(0)
    assert [name for name in store.names() if name.endswith(".swap")]
    cuts = (store.store.directories.truncate({TP: 2}), store.store.directories.restart_at(TP, 90))
    cut = asyncio.ensure_future(cuts[0])
    await asyncio.sleep(0)
    assert store.log.log_end_offset == 60
    await cut
    assert not await cleaning
    assert (store.log.log_end_offset, store.directory.replacing) == (2, {})
    await cuts[1]
    assert store.log.log_end_offset == 90
    store.kill()
    await store.open()
    assert (store.log.log_start_offset, store.log.log_end_offset) == (90, 90)


async def test_what_is_replaced_follows_the_order_that_a_start_relies_on(store: CleaningStore) -> None:
    store.put_all([1, 2, 3] * 4)
    await store.settle()
    seen: list[str] = []

    def note(kind: str, path: str) -> None:
        if kind in ("rename", "fsync_directory") and "topic-0" in path:
            seen.append(f"{kind} {path.removeprefix('/data/topic-0').lstrip('/')}")

    store.disk.on_operation = note
    assert await store.cleaner.clean_filthiest()
    names = [f"{0:020d}.{kind}" for kind in ("log", "index", "timeindex")]
    later = [f"{6:020d}.{kind}" for kind in ("log", "index", "timeindex")]
    for group in (names, later):
        order = [
            *(f"rename {name}.cleaned" for name in group),
            "fsync_directory ",
            *(f"rename {name}" for name in group),
            *(f"rename {name}.swap" for name in group),
            "fsync_directory ",
        ]
        at = seen.index(order[0])
        assert seen[at : at + len(order)] == order


async def test_values_that_are_not_committed_displace_none(store: CleaningStore) -> None:
    store.put_all([1, 2, 3] * 10)
    committed = store.records()
    store.put_all([1, 2, 3] * 10)
    await store.settle(committed=30)
    assert await store.cleaner.clean_filthiest()
    assert store.directory.first_dirty[TP] <= 30
    await store.store.directories.truncate({TP: 30})
    assert last_values(store.records()) == last_values(committed)


@pytest.mark.parametrize(("uncommitted", "keeps_snapshots"), [(9, True), (3, False)])
async def test_a_producer_is_known_by_its_last_committed_batch_after_a_cut(
    store: CleaningStore, uncommitted: int, keeps_snapshots: bool
) -> None:
    """The cleaning began when later batches stood in the log, which were not committed and are then cut."""
    for number in range(30):
        store.put((b"key", b"v" * 30), producer=(7, 0, number))
        store.put((b"key", b"w" * 30))
    for number in range(30, 30 + uncommitted):
        store.put((b"other", b"v" * 30), producer=(7, 0, number))
    await store.settle(committed=60)
    await store.directory.checkpoint_all()
    assert await store.cleaner.clean_filthiest()
    assert store.directory.first_dirty[TP] == 60
    if not keeps_snapshots:
        store.log.snapshots.remove_all()
    await store.store.directories.truncate({TP: 60})
    entry = store.log.producers.get(7)
    assert entry is not None
    assert [batch.last_sequence for batch in entry.batches] == [29]


async def test_a_log_that_starts_elsewhere_is_cleaned_anew() -> None:
    store = CleaningStore(config=replace(CONFIG, delete=True))
    await store.open()
    store.put_all([1, 2, 3] * 20)
    await store.settle()
    cleaning = asyncio.ensure_future(store.cleaner.clean_filthiest())
    for _ in range(4):
        await asyncio.sleep(0)
    assert store.log.advance_log_start_offset(20)
    assert not await cleaning
    assert store.cleaner.runs[TP].state == GIVEN_UP
    assert await store.clean()
    assert [offset for offset, _, _ in store.records()] == [57, 58, 59]


async def test_a_worker_that_is_killed_costs_its_log_the_cleaning(
    store: CleaningStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put_all([1, 2, 3] * 20)
    before = store.records()

    async def killed(*_: object) -> None:
        raise WorkerLost("for its memory")

    monkeypatch.setattr(store.store.offload, "steps", killed)
    assert not await store.clean()
    ((_, member, why),) = store.cleaner.uncleanable()
    assert (member, "memory" in why, store.records()) == (store.log, True, before)


async def test_no_room_for_a_single_key_ends_it(store: CleaningStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put_all([1, 2, 3] * 20)
    steps = store.store.offload.steps

    async def gets_nowhere(*given: object) -> CleanResult:
        result = await steps(*given)
        assert isinstance(result, CleanResult)
        return replace(result, first_dirty_offset=0)

    monkeypatch.setattr(store.store.offload, "steps", gets_nowhere)
    assert not await store.clean()
    assert [why for _, _, why in store.cleaner.uncleanable()] == ["nothing from offset 0 on fits into the map of keys"]


async def test_a_log_that_moves_takes_along_how_far_it_was_clean_when_its_copy_began(store: CleaningStore) -> None:
    store.disk.make_directory("/other")
    store.disk.fsync_directory("/")
    await store.store.directories.close()
    store.kill()
    opened = await open_store("/data", "/other", disk=store.disk, config=CONFIG, clock=store.clock)
    store.store, (here, there) = opened, opened.directories.directories
    store.cleaner = Cleaner(
        opened.directories, disk=store.disk, clock=store.clock, offload=opened.offload, random=Random(1),
        settings=store.settings,
    )  # fmt: skip
    store.put_all([1, 2, 3] * 10)
    assert await store.clean()
    future = opened.directories.futures.create(TP, there, CONFIG)
    store.put_all([1, 2, 3] * 10)
    assert await store.clean()
    assert (here.first_dirty, there.first_dirty) == ({TP: 60}, {TP: 30})
    replicate(future, read_all(store.log))
    moved, directory = await opened.directories.futures.put_in_place(store.log, here)
    assert (moved.log_end_offset, directory, here.first_dirty, there.first_dirty) == (60, there, {}, {TP: 30})
    assert store.disk.read_bytes(f"/data/{CLEANER_CHECKPOINT}") == b"0\n0\n"
    assert store.disk.read_bytes(f"/other/{CLEANER_CHECKPOINT}") == b"0\n1\ntopic 0 30\n"
    store.put_all([4])
    assert await store.clean()
    assert [offset for offset, _, _ in store.records()] == [57, 58, 59, 60]


def read_all(log: Log) -> memoryview:
    data, at = b"", log.log_start_offset
    while piece := read_bytes(log, at):
        data += piece
        at = [header.next_offset for _, header in iterate_entries(piece)][-1]
    return memoryview(bytearray(data))


async def test_the_last_runs_are_told_after_a_restart_too(store: CleaningStore) -> None:
    store.put_all([1, 2, 3] * 20)
    assert await store.clean()
    run = store.cleaner.runs[TP]
    await store.reopen()
    await store.cleaner.recall()
    assert store.cleaner.runs == {TP: run}
    gone = replace(run, topic="gone")
    store.disk.write_durably(f"/data/{REPORT_FILE}", encode_report([replace(run, state=RUNNING, ended_ms=-1), gone]))
    await store.reopen()
    await store.cleaner.recall()
    (told,) = decode_report(store.disk.read_bytes(f"/data/{REPORT_FILE}"))
    assert (told.state, told.reason, told.progress) == (GIVEN_UP, "the broker ended", 1.0)
    store.disk.write_durably(f"/data/{REPORT_FILE}", b"x")
    await store.reopen()
    await store.cleaner.recall()
    assert store.cleaner.runs == {}
