"""The checker of histories: each anomaly and its near misses by hand, then valid histories with and without a plant."""

import os
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.simulation.history import History, Outcome, outcome_of_produce
from barnabas.simulation.history_check import AnomalyKind, check
from tests.unit.simulation.histories import OTHER, PARTITION, PLANTS, a_valid_history

VALID_HISTORIES = int(os.environ.get("BARNABAS_VALID_HISTORIES", "150"))


class Log:
    """A history written by hand: `send` acknowledges at the next offset, `read` gives records to a reader."""

    def __init__(self) -> None:
        self.history = History()
        self.now = 0
        self.values: list[bytes] = []

    def tick(self) -> int:
        self.now += 1
        return self.now

    def send(self, value: str, *, client: str = "p", offset: int | None = None, **options: object) -> None:
        operation = self.history.produce(client, PARTITION, value.encode(), self.tick(), **options)  # type: ignore[arg-type]
        operation.ok(len(self.values) if offset is None else offset, self.tick())
        self.values.append(value.encode())

    def read(self, *records: tuple[int, str], client: str = "c", **options: object) -> None:
        poll = self.history.poll(client, PARTITION, self.tick(), **options)  # type: ignore[arg-type]
        poll.ok([(offset, value.encode()) for offset, value in records], self.tick())

    def read_all(self, *records: tuple[int, str]) -> None:
        self.read(*records, client="final", final=True, position=0)

    def kinds(self) -> set[AnomalyKind]:
        return {anomaly.kind for anomaly in check(self.history)}


@pytest.fixture
def log() -> Log:
    """a and b are acknowledged at 0 and 1."""
    log = Log()
    log.send("a")
    log.send("b")
    return log


def test_nothing_is_wrong_with_a_log_that_holds_what_was_acknowledged(log: Log) -> None:
    log.read((0, "a"), (1, "b"))
    log.read_all((0, "a"), (1, "b"))
    assert check(log.history) == []


def test_an_acknowledged_record_that_no_final_read_gives_is_lost(log: Log) -> None:
    log.read_all((1, "b"))
    assert log.kinds() == {AnomalyKind.LOST, AnomalyKind.SKIPPING_POLL}


def test_a_record_that_only_an_earlier_reader_saw_is_lost_too(log: Log) -> None:
    log.send("c", acks=1)
    log.send("d")
    log.read((2, "c"))
    log.read_all((0, "a"), (1, "b"), (3, "d"))
    assert AnomalyKind.LOST in log.kinds()


def test_a_record_acknowledged_with_acks_1_that_nobody_saw_may_be_gone(log: Log) -> None:
    log.send("c", acks=1)
    log.read_all((0, "a"), (1, "b"))
    assert log.kinds() == set()


def test_an_acknowledged_record_beyond_the_end_of_the_final_reads_is_unseen(log: Log) -> None:
    log.read_all((0, "a"))
    assert log.kinds() == {AnomalyKind.UNSEEN}


def test_a_partition_that_no_final_read_reached_shows_its_records_unseen(log: Log) -> None:
    elsewhere = log.history.poll("final", OTHER, log.tick(), final=True)
    elsewhere.ok([], log.tick())
    assert log.kinds() == {AnomalyKind.UNSEEN}


def test_a_record_that_is_acknowledged_while_the_last_final_read_is_under_way_may_be_missing(log: Log) -> None:
    late = log.history.produce("p", PARTITION, b"c", log.tick())
    read = log.history.poll("final", PARTITION, log.tick(), final=True)
    late.ok(2, log.tick())
    read.ok([(0, b"a"), (1, b"b")], log.tick())
    assert log.kinds() == set()
    log.read(client="final", final=True, position=2)
    assert log.kinds() == {AnomalyKind.UNSEEN}


def test_a_transaction_that_is_committed_while_the_last_final_read_is_under_way_may_be_missing(log: Log) -> None:
    history = log.history
    transaction = history.begin_transaction("one", log.tick(), transactional_id="t", client="p", timeout_ms=1)
    history.produce("p", PARTITION, b"c", log.tick(), transaction="one").ok(2, log.tick())
    read = history.poll("final", PARTITION, log.tick(), final=True, read_committed=True)
    transaction.outcome, transaction.completed_at = Outcome.OK, log.tick()
    read.ok([(0, b"a"), (1, b"b")], log.tick())
    assert log.kinds() == set()
    log.read(client="final", final=True, position=2)
    assert log.kinds() == {AnomalyKind.UNSEEN}


def test_without_final_reads_an_unread_record_proves_nothing(log: Log) -> None:
    log.read((0, "a"))
    assert log.kinds() == set()


def test_records_that_were_deleted_need_not_be_read(log: Log) -> None:
    log.history.allow_deletion(PARTITION, 1)
    log.read_all((1, "b"))
    assert log.kinds() == set()


def test_an_acknowledgement_without_an_offset_asks_for_the_record_anywhere(log: Log) -> None:
    operation = log.history.produce("p", PARTITION, b"c", log.tick())
    operation.ok(None, log.tick())
    log.read_all((0, "a"), (1, "b"))
    assert log.kinds() == {AnomalyKind.LOST}
    log.read((2, "c"), client="final", final=True)
    assert log.kinds() == set()


def test_two_records_at_one_offset_are_inconsistent(log: Log) -> None:
    log.send("c", offset=1)
    assert AnomalyKind.INCONSISTENT_OFFSETS in log.kinds()


def test_a_record_acknowledged_with_acks_1_may_give_its_place_to_another(log: Log) -> None:
    log.send("c", acks=1)
    log.send("d", offset=2)
    log.read_all((0, "a"), (1, "b"), (2, "d"))
    assert log.kinds() == set()


def test_a_record_at_two_offsets_is_a_duplicate(log: Log) -> None:
    log.read_all((0, "a"), (1, "b"), (2, "a"))
    assert log.kinds() == {AnomalyKind.DUPLICATE}


def test_a_producer_that_is_not_idempotent_may_write_twice() -> None:
    log = Log()
    log.send("a", idempotent=False)
    log.read_all((0, "a"), (1, "a"))
    assert log.kinds() == set()


def test_records_of_one_producer_stand_in_the_order_of_sending() -> None:
    log = Log()
    first = log.history.produce("p", PARTITION, b"a", log.tick())
    second = log.history.produce("p", PARTITION, b"b", log.tick())
    second.ok(0, log.tick())
    first.ok(1, log.tick())
    assert log.kinds() == {AnomalyKind.REORDERED}


@pytest.mark.parametrize("idempotent", [True, False])
def test_records_of_two_producers_or_of_one_without_idempotence_may_stand_in_any_order(idempotent: bool) -> None:
    log = Log()
    first = log.history.produce("p", PARTITION, b"a", log.tick(), idempotent=idempotent)
    second = log.history.produce("q" if idempotent else "p", PARTITION, b"b", log.tick(), idempotent=idempotent)
    second.ok(0, log.tick())
    first.ok(1, log.tick())
    assert log.kinds() == set()


def test_bytes_that_nobody_sent_were_changed(log: Log) -> None:
    log.read((2, "x"))
    assert log.kinds() == {AnomalyKind.CHANGED}


def test_a_record_of_another_partition_is_named_as_one() -> None:
    log = Log()
    log.history.produce("p", OTHER, b"x", log.tick())
    log.read((0, "x"))
    anomaly = check(log.history)[0]
    assert (anomaly.kind, anomaly.topic_partition) == (AnomalyKind.CHANGED, PARTITION)
    assert "sent to t-1" in anomaly.detail


def test_a_write_that_failed_must_not_be_read(log: Log) -> None:
    log.history.produce("p", PARTITION, b"c", log.tick()).fail("NOT_ENOUGH_REPLICAS", log.tick())
    log.read((2, "c"))
    assert log.kinds() == {AnomalyKind.ABORTED_READ}


def test_a_write_of_unknown_outcome_may_be_read_or_not(log: Log) -> None:
    log.history.produce("p", PARTITION, b"c", log.tick()).unknown("timed out", log.tick())
    log.history.produce("p", PARTITION, b"d", log.tick())
    log.read_all((0, "a"), (1, "b"), (2, "d"))
    assert log.kinds() == set()


@pytest.mark.parametrize(
    ("outcome", "read_committed", "found"),
    [
        (Outcome.FAIL, True, {AnomalyKind.ABORTED_READ}),
        (Outcome.FAIL, False, set()),
        (Outcome.OK, True, set()),
        (Outcome.UNKNOWN, True, set()),
    ],
)
def test_only_an_aborted_transaction_is_hidden_from_read_committed(
    log: Log, outcome: Outcome, read_committed: bool, found: set[AnomalyKind]
) -> None:
    log.send("c", transaction="x")
    log.history.end_transaction("x", outcome)
    log.read((2, "c"), read_committed=read_committed)
    assert log.kinds() == found


@pytest.mark.parametrize("outcome", [Outcome.FAIL, Outcome.UNKNOWN])
def test_records_of_a_transaction_that_did_not_surely_commit_may_be_missing(log: Log, outcome: Outcome) -> None:
    log.send("c", transaction="x")
    log.send("d")
    log.history.end_transaction("x", outcome)
    log.read_all((0, "a"), (1, "b"), (3, "d"))
    assert log.kinds() == set()


def test_a_reader_that_goes_back_within_an_answer_is_non_monotonic(log: Log) -> None:
    log.read((1, "b"), (0, "a"))
    assert log.kinds() == {AnomalyKind.NONMONOTONIC_POLL}


def test_a_reader_that_goes_back_between_answers_is_non_monotonic(log: Log) -> None:
    log.read((0, "a"), (1, "b"))
    log.read()
    log.read((1, "b"))
    assert log.kinds() == {AnomalyKind.NONMONOTONIC_POLL}


@pytest.mark.parametrize("options", [{"session": 1}, {"position": 0}, {"client": "another"}])
def test_a_seek_and_another_reader_begin_anew(log: Log, options: dict[str, object]) -> None:
    log.read((0, "a"), (1, "b"))
    log.read((0, "a"), **options)  # type: ignore[arg-type]
    assert log.kinds() == set()


def test_a_reader_that_leaves_out_a_record_skips(log: Log) -> None:
    log.send("c")
    log.read((0, "a"))
    log.read((2, "c"))
    assert log.kinds() == {AnomalyKind.SKIPPING_POLL}


def test_a_hole_in_which_nothing_was_ever_seen_is_no_skip(log: Log) -> None:
    log.send("d", offset=5)
    log.read((0, "a"), (1, "b"), (5, "d"))
    assert log.kinds() == set()


def test_an_offset_below_one_acknowledged_before_the_sending_is_out_of_order(log: Log) -> None:
    late = log.history.produce("q", PARTITION, b"c", log.tick())
    log.send("d", offset=3)
    late.ok(2, log.tick())
    assert log.kinds() == set(), "they overlapped"
    log.send("e", client="r", offset=2)
    assert AnomalyKind.ACKNOWLEDGEMENT_ORDER in log.kinds()


def _told(history: History, *entries: tuple[int, int, int, int]) -> None:
    for invoked_at, completed_at, high_watermark, leader_epoch in entries:
        poll = history.poll("c", PARTITION, invoked_at)
        poll.ok([], completed_at, high_watermark=high_watermark, leader_epoch=leader_epoch)


@pytest.mark.parametrize(
    ("second", "found"),
    [
        ((3, 4, 6, 1), {AnomalyKind.HIGH_WATERMARK_REGRESS}),
        ((3, 4, 7, 1), set()),
        ((3, 4, 6, 2), set()),  # Another leader learns it from its followers.
        ((2, 4, 6, 1), set()),  # Under way at the same time.
    ],
)
def test_the_high_watermark_does_not_fall_within_a_leader_epoch(
    second: tuple[int, int, int, int], found: set[AnomalyKind]
) -> None:
    history = History()
    _told(history, (1, 2, 7, 1), second)
    assert {anomaly.kind for anomaly in check(history)} == found


@pytest.mark.parametrize(("high_watermark", "found"), [(1, {AnomalyKind.ABOVE_HIGH_WATERMARK}), (2, set())])
def test_a_consumer_is_given_nothing_at_or_above_the_high_watermark(
    log: Log, high_watermark: int, found: set[AnomalyKind]
) -> None:
    poll = log.history.poll("c", PARTITION, log.tick())
    poll.ok([(0, b"a"), (1, b"b")], log.tick(), high_watermark=high_watermark, leader_epoch=0)
    assert log.kinds() == found


def test_of_many_anomalies_of_a_kind_a_few_are_shown(log: Log) -> None:
    log.read(*[(offset, f"x{offset}") for offset in range(2, 100)])
    assert len(check(log.history, shown_per_kind=3)) == 3


def test_an_anomaly_is_one_readable_line() -> None:
    history = History()
    history.poll("c", TopicPartition("t", 3), 1).ok([(5, b"x")], 2)
    assert str(check(history)[0]) == "changed: t-3@5: c read b'x', which nobody sent"


@pytest.mark.parametrize(
    ("error", "retried", "outcome"),
    [
        (ErrorCode.NONE, True, Outcome.OK),
        (ErrorCode.NOT_ENOUGH_REPLICAS, False, Outcome.FAIL),
        (ErrorCode.NOT_ENOUGH_REPLICAS, True, Outcome.UNKNOWN),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, False, Outcome.UNKNOWN),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, False, Outcome.UNKNOWN),
        (ErrorCode.REQUEST_TIMED_OUT, False, Outcome.UNKNOWN),
    ],
)
def test_only_errors_that_prove_absence_are_failures(error: ErrorCode, retried: bool, outcome: Outcome) -> None:
    assert outcome_of_produce(error, earlier_attempt_unknown=retried) is outcome


@settings(max_examples=VALID_HISTORIES)
@given(drawn=st.integers(0, 2**32), steps=st.integers(0, 60))
def test_nothing_is_found_in_valid_histories(drawn: int, steps: int) -> None:
    assert check(a_valid_history(Random(drawn), steps=steps)) == []


@pytest.mark.parametrize(
    ("kind", "plant"),
    [
        pytest.param(kind, plant, id=f"{kind}-{plant.__name__}".replace(" ", "-"))
        for kind, plants in PLANTS.items()
        for plant in plants
    ],
)
def test_what_is_planted_is_found(kind: AnomalyKind, plant: Callable[[History, Random], None], seed: int) -> None:
    for number in range(30):
        random = Random(seed + number)
        history = a_valid_history(random, steps=60)
        plant(history, random)
        found = check(history)
        assert kind in {anomaly.kind for anomaly in found}, (seed + number, found)


def test_committed_is_what_was_read_or_acknowledged_by_all() -> None:
    log = Log()
    assert log.history.committed_end(PARTITION) == 0
    log.send("a", acks=1, offset=7)
    assert log.history.committed_end(PARTITION) == 0, "nothing is promised"
    log.send("b", offset=2)
    log.history.produce("p", PARTITION, b"unknown", log.tick())
    assert log.history.committed_end(PARTITION) == 3
    log.read((3, "c"), (4, "d"))
    log.read()
    assert log.history.committed_end(PARTITION) == 5
    assert log.history.committed_end(OTHER) == 0
