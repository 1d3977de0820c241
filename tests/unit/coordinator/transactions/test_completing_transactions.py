from barnabas.coordinator.outcome import Ticket
from barnabas.coordinator.transactions.requests import Producer
from barnabas.protocol.error_code import ErrorCode
from tests.unit.coordinator.transactions.coordinator_world import T0, T1, CoordinatorWorld


def completing(world: CoordinatorWorld) -> Producer:
    """A producer whose transaction is decided, and whose markers are not written."""
    producer = world.producer()
    world.add(producer, T0, T1)
    world.end(producer, commit=True)
    return producer


def test_who_adds_partitions_waits_for_the_transaction_before() -> None:
    world = CoordinatorWorld()
    producer = completing(world)
    ticket = world.begin_add(producer, T0)
    world.advance(19)
    assert ticket not in world.replies
    world.write_markers()
    assert world.replies[ticket] is ErrorCode.NONE
    assert world.states()[-2:] == ["COMPLETE_COMMIT", "ONGOING"]


def test_who_begins_waits_for_the_transaction_before() -> None:
    world = CoordinatorWorld()
    producer = completing(world)
    ticket = world.begin_initialise()
    world.write_markers()
    assert world.replies[ticket].identity == (producer.producer_id, producer.producer_epoch + 1)


def test_the_wait_ends_after_20_ms() -> None:
    world = CoordinatorWorld()
    producer = completing(world)
    adding, beginning = world.begin_add(producer, T0), world.begin_initialise()
    world.advance(20)
    assert world.replies[adding] is ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.replies[beginning].error is ErrorCode.CONCURRENT_TRANSACTIONS
    world.write_markers()
    assert world.states()[-1] == "COMPLETE_COMMIT"


def test_whoever_waits_goes_on_in_the_order_of_coming() -> None:
    world = CoordinatorWorld()
    producer = completing(world)
    beginning, adding = world.begin_initialise(), world.begin_add(producer, T0)
    world.write_markers()
    assert world.replies[beginning].error is ErrorCode.NONE
    assert world.replies[adding] is ErrorCode.PRODUCER_FENCED


def test_who_goes_on_and_meets_another_completing_transaction_waits_no_longer_than_it_would_have() -> None:
    world = CoordinatorWorld()
    completing(world)
    first, second = world.begin_initialise(), world.begin_initialise()
    world.advance(15)
    world.write_markers()
    assert world.replies[first].error is ErrorCode.NONE
    assert world.replies[second].identity == (world.replies[first].identity.producer_id, 2)
    producer = Producer("a", *world.replies[second].identity)
    world.add(producer, T0)
    third = world.begin_initialise()
    world.advance(20)
    assert world.replies[third].error is ErrorCode.CONCURRENT_TRANSACTIONS


def test_nobody_is_kept_busy_while_the_log_refuses_the_last_record() -> None:
    world = CoordinatorWorld()
    producer = completing(world)
    ticket = world.begin_add(producer, T0)
    world.refused = ErrorCode.NOT_ENOUGH_REPLICAS
    world.write_markers()
    world.advance(20)
    assert world.replies[ticket] is ErrorCode.CONCURRENT_TRANSACTIONS
    world.refused = None
    world.advance(1_000)
    assert world.states()[-1] == "COMPLETE_COMMIT"


def test_the_last_record_is_tried_until_the_log_takes_it_in_one_transaction_after_the_other() -> None:
    world = CoordinatorWorld()
    producer = world.producer()
    for _ in range(2):
        world.add(producer, T0)
        world.end(producer, commit=True)
        world.refused = ErrorCode.NOT_ENOUGH_REPLICAS
        world.write_markers()
        world.advance(5_000)
        assert world.states()[-1] == "PREPARE_COMMIT"
        world.refused = None
        world.advance(1_000)
        assert world.states()[-1] == "COMPLETE_COMMIT"


def test_a_fence_that_the_log_refuses_is_answered_once() -> None:
    world = CoordinatorWorld()
    world.add(world.producer(), T0)
    world.refused = ErrorCode.NOT_ENOUGH_REPLICAS
    ticket = world.begin_initialise()
    assert world.replies[ticket].error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.states()[-1] == "ONGOING"
    del world.replies[ticket]
    world.advance(20)
    assert world.machine.unload() == []
    assert ticket not in world.replies


def test_a_transaction_completes_after_its_last_marker_only() -> None:
    world = CoordinatorWorld()
    completing(world)
    world.write_markers(T0)
    world.write_markers(T0)
    assert world.states()[-1] == "PREPARE_COMMIT"
    world.write_markers(T1)
    assert world.states()[-1] == "COMPLETE_COMMIT"


def test_markers_of_an_earlier_decision_count_for_nothing() -> None:
    world = CoordinatorWorld()
    producer = completing(world)
    old = world.effects[0]
    world.write_markers()
    world.add(producer, T0)
    world.end(producer, commit=False)
    world.effects.insert(0, old)
    world.write_markers()
    assert world.states()[-1] == "PREPARE_ABORT"


def test_who_waits_is_named_when_the_coordinator_goes() -> None:
    world = CoordinatorWorld()
    producer = completing(world)
    tickets: set[Ticket] = {world.begin_add(producer, T0), world.begin_initialise()}
    assert set(world.machine.unload()) == tickets


def test_markers_of_an_earlier_epoch_count_for_nothing() -> None:
    world = CoordinatorWorld()
    completing(world)
    old = world.effects[0]
    world.write_markers()
    again = world.producer()
    world.add(again, T0, T1)
    world.end(again, commit=True)
    outcome = world.machine.markers_written(old, old.partitions, now_ms=world.now_ms, wall_ms=world.wall_ms)
    assert not outcome.records
    assert world.states()[-1] == "PREPARE_COMMIT"
