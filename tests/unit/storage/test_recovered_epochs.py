"""Leader epochs after a crash: what the batches tell, and, where compaction left room, what the checkpoint said."""

import pytest

from barnabas.storage.leader_epochs import EpochEntry, LeaderEpochs
from barnabas.storage.log_config import LogConfig
from tests.unit.storage.logs import TP, batch, replicate
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
