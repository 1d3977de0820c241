"""Transactional data, as replication and recovery bring it: the last stable offset and the aborted transactions."""

from barnabas.protocol.records import ControlRecordType, EndTxnMarker, build_end_txn_marker
from barnabas.storage.append import AppendOrigin
from barnabas.storage.log_config import LogConfig
from barnabas.storage.txn_index import AbortedTxn, decode_aborted, encode_aborted, search_aborted
from tests.unit.storage.logs import NOW, TP, append, batch, make_log, read_bytes
from tests.unit.storage.stores import open_store


def data(log, producer, *, count=1, sequence=0):
    values = [b"v" * 30] * count
    append(log, batch(*values, producer=(producer, 0, sequence), transactional=True))


def end(log, producer, kind, *, epoch=0):
    marker = EndTxnMarker(kind, coordinator_epoch=1)
    records = build_end_txn_marker(marker, producer_id=producer, producer_epoch=epoch, timestamp=NOW)
    view = memoryview(bytearray(records))
    log.append(view, leader_epoch=0, origin=AppendOrigin.COORDINATOR, now_ms=NOW)


def fill(log):
    """1 aborts [0, 4], 2 commits [2, 3], 3 aborts [5, 8], 4 stays open from 7."""
    data(log, 1, count=2)
    data(log, 2)
    end(log, 2, ControlRecordType.COMMIT)
    end(log, 1, ControlRecordType.ABORT)
    data(log, 3, count=2)
    data(log, 4)
    end(log, 3, ControlRecordType.ABORT)


def open_transactions(log):
    """First offsets of the transactions without a marker."""
    return sorted(entry.txn_first_offset for entry in log.producers if entry.txn_first_offset >= 0)


EXPECTED = [AbortedTxn(1, 0, 4, 5), AbortedTxn(3, 5, 8, 7)]


def test_the_last_stable_offset_follows_markers_and_high_watermark(tmp_path):
    log = make_log(str(tmp_path))
    assert log.last_stable_offset == 0
    fill(log)
    assert log.last_stable_offset == 0, "nothing is stable above the high watermark"
    log.advance_high_watermark(5)
    assert log.last_stable_offset == 5
    log.advance_high_watermark(8)
    assert log.last_stable_offset == 5, "the marker of the transaction from 5 on is not below the high watermark"
    log.advance_high_watermark(9)
    assert log.last_stable_offset == 7, "the open transaction"
    end(log, 4, ControlRecordType.COMMIT)
    log.advance_high_watermark(10)
    assert log.last_stable_offset == 10


def test_a_reader_gets_the_aborted_transactions_of_its_range(tmp_path):
    log = make_log(str(tmp_path))
    fill(log)
    assert log.aborted_transactions(start=0, upper=9) == EXPECTED
    assert log.aborted_transactions(start=0, upper=5) == EXPECTED[:1]
    assert log.aborted_transactions(start=5, upper=9) == EXPECTED[1:]
    assert log.aborted_transactions(start=2, upper=3) == EXPECTED[:1]
    read = log.read(0, max_bytes=10_000, upper_bound_offset=9, min_one_batch=True)
    assert log.offset_bound(read) >= 9
    read.slice.release()


async def test_aborted_transactions_survive_stops_crashes_and_segments(tmp_path):
    config = LogConfig(segment_bytes=250)
    store = await open_store(str(tmp_path), config=config)
    log = store.directories.create_log(TP)
    fill(log)
    assert len(log.segments) > 3
    await store.directories.directories[0].carry_out_flushes()
    assert log.aborted_transactions(start=0, upper=9) == EXPECTED, "read from closed segments"
    assert len(list((tmp_path / "topic-0").glob("*.txnindex"))) >= 1
    store.kill()
    store = await open_store(str(tmp_path), config=config)
    log = store.directories.log(TP)
    assert log.aborted_transactions(start=0, upper=9) == EXPECTED
    assert open_transactions(log) == [7]
    await store.directories.close()
    store = await open_store(str(tmp_path), config=config)
    log = store.directories.log(TP)
    assert log.aborted_transactions(start=0, upper=9) == EXPECTED
    log.advance_high_watermark(9)
    assert log.last_stable_offset == 7


async def test_a_damaged_transaction_index_is_built_again(tmp_path, caplog):
    store = await open_store(str(tmp_path))
    fill(store.directories.create_log(TP))
    await store.directories.close()
    (tmp_path / "topic-0/00000000000000000000.txnindex").write_bytes(b"\x01" * 34)
    store = await open_store(str(tmp_path))
    assert store.directories.log(TP).aborted_transactions(start=0, upper=9) == EXPECTED


async def test_truncation_forgets_what_it_cuts(tmp_path):
    store = await open_store(str(tmp_path))
    log = store.directories.create_log(TP)
    fill(log)
    await store.directories.truncate({TP: 7})
    assert log.aborted_transactions(start=0, upper=9) == EXPECTED[:1]
    assert open_transactions(log) == [5]
    assert log.producers.get(4) is None


def test_a_marker_without_records_needs_no_transaction(tmp_path):
    log = make_log(str(tmp_path))
    end(log, 9, ControlRecordType.ABORT)
    assert log.aborted_transactions(start=0, upper=1) == [AbortedTxn(9, 0, 0, 1)]
    log.advance_high_watermark(1)
    assert log.last_stable_offset == 1


def test_a_followers_markers_end_transactions_too(tmp_path):
    leader = make_log(str(tmp_path / "leader"))
    fill(leader)
    follower = make_log(str(tmp_path / "follower"))
    follower.append(memoryview(read_bytes(leader, 0)), leader_epoch=-1, origin=AppendOrigin.REPLICATION, now_ms=NOW)
    assert follower.aborted_transactions(start=0, upper=9) == EXPECTED
    assert read_bytes(follower, 0) == read_bytes(leader, 0)


def test_the_bytes_of_the_index_are_kafkas():
    txn = AbortedTxn(1, 2, 3, 4)
    assert encode_aborted([txn]).hex() == "0000" + "".join(f"{number:016x}" for number in (1, 2, 3, 4))
    assert decode_aborted(encode_aborted([txn]), base_offset=0) == [txn]


def test_a_search_ends_where_no_later_entry_can_matter():
    transactions = [AbortedTxn(1, 0, 5, 3), AbortedTxn(2, 3, 9, 10), AbortedTxn(3, 0, 50, 60)]
    search = search_aborted(transactions, start=0, upper=10)
    assert (search.transactions, search.complete) == (transactions[:2], True)
    assert not search_aborted(transactions, start=0, upper=100).complete
