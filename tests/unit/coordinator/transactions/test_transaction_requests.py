from contextlib import nullcontext

import pytest

from barnabas.coordinator.outcome import CoordinatorRecord
from barnabas.coordinator.transaction_records import (
    TransactionState,
    decode_transaction_value,
    encode_transaction_key,
    encode_transaction_value,
)
from barnabas.coordinator.transactions.producer_identity import EXHAUSTED_EPOCH, ProducerIdentity
from barnabas.coordinator.transactions.requests import Filters, Producer
from barnabas.protocol.error_code import ErrorCode
from tests.unit.coordinator.transactions.coordinator_world import T0, T1, CoordinatorWorld


def test_a_transaction_is_begun_decided_and_completed() -> None:
    world = CoordinatorWorld()
    producer = world.producer()
    assert world.add(producer, T0) is ErrorCode.NONE
    assert world.add(producer, T1) is ErrorCode.NONE
    assert world.end(producer, commit=True) is ErrorCode.NONE
    (decided,) = world.effects
    assert (decided.commit, decided.partitions, decided.coordinator_epoch) == (True, (T0, T1), world.epoch)
    world.write_markers()
    assert world.states() == ["EMPTY", "ONGOING", "ONGOING", "PREPARE_COMMIT", "COMPLETE_COMMIT"]


def test_the_start_of_a_transaction_is_when_its_first_partition_came() -> None:
    world = CoordinatorWorld()
    producer = world.producer()
    world.add(producer, T0)
    start_ms = world.wall_ms
    world.advance(500)
    world.add(producer, T1)
    assert world.last().start_timestamp_ms == start_ms
    assert world.last().last_update_timestamp_ms == start_ms + 500


def test_partitions_that_are_in_the_transaction_already_are_not_written_again() -> None:
    world = CoordinatorWorld()
    producer = world.producer()
    world.add(producer, T0, T1)
    written = len(world.log)
    assert world.add(producer, T1) is ErrorCode.NONE
    assert len(world.log) == written


def test_the_next_transaction_holds_nothing_of_the_last_one() -> None:
    world = CoordinatorWorld()
    producer = world.producer()
    world.add(producer, T0)
    world.end(producer, commit=False)
    world.write_markers()
    world.add(producer, T1)
    assert world.last().partitions == (T1,)


def test_a_transaction_without_partitions_is_complete_at_once() -> None:
    world = CoordinatorWorld()
    producer = world.producer()
    world.add(producer)
    assert world.end(producer, commit=True) is ErrorCode.NONE
    assert world.states()[-2:] == ["PREPARE_COMMIT", "COMPLETE_COMMIT"]
    assert not world.effects


def test_an_unknown_id_and_another_producers_id_are_told_apart_from_a_fenced_epoch() -> None:
    world = CoordinatorWorld()
    producer = world.producer()
    for stranger, error in [
        (producer._replace(transactional_id="b"), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (producer._replace(producer_id=1), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (producer._replace(producer_epoch=-1), ErrorCode.PRODUCER_FENCED),
        (producer._replace(producer_epoch=1), ErrorCode.PRODUCER_FENCED),
    ]:
        assert world.add(stranger, T0) is error
        assert world.end(stranger, commit=True) is error
    assert world.states() == ["EMPTY"]


@pytest.mark.parametrize("commit", [True, False])
def test_the_same_decision_is_confirmed_and_the_other_one_refused(commit: bool) -> None:
    world = CoordinatorWorld()
    producer = world.producer()
    assert world.end(producer, commit=commit) is ErrorCode.INVALID_TXN_STATE
    world.add(producer, T0)
    world.end(producer, commit=commit)
    # Markers are on their way: who hears NONE here begins the next transaction, and they would end that (museum 59).
    assert world.end(producer, commit=commit) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.end(producer, commit=not commit) is ErrorCode.INVALID_TXN_STATE
    world.write_markers()
    assert world.end(producer, commit=commit) is ErrorCode.NONE
    assert world.end(producer, commit=not commit) is ErrorCode.INVALID_TXN_STATE


def test_a_producer_that_begins_aborts_what_its_predecessor_has_open() -> None:
    world = CoordinatorWorld()
    zombie = world.producer()
    world.add(zombie, T0)
    ticket = world.begin_initialise()
    (decided,) = world.effects
    assert (decided.commit, decided.producer_epoch) == (False, zombie.producer_epoch + 1)
    assert world.end(zombie, commit=True) is ErrorCode.PRODUCER_FENCED
    world.write_markers()
    error, identity = world.replies[ticket]
    assert error is ErrorCode.NONE
    assert identity == (zombie.producer_id, zombie.producer_epoch + 2)


def test_the_zombie_of_a_running_transaction_cannot_abort_it() -> None:
    world = CoordinatorWorld()
    zombie = world.producer()
    producer = world.producer()
    world.add(producer, T0)
    reply = world.initialise(expected=ProducerIdentity(zombie.producer_id, zombie.producer_epoch))
    assert reply.error is ErrorCode.PRODUCER_FENCED
    assert world.end(producer, commit=True) is ErrorCode.NONE


def test_a_renewal_that_comes_late_does_not_abort_what_the_renewed_producer_began() -> None:
    world = CoordinatorWorld()
    first = world.producer()
    before = ProducerIdentity(first.producer_id, first.producer_epoch)
    renewed = world.initialise(expected=before)
    assert world.initialise(expected=before) == renewed
    producer = Producer("a", *renewed.identity)
    world.add(producer, T0)
    assert world.initialise(expected=before).error is ErrorCode.PRODUCER_FENCED
    assert world.end(producer, commit=True) is ErrorCode.NONE


def test_a_renewal_that_the_log_refused_gives_nobody_the_identity_of_who_began_since() -> None:
    world = CoordinatorWorld()
    zombie = world.producer()
    before = ProducerIdentity(zombie.producer_id, zombie.producer_epoch)
    world.refused = ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.initialise(expected=before).error is not ErrorCode.NONE
    world.refused = None
    producer = world.producer()
    assert producer.producer_epoch == zombie.producer_epoch + 1
    assert world.initialise(expected=before).error is ErrorCode.PRODUCER_FENCED


def test_a_renewal_is_known_again_after_the_log_refused_who_began_anew() -> None:
    world = CoordinatorWorld()
    first = world.producer()
    before = ProducerIdentity(first.producer_id, first.producer_epoch)
    renewed = world.initialise(expected=before)
    world.refused = ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.initialise().error is not ErrorCode.NONE
    world.refused = None
    assert world.initialise(expected=before) == renewed


def test_epochs_run_out_and_a_new_id_begins() -> None:
    world = CoordinatorWorld()
    first = world.producer()
    value = encode_transaction_value(world.last()._replace(producer_epoch=EXHAUSTED_EPOCH - 1))
    world.log = [world.log[0]._replace(value=value)]
    world.load()
    world.begin_initialise()
    last = world.last()
    assert (last.producer_id, last.producer_epoch) == (first.producer_id, EXHAUSTED_EPOCH)
    producer = Producer("a", last.producer_id, last.producer_epoch)
    world.add(producer, T0)
    ticket = world.begin_initialise()
    assert world.last().producer_epoch == EXHAUSTED_EPOCH + 1
    world.write_markers()
    assert ticket in world.replies
    assert world.initialise().identity == (first.producer_id + 1, 0)


@pytest.mark.parametrize(
    ("refused", "heard"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.MESSAGE_TOO_LARGE),
    ],
)
def test_nothing_has_changed_where_the_log_refuses(refused: ErrorCode, heard: ErrorCode) -> None:
    world = CoordinatorWorld()
    producer = world.producer()
    world.add(producer, T0)
    world.refused = refused
    assert world.initialise().error is heard
    assert world.initialise("new").error is heard
    assert world.add(producer, T1) is heard
    assert world.end(producer, commit=True) is heard
    assert not world.effects
    world.refused = None
    assert world.end(producer, commit=True) is ErrorCode.NONE
    assert world.last().partitions == (T0,)


def test_an_epoch_does_not_rise_while_the_log_takes_nothing() -> None:
    """KAFKA-9666."""
    world = CoordinatorWorld()
    producer = world.producer()
    world.add(producer, T0)
    world.refused = ErrorCode.NOT_ENOUGH_REPLICAS
    for _ in range(5):
        assert world.initialise().error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        world.advance(world.settings.timeout_sweep_ms * 10)
    world.refused = None
    world.begin_initialise()
    assert world.last().producer_epoch == producer.producer_epoch + 1


def test_no_open_transaction_is_read_in_the_epoch_that_is_kept_for_its_fence() -> None:
    world = CoordinatorWorld()
    world.add(world.producer(), T0)
    for epoch, told in ((EXHAUSTED_EPOCH, None), (EXHAUSTED_EPOCH + 1, "kept for its fence")):
        record = CoordinatorRecord(
            encode_transaction_key("b"), encode_transaction_value(world.last()._replace(producer_epoch=epoch))
        )
        with pytest.raises(ValueError, match=told) if told else nullcontext():
            world.machine.replay(record, None)


def test_a_description_names_the_partitions_that_lack_their_marker() -> None:
    world = CoordinatorWorld()
    producer = world.producer(timeout_ms=3_000)
    world.add(producer, T0, T1)
    started_ms = world.wall_ms
    world.end(producer, commit=True)
    world.write_markers(T0)
    found = world.replies[world.ask(lambda ticket: world.machine.describe(ticket, "a"))]
    assert (found.state, found.timeout_ms, found.start_ms) == ("PrepareCommit", 3_000, started_ms)
    assert (found.producer_id, found.producer_epoch) == producer[1:]
    assert found.partitions == (T1,)
    assert world.replies[world.ask(lambda ticket: world.machine.describe(ticket, "b"))] is None


def test_a_listing_leaves_out_what_its_filters_say() -> None:
    world = CoordinatorWorld()
    idle = world.producer("idle")
    long = world.producer("long")
    world.add(long, T0)
    world.advance(5_000)
    short = world.producer("short")
    world.add(short, T0)

    def listed(filters: Filters) -> list[str]:
        reply = world.replies[world.ask(lambda ticket: world.machine.listing(ticket, filters, wall_ms=world.wall_ms))]
        return [each.transactional_id for each in reply]

    assert listed(Filters()) == ["idle", "long", "short"]
    assert listed(Filters(states=frozenset({"Ongoing"}))) == ["long", "short"]
    assert listed(Filters(producer_ids=frozenset({idle.producer_id}))) == ["idle"]
    assert listed(Filters(longer_than_ms=4_999)) == ["long"]
    assert listed(Filters(longer_than_ms=5_000)) == []


def test_records_that_no_coordinator_writes_are_refused_and_change_nothing() -> None:
    world = CoordinatorWorld()
    world.add(world.producer(), T0)
    record = world.log[-1]
    assert record.value is not None
    from_state = bytes([TransactionState.ONGOING])
    at = record.value.index(from_state, 2 + 8 + 2 + 4)
    for state in (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE):
        value = record.value[:at] + bytes([state]) + record.value[at + 1 :]
        assert decode_transaction_value(value).state is state
        with pytest.raises(ValueError, match=state.name):
            world.machine.replay(record._replace(value=value), None)
    assert world.replies[world.ask(lambda ticket: world.machine.describe(ticket, "a"))].state == "Ongoing"
