"""What a directory's record says to be damaged, when a start finds that the log is another by now."""

from pathlib import Path

import pytest

from barnabas.storage.log_config import LogConfig
from barnabas.storage.mended_segment import DamagedSegment, Fill, spool_path, write_anew
from barnabas.storage.replacement import replace_segments
from tests.unit.storage.logs import TP, append, batch, read_bytes, replicate
from tests.unit.storage.stores import Store, open_store

ONE = len(batch(b"v" * 20))
CONFIG = LogConfig(segment_bytes=3 * ONE, index_interval_bytes=1)


async def lost_end(root: Path) -> tuple[Store, bytes]:
    """Eight records in segments of three, of which the first has lost its last two; and what it held."""
    store = await open_store(str(root), config=CONFIG)
    log = store.directories.create_log(TP)
    for _ in range(8):
        append(log, batch(b"v" * 20))
    good = read_bytes(log, 0, upper=8)[: 3 * ONE]
    await store.directories.close()
    path = root / "topic-0" / f"{0:020}.log"
    path.write_bytes(good[:ONE])
    store = await open_store(str(root), config=CONFIG)
    log = store.directories.log(TP)
    assert log is not None
    assert [(each.start_offset, each.end_offset, each.size_bytes) for each in log.damage] == [(1, 3, 0)]
    log.set_high_watermark(8)
    return store, good


async def test_a_lost_end_that_was_mended_before_a_kill_is_not_believed_to_be_lost(tmp_path: Path) -> None:
    store, good = await lost_end(tmp_path)
    log, directory = store.directories.log(TP), store.directories.directories[0]
    assert log is not None
    spool = store.disk.open(spool_path(log.directory, 0), create=True)
    spool.pwrite(good[ONE:], 0)
    (damaged,) = log.damage
    plan = DamagedSegment(log.directory, 0, 3, ONE, False, 1)
    made = write_anew(store.disk, plan, spool, [Fill(damaged, 0, 2 * ONE)])
    assert await replace_segments(directory, log, made, generation=log.generation, offload=store.offload)
    store.kill()
    log = (await open_store(str(tmp_path), config=CONFIG)).directories.log(TP)
    assert log is not None
    assert list(log.damage) == []
    assert read_bytes(log, 0)[: 3 * ONE] == good


@pytest.mark.parametrize("end", [2, 3])
async def test_a_lost_end_that_was_cut_and_fetched_again_before_a_kill_is_not_believed_to_be_lost(
    tmp_path: Path, end: int
) -> None:
    store, good = await lost_end(tmp_path)
    await store.directories.truncate({TP: 1})
    log = store.directories.log(TP)
    assert log is not None
    assert not log.damage
    for number in range(1, end):
        replicate(log, good[number * ONE : (number + 1) * ONE])
    log.flush()
    store.kill()
    log = (await open_store(str(tmp_path), config=CONFIG)).directories.log(TP)
    assert log is not None
    assert (list(log.damage), log.log_end_offset) == ([], end)
    assert read_bytes(log, 1) == good[ONE : end * ONE]


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("is_recorded", [True, False])
async def test_what_is_appended_behind_a_cut_within_a_lost_end_outlives_the_next_kill(
    tmp_path: Path, count: int, is_recorded: bool
) -> None:
    store, _ = await lost_end(tmp_path)
    directory = store.directories.directories[0]
    await directory.carry_out_flushes()
    await directory.checkpoint_all()
    record = (tmp_path / "barnabas.scrub").read_text()
    log = store.directories.log(TP)
    assert log is not None
    log.set_high_watermark(2)
    await store.directories.truncate({TP: 2})
    assert [(each.start_offset, each.end_offset) for each in log.damage] == [(1, 2)]
    for number in range(2, 2 + count):
        replicate(log, batch(b"w" * 20, base_offset=number, leader_epoch=1))
    store.kill()
    if is_recorded:
        (tmp_path / "barnabas.scrub").write_text(record.replace('"end_offset": 3', '"end_offset": 2'))
    for _ in range(2):
        store = await open_store(str(tmp_path), config=CONFIG)
        log = store.directories.log(TP)
        assert log is not None
        assert [(each.start_offset, each.end_offset) for each in log.damage] == [(1, 2)]
        assert log.log_end_offset == 2 + count
        assert len(read_bytes(log, 2)) == count * ONE
        store.kill()
