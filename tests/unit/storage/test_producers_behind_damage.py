"""What damage hides of producers and aborted transactions, and that it is known again when the damage is mended."""

from dataclasses import replace

import pytest

from barnabas.storage.producer_rebuilding import rebuild_producers
from barnabas.storage.txn_index import AbortedTxn
from tests.unit.storage.cleaning_store import CONFIG, CleaningStore

PATH = "/data/topic-0/00000000000000000000.log"
ABORTED = [AbortedTxn(7, 0, 2, 3)]


async def hidden(*, is_closed: bool) -> tuple[CleaningStore, bytes]:
    """A log whose first batch, the only one of a transaction that was aborted, was ruined while its broker was down."""
    store = CleaningStore(config=replace(CONFIG, compact=False))
    await store.open()
    store.put((b"a", b"bad"), producer=(7, 0, 0), transactional=True)
    first_bytes = store.log.size_bytes
    store.put((b"b", b"x"), producer=(8, 0, 0))
    store.end_transaction(7, commit=False)
    store.put((b"c", b"x"), producer=(9, 0, 0))
    await store.directory.flush(store.log, 4)
    await store.directory.checkpoint_all()
    assert store.log.aborted_transactions(start=0, upper=4) == ABORTED
    store.kill()
    file = store.disk.open(PATH)
    good = file.pread(first_bytes, 0)
    file.pwrite(b"\xff" * first_bytes, 0)
    await store.open()
    if is_closed:
        await store.settle()
    return store, good


def mend(store: CleaningStore, good: bytes) -> None:
    (found,) = store.log.damage
    store.log.segments.first.log_file.pwrite(good, found.position)
    store.log.damage.remove(found)


async def rebuild(store: CleaningStore) -> bool:
    return await rebuild_producers(store.directory, store.log, offload=store.store.offload, lane="scrub")


def told(store: CleaningStore) -> tuple[list[AbortedTxn], list[tuple[int, int]]]:
    producers = [(entry.producer_id, entry.last_sequence) for entry in store.log.producers]
    return store.log.aborted_transactions(start=0, upper=4), sorted(producers)


WHOLE = ABORTED, [(7, 0), (8, 0), (9, 0)]


@pytest.mark.parametrize("is_closed", [False, True])
async def test_what_damage_hid_is_read_again_and_outlives_a_restart(is_closed):
    store, good = await hidden(is_closed=is_closed)
    assert ([(each.start_offset, each.end_offset) for each in store.log.damage], store.log.hidden_from) == ([(0, 1)], 0)
    assert told(store) != WHOLE
    mend(store, good)
    assert await rebuild(store)
    assert (told(store), store.log.hidden_from) == (WHOLE, None)
    await store.store.directories.close()
    store.kill()
    await store.open()
    assert told(store) == WHOLE


async def test_no_snapshot_says_what_damage_hid_so_that_a_start_after_it_was_mended_knows():
    store, good = await hidden(is_closed=True)
    assert store.log.snapshots.offsets == ()
    mend(store, good)
    store.kill()
    await store.open()
    assert told(store)[1] == WHOLE[1]


async def test_a_segment_that_was_rolled_meanwhile_lets_it_be_tried_again():
    store, good = await hidden(is_closed=False)
    mend(store, good)
    log, thread = store.log, store.store.offload.thread

    async def meanwhile(lane, *args, **kwargs):
        found = await thread(lane, *args, **kwargs)
        if lane == "scrub":
            log.roll()
        return found

    store.store.offload.thread = meanwhile
    assert not await rebuild(store)
    store.store.offload.thread = thread
    assert log.hidden_from == 0
    assert await rebuild(store)
    assert told(store) == WHOLE
