"""Leader epochs after a crash: what the batches tell, and, where compaction left room, what the checkpoint said."""

import pytest

from barnabas.runtime.disk import SystemDisk
from barnabas.runtime.files import File
from barnabas.storage.leader_epochs import EpochEntry, LeaderEpochs
from barnabas.storage.log_config import LogConfig
from tests.unit.storage.logs import TP, append, batch, replicate
from tests.unit.storage.stores import open_store

ONE = len(batch(b"v"))
FOUND = EpochEntry(3, 63)
"""The first batch of epoch 3; the one before it, of epoch 0, ends at 11."""


def entries_after(*said: tuple[int, int]) -> list[tuple[int, int]]:
    epochs = LeaderEpochs([EpochEntry(0, 0)])
    epochs.assign_from_batch(FOUND, floor=11, said=[EpochEntry(*entry) for entry in said])
    return [tuple(entry) for entry in epochs.entries]


@pytest.mark.parametrize(
    ("said", "entries"),
    [
        pytest.param([], [(0, 0), (3, 63)], id="nothing was said"),
        pytest.param([(0, 0), (3, 40)], [(0, 0), (3, 40)], id="it began in the gap"),
        pytest.param([(3, 11)], [(0, 0), (3, 11)], id="at its beginning"),
        pytest.param([(1, 20), (2, 30), (3, 40)], [(0, 0), (1, 20), (2, 30), (3, 40)], id="others left nothing"),
        pytest.param([(2, 30)], [(0, 0), (2, 30), (3, 63)], id="only another began there"),
        pytest.param([(3, 10)], [(0, 0), (3, 63)], id="there a batch of another epoch stands"),
        pytest.param([(3, 64)], [(0, 0), (3, 63)], id="that is after its first batch"),
        pytest.param([(4, 40)], [(0, 0), (3, 63)], id="a later epoch cannot have begun before it"),
        pytest.param([(2, 63)], [(0, 0), (3, 63)], id="an epoch without room"),
    ],
)
def test_what_a_checkpoint_said_is_believed_where_no_batch_speaks_against_it(
    said: list[tuple[int, int]], entries: list[tuple[int, int]]
) -> None:
    assert entries_after(*said) == entries


def test_a_batch_of_an_earlier_epoch_changes_nothing() -> None:
    epochs = LeaderEpochs([EpochEntry(5, 0)])
    epochs.assign_from_batch(FOUND, floor=0, said=[])
    assert [tuple(entry) for entry in epochs.entries] == [(5, 0)]


@pytest.mark.parametrize("segment_bytes", [ONE, 1 << 20], ids=["each batch in a segment", "all in one segment"])
async def test_a_compacted_log_keeps_where_its_epochs_began(tmp_path, segment_bytes: int) -> None:
    """Found on a directory that Kafka 2.7.2 had compacted: epoch 3 began at 40, its first record left is at 63."""
    config = LogConfig(segment_bytes=segment_bytes, compact=True, delete=False)
    store = await open_store(str(tmp_path), config=config)
    log = store.directories.create_log(TP)
    for offset, epoch in ((0, 0), (10, 0), (63, 3), (64, 3), (90, 4)):
        replicate(log, batch(b"v", base_offset=offset, leader_epoch=epoch))
    store.kill()
    (tmp_path / "topic-0" / "leader-epoch-checkpoint").write_text("0\n4\n0 0\n3 40\n4 80\n5 91\n")
    log = (await open_store(str(tmp_path), config=config)).directories.log(TP)
    assert [tuple(entry) for entry in log.leader_epochs.entries] == [(0, 0), (3, 40), (4, 80)]
    assert tuple(log.end_offset_for_epoch(0)) == (0, 40)


class WatchedDisk(SystemDisk):
    """Says which logs were opened."""

    def __init__(self) -> None:
        self.opened: list[str] = []

    def open(self, path: str, *, writable: bool = True, create: bool = False) -> File:
        if path.endswith(".log"):
            self.opened.append(path[-8:-4])
        return super().open(path, writable=writable, create=create)


SEGMENTS = LogConfig(segment_bytes=ONE)


async def killed(root, *, moved_to: int = 0) -> None:
    """A log of nine segments, of epochs 1 to 3, the first of which was copied from a compacted log; all but 108 synced.

    Its start moved, of which only the epochs reached the disk.
    """
    store = await open_store(str(root), config=SEGMENTS)
    log = store.directories.create_log(TP)
    for number in range(9):
        replicate(log, batch(b"v", base_offset=100 + number, leader_epoch=1 + number // 3))
    log.flush(107)
    log.set_high_watermark(107)
    await store.directories.directories[0].checkpoint_all()
    if moved_to:
        log.advance_log_start_offset(moved_to)
        log.flush(107)
    store.kill()


async def load(root) -> tuple[list[tuple[int, int]], list[str]]:
    disk = WatchedDisk()
    log = (await open_store(str(root), config=SEGMENTS, disk=disk)).directories.log(TP)
    return [tuple(entry) for entry in log.leader_epochs.entries], sorted(set(disk.opened))


async def test_a_log_whose_first_record_is_behind_its_start_is_not_read_for_its_epochs(tmp_path):
    await killed(tmp_path)
    assert await load(tmp_path) == ([(1, 100), (2, 103), (3, 106)], ["0000", "0107", "0108"])


async def test_the_epochs_before_a_start_that_did_not_reach_the_disk_are_read_again(tmp_path):
    await killed(tmp_path, moved_to=104)
    said = (tmp_path / "topic-0" / "leader-epoch-checkpoint").read_text()
    assert said == "0\n2\n2 104\n3 106\n"
    entries, opened = await load(tmp_path)
    assert (entries, opened[-3:]) == ([(1, 100), (2, 103), (3, 106)], ["0103", "0107", "0108"])


async def test_a_log_of_an_old_format_is_not_read_whole_for_epochs_that_it_does_not_have(tmp_path):
    config = LogConfig(segment_bytes=ONE, message_format=1)
    store = await open_store(str(tmp_path), config=config)
    log = store.directories.create_log(TP)
    for _ in range(9):
        append(log, batch(b"v"))
    log.flush(7)
    await store.directories.directories[0].checkpoint_all()
    bases = [segment.base_offset for segment in log.segments]
    store.kill()
    entries, opened = await load(tmp_path)
    assert (entries, len(bases) > 4) == ([], True)
    assert len(opened) <= 3, "what is scanned, and the one before that"
