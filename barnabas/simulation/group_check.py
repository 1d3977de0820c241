"""Judges what a history shows of consumer groups.

Promised is that a partition has one owner in a generation; that who was replaced by a later generation commits nothing;
that committed offsets never go back unless a client asks for it; and that no offset is committed past a record that
was never handed out, so that each is worked on at least once.

The committed offset of a partition is a register: who reads it gets what was written last, or what may have been
written meanwhile. A commit of which nobody knows the end may act at any time after it was sent. One in a transaction
acts when that commits; who reads waits for transactions that decide (KIP-447). Groups begin where their partitions do.

A group of which nothing is left is forgotten when a topic is deleted, as in Kafka; whoever joins then begins another
one of that name, in generation 1. What was told on both sides of that is not held against each other.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from math import inf
from typing import NamedTuple

from barnabas.protocol.ids import TopicPartition
from barnabas.simulation.final_reads import FinalReads
from barnabas.simulation.finding import Finding
from barnabas.simulation.group_history import Assignment, OffsetCommit
from barnabas.simulation.history import History, Outcome


class GroupAnomaly(StrEnum):
    """What can be wrong."""

    TWO_OWNERS = "two owners"  # two members were told the same partition in one generation
    LATE_COMMIT = "late commit"  # taken from a member of a generation after a later one had been told of
    WENT_BACK = "offset went back"  # what was read had been replaced before
    NEVER_COMMITTED = "offset never committed"  # what was read nobody has written
    PASSED_OVER = "passed over"  # committed beyond a record that had been handed out to nobody


def check_groups(history: History) -> list[Finding]:
    """All that is wrong; nothing where all is well, or there are no groups."""
    return [*_two_owners(history), *_late_commits(history), *_offsets(history), *_passed_over(history)]


class _Telling(NamedTuple):
    """An assignment, and when its client was told the one before (-1: it was the first), which it joined after."""

    told: Assignment
    since: int


def _tellings(history: History) -> Iterator[_Telling]:
    last: dict[tuple[str, str], int] = {}
    for each in sorted(history.groups.assignments, key=lambda one: one.at):
        yield _Telling(each, last.get((each.group, each.client), -1))
        last[each.group, each.client] = each.at


def _two_owners(history: History) -> Iterator[Finding]:
    owners: dict[tuple[str, int, TopicPartition], _Telling] = {}
    for each in _tellings(history):
        told = each.told
        for topic_partition in told.partitions:
            key = told.group, told.generation, topic_partition
            owner = owners.setdefault(key, each)
            if owner.told.member == told.member:
                continue
            ends_between = history.groups.ends_between
            if ends_between(told.group, owner.since, told.at) or ends_between(told.group, each.since, owner.told.at):
                owners[key] = each
                continue
            detail = f"{topic_partition} is {owner.told.member}'s and {told.member}'s in generation {told.generation}"
            yield Finding(GroupAnomaly.TWO_OWNERS, told.group, detail)


def _late_commits(history: History) -> Iterator[Finding]:
    tellings: dict[str, list[_Telling]] = {}
    for each in _tellings(history):
        tellings.setdefault(each.told.group, []).append(each)
    for commit in history.groups.commits:
        if commit.outcome is not Outcome.OK or commit.generation < 0:
            continue
        before = [each for each in tellings.get(commit.group, ()) if each.told.at < commit.invoked_at]
        own = (commit.client, commit.generation)
        told_at = [each.told.at for each in before if (each.told.client, each.told.generation) == own]
        heard_at = max(told_at, default=commit.invoked_at)
        later = [
            each.told
            for each in before
            if each.told.generation > commit.generation
            and not history.groups.ends_between(commit.group, each.since, heard_at)
        ]
        if later:
            newest = max(later, key=lambda one: one.generation)
            detail = (
                f"{commit.member} of generation {commit.generation} committed at {commit.invoked_at}, "
                f"and generation {newest.generation} was told of at {newest.at}"
            )
            yield Finding(GroupAnomaly.LATE_COMMIT, commit.group, detail)


class _Write(NamedTuple):
    """One value of the register: it is there at some time between the two, if at all where the second is infinite."""

    invoked_at: int
    acts_before: float
    offset: int


@dataclass(frozen=True, slots=True)
class _Look:
    """What somebody read of the register; None where nothing was committed."""

    client: str
    invoked_at: int
    completed_at: int
    offset: int | None


def _offsets(history: History) -> Iterator[Finding]:
    writes: dict[tuple[str, TopicPartition], list[_Write]] = {}
    for commit in history.groups.commits:
        acts_before = _acts_before(history, commit)
        if acts_before is not None:
            for topic_partition, offset in commit.offsets.items():
                write = _Write(commit.invoked_at, acts_before, offset)
                writes.setdefault((commit.group, topic_partition), []).append(write)
    looks: dict[tuple[str, TopicPartition], list[_Look]] = {}
    for read in history.groups.reads:
        if read.outcome is Outcome.OK and read.completed_at is not None:
            for topic_partition in read.partitions:
                look = _Look(read.client, read.invoked_at, read.completed_at, read.offsets.get(topic_partition))
                looks.setdefault((read.group, topic_partition), []).append(look)
    for (group, topic_partition), some in looks.items():
        yield from _judge(f"{group}, {topic_partition}", writes.get((group, topic_partition), []), some)


def _acts_before(history: History, commit: OffsetCommit) -> float | None:
    """When the commit surely had acted; infinite where that is not known, None where it never does."""
    if commit.outcome is Outcome.FAIL:
        return None
    is_known = commit.outcome is Outcome.OK and commit.completed_at is not None
    acts_before = float(commit.completed_at) if is_known and commit.completed_at is not None else inf
    if commit.transaction is None:
        return acts_before
    transaction = history.transactions.get(commit.transaction)
    if transaction is None or transaction.outcome is Outcome.UNKNOWN or transaction.completed_at is None:
        return inf if transaction is None or transaction.outcome is not Outcome.FAIL else None
    return None if transaction.outcome is Outcome.FAIL else max(acts_before, float(transaction.completed_at))


def _judge(where: str, writes: Sequence[_Write], looks: Sequence[_Look]) -> Iterator[Finding]:
    """Hold what was read against what was written, and against what had been read before."""
    seen: list[tuple[int, int]] = []
    """When an offset had been read, and when it was sent at the earliest."""
    for look in sorted(looks, key=lambda each: each.completed_at):
        # Something had acted before this look began, and had not been sent before `since`.
        replacing = [each.invoked_at for each in writes if each.acts_before < look.invoked_at]
        replacing += [sent_at for read_at, sent_at in seen if read_at < look.invoked_at]
        since = max(replacing, default=-1)
        if look.offset is None:
            if since >= 0:
                detail = f"{look.client} was told at {look.completed_at} that nothing is committed"
                yield Finding(GroupAnomaly.WENT_BACK, where, detail)
            continue
        written = [each for each in writes if each.offset == look.offset and each.invoked_at <= look.completed_at]
        if not written:
            detail = f"{look.client} was told {look.offset} at {look.completed_at}"
            yield Finding(GroupAnomaly.NEVER_COMMITTED, where, detail)
            continue
        if all(each.acts_before < since for each in written):
            detail = f"{look.client} was told {look.offset} at {look.completed_at}, replaced since {since}"
            yield Finding(GroupAnomaly.WENT_BACK, where, detail)
            continue
        seen.append((look.completed_at, min(each.invoked_at for each in written)))


def _passed_over(history: History) -> Iterator[Finding]:
    reads = FinalReads(history)
    handed: dict[tuple[str, TopicPartition], dict[int, int]] = {}
    sees_all: dict[str, bool] = {}
    for topic_partition, polls in history.polls.items():
        for poll in polls:
            if poll.group is None or poll.outcome is not Outcome.OK or poll.completed_at is None:
                continue
            sees_all[poll.group] = not poll.read_committed
            at = handed.setdefault((poll.group, topic_partition), {})
            for offset, _ in poll.records:
                at[offset] = min(poll.completed_at, at.get(offset, poll.completed_at))
    due: dict[tuple[str, TopicPartition], tuple[list[int], list[float]]] = {}
    for commit in history.groups.commits:
        if commit.outcome is Outcome.FAIL or commit.group not in sees_all:
            continue
        for topic_partition, committed in commit.offsets.items():
            key = commit.group, topic_partition
            if key not in due:
                given = reads.written if sees_all[commit.group] else reads.committed
                start_offset = history.start_offsets.get(topic_partition, 0)
                offsets = sorted(each for each in given.get(topic_partition, ()) if each >= start_offset)
                handed_at = handed.get(key, {})
                due[key] = offsets, [*accumulate((float(handed_at.get(each, inf)) for each in offsets), max)]
            offsets, all_by = due[key]
            below = bisect_left(offsets, committed)
            if below and all_by[below - 1] > commit.invoked_at:
                offset = offsets[bisect_left(all_by, float(commit.invoked_at + 1))]
                detail = (
                    f"{commit.client} committed {committed} at {commit.invoked_at}, and had not been given {offset}"
                )
                yield Finding(GroupAnomaly.PASSED_OVER, f"{commit.group}, {topic_partition}", detail)
