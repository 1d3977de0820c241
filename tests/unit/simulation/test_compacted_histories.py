"""The checker of histories where logs are compacted: what may be gone, and what may not."""

import pytest

from barnabas.simulation.history_check import AnomalyKind
from tests.unit.simulation.histories import PARTITION
from tests.unit.simulation.test_history_check import Log


@pytest.fixture
def log() -> Log:
    """a, b and c are acknowledged at 0, 1 and 2; a and c are of one key."""
    log = Log()
    log.history.compacted[PARTITION] = None
    for value, key in (("a", b"k"), ("b", b"l"), ("c", b"k")):
        log.send(value, key=key)
    return log


def test_a_record_gives_way_to_a_later_one_of_its_key(log: Log) -> None:
    log.read((1, "b"), (2, "c"), position=0)
    log.read_all((1, "b"), (2, "c"))
    assert log.kinds() == set()


def test_where_nothing_is_compacted_it_may_not(log: Log) -> None:
    log.history.compacted.clear()
    log.read_all((1, "b"), (2, "c"))
    assert log.kinds() == {AnomalyKind.LOST, AnomalyKind.SKIPPING_POLL}


def test_the_last_of_a_key_is_kept(log: Log) -> None:
    log.read_all((0, "a"), (2, "c"))
    assert log.kinds() == {AnomalyKind.LOST, AnomalyKind.SKIPPING_POLL}


def test_the_last_of_a_key_at_the_end_is_kept(log: Log) -> None:
    log.read_all((0, "a"), (1, "b"))
    assert log.kinds() == {AnomalyKind.UNSEEN}


def test_a_tombstone_takes_its_key_along_and_goes(log: Log) -> None:
    log.send("d", key=b"k", is_tombstone=True)
    log.read_all((1, "b"))
    assert log.kinds() == set()


def test_a_tombstone_that_nobody_acknowledged_may_have_done_its_work(log: Log) -> None:
    log.history.produce("p", PARTITION, b"d", log.tick(), key=b"k", is_tombstone=True)
    log.read_all((1, "b"))
    assert log.kinds() == set()


def test_a_tombstone_of_another_key_takes_nothing(log: Log) -> None:
    log.history.produce("p", PARTITION, b"d", log.tick(), key=b"l", is_tombstone=True)
    log.read_all((1, "b"))
    assert log.kinds() == {AnomalyKind.UNSEEN}


def test_what_is_kept_stays_in_its_place(log: Log) -> None:
    log.read_all((1, "b"), (3, "c"))
    assert AnomalyKind.DUPLICATE in log.kinds()
