"""The check of transactions: each anomaly and what is near it, in histories written by hand."""

import pytest

from barnabas.protocol.ids import TopicPartition
from barnabas.simulation.history import History, Outcome, Produce
from barnabas.simulation.transaction_check import TransactionAnomaly, check_transactions

INPUT = TopicPartition("in", 0)
OUTPUT = TopicPartition("out", 0)
OTHER = TopicPartition("out", 1)


class Transactor:
    """A history whose logs are kept beside it; `read_all` ends it with final reads of both kinds."""

    def __init__(self) -> None:
        self.history = History()
        self.now = 0
        self.logs: dict[TopicPartition, list[bytes]] = {INPUT: [], OUTPUT: [], OTHER: []}
        self.hidden: set[bytes] = set()

    def tick(self) -> int:
        self.now += 1
        return self.now

    def begin(self, name: str) -> None:
        self.history.begin_transaction(name, self.tick(), transactional_id="id", client="p", timeout_ms=1_000)

    def send(
        self,
        value: str,
        at: TopicPartition,
        transaction: str | None = None,
        *,
        outcome: Outcome = Outcome.OK,
        is_written: bool = True,
        is_visible: bool = True,
        source: int | None = None,
    ) -> Produce:
        made = self.history.produce("p", at, value.encode(), self.tick(), transaction=transaction)
        if source is not None:
            made.source = INPUT, source
        offset = len(self.logs[at])
        if outcome is Outcome.OK:
            made.ok(offset, self.tick())
        elif outcome is Outcome.UNKNOWN:
            made.unknown("lost", self.tick())
        if is_written:
            self.logs[at].append(made.value)
        if not is_visible:
            self.hidden.add(made.value)
        return made

    def end(self, name: str, outcome: Outcome) -> None:
        transaction = self.history.transactions[name]
        if outcome is not Outcome.FAIL:
            transaction.commit_asked_at = self.tick()
        if outcome is not Outcome.UNKNOWN:
            transaction.end(outcome, self.tick())

    def pass_by(self, offset: int, transaction: str) -> None:
        made = self.history.groups.commit(
            "p", "copiers", {INPUT: offset}, self.tick(), generation=-1, member="", transaction=transaction
        )
        made.end(Outcome.OK, self.tick())

    def read(self, at: TopicPartition, *, final: bool = False, read_committed: bool = True) -> None:
        poll = self.history.poll("r", at, self.tick(), final=final, read_committed=read_committed)
        given = [(offset, value) for offset, value in enumerate(self.logs[at])]
        poll.ok([each for each in given if not read_committed or each[1] not in self.hidden], self.tick())

    def read_all(self, *, committed_up_to: int = 0) -> None:
        for at in self.logs:
            self.read(at, final=True, read_committed=False)
            self.read(at, final=True)
        read = self.history.groups.read("c", "copiers", (INPUT,), self.tick(), final=True)
        read.ok({INPUT: committed_up_to} if committed_up_to else {}, self.tick())

    def kinds(self) -> set[object]:
        self.history.settle_transactions()
        return {finding.kind for finding in check_transactions(self.history)}


@pytest.fixture
def story() -> Transactor:
    return Transactor()


def test_nothing_is_wrong_with_transactions_that_are_whole_or_not_there(story: Transactor) -> None:
    for name, outcome in (("a", Outcome.OK), ("b", Outcome.FAIL), ("c", Outcome.UNKNOWN)):
        story.begin(name)
        story.send(f"{name}0", OUTPUT, name, is_visible=outcome is Outcome.OK)
        story.send(f"{name}1", OTHER, name, is_visible=outcome is Outcome.OK)
        story.end(name, outcome)
    story.read(OUTPUT)
    story.read_all()
    assert story.kinds() == set()


def test_without_transactions_there_is_nothing_to_judge(story: Transactor) -> None:
    story.send("a", OUTPUT)
    assert check_transactions(story.history) == []


# Open.


def test_a_record_that_is_given_before_its_commit_was_asked_for_is_found(story: Transactor) -> None:
    story.begin("a")
    story.send("a0", OUTPUT, "a")
    story.read(OUTPUT)
    story.end("a", Outcome.OK)
    assert story.kinds() == {TransactionAnomaly.OPEN_READ}


def test_others_may_have_it(story: Transactor) -> None:
    story.begin("a")
    story.send("a0", OUTPUT, "a")
    story.read(OUTPUT, read_committed=False)
    story.end("a", Outcome.OK)
    assert story.kinds() == set()


# Whole.


@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.UNKNOWN])
def test_a_transaction_of_which_a_part_is_committed_is_found(story: Transactor, outcome: Outcome) -> None:
    story.begin("a")
    story.send("a0", OUTPUT, "a")
    story.send("a1", OTHER, "a", is_visible=False)
    story.end("a", outcome)
    story.read_all()
    (finding,) = check_transactions(story.history)
    assert str(finding) == "torn transaction: a: 1 of 2 records are committed, not b'a1' of out-1@0"


def test_a_committed_transaction_of_which_nothing_is_there_is_found(story: Transactor) -> None:
    story.begin("a")
    story.send("a0", OUTPUT, "a", is_visible=False)
    story.end("a", Outcome.OK)
    story.read_all()
    assert story.kinds() == {TransactionAnomaly.TORN}


def test_a_record_that_nobody_acknowledged_belongs_to_it_if_it_is_there(story: Transactor) -> None:
    story.begin("a")
    story.send("a0", OUTPUT, "a")
    story.send("a1", OTHER, "a", outcome=Outcome.UNKNOWN, is_written=False)
    story.end("a", Outcome.UNKNOWN)
    story.read_all()
    assert story.kinds() == set()
    story.history.polls.clear()
    story.logs[OTHER].append(b"a1")
    story.hidden.add(b"a1")
    story.read_all()
    assert story.kinds() == {TransactionAnomaly.TORN}


def test_what_was_deleted_or_ended_during_the_final_reads_is_not_judged(story: Transactor) -> None:
    story.begin("a")
    story.send("a0", OUTPUT, "a", is_visible=False)
    story.end("a", Outcome.OK)
    story.history.allow_deletion(OUTPUT, 1)
    story.begin("b")
    story.send("b0", OTHER, "b", is_visible=False)
    story.read_all()
    story.end("b", Outcome.OK)
    assert story.kinds() == set()


# Copies.


def copied(story: Transactor, *, copies: int = 1, is_input_committed: bool = True) -> None:
    """One record and what was made of it."""
    story.send("i0", INPUT, is_visible=is_input_committed)
    for number in range(copies):
        name = f"copy{number}"
        story.begin(name)
        story.send(f"{name}0", OUTPUT, name, source=0)
        story.pass_by(1, name)
        story.end(name, Outcome.OK)


def test_what_was_copied_once_is_well(story: Transactor) -> None:
    copied(story)
    story.read_all(committed_up_to=1)
    assert story.kinds() == set()


def test_a_record_that_is_copied_twice_is_found(story: Transactor) -> None:
    copied(story, copies=2)
    story.read_all(committed_up_to=1)
    assert story.kinds() == {TransactionAnomaly.COPIED_TWICE}


def test_a_copy_in_a_transaction_that_is_aborted_is_none(story: Transactor) -> None:
    copied(story)
    story.begin("again")
    story.send("again0", OUTPUT, "again", source=0, is_visible=False)
    story.pass_by(1, "again")
    story.end("again", Outcome.FAIL)
    story.read_all(committed_up_to=1)
    assert story.kinds() == set()


def test_a_record_that_was_passed_without_a_copy_is_found(story: Transactor) -> None:
    copied(story)
    story.send("i1", INPUT)
    story.send("i2", INPUT)
    story.read_all(committed_up_to=2)
    (finding,) = check_transactions(story.history)
    assert str(finding) == "not copied: copiers: in-0@1 has no copy, and the group has committed 2"


def test_a_copy_of_what_is_not_committed_is_found(story: Transactor) -> None:
    copied(story, is_input_committed=False)
    story.read_all(committed_up_to=1)
    assert story.kinds() == {TransactionAnomaly.COPY_OF_NOTHING}
