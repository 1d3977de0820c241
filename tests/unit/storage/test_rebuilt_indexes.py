"""Indexes that are built again below the recovery point: aborted transactions stay what they were."""

from dataclasses import replace

import pytest

from barnabas.storage.index import CorruptIndex
from barnabas.storage.scrubber import Scrubber, ScrubSettings
from barnabas.storage.txn_index import AbortedTxn
from tests.unit.storage.cleaning_store import CONFIG, CleaningStore, last_values

ABORTED = [AbortedTxn(7, 0, 3, 1), AbortedTxn(8, 1, 4, 5)]


async def aborted_in_the_second_segment():
    """A store whose closed segment at offset 3 begins with the markers of transactions from offsets 0 and 1 on."""
    store = CleaningStore(config=replace(CONFIG, compact=False))
    await store.open()
    store.put((b"a", b"bad"), producer=(7, 0, 0), transactional=True)
    store.put((b"b", b"bad"), producer=(8, 0, 0), transactional=True)
    store.put((b"b", b"x"))
    await store.settle()
    store.end_transaction(7, commit=False)
    store.end_transaction(8, commit=False)
    store.put((b"b", b"x"))
    await store.settle()
    store.put((b"c", b"x"))
    await store.settle()
    await store.directory.checkpoint_all()
    assert store.log.aborted_transactions(start=0, upper=9) == ABORTED
    return store


def path(suffix, base_offset=3):
    return f"/data/topic-0/{base_offset:020d}{suffix}"


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize(
    "lost", [(".index",), (".timeindex",), (".index", ".txnindex"), (".index", ".timeindex", ".txnindex")]
)
async def test_a_transaction_begun_before_the_segment_stays_aborted_from_its_first_record_on(lost, is_clean):
    store = await aborted_in_the_second_segment()
    if is_clean:
        await store.store.directories.close()
    store.kill()
    for suffix in lost:
        assert store.disk.exists(path(suffix))
        store.disk.remove(path(suffix))
    await store.open()
    assert store.log.aborted_transactions(start=0, upper=9) == ABORTED
    assert store.log.segments[1].aborted_transactions() == ABORTED


@pytest.mark.parametrize("size_bytes", [0, 20, 34, 67])
async def test_an_index_of_aborted_transactions_that_is_not_whole_is_made_from_the_log(size_bytes):
    store = await aborted_in_the_second_segment()
    store.kill()
    file = store.disk.open(path(".txnindex"))
    file.truncate(size_bytes)
    file.close()
    store.disk.remove(path(".timeindex"))
    await store.open()
    assert store.log.segments[1].aborted_transactions() == ABORTED


async def test_what_the_index_says_is_kept_where_earlier_segments_tell_no_more():
    store = await aborted_in_the_second_segment()
    store.kill()
    file = store.disk.open(path(".log", 0))
    file.pwrite(bytes(30), 0)
    file.close()
    for name in store.names():
        if name.endswith(".snapshot"):
            store.disk.remove(f"/data/topic-0/{name}")
    store.disk.remove(path(".index"))
    await store.open()
    assert store.log.segments[1].aborted_transactions() == ABORTED


@pytest.mark.parametrize("swapped", [(".log", ".txnindex"), (".txnindex",)])
async def test_a_replacement_that_a_kill_interrupted_keeps_its_aborted_transactions(swapped):
    store = await aborted_in_the_second_segment()
    store.kill()
    for suffix in swapped:
        store.disk.rename(path(suffix), path(suffix) + ".swap")
    file = store.disk.open(path(".log", 0))
    file.pwrite(bytes(30), 0)
    file.close()
    for name in store.names():
        if name.endswith(".snapshot"):
            store.disk.remove(f"/data/topic-0/{name}")
    await store.open()
    assert store.log.segments[1].aborted_transactions() == ABORTED
    assert not [name for name in store.names() if name.endswith(".swap")]


async def test_a_replacement_that_is_given_up_leaves_the_aborted_transactions_of_what_stays():
    store = await aborted_in_the_second_segment()
    store.kill()
    store.disk.write_durably(path(".txnindex.swap"), b"")
    store.disk.write_durably(path(".log.cleaned"), b"")
    await store.open()
    assert store.log.segments[1].aborted_transactions() == ABORTED
    store.kill()
    store.disk.write_durably(path(".txnindex.swap"), b"")
    store.disk.write_durably(path(".log.swap"), b"damaged")
    await store.open()
    assert store.log.segments[1].aborted_transactions() == ABORTED
    assert not [name for name in store.names() if name.endswith((".swap", ".cleaned"))]


def scrubber_of(store):
    scrubber = Scrubber(
        store.store.directories,
        disk=store.disk,
        clock=store.clock,
        offload=store.store.offload,
        settings=ScrubSettings(),
        on_damage=lambda _: None,
    )
    scrubber.recall()
    return scrubber


async def scrub(scrubber, store):
    directory = store.directory
    while await scrubber.step(directory):
        pass


def ruin_txn_index(store):
    file = store.disk.open(path(".txnindex"))
    file.pwrite(b"\xff" * 10, 0)
    file.close()


async def test_a_running_broker_builds_an_index_of_aborted_transactions_again_that_a_reader_could_not_read():
    store = await aborted_in_the_second_segment()
    scrubber = scrubber_of(store)
    await scrub(scrubber, store)
    ruin_txn_index(store)
    with pytest.raises(CorruptIndex):
        store.log.aborted_transactions(start=0, upper=9)
    await scrubber.step(store.directory)
    assert store.log.aborted_transactions(start=0, upper=9) == ABORTED
    assert not store.log.damage
    store.kill()
    await store.open()
    assert store.log.aborted_transactions(start=0, upper=9) == ABORTED


async def test_a_pass_of_the_scrubber_finds_an_index_of_aborted_transactions_that_cannot_be_read():
    store = await aborted_in_the_second_segment()
    ruin_txn_index(store)
    await scrub(scrubber_of(store), store)
    assert store.log.aborted_transactions(start=0, upper=9) == ABORTED


@pytest.mark.parametrize("is_cut", [False, True])
async def test_an_index_is_not_put_into_a_log_that_has_changed_while_it_was_built(is_cut):
    store = await aborted_in_the_second_segment()
    ruin_txn_index(store)
    ruined = store.disk.read_bytes(path(".txnindex"))
    scrubber = scrubber_of(store)
    read = store.store.offload.thread

    async def change_meanwhile(lane, call, *arguments):
        found = await read(lane, call, *arguments)
        if call.__name__ == "_find_aborted":
            if is_cut:
                await store.store.directories.truncate({store.log.topic_partition: 6})
            else:
                store.store.directories.delete_log(store.log.topic_partition)
        return found

    store.store.offload.thread = change_meanwhile
    await scrub(scrubber, store)
    if is_cut:
        # The next look does it.
        store.store.offload.thread = read
        assert store.disk.read_bytes(path(".txnindex")) == ruined
        store.directory.suspect(store.log, 3)
        await scrub(scrubber, store)
        assert store.log.aborted_transactions(start=0, upper=6) == ABORTED
    else:
        assert not store.disk.exists(path(".txnindex"))
        assert not store.store.failures


async def test_a_log_whose_aborted_transactions_could_not_be_read_is_cleaned_once_they_can_be():
    store = await aborted_in_the_second_segment()
    store.log.config = CONFIG
    scrubber = scrubber_of(store)
    await scrub(scrubber, store)
    ruin_txn_index(store)
    assert not await store.clean()
    assert [member for _, member, _ in store.cleaner.uncleanable()] == [store.log]
    await scrubber.step(store.directory)
    assert await store.clean()
    assert not list(store.cleaner.uncleanable())
    assert last_values(store.records()) == {b"b": b"x", b"c": b"x"}
