"""What a lane sends, and what it makes of answers: values in, values out."""

import random

import pytest

from barnabas.client.errors import ClientError
from barnabas.client.lane import LAST_EPOCH, MAX_SEQUENCE, Lane
from barnabas.client.outgoing import Identity, OutgoingBatch
from barnabas.protocol.batch import Codec, read_header
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.records import encode_fields, iterate_records
from barnabas.storage.producer_state import ProducerRejection, ProducerState

AT = TopicPartition("t", 0)
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def new_lane(batches: int = 0, *, is_sequenced: bool = True, window: int = 5, records: int = 2) -> Lane:
    lane = Lane(AT, is_sequenced=is_sequenced, window=window)
    lane.start_epoch(Identity(7, 0))
    for _ in range(batches):
        add_batch(lane, records)
    return lane


def add_batch(lane: Lane, records: int = 2) -> OutgoingBatch:
    batch = lane.begin(0)
    for index in range(records):
        batch.parts.append(encode_fields(None, b"%d" % (batch.first_record + index), (), 0, index))
        batch.count += 1
    lane.close_filling()
    return batch


def send(lane: Lane) -> OutgoingBatch:
    batch = lane.next_batch()
    assert batch is not None
    lane.on_sent(batch)
    return batch


def acknowledge(lane: Lane, batch: OutgoingBatch) -> None:
    batch.finish(base_offset=0)
    lane.on_acknowledged(batch)


def give_up(lane: Lane, batch: OutgoingBatch) -> None:
    batch.finish(error=ClientError("given up"))
    lane.on_given_up(batch)


def established(batches: int) -> Lane:
    """A lane whose first batch was acknowledged, with more in its queue."""
    lane = new_lane(1 + batches)
    acknowledge(lane, send(lane))
    return lane


def test_one_batch_is_under_way_until_the_first_is_acknowledged() -> None:
    lane = new_lane(7)
    first = send(lane)
    assert lane.next_batch() is None
    acknowledge(lane, first)
    assert [send(lane).sequence for _ in range(5)] == [2, 4, 6, 8, 10]
    assert lane.next_batch() is None


def test_the_window_reaches_from_the_oldest_that_is_not_decided() -> None:
    lane = established(8)
    oldest, *others = [send(lane) for _ in range(5)]
    for batch in others:
        acknowledge(lane, batch)
    assert lane.in_flight == 1
    assert lane.next_batch() is None, "a broker would not know the oldest again behind more than five"
    acknowledge(lane, oldest)
    assert [send(lane).sequence for _ in range(3)] == [12, 14, 16]


def test_without_sequences_one_batch_is_under_way() -> None:
    lane = new_lane(2, is_sequenced=False)
    first = send(lane)
    assert (first.sequence, lane.next_batch()) == (-1, None)
    acknowledge(lane, first)
    second = send(lane)
    give_up(lane, second)
    assert not lane.is_broken


def test_what_was_refused_goes_again_before_all_others_with_its_sequence() -> None:
    lane = established(4)
    first, second, third = (send(lane) for _ in range(3))
    assert lane.on_refused(second, ErrorCode.NOT_ENOUGH_REPLICAS)
    assert lane.next_batch() is None, "the oldest is still under way"
    assert lane.on_refused(first, ErrorCode.NOT_ENOUGH_REPLICAS)
    assert lane.on_refused(third, OUT_OF_ORDER)
    for batch, sequence in ((first, 2), (second, 4), (third, 6)):
        assert send(lane) is batch
        assert batch.sequence == sequence
        assert batch is third or lane.next_batch() is None
        acknowledge(lane, batch)
    assert send(lane).sequence == 8


def test_behind_a_batch_that_was_given_up_a_new_epoch_begins_in_order() -> None:
    lane = established(4)
    first, second, third = (send(lane) for _ in range(3))
    assert not lane.on_refused(first, ErrorCode.INVALID_RECORD)
    give_up(lane, first)
    assert lane.next_batch() is None, "others are under way"
    assert lane.on_refused(second, OUT_OF_ORDER)
    assert lane.on_refused(third, OUT_OF_ORDER)
    again = send(lane)
    assert again is second
    assert (lane.identity, again.sequence) == (Identity(7, 1), 0)
    assert lane.next_batch() is None
    acknowledge(lane, again)
    assert send(lane) is third
    assert third.sequence == 2
    assert send(lane).sequence == 4


def test_what_may_have_been_written_shows_it_before_the_new_epoch() -> None:
    lane = established(3)
    first, second, third = (send(lane) for _ in range(3))
    for batch in (first, second, third):
        lane.on_lost(batch, was_sent=True)
    give_up(lane, first)
    again = send(lane)
    assert again is second
    assert (again.sequence, lane.identity) == (4, Identity(7, 0)), "with its old sequence, as it may be in the log"
    acknowledge(lane, again)
    assert send(lane) is third
    assert third.sequence == 6
    assert lane.on_refused(third, OUT_OF_ORDER), "it was not written"
    assert send(lane) is third
    assert (third.sequence, lane.identity) == (0, Identity(7, 1))


def test_a_refusal_before_the_append_proves_nothing_of_an_earlier_attempt() -> None:
    lane = established(1)
    batch = send(lane)
    lane.on_lost(batch, was_sent=True)
    assert lane.on_refused(send(lane), ErrorCode.NOT_ENOUGH_REPLICAS)
    assert batch.may_be_written


@pytest.mark.parametrize(
    ("error", "may_be"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, True),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, True),
        (ErrorCode.REQUEST_TIMED_OUT, True),
        (ErrorCode.KAFKA_STORAGE_ERROR, True),
        (ErrorCode.UNKNOWN_SERVER_ERROR, True),
        (ErrorCode.NOT_ENOUGH_REPLICAS, False),
        (ErrorCode.INVALID_TXN_STATE, False),
    ],
    ids=str,
)
def test_which_answers_leave_open_whether_a_batch_was_written(error: ErrorCode, may_be: bool) -> None:
    lane = established(1)
    batch = send(lane)
    lane.on_refused(batch, error)
    assert batch.may_be_written is may_be


def test_a_gap_that_no_refusal_of_ours_made_is_told() -> None:
    lane = established(1)
    batch = send(lane)
    assert not lane.on_refused(batch, OUT_OF_ORDER), "acknowledged records before it are gone"
    give_up(lane, batch)
    add_batch(lane)
    assert send(lane).sequence == 0
    assert lane.identity == Identity(7, 1)


def test_the_halves_of_a_batch_take_its_place_and_its_sequences() -> None:
    lane = new_lane(1, records=5)
    behind = add_batch(lane)
    batch = send(lane)
    left, right = batch.divide(Codec.NONE)
    lane.on_divided(batch, (left, right))
    assert (left.count, left.sequence, right.count, right.sequence) == (2, 0, 3, 2)
    assert send(lane) is left
    assert lane.next_batch() is None
    acknowledge(lane, left)
    assert send(lane) is right
    acknowledge(lane, right)
    assert send(lane) is behind
    assert behind.sequence == 5


def test_sequences_wrap() -> None:
    lane = new_lane(2)
    lane._next_sequence = MAX_SEQUENCE
    acknowledge(lane, send(lane))
    assert send(lane).sequence == 1


def test_after_the_last_epoch_another_producer_id_is_wanted() -> None:
    lane = new_lane(2)
    lane.start_epoch(Identity(7, LAST_EPOCH))
    give_up(lane, send(lane))
    assert lane.next_batch() is not None
    assert (lane.identity, lane.is_exhausted) == (None, True)


class Wire:
    """A partition with Kafka's rules of idempotence, and a wire that loses, refuses and delays what it carries."""

    def __init__(self, random: random.Random) -> None:
        self.random = random
        self.log: list[bytes] = []
        self.producers = ProducerState()
        self.under_way: list[tuple[OutgoingBatch, bytes]] = []
        self.late: list[bytes] = []

    def append(self, encoded: bytes) -> ErrorCode:
        header = read_header(encoded)
        try:
            if self.producers.check_batch(header) is None:
                self.producers.apply_batch(header, base_offset=len(self.log))
                self.log.append(encoded)
        except ProducerRejection as rejection:
            return rejection.error
        return ErrorCode.NONE

    def step(self, lane: Lane) -> None:
        # Requests of connections that are gone are looked at late. Behind a gap none is later than a new attempt: what
        # a lane then believes of a broker that does not know the batch rests on that.
        while self.late and (lane.is_broken or self.random.random() < 0.2):
            self.append(self.late.pop(0))
        if not self.under_way:
            return
        batch, encoded = self.under_way.pop(0)
        drawn = self.random.random()
        if drawn < 0.1:
            lane.on_lost(batch, was_sent=False)
            return
        if drawn < 0.2:
            # The connection ends: all that is under way has no answer, some of it is read later, in order.
            lost = [(batch, encoded), *self.under_way]
            self.under_way = []
            self.late += [each for _, each in lost[: self.random.randrange(len(lost) + 1)]]
            for each, _ in lost:
                lane.on_lost(each, was_sent=True)
            return
        if drawn < 0.3:
            if not lane.on_refused(batch, ErrorCode.NOT_ENOUGH_REPLICAS):
                raise AssertionError
            return
        error = ErrorCode.INVALID_RECORD if drawn < 0.33 and not batch.may_be_written else self.append(encoded)
        if error is ErrorCode.NONE and self.random.random() < 0.1:
            lane.on_lost(batch, was_sent=True)
        elif error is ErrorCode.NONE:
            acknowledge(lane, batch)
        elif not lane.on_refused(batch, error):
            give_up(lane, batch)


@pytest.mark.parametrize("offset", range(300))
async def test_whatever_happens_records_are_written_once_and_in_order(seed: int, offset: int) -> None:
    drawn = random.Random(seed + offset)
    lane, wire = new_lane(), Wire(drawn)
    batches: list[OutgoingBatch] = []
    for step in range(400):
        if step < 200 and drawn.random() < 0.4:
            batches.append(add_batch(lane, drawn.randrange(1, 4)))
        if drawn.random() < 0.7 and (batch := lane.next_batch()) is not None:
            lane.on_sent(batch)
            encoded = batch.encode(Codec.NONE, None, lane.identity, transactional=False)
            wire.under_way.append((batch, encoded))
        if drawn.random() < 0.6:
            wire.step(lane)
        if (
            step < 200
            and drawn.random() < 0.03
            and (waiting := [b for b in lane.undecided if b.stage.name == "WAITING"])
        ):
            give_up(lane, waiting[0])
    while (batch := lane.next_batch()) is not None or wire.under_way:
        if batch is not None:
            lane.on_sent(batch)
            wire.under_way.append((batch, batch.encode(Codec.NONE, None, lane.identity, transactional=False)))
        else:
            wire.step(lane)
    assert lane.undecided == []
    values = [int(r.value or b"") for each in wire.log for r in iterate_records(each, 0, read_header(each), 1 << 20)]
    assert len(values) == len(set(values)), "once"
    assert values == sorted(values), "in order"
    for batch in batches:
        if batch.error is None:
            assert set(range(batch.first_record, batch.first_record + batch.count)) <= set(values)
