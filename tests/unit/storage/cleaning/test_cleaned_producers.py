"""Transactions, markers and the last batches of producers through a cleaning (museum 47 to 49)."""

from dataclasses import replace

import pytest

from barnabas.protocol.batch import Codec, seal
from barnabas.protocol.records import ControlRecordType, EndTxnMarker, build_end_txn_marker
from barnabas.storage.cleaning.cleaned_transactions import CleanedTransactions
from barnabas.storage.txn_index import AbortedTxn
from tests.unit.storage.cleaning.segment_world import LIMITS, NOW, SegmentWorld

APART = replace(LIMITS, segment_bytes=1)
MARKER_KEYS = ("\x00\x00\x00\x00", "\x00\x00\x00\x01")


@pytest.fixture
def log(tmp_path) -> SegmentWorld:
    return SegmentWorld(str(tmp_path))


def forget_producers(log: SegmentWorld) -> None:
    """As if all of them had been idle for long."""
    for now_ms in (NOW, NOW * 2):
        log.producers.remove_expired(now_ms=now_ms, expiration_ms=1)
    assert len(log.producers) == 0


def clean_late(log: SegmentWorld) -> None:
    """A cleaning after which everything is in the clean part, and one for which all tombstones are too old."""
    log.clean()
    log.put(("later", "1"))
    log.roll(modified_ms=NOW + 1000)
    log.clean(retention_ms=0)
    log.put(("even later", "1"))
    log.roll(modified_ms=NOW + 2000)
    log.clean(retention_ms=0)


def test_aborted_records_go_at_once_and_supersede_nothing(log: SegmentWorld) -> None:
    log.put(("a", "good"))
    log.put(("a", "aborted"), ("b", "aborted"), producer=(1, 0, 0), transactional=True)
    log.end(1, 0, commit=False)
    log.put(("c", "good"), producer=(1, 0, 2), transactional=True)
    log.end(1, 0, commit=True)
    log.roll()
    log.clean()
    assert log.pairs() == [(0, "a", "good"), (4, "c", "good")]


def test_a_transaction_over_several_segments_is_one(log: SegmentWorld) -> None:
    # KAFKA-8351
    log.put(("a", "good"))
    log.put(("a", "aborted"), producer=(1, 0, 0), transactional=True)
    log.roll()
    log.put(("x", "1"), producer=(2, 0, 0), transactional=True)
    log.put(("b", "aborted"), producer=(1, 0, 1), transactional=True)
    log.roll()
    log.end(1, 0, commit=False)
    log.end(2, 0, commit=True)
    log.roll()
    forget_producers(log)
    log.clean(log.job(limits=APART))
    assert log.pairs() == [(0, "a", "good"), (2, "x", "1")]
    assert log.markers() == [4, 5]


def test_an_abort_in_a_segment_that_is_not_cleaned_counts(log: SegmentWorld) -> None:
    log.put(("a", "good"))
    log.put(("a", "aborted"), producer=(1, 0, 0), transactional=True)
    log.roll()
    log.put(("b", "aborted"), producer=(1, 0, 1), transactional=True)
    log.end(1, 0, commit=False)
    log.clean()
    assert [record.offset for record in log.records()] == [0, 2]
    assert [record.offset for record in log.records(committed=True)] == [0]


def test_a_marker_stays_while_a_record_of_its_transaction_does(log: SegmentWorld) -> None:
    log.put(("a", "1"), producer=(1, 0, 0), transactional=True)
    commit = log.end(1, 0, commit=True)
    log.roll()
    forget_producers(log)
    clean_late(log)
    assert log.markers() == [commit]


def test_a_marker_without_a_record_goes_when_its_time_has_come(log: SegmentWorld) -> None:
    log.put(("a", "1"), producer=(1, 0, 0), transactional=True)
    log.end(1, 0, commit=True)
    log.put(("b", "1"), producer=(2, 0, 0), transactional=True)
    log.end(2, 0, commit=False)
    log.put(("a", "2"))
    log.roll()
    forget_producers(log)
    log.clean()
    assert log.markers() == [1, 3], "their records went only now"
    assert [txn.producer_id for txn in log.aborted[0]] == [2]
    log.put(("x", "1"))
    log.roll(modified_ms=NOW + 1000)
    log.clean(retention_ms=1)
    assert log.markers() == [1, 3], "their time has not come"
    assert log.aborted[0] == []
    log.put(("y", "1"))
    log.roll(modified_ms=NOW + 2000)
    log.clean(retention_ms=0)
    assert log.markers() == []


@pytest.mark.parametrize("key", MARKER_KEYS)
def test_a_record_with_the_key_of_a_marker_removes_no_marker(log: SegmentWorld, key: str) -> None:
    # KAFKA-14055
    log.put(("a", "1"), producer=(1, 0, 0), transactional=True)
    commit = log.end(1, 0, commit=True)
    log.put(("b", "1"), producer=(1, 0, 1), transactional=True)
    abort = log.end(1, 0, commit=False)
    log.put((key, "1"))
    log.roll()
    log.clean()
    assert log.markers() == [commit, abort]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_the_last_batch_of_an_active_producer_stays_without_its_records(log: SegmentWorld, codec: Codec) -> None:
    # KAFKA-5490, KAFKA-7385
    log.put(("a", "1"), producer=(5, 3, 0))
    log.put(("a", "2"), ("a", "3"), producer=(5, 3, 1), codec=codec)
    log.put(("a", "4"))
    log.roll()
    log.clean()
    (empty, data), _ = log.batches()
    assert (empty.base_offset, empty.last_offset, empty.record_count, len(data)) == (1, 2, 0, 61)
    assert (empty.base_sequence, empty.last_sequence, empty.producer_epoch) == (1, 2, 3)
    assert (empty.codec, empty.first_timestamp, empty.max_timestamp) == (Codec.NONE, -1, NOW + 2)
    entry = log.rebuilt_producers().get(5)
    assert entry is not None
    assert (entry.epoch, entry.last_sequence, entry.batches[-1].last_offset) == (3, 2, 2)


def test_an_empty_batch_goes_when_its_producer_has_written_again_or_is_forgotten(log: SegmentWorld) -> None:
    log.put(("a", "1"), producer=(5, 0, 0))
    log.put(("b", "1"), producer=(6, 0, 0))
    log.put(("a", "2"), ("b", "2"))
    log.roll()
    log.clean()
    assert [header.record_count for header, _ in log.batches()] == [0, 0, 2]
    log.put(("c", "1"), producer=(5, 0, 1))
    log.roll()
    log.clean()
    assert [header.producer_id for header, _ in log.batches()] == [6, -1, 5]
    forget_producers(log)
    log.clean()
    assert [header.producer_id for header, _ in log.batches()] == [-1, 5]


def test_the_last_aborted_batch_of_a_producer_is_emptied_and_keeps_its_marker(log: SegmentWorld) -> None:
    log.put(("a", "1"), producer=(5, 0, 7), transactional=True)
    abort = log.end(5, 0, commit=False, coordinator_epoch=4)
    log.roll()
    clean_late(log)
    empty, _ = log.batches()[0]
    assert (empty.record_count, empty.is_transactional) == (0, True)
    assert log.markers() == [abort]
    entry = log.rebuilt_producers().get(5)
    assert entry is not None
    assert (entry.last_sequence, entry.coordinator_epoch, entry.txn_first_offset) == (7, 4, -1)


def test_a_producer_of_which_only_a_marker_is_known_keeps_that_whole(log: SegmentWorld) -> None:
    log.put(("a", "1"), producer=(5, 0, 0), transactional=True)
    fence = log.end(5, 1, commit=False, coordinator_epoch=2)
    log.put(("a", "2"))
    log.roll()
    clean_late(log)
    assert log.markers() == [fence]
    entry = log.rebuilt_producers().get(5)
    assert entry is not None
    assert (entry.epoch, entry.coordinator_epoch) == (1, 2)


def test_control_records_that_end_no_transaction_stay(log: SegmentWorld) -> None:
    base = log.next_offset
    data = bytearray(
        build_end_txn_marker(
            EndTxnMarker(ControlRecordType.ABORT, 0), producer_id=-1, producer_epoch=-1, timestamp=NOW, base_offset=base
        )
    )
    at = bytes(data).index(b"\x00\x00\x00\x00", 61 + 5)
    data[at + 3] = 2  # the type that later versions call leader change
    seal(data, 0)
    log.write(bytes(data))
    log.put(("a", "1"))
    log.roll()
    clean_late(log)
    assert log.markers() == [base]


def test_an_entry_too_many_in_the_aborted_index_costs_no_later_record() -> None:
    transactions = CleanedTransactions([AbortedTxn(1, 10, 19, 20)])
    assert transactions.is_aborted(1, base_offset=10, last_offset=12)
    # Its marker is missing; what comes after the offset where it should be is of another transaction.
    assert not transactions.is_aborted(1, base_offset=20, last_offset=22)
    assert not transactions.may_remove_marker(1, offset=23)
    assert transactions.kept_aborted == []


def test_a_producers_transactions_follow_each_other() -> None:
    transactions = CleanedTransactions([AbortedTxn(1, 0, 2, 3), AbortedTxn(1, 6, 8, 9), AbortedTxn(2, 1, 9, 10)])
    assert transactions.is_aborted(1, base_offset=0, last_offset=0)
    assert transactions.is_aborted(1, base_offset=1, last_offset=1)
    assert not transactions.may_remove_marker(1, offset=2)
    assert not transactions.is_aborted(1, base_offset=3, last_offset=4)
    assert not transactions.may_remove_marker(1, offset=5)
    assert transactions.is_aborted(1, base_offset=6, last_offset=7)
    assert not transactions.may_remove_marker(1, offset=8)
    assert transactions.may_remove_marker(2, offset=9), "no batch of it was met"
    assert [txn.first_offset for txn in transactions.kept_aborted] == [0, 6]
