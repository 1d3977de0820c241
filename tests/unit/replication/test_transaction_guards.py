import pytest

from barnabas.protocol.batch import read_header
from barnabas.protocol.error_code import ErrorCode
from barnabas.storage.producer_state import EndTxn, ProducerState
from replication.transaction_guards import Guard, NotVerified, TransactionGuards, is_transactional
from tests.unit.storage.logs import batch

PRODUCER = (7, 0, 0)


def first(producer: tuple[int, int, int] = PRODUCER) -> memoryview:
    return batch(b"a", producer=producer, transactional=True)


def needed(guards: TransactionGuards, producers: ProducerState, records: memoryview) -> Guard:
    with pytest.raises(NotVerified) as unverified:
        guards.require(records, producers)
    return unverified.value.guard


def with_open_transaction() -> ProducerState:
    producers = ProducerState()
    producers.apply_batch(read_header(first()), base_offset=0)
    return producers


def test_a_batch_that_begins_a_transaction_passes_once_its_guard_is_confirmed() -> None:
    guards, producers = TransactionGuards(), ProducerState()
    guard = needed(guards, producers, first())
    assert needed(guards, producers, first()) is guard
    guards.answer(guard, ErrorCode.NONE)
    guards.require(first(), producers)


def test_a_batch_of_an_open_transaction_needs_no_guard() -> None:
    guards = TransactionGuards()
    guards.require(first((7, 0, 1)), with_open_transaction())
    assert not len(guards)


def test_an_answer_that_a_marker_overtook_confirms_nothing() -> None:
    guards, producers = TransactionGuards(), ProducerState()
    guard = needed(guards, producers, first())
    guards.on_marker(7)
    guards.answer(guard, ErrorCode.NONE)
    assert needed(guards, producers, first()) is not guard


def test_a_confirmed_beginning_ends_with_the_marker() -> None:
    guards, producers = TransactionGuards(), ProducerState()
    guards.answer(needed(guards, producers, first()), ErrorCode.NONE)
    guards.on_marker(7)
    needed(guards, producers, first())


def test_a_guard_tells_the_epoch_of_the_coordinator_whose_marker_came_last() -> None:
    guards, producers = TransactionGuards(), ProducerState()
    assert needed(guards, producers, first()).marked_epoch == -1
    guards.on_marker(7)
    marked = with_open_transaction()
    marked.apply_marker(read_header(first()), EndTxn(commit=False, coordinator_epoch=6), offset=1, timestamp=0)
    assert needed(guards, marked, first((7, 0, 1))).marked_epoch == 6


def test_a_guard_is_of_one_epoch() -> None:
    guards, producers = TransactionGuards(), ProducerState()
    guards.answer(needed(guards, producers, first()), ErrorCode.NONE)
    guards.answer(needed(guards, producers, first((7, 1, 0))), ErrorCode.NONE)
    guards.require(first((7, 1, 0)), producers)


def test_an_open_transaction_of_an_earlier_epoch_lets_no_later_one_begin() -> None:
    needed(TransactionGuards(), with_open_transaction(), first((7, 1, 0)))


def test_the_answer_to_an_earlier_question_changes_nothing_of_a_later_one() -> None:
    guards, producers = TransactionGuards(), ProducerState()
    earlier = needed(guards, producers, first())
    guards.on_marker(7)
    guards.answer(needed(guards, producers, first()), ErrorCode.NONE)
    guards.answer(earlier, ErrorCode.INVALID_TXN_STATE)
    guards.require(first(), producers)


def test_a_guard_ends_with_the_leadership() -> None:
    guards, producers = TransactionGuards(), ProducerState()
    guards.answer(needed(guards, producers, first()), ErrorCode.NONE)
    guards.clear()
    needed(guards, producers, first())


def test_a_coordinator_that_says_no_is_asked_anew_by_the_next_batch() -> None:
    guards, producers = TransactionGuards(), ProducerState()
    guard = needed(guards, producers, first())
    guards.answer(guard, ErrorCode.INVALID_TXN_STATE)
    assert not len(guards)
    assert needed(guards, producers, first()).answer is None


def test_what_the_log_refuses_itself_needs_no_guard() -> None:
    guards = TransactionGuards()
    producers = with_open_transaction()
    marker = read_header(first())
    producers.apply_marker(marker, EndTxn(commit=True, coordinator_epoch=0), offset=1, timestamp=0)
    # A retry of the first batch is a duplicate, one out of order is refused, and a damaged one as well.
    guards.require(first(), producers)
    guards.require(first((7, 0, 5)), producers)
    damaged = first((8, 0, 0))
    damaged[-1] ^= 1
    guards.require(damaged, producers)
    assert not len(guards)
    needed(guards, producers, first((7, 0, 1)))


def test_only_data_in_transactions_is_looked_at() -> None:
    assert is_transactional(first())
    assert not is_transactional(batch(b"a"))
    assert not is_transactional(memoryview(bytearray(10)))


def test_a_coordinators_batch_may_begin_only_what_is_confirmed() -> None:
    guards, producers = TransactionGuards(), ProducerState()
    guard = guards.needed(7, 0, producers)
    assert guard is not None
    guards.answer(guard, ErrorCode.NONE)
    assert guards.needed(7, 0, producers) is None
    assert TransactionGuards().needed(7, 0, with_open_transaction()) is None
