"""Which leader epochs a log has that is fetched anew: what the batches tell, and what its list says beside them."""

from collections.abc import Sequence

import pytest

from barnabas.storage.leader_epochs import EpochEntry
from replication.log_renewal import ToldEpochs
from tests.unit.storage.logs import batch

BATCHES = ((0, 0), (10, 0), (63, 3), (64, 3), (90, 4))
"""Base offset and epoch, of one record each."""


def told(*said: tuple[int, int], meanwhile: Sequence[tuple[int, int]] = ()) -> list[tuple[int, int]]:
    entries = [EpochEntry(*entry) for entry in said]
    epochs = ToldEpochs(entries, end_offset=0)
    for base_offset, epoch in BATCHES:
        epochs.note(memoryview(batch(b"v", base_offset=base_offset, leader_epoch=epoch)))
    now = [*entries, *(EpochEntry(*entry) for entry in meanwhile)]
    return [(entry.epoch, entry.start_offset) for entry in epochs.complete(now).entries]


@pytest.mark.parametrize(
    ("said", "entries"),
    [
        pytest.param([], [(0, 0), (3, 63), (4, 90)], id="nothing is said"),
        pytest.param([(0, 0), (3, 40), (4, 80)], [(0, 0), (3, 40), (4, 80)], id="they began where nothing is left"),
        pytest.param([(0, 0), (3, 5), (4, 90)], [(0, 0), (3, 63), (4, 90)], id="one begins too early"),
        pytest.param([(0, 0), (3, 64), (4, 90)], [(0, 0), (3, 63), (4, 90)], id="one begins too late"),
        pytest.param([(0, 0), (1 << 30, 10)], [(0, 0), (3, 63), (4, 90)], id="one was made up"),
        pytest.param([(4, 90), (6, 95)], [(0, 0), (3, 63), (4, 90), (6, 95)], id="one is behind all batches"),
        pytest.param([(2, 95)], [(0, 0), (3, 63), (4, 90)], id="an earlier one cannot be behind them"),
    ],
)
def test_no_list_knows_better_than_a_batch(said: list[tuple[int, int]], entries: list[tuple[int, int]]) -> None:
    assert told(*said) == entries


def test_an_epoch_that_came_while_the_batches_were_fetched_stays() -> None:
    assert told((0, 0), meanwhile=[(6, 95)]) == [(0, 0), (3, 63), (4, 90), (6, 95)]
