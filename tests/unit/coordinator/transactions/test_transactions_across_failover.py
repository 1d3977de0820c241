import random
from typing import Any

from barnabas.coordinator.transactions.producer_identity import ProducerIdentity
from barnabas.coordinator.transactions.requests import Filters, Producer
from barnabas.coordinator.transactions.transaction_coordinator import TransactionSettings
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from tests.unit.coordinator.transactions.coordinator_world import T0, T1, CoordinatorWorld


def test_a_decision_that_stands_in_the_log_is_carried_out_by_the_next_coordinator() -> None:
    world = CoordinatorWorld()
    committing, aborting = world.producer("a"), world.producer("b")
    world.add(committing, T0, T1)
    world.add(aborting, T1)
    world.end(committing, commit=True)
    world.end(aborting, commit=False)
    world.write_markers(T0)
    world.load()
    assert [(each.transactional_id, each.commit, each.partitions) for each in world.effects] == [
        ("a", True, (T0, T1)),
        ("b", False, (T1,)),
    ]
    assert {each.coordinator_epoch for each in world.effects} == {world.epoch}
    world.write_markers()
    world.write_markers()
    assert world.states()[-2:] == ["COMPLETE_COMMIT", "COMPLETE_ABORT"]


def test_a_decision_without_partitions_is_completed_by_the_next_coordinator() -> None:
    world = CoordinatorWorld()
    producer = world.producer()
    world.add(producer)
    world.end(producer, commit=True)
    del world.log[-1]
    world.load()
    assert world.states()[-1] == "COMPLETE_COMMIT"


def test_an_open_transaction_goes_on_with_the_next_coordinator() -> None:
    world = CoordinatorWorld()
    producer = world.producer()
    world.add(producer, T0)
    world.load()
    assert not world.effects
    assert world.add(producer, T1) is ErrorCode.NONE
    assert world.end(producer, commit=True) is ErrorCode.NONE
    assert world.effects[0].partitions == (T0, T1)


def test_a_forgotten_id_stays_forgotten() -> None:
    world = CoordinatorWorld(TransactionSettings(timeout_sweep_ms=3_600_000))
    producer = world.producer()
    world.advance(world.settings.expiration_ms + world.settings.expiration_sweep_ms)
    world.load()
    assert world.add(producer, T0) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_drawn_life_and_its_log_alone_make_the_same_coordinator(seed: int) -> None:
    draw = random.Random(seed)
    world = CoordinatorWorld()
    producers: list[Producer] = [world.producer("a"), world.producer("b")]
    for _ in range(2_000):
        step(world, draw, producers)
        if draw.random() < 0.05:
            before = described(world)
            world.load()
            after = described(world)
            # Which partitions have their marker already is not in the log: they get it once more.
            assert [row[:-1] for row in after] == [row[:-1] for row in before]
            assert all(set(row[-1]) >= set(known[-1]) for row, known in zip(after, before, strict=True))
    while world.effects:
        world.write_markers()
    world.advance(60_000)
    while world.effects:
        world.write_markers()
    assert {row[3] for row in described(world)} <= {"Empty", "CompleteCommit", "CompleteAbort"}


def step(world: CoordinatorWorld, draw: random.Random, producers: list[Producer]) -> None:
    number = draw.randrange(len(producers))
    producer = producers[number]
    identity = ProducerIdentity(producer.producer_id, producer.producer_epoch)
    match draw.randrange(6):
        case 0:
            world.advance(draw.choice((0, 10, 30, 20_000)))
        case 1:
            ticket = world.begin_initialise(
                producer.transactional_id, expected=draw.choice((None, identity)), timeout_ms=15_000
            )
            reply = world.replies.get(ticket)
            if reply is not None and reply.error is ErrorCode.NONE:
                producers[number] = Producer(producer.transactional_id, *reply.identity)
        case 2 | 3:
            world.begin_add(producer, TopicPartition("t", draw.randrange(4)))
        case 4:
            world.end(producer, commit=draw.random() < 0.5)
        case _:
            if world.effects:
                world.write_markers(*draw.choice(((), world.effects[0].partitions[:1])))


def described(world: CoordinatorWorld) -> list[tuple[Any, ...]]:
    ticket = world.ask(lambda ticket: world.machine.listing(ticket, Filters(), wall_ms=world.wall_ms))
    return [
        (
            each.transactional_id,
            each.producer_id,
            each.producer_epoch,
            each.state,
            each.timeout_ms,
            each.start_ms,
            each.partitions,
        )
        for each in world.replies[ticket]
    ]
