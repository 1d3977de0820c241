"""The check of consumer groups: each anomaly and what is near it, in histories written by hand."""

import pytest

from barnabas.protocol.ids import TopicPartition
from barnabas.simulation.group_check import GroupAnomaly, check_groups
from barnabas.simulation.group_history import Assignment
from barnabas.simulation.history import History, Outcome, Transaction

PARTITION = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)


class Group:
    """One group's history; each call takes two moments, of which the second is when it is answered."""

    def __init__(self) -> None:
        self.history = History()
        self.now = 0

    def tick(self) -> int:
        self.now += 1
        return self.now

    def assign(self, member: str, *partitions: TopicPartition, generation: int = 1) -> None:
        told = Assignment(f"client of {member}", "g", generation, member, partitions, self.tick())
        self.history.groups.assignments.append(told)

    def commit(
        self,
        offset: int,
        outcome: Outcome = Outcome.OK,
        *,
        generation: int = 1,
        transaction: str | None = None,
        asks_back: bool = False,
    ) -> None:
        made = self.history.groups.commit(
            "c",
            "g",
            {PARTITION: offset},
            self.tick(),
            generation=generation,
            member="m",
            transaction=transaction,
            asks_back=asks_back,
        )
        made.end(outcome, self.tick())

    def look(self, offset: int | None) -> None:
        read = self.history.groups.read("c", "g", (PARTITION,), self.tick())
        read.ok({} if offset is None else {PARTITION: offset}, self.tick())

    def hand_out(self, *offsets: int, read_committed: bool = False) -> None:
        poll = self.history.poll("c", PARTITION, self.tick(), read_committed=read_committed)
        poll.group = "g"
        poll.ok([(each, b"%d" % each) for each in offsets], self.tick())

    def read_all(self, *offsets: int, read_committed: bool = False) -> None:
        poll = self.history.poll("final", PARTITION, self.tick(), read_committed=read_committed, final=True)
        poll.ok([(each, b"%d" % each) for each in offsets], self.tick())

    def transaction(self, name: str, outcome: Outcome) -> None:
        made = self.history.transactions[name] = Transaction(name)
        made.end(outcome, self.tick())

    def kinds(self) -> set[object]:
        return {finding.kind for finding in check_groups(self.history)}


@pytest.fixture
def group() -> Group:
    return Group()


def test_a_group_that_reads_and_commits_is_well(group: Group) -> None:
    group.assign("a", PARTITION, OTHER)
    group.look(None)
    group.hand_out(0, 1)
    group.commit(2)
    group.assign("a", PARTITION, generation=2)
    group.assign("b", OTHER, generation=2)
    group.look(2)
    group.hand_out(2, 3)
    group.commit(4, generation=2)
    group.look(4)
    group.read_all(0, 1, 2, 3, 4)
    assert check_groups(group.history) == []


# Owners.


def test_two_owners_in_one_generation_are_found(group: Group) -> None:
    group.assign("a", PARTITION)
    group.assign("b", OTHER, PARTITION)
    (finding,) = check_groups(group.history)
    assert str(finding) == "two owners: g: t-0 is a's and b's in generation 1"


def test_an_owner_may_be_told_twice_and_another_in_the_next_generation(group: Group) -> None:
    group.assign("a", PARTITION)
    group.assign("a", PARTITION)
    group.assign("b", PARTITION, generation=2)
    assert group.kinds() == set()


def test_a_group_that_was_forgotten_has_other_owners_in_the_same_generations(group: Group) -> None:
    group.assign("a", PARTITION)
    group.assign("a", PARTITION, generation=2)
    group.history.groups.end("g", group.tick())
    group.assign("b", PARTITION)
    group.assign("c", PARTITION, generation=2)
    assert group.kinds() == set()


def test_who_was_slow_to_hear_may_have_been_in_the_group_before(group: Group) -> None:
    group.history.groups.end("g", group.tick())
    group.assign("b", PARTITION)
    group.assign("a", PARTITION)
    assert group.kinds() == set()


def test_two_owners_on_the_same_side_of_an_ending_are_found(group: Group) -> None:
    group.assign("a", PARTITION)
    group.assign("b", PARTITION)
    group.history.groups.end("g", group.tick())
    group.history.groups.end("another", group.tick())
    group.assign("c", PARTITION)
    group.assign("c", PARTITION, generation=2)
    group.assign("d", OTHER)
    group.assign("d", PARTITION, generation=2)
    found = [str(each) for each in check_groups(group.history)]
    assert found == [
        "two owners: g: t-0 is a's and b's in generation 1",
        "two owners: g: t-0 is c's and d's in generation 2",
    ]


def test_a_commit_after_an_ending_is_not_late_by_what_was_told_before(group: Group) -> None:
    group.assign("b", PARTITION, generation=2)
    group.history.groups.end("g", group.tick())
    group.commit(1)
    assert group.kinds() == set()
    group.assign("a", PARTITION)
    group.assign("a", PARTITION, generation=2)
    group.assign("b", OTHER)
    group.assign("b", OTHER, generation=2)
    group.commit(2)
    assert group.kinds() == {GroupAnomaly.LATE_COMMIT}


def test_a_commit_that_is_taken_from_an_earlier_generation_is_found(group: Group) -> None:
    group.assign("b", PARTITION, generation=2)
    group.commit(1)
    assert group.kinds() == {GroupAnomaly.LATE_COMMIT}


@pytest.mark.parametrize("outcome", [Outcome.FAIL, Outcome.UNKNOWN])
def test_one_that_is_not_known_to_be_taken_is_none(group: Group, outcome: Outcome) -> None:
    group.assign("b", PARTITION, generation=2)
    group.commit(1, outcome)
    assert group.kinds() == set()


def test_one_sent_before_the_next_generation_was_told_of_is_none(group: Group) -> None:
    made = group.history.groups.commit("c", "g", {PARTITION: 1}, group.tick(), generation=1, member="m")
    group.assign("b", PARTITION, generation=2)
    made.end(Outcome.OK, group.tick())
    group.commit(2, generation=-1)
    assert group.kinds() == set()


# Offsets.


def test_an_offset_that_goes_back_is_found(group: Group) -> None:
    group.commit(5)
    group.commit(9)
    group.look(5)
    assert group.kinds() == {GroupAnomaly.WENT_BACK}


def test_an_offset_that_is_gone_is_found(group: Group) -> None:
    group.commit(5)
    group.look(None)
    assert group.kinds() == {GroupAnomaly.WENT_BACK}


def test_an_offset_that_a_client_asked_back_is_none_and_what_it_replaced_is(group: Group) -> None:
    group.commit(9)
    group.commit(5, asks_back=True)
    group.look(5)
    assert group.kinds() == set()
    group.look(9)
    assert group.kinds() == {GroupAnomaly.WENT_BACK}


def test_an_offset_that_nobody_committed_is_found(group: Group) -> None:
    group.commit(5, Outcome.FAIL)
    group.look(5)
    assert group.kinds() == {GroupAnomaly.NEVER_COMMITTED}


def test_an_offset_that_is_read_before_anybody_commits_it_is_found(group: Group) -> None:
    group.look(5)
    group.commit(5)
    assert group.kinds() == {GroupAnomaly.NEVER_COMMITTED}


def test_a_commit_of_unknown_fate_may_act_late(group: Group) -> None:
    group.commit(5, Outcome.UNKNOWN)
    group.look(None)
    group.commit(9)
    group.look(9)
    group.look(5)
    assert group.kinds() == set()


def test_once_seen_its_predecessor_is_gone(group: Group) -> None:
    group.commit(5)
    group.commit(9, Outcome.UNKNOWN)
    group.look(5)
    assert group.kinds() == set()
    group.look(9)
    group.look(5)
    assert group.kinds() == {GroupAnomaly.WENT_BACK}


def test_who_reads_while_somebody_commits_sees_either(group: Group) -> None:
    group.commit(5)
    made = group.history.groups.commit("c", "g", {PARTITION: 9}, group.tick(), generation=1, member="m")
    group.look(9)
    made.end(Outcome.OK, group.tick())
    assert group.kinds() == set()
    group.look(5)
    assert group.kinds() == {GroupAnomaly.WENT_BACK}


def test_offsets_of_a_transaction_count_when_it_is_committed(group: Group) -> None:
    group.commit(5)
    group.commit(9, transaction="x")
    group.look(5)
    group.transaction("x", Outcome.OK)
    group.look(9)
    assert group.kinds() == set()
    group.look(5)
    assert group.kinds() == {GroupAnomaly.WENT_BACK}


def test_offsets_of_an_aborted_transaction_never_count(group: Group) -> None:
    group.commit(5)
    group.commit(9, transaction="x")
    group.transaction("x", Outcome.FAIL)
    group.look(5)
    assert group.kinds() == set()
    group.look(9)
    assert group.kinds() == {GroupAnomaly.NEVER_COMMITTED}


# At least once.


@pytest.mark.parametrize("read_committed", [True, False])
def test_a_record_that_is_passed_over_is_found(group: Group, read_committed: bool) -> None:
    group.hand_out(0, 2, read_committed=read_committed)
    group.commit(3)
    group.read_all(0, 1, 2, read_committed=read_committed)
    (finding,) = check_groups(group.history)
    assert finding.kind is GroupAnomaly.PASSED_OVER
    assert finding.detail == "c committed 3 at 3, and had not been given 1"


def test_what_is_handed_out_after_its_commit_came_too_late(group: Group) -> None:
    group.commit(1, Outcome.UNKNOWN)
    group.hand_out(0)
    group.read_all(0)
    assert group.kinds() == {GroupAnomaly.PASSED_OVER}


def test_of_a_record_that_is_handed_out_twice_the_first_time_counts(group: Group) -> None:
    group.hand_out(0)
    group.commit(1)
    group.hand_out(0)
    group.read_all(0)
    assert group.kinds() == set()


def test_who_reads_what_is_committed_is_not_given_the_rest(group: Group) -> None:
    group.hand_out(0, 2, read_committed=True)
    group.commit(3)
    group.read_all(0, 1, 2)
    group.read_all(0, 2, read_committed=True)
    assert group.kinds() == set()


def test_what_was_deleted_need_not_be_handed_out(group: Group) -> None:
    group.history.allow_deletion(PARTITION, 2)
    group.hand_out(2)
    group.commit(3)
    group.read_all(0, 1, 2)
    assert group.kinds() == set()
