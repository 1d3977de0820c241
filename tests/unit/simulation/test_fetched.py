"""What a fetch gave is read without control records, and without records of the aborted transactions that are named."""

from barnabas.protocol.records import ControlRecordType, EndTxnMarker, Record, build_batch, build_end_txn_marker
from barnabas.simulation.fetched import decode_fetched


def _data(offset: int, *values: bytes, producer_id: int, transactional: bool = True) -> bytes:
    records = [Record(0, 1, None, value, ()) for value in values]
    return build_batch(
        records, base_offset=offset, producer_id=producer_id, producer_epoch=0, transactional=transactional
    )


def _end(offset: int, kind: ControlRecordType, *, producer_id: int) -> bytes:
    marker = EndTxnMarker(kind, 0)
    return build_end_txn_marker(marker, producer_id=producer_id, producer_epoch=0, timestamp=1, base_offset=offset)


_LOG = b"".join(
    [
        _data(0, b"a", producer_id=1),
        _data(1, b"b", b"c", producer_id=2),
        _end(3, ControlRecordType.ABORT, producer_id=1),
        _end(4, ControlRecordType.COMMIT, producer_id=2),
        _data(5, b"d", producer_id=1),
        _data(6, b"e", producer_id=1, transactional=False),
        _end(7, ControlRecordType.COMMIT, producer_id=1),
        _data(8, b"f", producer_id=1),
        _end(9, ControlRecordType.ABORT, producer_id=1),
    ]
)


def test_control_records_are_stepped_over() -> None:
    found, position = decode_fetched(memoryview(_LOG), 0, [])
    assert [value for _, value in found] == [b"a", b"b", b"c", b"d", b"e", b"f"]
    assert position == 10


def test_an_aborted_transaction_ends_at_the_next_marker_of_its_producer() -> None:
    found, position = decode_fetched(memoryview(_LOG), 0, [(1, 8), (1, 0)])
    assert found == [(1, b"b"), (2, b"c"), (5, b"d"), (6, b"e")]
    assert position == 10


def test_a_fetch_may_begin_within_a_batch_and_end_within_another() -> None:
    found, position = decode_fetched(memoryview(_LOG)[:-20], 2, [(1, 0)])
    assert found == [(2, b"c"), (5, b"d"), (6, b"e"), (8, b"f")]
    assert position == 9
