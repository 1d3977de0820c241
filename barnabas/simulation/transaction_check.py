"""Judges what a history shows of transactions, and of what was read, transformed and written in them.

Promised is that nothing of a transaction is read by a reader of committed ones before its commit was asked for; that a
committed one is seen whole by who reads from the beginning, and one of unknown fate whole or not at all; and that of
every record that a group of copiers has passed there is one copy. That nothing of an aborted transaction is read, and
no record twice or out of its producer's order, is judged by partition in `history_check`.

Needs final reads of both kinds, and `History.settle_transactions` before it. Not judged: how long a transaction may
stay open, which a history cannot show.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from barnabas.protocol.ids import TopicPartition
from barnabas.simulation.final_reads import FinalReads
from barnabas.simulation.finding import Finding
from barnabas.simulation.history import History, Outcome, Produce, Transaction
from barnabas.simulation.history_values import short_form


class TransactionAnomaly(StrEnum):
    """What can be wrong."""

    OPEN_READ = "open read"  # a record was given to a reader of committed ones before anybody asked for the commit
    TORN = "torn transaction"  # it is committed, and some of it is not
    COPIED_TWICE = "copied twice"  # two committed records are made of one
    NOT_COPIED = "not copied"  # the copiers have passed a record of which there is no copy
    COPY_OF_NOTHING = "copy of nothing"  # a committed record is made of one that is not committed


def check_transactions(history: History) -> list[Finding]:
    """All that is wrong; nothing where all is well, or nobody has used transactions."""
    if not history.transactions:
        return []
    reads = FinalReads(history)
    records: dict[str, list[Produce]] = {}
    for produces in history.produces.values():
        for one in produces:
            if one.transaction is not None:
                records.setdefault(one.transaction, []).append(one)
    return [
        *_open_reads(history, records),
        *_torn(history, reads, records),
        *_copies(history, reads, records),
    ]


def _open_reads(history: History, records: dict[str, list[Produce]]) -> Iterator[Finding]:
    asked_at: dict[tuple[TopicPartition, bytes], tuple[str, int]] = {}
    for name, transaction in history.transactions.items():
        if transaction.commit_asked_at is not None:
            for one in records.get(name, ()):
                asked_at[one.topic_partition, one.value] = name, transaction.commit_asked_at
    for topic_partition, polls in history.polls.items():
        for poll in polls:
            if not poll.read_committed or poll.outcome is not Outcome.OK or poll.completed_at is None:
                continue
            for offset, value in poll.records:
                name, at = asked_at.get((topic_partition, value), ("", poll.completed_at))
                if at > poll.completed_at:
                    detail = (
                        f"{poll.client} had {topic_partition}@{offset} at {poll.completed_at}, "
                        f"and its commit was asked for at {at}"
                    )
                    yield Finding(TransactionAnomaly.OPEN_READ, name, detail)


def _torn(history: History, reads: FinalReads, records: dict[str, list[Produce]]) -> Iterator[Finding]:
    if not reads.committed or reads.began_at is None:
        return
    committed = {(topic_partition, value) for topic_partition, _, value in reads.committed_values()}
    written = {(at, value) for at, some in reads.written.items() for value in some.values()}
    for name, transaction in history.transactions.items():
        if transaction.outcome is Outcome.FAIL or _is_late(transaction, reads.began_at):
            continue
        ours = [one for one in records.get(name, ()) if _must_be_there(history, one)]
        seen = [one for one in ours if (one.topic_partition, one.value) in committed]
        if transaction.outcome is Outcome.UNKNOWN and not seen:
            continue
        for one in ours:
            place = one.topic_partition, one.value
            if place not in committed and (one.outcome is Outcome.OK or place in written):
                detail = (
                    f"{len(seen)} of {len(ours)} records are committed, not "
                    f"{short_form(one.value)!r} of {one.topic_partition}@{one.offset}"
                )
                yield Finding(TransactionAnomaly.TORN, name, detail)
                break


def _is_late(transaction: Transaction, final_at: int) -> bool:
    """Whether its end may have come while the final reads were under way."""
    known_at = transaction.completed_at if transaction.outcome is Outcome.OK else transaction.commit_asked_at
    return known_at is not None and known_at >= final_at


def _must_be_there(history: History, one: Produce) -> bool:
    """Whether nothing but its transaction's fate can keep the record out of the final reads."""
    start_offset = history.start_offsets.get(one.topic_partition, 0)
    if one.outcome is Outcome.FAIL or one.topic_partition in history.compacted:
        return False
    return not start_offset or (one.offset is not None and one.offset >= start_offset)


@dataclass(slots=True)
class _Copying:
    """What the copiers of one group have done, each in transactions: how far they came, and what they made of what."""

    passed: dict[TopicPartition, int] = field(default_factory=dict)
    copies: dict[tuple[TopicPartition, int], int] = field(default_factory=dict)


def _copies(history: History, reads: FinalReads, records: dict[str, list[Produce]]) -> Iterator[Finding]:
    if not reads.committed:
        return
    committed = {(topic_partition, value) for topic_partition, _, value in reads.committed_values()}
    for group, copying in _copying(history, records, committed).items():
        for (topic_partition, offset), count in copying.copies.items():
            source = f"{topic_partition}@{offset}"
            if count > 1:
                detail = f"there are {count} committed copies of {source}"
                yield Finding(TransactionAnomaly.COPIED_TWICE, group, detail)
            if offset < history.start_offsets.get(topic_partition, 0) or topic_partition in history.compacted:
                continue
            if offset not in reads.committed.get(topic_partition, ()):
                yield Finding(TransactionAnomaly.COPY_OF_NOTHING, group, f"{source} is not committed, its copy is")
        for topic_partition, passed in copying.passed.items():
            start_offset = history.start_offsets.get(topic_partition, 0)
            for offset in sorted(reads.committed.get(topic_partition, ())):
                if start_offset <= offset < passed and (topic_partition, offset) not in copying.copies:
                    detail = f"{topic_partition}@{offset} has no copy, and the group has committed {passed}"
                    yield Finding(TransactionAnomaly.NOT_COPIED, group, detail)


def _copying(
    history: History, records: dict[str, list[Produce]], committed: set[tuple[TopicPartition, bytes]]
) -> dict[str, _Copying]:
    """By group, what was read in the end and what is committed."""
    found: dict[str, _Copying] = {}
    for commit in history.groups.commits:
        if commit.transaction is not None and any(one.source for one in records.get(commit.transaction, ())):
            found.setdefault(commit.group, _Copying())
    for read in history.groups.reads:
        if read.final and read.outcome is Outcome.OK and read.group in found:
            found[read.group].passed.update(read.offsets)
    of_transaction = {each.transaction: each.group for each in history.groups.commits if each.transaction is not None}
    for name, group in of_transaction.items():
        for one in records.get(name, ()):
            if one.source is not None and (one.topic_partition, one.value) in committed:
                copies = found[group].copies
                copies[one.source] = copies.get(one.source, 0) + 1
    return found
