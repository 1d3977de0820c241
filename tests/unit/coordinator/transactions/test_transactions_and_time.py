from dataclasses import replace

from barnabas.coordinator.transaction_records import decode_transaction_key
from barnabas.coordinator.transactions.transaction_coordinator import TransactionSettings
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from tests.unit.coordinator.transactions.coordinator_world import T0, T1, CoordinatorWorld

SETTINGS = TransactionSettings()
DAY_MS = 24 * 3600 * 1000
LONG_SWEEPS = replace(SETTINGS, timeout_sweep_ms=SETTINGS.expiration_sweep_ms)
"""So that a week passes quickly."""


def test_a_transaction_whose_time_is_up_is_aborted_in_the_next_epoch() -> None:
    world = CoordinatorWorld()
    producer = world.producer(timeout_ms=15_000)
    world.add(producer, T0)
    world.advance(19_999)
    assert world.states()[-1] == "ONGOING"
    world.advance(1)
    assert world.states()[-1] == "PREPARE_ABORT"
    who = f"producer {producer.producer_id}, epoch {producer.producer_epoch}"
    why = "it is open for longer than its 15000 ms"
    assert world.notes == [f"transactional id {producer.transactional_id}: the transaction of {who} is aborted: {why}"]
    (decided,) = world.effects
    assert (decided.commit, decided.producer_epoch) == (False, producer.producer_epoch + 1)
    assert world.end(producer, commit=True) is ErrorCode.PRODUCER_FENCED
    world.write_markers()
    assert world.states()[-1] == "COMPLETE_ABORT"


def test_the_time_of_a_transaction_begins_with_its_first_partition_and_not_with_the_last() -> None:
    world = CoordinatorWorld()
    producer = world.producer(timeout_ms=15_000)
    world.advance(60_000)
    world.add(producer, T0)
    world.advance(10_000)
    world.add(producer, T1)
    world.advance(10_000)
    assert world.states()[-1] == "PREPARE_ABORT"


def test_a_producer_that_begins_anew_says_anew_how_long_its_transactions_may_last() -> None:
    world = CoordinatorWorld()
    world.producer(timeout_ms=1_000_000)
    world.add(world.producer(timeout_ms=15_000), T0)
    world.advance(30_000)
    assert world.states()[-1] == "PREPARE_ABORT"


def test_nothing_times_out_that_is_decided() -> None:
    world = CoordinatorWorld()
    producer = world.producer(timeout_ms=1)
    world.add(producer, T0)
    world.end(producer, commit=True)
    world.advance(60_000)
    assert world.states()[-1] == "PREPARE_COMMIT"
    world.write_markers()
    world.advance(60_000)
    assert world.states()[-1] == "COMPLETE_COMMIT"


def test_a_wall_clock_that_steps_aborts_nothing_and_keeps_nothing_open() -> None:
    """Museum 60: between two brokers, and on one, the wall clock may step either way."""
    for step_ms in (-DAY_MS, DAY_MS):
        world = CoordinatorWorld()
        producer = world.producer(timeout_ms=15_000)
        world.add(producer, T0)
        world.wall_ms += step_ms
        world.advance(10_000)
        assert world.states()[-1] == "ONGOING"
        world.load()
        world.advance(10_000)
        assert world.states()[-1] == "ONGOING"
        world.advance(10_000)
        assert world.states()[-1] == "PREPARE_ABORT"
        world.write_markers()
        assert world.states()[-1] == "COMPLETE_ABORT"


def test_many_overdue_transactions_are_aborted_in_batches_that_fit() -> None:
    world = CoordinatorWorld(replace(SETTINGS, max_batch_bytes=1_000))
    for number in range(50):
        world.add(world.producer(f"producer {number}", timeout_ms=1), T0)
    del world.batches[:]
    world.advance(11_000)
    assert sum(map(len, world.batches)) == 50
    assert len(world.effects) == 50
    assert len(world.batches) >= 5
    assert all(sum(len(each.key) + len(each.value or b"") for each in batch) < 1_000 for batch in world.batches)


def test_one_transaction_larger_than_a_batch_does_not_keep_the_others_open() -> None:
    world = CoordinatorWorld(replace(SETTINGS, max_batch_bytes=1_000))
    world.add(world.producer("large", timeout_ms=1), *(TopicPartition("t", number) for number in range(500)))
    world.add(world.producer("small", timeout_ms=1), T0)
    world.advance(11_000)
    assert {each.transactional_id for each in world.effects} == {"large", "small"}


def test_an_idle_id_is_forgotten_after_its_time_and_one_with_something_open_never() -> None:
    world = CoordinatorWorld(LONG_SWEEPS)
    world.producer("idle")
    busy = world.producer("busy", timeout_ms=20 * DAY_MS)
    world.add(busy, T0)
    done = world.producer("done")
    world.add(done, T0)
    world.end(done, commit=True)
    world.write_markers()
    world.advance(SETTINGS.expiration_ms - 1)
    assert all(record.value is not None for record in world.log)
    world.advance(SETTINGS.expiration_sweep_ms)
    gone = {decode_transaction_key(record.key) for record in world.log if record.value is None}
    assert gone == {"idle", "done"}
    assert world.add(done, T0) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert world.add(busy, T1) is ErrorCode.NONE


def test_an_id_that_is_used_now_and_then_is_not_forgotten() -> None:
    world = CoordinatorWorld(LONG_SWEEPS)
    producer = world.producer()
    for _ in range(4):
        world.advance(SETTINGS.expiration_ms // 2)
        world.add(producer, T0)
        world.end(producer, commit=True)
        world.write_markers()
    assert world.states()[-1] == "COMPLETE_COMMIT"
    assert all(record.value is not None for record in world.log)
    world.advance(SETTINGS.expiration_ms + SETTINGS.expiration_sweep_ms)
    assert world.log[-1].value is None


def test_an_idle_id_is_found_behind_thousands_that_are_not() -> None:
    world = CoordinatorWorld(LONG_SWEEPS)
    world.producer("idle")
    world.advance(SETTINGS.expiration_ms // 2)
    for number in range(5_001):
        world.producer(f"busy {number}")
    world.advance(SETTINGS.expiration_ms // 2 + SETTINGS.expiration_sweep_ms)
    assert [decode_transaction_key(each.key) for each in world.log if each.value is None] == ["idle"]


def test_nothing_is_kept_of_an_id_that_is_forgotten() -> None:
    world = CoordinatorWorld(LONG_SWEEPS)
    world.initialise(expected=world.initialise().identity)
    assert world.machine._renewals
    world.advance(SETTINGS.expiration_ms + SETTINGS.expiration_sweep_ms)
    assert world.log[-1].value is None
    assert not world.machine._renewals
    assert world.machine.contents() == "0 transactional ids, 0 with an open transaction"


def test_time_without_a_coordinator_counts_for_an_idle_id() -> None:
    world = CoordinatorWorld(LONG_SWEEPS)
    world.producer()
    world.now_ms, world.wall_ms = 50, world.wall_ms + SETTINGS.expiration_ms
    world.load()
    world.advance(SETTINGS.expiration_sweep_ms)
    assert world.log[-1].value is None


def test_a_wall_clock_that_steps_ahead_forgets_no_id() -> None:
    world = CoordinatorWorld(LONG_SWEEPS)
    world.producer()
    world.wall_ms += 10 * SETTINGS.expiration_ms
    world.advance(SETTINGS.expiration_sweep_ms)
    assert world.log[-1].value is not None


def test_tombstones_are_written_in_batches_that_fit() -> None:
    """KAFKA-13099: one batch for all of them was refused for its size, and nothing ever expired."""
    world = CoordinatorWorld(replace(LONG_SWEEPS, max_batch_bytes=1_000))
    for number in range(200):
        world.producer(f"producer {number}")
    del world.batches[:]
    world.advance(SETTINGS.expiration_ms + 2 * SETTINGS.expiration_sweep_ms)
    assert sum(map(len, world.batches)) == 200
    assert all(sum(len(each.key) for each in batch) < 1_000 for batch in world.batches)


def test_an_id_is_forgotten_later_where_the_log_refuses_its_tombstone() -> None:
    world = CoordinatorWorld(LONG_SWEEPS)
    world.producer()
    world.refused = ErrorCode.NOT_ENOUGH_REPLICAS
    world.advance(SETTINGS.expiration_ms + SETTINGS.expiration_sweep_ms)
    assert world.initialise("another").error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.refused = None
    world.advance(SETTINGS.expiration_sweep_ms)
    assert world.log[-1].value is None


def test_batches_become_smaller_where_the_log_takes_none_of_this_size() -> None:
    world = CoordinatorWorld(LONG_SWEEPS)
    world.most_bytes = 500
    for number in range(200):
        world.producer(f"producer {number}")
    world.advance(SETTINGS.expiration_ms + 10 * SETTINGS.expiration_sweep_ms)
    assert sum(record.value is None for record in world.log) == 200
