import pytest

from barnabas.coordinator.transaction_records import TransactionMetadata, TransactionState
from barnabas.coordinator.transactions.producer_identity import (
    EXHAUSTED_EPOCH,
    Fenced,
    Identified,
    NewIdNeeded,
    ProducerIdentity,
    Renewal,
    identify,
)


def known(producer_epoch: int) -> TransactionMetadata:
    return TransactionMetadata(7, producer_epoch, 60_000, TransactionState.EMPTY, (), 0, -1)


def test_a_new_transactional_id_asks_for_a_producer_id_and_gets_epoch_0() -> None:
    assert isinstance(identify(None, None, expected=None, fresh_producer_id=None), NewIdNeeded)
    found = identify(None, None, expected=None, fresh_producer_id=9)
    assert found == Identified(ProducerIdentity(9, 0), None)


def test_who_begins_fences_its_predecessor_with_the_next_epoch() -> None:
    found = identify(known(3), None, expected=None, fresh_producer_id=None)
    assert found == Identified(ProducerIdentity(7, 4), None)


def test_who_goes_on_gets_the_next_epoch_and_the_same_one_when_it_asks_again() -> None:
    mine = ProducerIdentity(7, 3)
    found = identify(known(3), None, expected=mine, fresh_producer_id=None)
    assert isinstance(found, Identified)
    assert found.identity == ProducerIdentity(7, 4)
    assert identify(known(4), found.renewal, expected=mine, fresh_producer_id=None) == found


def test_a_retry_is_fenced_once_another_producer_has_begun() -> None:
    mine = ProducerIdentity(7, 3)
    renewal = Renewal(ProducerIdentity(7, 4), mine)
    assert isinstance(identify(known(5), renewal, expected=mine, fresh_producer_id=None), Fenced)


@pytest.mark.parametrize("stranger", [ProducerIdentity(7, 2), ProducerIdentity(7, 4), ProducerIdentity(8, 3)])
def test_any_other_identity_is_fenced(stranger: ProducerIdentity) -> None:
    assert isinstance(identify(known(3), None, expected=stranger, fresh_producer_id=1), Fenced)


def test_the_last_epoch_but_one_is_handed_out_and_the_last_is_kept_for_a_fence() -> None:
    found = identify(known(EXHAUSTED_EPOCH - 1), None, expected=None, fresh_producer_id=None)
    assert found == Identified(ProducerIdentity(7, 2**15 - 2), None)


@pytest.mark.parametrize("producer_epoch", [EXHAUSTED_EPOCH, EXHAUSTED_EPOCH + 1])
def test_used_up_epochs_make_a_new_id(producer_epoch: int) -> None:
    assert isinstance(identify(known(producer_epoch), None, expected=None, fresh_producer_id=None), NewIdNeeded)
    found = identify(known(producer_epoch), None, expected=None, fresh_producer_id=9)
    assert found == Identified(ProducerIdentity(9, 0), None)


def test_who_goes_on_with_a_new_id_hears_of_the_same_one_when_it_asks_again() -> None:
    mine = ProducerIdentity(7, EXHAUSTED_EPOCH)
    found = identify(known(EXHAUSTED_EPOCH), None, expected=mine, fresh_producer_id=9)
    assert isinstance(found, Identified)
    now_known = known(0)._replace(producer_id=9)
    assert identify(now_known, found.renewal, expected=mine, fresh_producer_id=None) == found
