"""Idempotence and transactions: what a producer may write, and what is remembered of it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.batch import BatchHeader
from barnabas.protocol.error_code import ErrorCode
from barnabas.storage.producer_snapshot import CorruptSnapshot, decode_snapshot, encode_snapshot
from barnabas.storage.producer_state import (
    MAX_SEQUENCE,
    RECENT_SEQUENCES,
    BatchMetadata,
    EndTxn,
    ProducerEntry,
    ProducerRejection,
    ProducerState,
)

PRODUCER = 7


def header(first, count=1, *, epoch=0, transactional=False, timestamp=100, producer=PRODUCER):
    return BatchHeader(
        base_offset=0,
        length=100,
        leader_epoch=0,
        magic=2,
        crc=0,
        attributes=0x10 if transactional else 0,
        last_offset_delta=count - 1,
        first_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=first,
        record_count=count,
    )


def appended(*headers, state=None):
    state = state or ProducerState()
    for one in headers:
        assert state.check_batch(one) is None
        state.apply_batch(one, base_offset=state.end_offset)
        state.end_offset += one.record_count
    return state


def rejection(state, one):
    with pytest.raises(ProducerRejection) as raised:
        state.check_batch(one)
    return raised.value.error


def test_sequences_continue_and_a_gap_or_a_step_back_is_refused():
    state = appended(header(0, 3), header(3))
    assert state.check_batch(header(4)) is None
    assert rejection(state, header(5)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert rejection(state, header(1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_the_last_five_batches_are_recognised_as_duplicates():
    state = appended(*[header(number * 2, 2) for number in range(7)])
    for number in range(2, 7):
        duplicate = state.check_batch(header(number * 2, 2))
        assert (duplicate.first_offset, duplicate.last_offset) == (number * 2, number * 2 + 1)
        assert duplicate.first_sequence == number * 2
    assert rejection(state, header(2, 2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    for first, count in ((12, 1), (13, 1), (11, 3)):
        assert rejection(state, header(first, count)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "another span"


def test_a_late_retry_of_a_batch_before_those_that_are_kept_is_known_to_be_appended():
    state = appended(*[header(number * 2, 2) for number in range(9)])
    assert state.find_earlier(header(4, 2)) == 8, "the offset where the oldest of the five begins"
    assert state.find_earlier(header(2, 3)) == 8, "whatever its span"
    assert state.find_earlier(header(0, 2)) is None, "as one that begins again"
    assert state.find_earlier(header(7, 2)) is None, "it reaches into what is kept"
    assert state.find_earlier(header(20, 2)) is None, "it is ahead"
    assert state.find_earlier(header(2, 2, epoch=1)) is None
    assert state.find_earlier(header(2, 2, producer=PRODUCER + 1)) is None


def test_what_lies_far_back_is_no_late_retry():
    state = appended(header(0, RECENT_SEQUENCES), *[header(RECENT_SEQUENCES + number) for number in range(9)])
    first_kept = RECENT_SEQUENCES + 4
    assert state.find_earlier(header(first_kept - RECENT_SEQUENCES)) == first_kept
    assert state.find_earlier(header(first_kept - RECENT_SEQUENCES - 1)) is None
    wrapped = appended(*[header((MAX_SEQUENCE - 5 + number) & MAX_SEQUENCE) for number in range(10)])
    assert wrapped.find_earlier(header(MAX_SEQUENCE - 4)) == 5


def test_what_lies_before_the_first_batch_of_an_unknown_producer_may_never_have_been_appended():
    """It was refused, and the one behind it taken, for nothing was known of its producer."""
    state = appended(*(header(number) for number in range(6, 13)))
    assert state.find_earlier(header(5)) is None
    assert state.find_earlier(header(5, 2)) is None
    assert state.find_earlier(header(6)) == 2
    restored = ProducerState(decode_snapshot(encode_snapshot(state)), end_offset=7)
    appended(*(header(number) for number in range(13, 20)), state=restored)
    assert restored.find_earlier(header(11)) is None, "a snapshot tells the last batch, not what was before it"
    assert restored.find_earlier(header(12)) is not None
    late = appended(header(0), header(1), header(2))
    late.apply_batch(header(7), base_offset=3)
    assert rejection(late, header(3)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert late.find_earlier(header(3)) is None, "the cleaner took what was between"


def test_a_sequence_wraps_from_the_greatest_to_zero():
    state = appended(header(MAX_SEQUENCE - 1, 2))
    assert state.check_batch(header(0)) is None
    wrapping = appended(header(MAX_SEQUENCE - 1), header(MAX_SEQUENCE, 3))
    assert wrapping.get(PRODUCER).last_sequence == 1
    assert wrapping.check_batch(header(2)) is None
    assert wrapping.check_batch(header(MAX_SEQUENCE, 3)).first_sequence == MAX_SEQUENCE
    assert rejection(wrapping, header(0)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_unknown_producer_may_start_anywhere():
    assert ProducerState().check_batch(header(55, epoch=9)) is None


def test_a_new_epoch_starts_at_zero_and_forgets_the_old_batches():
    state = appended(header(0, 5))
    assert rejection(state, header(5, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    appended(header(0, 5, epoch=1), state=state)
    assert rejection(state, header(0, 5, epoch=0)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert len(state.get(PRODUCER).batches) == 1


def test_checking_changes_nothing():
    state = appended(header(0))
    before = encode_snapshot(state)
    state.check_batch(header(1))
    rejection(state, header(9))
    state.check_batch(header(0))
    assert encode_snapshot(state) == before


def test_what_a_leader_accepted_is_applied_whatever_it_says():
    state = appended(header(0, epoch=3))
    state.apply_batch(header(40, epoch=1), base_offset=1)
    assert (state.get(PRODUCER).epoch, state.get(PRODUCER).last_sequence) == (1, 40)


def test_a_transaction_is_unstable_until_the_high_watermark_has_passed_its_marker():
    state = appended(header(0, 4, transactional=True))
    assert state.first_unstable_offset == 0
    done = state.apply_marker(header(-1), EndTxn(commit=False, coordinator_epoch=3), offset=4, timestamp=100)
    assert (done.first_offset, done.last_offset, done.aborted) == (0, 4, True)
    assert state.last_stable_offset_after(done) == 5
    state.apply_high_watermark(4)
    assert state.first_unstable_offset == 0
    state.apply_high_watermark(5)
    assert state.first_unstable_offset is None


def test_the_earliest_open_transaction_bounds_the_others():
    state = appended(header(0, 2, transactional=True), header(0, 2, transactional=True, producer=8))
    done = state.apply_marker(header(-1, producer=8), EndTxn(True, 0), offset=4, timestamp=100)
    assert state.last_stable_offset_after(done) == 0
    assert state.first_unstable_offset == 0


def test_a_batch_outside_of_the_open_transaction_is_refused():
    state = appended(header(0, transactional=True))
    assert rejection(state, header(1)) is ErrorCode.INVALID_TXN_STATE
    assert state.check_batch(header(1, transactional=True)) is None


def test_a_sequence_of_an_ended_transaction_is_no_duplicate():
    """librdkafka aborts, and numbers the next transaction from where it had something to try again."""
    state = appended(*(header(2 * number, 2, transactional=True) for number in range(6)))
    assert state.check_batch(header(10, 2, transactional=True)).last_offset == 11
    assert state.find_earlier(header(1, transactional=True)) == 2

    def refused():
        return [
            rejection(state, header(10, 2, transactional=True)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            state.find_earlier(header(1, transactional=True)) is None,
        ]

    state.apply_marker(header(-1), EndTxn(False, 0), offset=12, timestamp=0)
    state.end_offset = 13
    assert refused() == [True, True]
    appended(header(12, transactional=True), state=state)
    assert refused() == [True, True], "nor when the next has begun"
    assert state.check_batch(header(12, transactional=True)).last_offset == 13


def test_a_stale_marker_is_refused():
    state = appended(header(0, epoch=2, transactional=True))
    state.apply_marker(header(-1, epoch=2), EndTxn(True, 5), offset=1, timestamp=0)
    for marker, epoch, error in (
        (EndTxn(True, 5), 1, ErrorCode.INVALID_PRODUCER_EPOCH),
        (EndTxn(True, 4), 2, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
    ):
        with pytest.raises(ProducerRejection) as raised:
            state.check_marker(header(-1, epoch=epoch), marker)
        assert raised.value.error is error
    state.check_marker(header(-1, epoch=3), EndTxn(False, 5))


def test_a_marker_of_a_higher_epoch_resets_the_sequence():
    state = appended(header(0, 3, transactional=True))
    state.apply_marker(header(-1, epoch=1), EndTxn(False, 0), offset=3, timestamp=0)
    assert state.check_batch(header(0, epoch=1)) is None
    assert rejection(state, header(3, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_coordinators_batch_needs_an_epoch_but_no_sequence():
    state = appended(header(0, epoch=2, transactional=True))
    state.check_coordinator_batch(header(-1, epoch=2, transactional=True))
    with pytest.raises(ProducerRejection):
        state.check_coordinator_batch(header(-1, epoch=1, transactional=True))
    with pytest.raises(ProducerRejection):
        state.check_coordinator_batch(header(-1, epoch=2))


def test_idle_producers_expire_but_not_those_with_an_open_transaction():
    state = appended(header(0, timestamp=100), header(0, timestamp=100, transactional=True, producer=8))
    assert state.remove_expired(now_ms=99, expiration_ms=1000) == 0
    assert state.remove_expired(now_ms=1099, expiration_ms=1000) == 0
    assert state.remove_expired(now_ms=1100, expiration_ms=1000) == 1
    assert [entry.producer_id for entry in state] == [8]


@pytest.mark.parametrize("timestamp", [-1, 100])
def test_who_writes_old_records_is_no_idler(timestamp: int):
    """KAFKA-6817: a backfill's producer was forgotten between two batches, and its retry was written twice."""
    state = appended(header(0, timestamp=timestamp))
    assert state.remove_expired(now_ms=10_000, expiration_ms=1000) == 0
    assert state.remove_expired(now_ms=10_999, expiration_ms=1000) == 0
    state.apply_batch(header(1, timestamp=timestamp), base_offset=1)
    assert state.remove_expired(now_ms=12_000, expiration_ms=1000) == 0
    assert state.remove_expired(now_ms=13_000, expiration_ms=1000) == 1


def test_a_producer_of_which_only_a_marker_is_known_is_kept_from_then_on():
    """KAFKA-9144: a coordinator's abort left it without a time, so that it went at once and a zombie could write."""
    state = ProducerState()
    state.apply_marker(header(-1, epoch=2), EndTxn(commit=False, coordinator_epoch=3), offset=0, timestamp=100)
    assert state.remove_expired(now_ms=100, expiration_ms=1000) == 0
    assert state.remove_expired(now_ms=1099, expiration_ms=1000) == 0
    assert rejection(state, header(0, epoch=1, transactional=True)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert state.remove_expired(now_ms=1100, expiration_ms=1000) == 1


def test_a_snapshot_is_kafkas_bytes():
    entry = ProducerEntry(1, 2, 3, 4, -1, [BatchMetadata(5, 6, 0, 4)])
    data = encode_snapshot([entry])
    assert data.hex() == (
        "0001" + data[2:6].hex() + "00000001" + "0000000000000001" + "0002" + "00000005" + "0000000000000006"
        "00000000" + "0000000000000004" + "00000003" + "ffffffffffffffff"
    )
    assert decode_snapshot(data) == [entry]


def test_a_snapshot_keeps_the_last_batch_and_the_open_transaction():
    state = appended(header(0, 2, transactional=True), header(2, transactional=True))
    restored = ProducerState(decode_snapshot(encode_snapshot(state)), end_offset=3)
    assert restored.first_unstable_offset == 0
    assert restored.check_batch(header(3, transactional=True)) is None
    assert restored.check_batch(header(2, transactional=True)).last_offset == 2


@given(st.binary(max_size=120))
def test_no_garbage_is_taken_for_a_snapshot(data):
    with pytest.raises(CorruptSnapshot):
        decode_snapshot(data)


@given(st.data())
def test_no_changed_bit_of_a_snapshot_is_overlooked(data):
    snapshot = bytearray(encode_snapshot(appended(header(0, 2), header(0, producer=8))))
    place = data.draw(st.integers(0, len(snapshot) * 8 - 1))
    snapshot[place // 8] ^= 1 << place % 8
    with pytest.raises(CorruptSnapshot):
        decode_snapshot(bytes(snapshot))


@given(
    st.lists(
        st.builds(
            ProducerEntry,
            st.integers(0, 2**63 - 1),
            st.integers(-1, 2**15 - 1),
            st.integers(-1, 2**31 - 1),
            st.integers(-1, 2**63 - 1),
            st.integers(-1, 2**63 - 1),
            st.just([]),
        )
    )
)
def test_snapshots_survive_a_round_trip(entries):
    assert decode_snapshot(encode_snapshot(entries)) == [replace(entry) for entry in entries]
