"""Judges a history of clients: what a log that keeps its promises would never show.

One partition at a time, in time linear in its operations but for two sorts. The offset of a record is what its
acknowledgement (acks=all) and every read of it say; offsets give the order of the log, so nothing is searched for.
After Jepsen's Kafka workload, with one thing more: the final reads must hold every record that was acknowledged with
acks=all and every record that anybody had read before. A history without final reads cannot show that a record is lost.

Not judged: acks 0 and 1 promise neither place nor survival; unclean elections break what is held here. Where logs are
compacted, a record may be missing when a later one of its key is there or was, or when it is a tombstone.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeVar

from barnabas.protocol.ids import TopicPartition
from barnabas.simulation.history import ACKS_ALL, History, Outcome, Poll, Produce
from barnabas.simulation.history_values import read_value


class AnomalyKind(StrEnum):
    """What can be wrong, in the order in which it is reported."""

    LOST = "lost"  # not where its acknowledgement or a reader saw it, though later records can be read
    UNSEEN = "unseen"  # acknowledged or read before, and beyond the end of the final reads
    INCONSISTENT_OFFSETS = "inconsistent offsets"  # two records at one offset
    DUPLICATE = "duplicate"  # one record at two offsets
    REORDERED = "reordered"  # not in the order in which an idempotent producer sent
    CHANGED = "changed"  # nobody sent these bytes to this partition
    ABORTED_READ = "aborted read"  # a write that failed, or whose transaction was aborted, was read (G1a)
    NONMONOTONIC_POLL = "non-monotonic poll"  # a reader went back
    SKIPPING_POLL = "skipping poll"  # a reader left out a record that is there
    ACKNOWLEDGEMENT_ORDER = "acknowledgement order"  # below an offset that was acknowledged before the sending
    HIGH_WATERMARK_REGRESS = "high watermark regress"  # a leader took back what it had told within its epoch
    ABOVE_HIGH_WATERMARK = "above the high watermark"  # a leader gave a consumer what is not committed


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One finding. `offset` is where to look, None where the record has no known place."""

    kind: AnomalyKind
    topic_partition: TopicPartition
    offset: int | None
    detail: str

    def __str__(self) -> str:
        place = "" if self.offset is None else f"@{self.offset}"
        return f"{self.kind}: {self.topic_partition}{place}: {self.detail}"


SHOWN_PER_KIND: Final = 10
_NOTHING: Final = -1
_Item = TypeVar("_Item")


def check(history: History, *, shown_per_kind: int = SHOWN_PER_KIND) -> list[Anomaly]:
    """All anomalies, at most `shown_per_kind` of each kind and partition; none when all is well."""
    found: list[Anomaly] = []
    senders = _Senders(history)
    has_final_reads = any(poll.final for some in history.polls.values() for poll in some)
    for topic_partition in sorted(history.produces.keys() | history.polls.keys()):
        view = _Partition(topic_partition, history, senders, has_final_reads)
        counts: dict[AnomalyKind, int] = {}
        for anomaly in view.anomalies():
            counts[anomaly.kind] = counts.get(anomaly.kind, 0) + 1
            if counts[anomaly.kind] <= shown_per_kind:
                found.append(anomaly)
    return sorted(found, key=lambda one: (_RANKS[one.kind], one.topic_partition))


_RANKS: Final = {kind: rank for rank, kind in enumerate(AnomalyKind)}


@dataclass(slots=True)
class _Senders:
    """Where each value was sent to; made when the first stray record is met."""

    history: History
    partition_of: dict[bytes, TopicPartition] | None = None

    def describe(self, value: bytes) -> str:
        if self.partition_of is None:
            self.partition_of = {
                one.value: topic_partition for topic_partition, some in self.history.produces.items() for one in some
            }
        sent_to = self.partition_of.get(value)
        return "which nobody sent" if sent_to is None else f"which was sent to {sent_to}"


@dataclass(slots=True)
class _Partition:
    """The operations of one partition and the log that they speak of."""

    topic_partition: TopicPartition
    history: History
    senders: _Senders
    has_final_reads: bool
    produces: Sequence[Produce] = ()
    polls: Sequence[Poll] = ()
    start_offset: int = 0
    sent: dict[bytes, Produce] = field(default_factory=dict)
    value_at: dict[int, bytes] = field(default_factory=dict)
    place_of: dict[bytes, int] = field(default_factory=dict)
    known_offsets: list[int] = field(default_factory=list)
    compacted: "_Compacted | None" = None

    def __post_init__(self) -> None:
        self.produces = self.history.produces.get(self.topic_partition, ())
        self.polls = [one for one in self.history.polls.get(self.topic_partition, ()) if one.outcome is Outcome.OK]
        self.start_offset = self.history.start_offsets.get(self.topic_partition, 0)
        for one in self.produces:
            assert one.value not in self.sent, f"two operations send the same value: {_describe(one.value)}"
            self.sent[one.value] = one

    def anomalies(self) -> Iterator[Anomaly]:
        yield from self._place_records()
        self.known_offsets = sorted(self.value_at)
        if self.topic_partition in self.history.compacted:
            self.compacted = _Compacted(self.produces, self.place_of)
        yield from self._aborted_reads()
        yield from self._missing_records()
        yield from self._producer_order()
        yield from self._acknowledgement_order()
        yield from self._poll_order()
        yield from self._high_watermarks()

    def _anomaly(self, kind: AnomalyKind, offset: int | None, detail: str) -> Anomaly:
        return Anomaly(kind, self.topic_partition, offset, detail)

    # What stands where

    def _place_records(self) -> Iterator[Anomaly]:
        for one in self.produces:
            if one.outcome is Outcome.OK and one.acks == ACKS_ALL and one.offset is not None:
                yield from self._place(one.offset, one.value, one)
        unsent: set[tuple[int, bytes]] = set()
        for poll in self.polls:
            value_at, place_of = self.value_at, self.place_of
            for offset, value in poll.records:
                if value_at.get(offset) == value and place_of[value] == offset:
                    continue
                sender = self.sent.get(value)
                if sender is not None:
                    yield from self._place(offset, value, sender)
                elif (offset, value) not in unsent:
                    unsent.add((offset, value))
                    detail = f"{poll.client} read {_describe(value)}, {self.senders.describe(value)}"
                    yield self._anomaly(AnomalyKind.CHANGED, offset, detail)

    def _place(self, offset: int, value: bytes, sender: Produce) -> Iterator[Anomaly]:
        there = self.value_at.setdefault(offset, value)
        if there != value:
            detail = f"{_describe(there)} and {_describe(value)}"
            yield self._anomaly(AnomalyKind.INCONSISTENT_OFFSETS, offset, detail)
        place = self.place_of.setdefault(value, offset)
        if place != offset and sender.idempotent:
            yield self._anomaly(AnomalyKind.DUPLICATE, offset, f"{_describe(value)} is also at {place}")

    # What must not be read

    def _aborted_reads(self) -> Iterator[Anomaly]:
        failed = {one.value for one in self.produces if one.outcome is Outcome.FAIL}
        aborted = {one.value for one in self.produces if self._transaction_outcome(one) is Outcome.FAIL}
        if not failed and not aborted:
            return
        for poll in self.polls:
            hidden = failed | aborted if poll.read_committed else failed
            for offset, value in poll.records:
                if value in hidden:
                    why = self.sent[value].error if value in failed else f"aborted {self.sent[value].transaction}"
                    detail = f"{poll.client} read {_describe(value)}: {why}"
                    yield self._anomaly(AnomalyKind.ABORTED_READ, offset, detail)

    def _transaction_outcome(self, one: Produce) -> Outcome:
        if one.transaction is None:
            return Outcome.OK
        transaction = self.history.transactions.get(one.transaction)
        return Outcome.UNKNOWN if transaction is None else transaction.outcome

    # What must be read

    def _missing_records(self) -> Iterator[Anomaly]:
        if not self.has_final_reads:
            return
        seen = {record for poll in self.polls if poll.final for record in poll.records}
        bound = max((offset for offset, _ in seen), default=_NOTHING)
        # A record that came to be known while the last of the reads was under way may have come too late for it.
        last_asked_at = max((poll.invoked_at for poll in self.polls if poll.final), default=None)
        for offset, value, known_at, who in self._due():
            if self._may_be_compacted(value):
                continue
            if offset is None:
                if value not in self.place_of:
                    yield self._anomaly(AnomalyKind.LOST, None, f"{_describe(value)}, {who}")
            elif (offset, value) not in seen and offset >= self.start_offset:
                kind = AnomalyKind.LOST if offset <= bound else AnomalyKind.UNSEEN
                if kind is AnomalyKind.UNSEEN and last_asked_at is not None and (known_at or 0) >= last_asked_at:
                    continue
                yield self._anomaly(kind, offset, f"{_describe(value)}, {who}; the final reads end at {bound}")

    def _due(self) -> Iterator[tuple[int | None, bytes, int | None, str]]:
        """Records that no final read may lack, and since when: acknowledged ones, and those that somebody has read."""
        acknowledged: set[tuple[int | None, bytes]] = set()
        for one in self.produces:
            survives = one.acks == ACKS_ALL and one.outcome is Outcome.OK
            if survives and self._transaction_outcome(one) is Outcome.OK:
                acknowledged.add((one.offset, one.value))
                who = f"acknowledged to {one.client} at {one.completed_at}"
                yield one.offset, one.value, self._known_at(one, one.completed_at), who
        reported: set[tuple[int, bytes]] = set()
        for poll in self.polls:
            for record in poll.records:
                if record in acknowledged or record in reported:
                    continue
                reported.add(record)
                sender = self.sent.get(record[1])
                if sender is not None and self._transaction_outcome(sender) is Outcome.OK:
                    who = f"read by {poll.client} at {poll.completed_at}"
                    yield *record, self._known_at(sender, poll.completed_at), who

    def _known_at(self, one: Produce, seen_at: int | None) -> int | None:
        """Since when a record must be read that was seen then: that of a transaction not before its end is told."""
        transaction = self.history.transactions.get(one.transaction) if one.transaction is not None else None
        if seen_at is None or transaction is None or transaction.completed_at is None:
            return seen_at
        return max(seen_at, transaction.completed_at)

    def _may_be_compacted(self, value: bytes) -> bool:
        sender = self.sent.get(value)
        return self.compacted is not None and sender is not None and self.compacted.may_be_gone(sender)

    # Orders

    def _producer_order(self) -> Iterator[Anomaly]:
        newest: dict[str, tuple[int, bytes]] = {}
        for one in self.produces:
            offset = self.place_of.get(one.value)
            if offset is None or not one.idempotent:
                continue
            before = newest.get(one.client)
            if before is not None and offset < before[0]:
                detail = f"{_describe(one.value)} was sent after {_describe(before[1])}, which is at {before[0]}"
                yield self._anomaly(AnomalyKind.REORDERED, offset, detail)
            else:
                newest[one.client] = offset, one.value

    def _acknowledgement_order(self) -> Iterator[Anomaly]:
        acknowledged = [
            (one.invoked_at, one.completed_at, one.offset, one.value)
            for one in self.produces
            if one.outcome is Outcome.OK
            and one.acks == ACKS_ALL
            and one.offset is not None
            and one.completed_at is not None
        ]
        for value, offset, floor in _below_what_was_told(acknowledged):
            detail = f"{_describe(value)} was sent after {floor} had been acknowledged"
            yield self._anomaly(AnomalyKind.ACKNOWLEDGEMENT_ORDER, offset, detail)

    def _poll_order(self) -> Iterator[Anomaly]:
        expected_of: dict[tuple[str, int, bool], int | None] = {}
        for poll in self.polls:
            reader = (poll.client, poll.session, poll.final)
            expected = expected_of.get(reader) if poll.position is None else poll.position
            for offset, value in poll.records:
                if expected is not None and offset != expected:
                    if offset < expected:
                        detail = f"{poll.client} got {_describe(value)} where {expected} was due"
                        yield self._anomaly(AnomalyKind.NONMONOTONIC_POLL, offset, detail)
                    else:
                        yield from self._skipped(poll, start=expected, end=offset)
                expected = offset + 1
            expected_of[reader] = expected

    def _skipped(self, poll: Poll, *, start: int, end: int) -> Iterator[Anomaly]:
        offsets = self.known_offsets
        for at in range(bisect_left(offsets, max(start, self.start_offset)), bisect_left(offsets, end)):
            value = self.value_at[offsets[at]]
            if self._may_be_compacted(value):
                continue
            if self._transaction_outcome(self.sent[value]) is Outcome.OK:
                detail = f"{poll.client} went from {start - 1} to {end} over {_describe(value)}"
                yield self._anomaly(AnomalyKind.SKIPPING_POLL, offsets[at], detail)
                return

    def _high_watermarks(self) -> Iterator[Anomaly]:
        told: dict[int, list[tuple[int, int, int, Poll]]] = {}
        for poll in self.polls:
            high_watermark = poll.high_watermark
            if high_watermark is None:
                continue
            if poll.records and poll.records[-1][0] >= high_watermark:
                detail = f"{poll.client} was given it with the high watermark at {high_watermark}"
                yield self._anomaly(AnomalyKind.ABOVE_HIGH_WATERMARK, poll.records[-1][0], detail)
            if poll.leader_epoch is not None and poll.completed_at is not None:
                entry = (poll.invoked_at, poll.completed_at, high_watermark, poll)
                told.setdefault(poll.leader_epoch, []).append(entry)
        for leader_epoch, entries in told.items():
            for poll, high_watermark, floor in _below_what_was_told(entries, may_repeat=True):
                detail = f"leader epoch {leader_epoch} told {poll.client} this after {floor}"
                yield self._anomaly(AnomalyKind.HIGH_WATERMARK_REGRESS, high_watermark, detail)


class _Compacted:
    """Which records compaction may have taken: those that a later one of their key gives way to, and tombstones."""

    def __init__(self, produces: Sequence[Produce], place_of: Mapping[bytes, int]) -> None:
        self._place_of = place_of
        self._last: dict[bytes | None, int] = {}
        self._unseen_tombstone: dict[bytes | None, int] = {}
        for one in produces:
            offset = place_of.get(one.value)
            if offset is not None:
                self._last[one.key] = max(offset, self._last.get(one.key, _NOTHING))
            elif one.is_tombstone and one.outcome is not Outcome.FAIL:
                # It may have been written, done its work and gone, seen by nobody.
                self._unseen_tombstone[one.key] = max(one.invoked_at, self._unseen_tombstone.get(one.key, 0))

    def may_be_gone(self, one: Produce) -> bool:
        offset = self._place_of.get(one.value)
        gives_way = offset is None or offset < self._last.get(one.key, _NOTHING)
        return one.is_tombstone or gives_way or self._unseen_tombstone.get(one.key, -1) >= one.invoked_at


def _below_what_was_told(
    entries: Sequence[tuple[int, int, int, _Item]], *, may_repeat: bool = False
) -> Iterator[tuple[_Item, int, int]]:
    """Of (invoked at, completed at, number, item): item, number and floor where it is not above all told before.

    Told before is what completed before this one was invoked. `may_repeat`: the same number again is fine.
    """
    told = sorted((completed_at, number) for _, completed_at, number, _ in entries)
    at, floor = 0, _NOTHING
    for invoked_at, _, number, item in sorted(entries, key=lambda one: one[0]):
        while at < len(told) and told[at][0] < invoked_at:
            floor = max(floor, told[at][1])
            at += 1
        if number < floor or (number == floor and not may_repeat):
            yield item, number, floor


def _describe(value: bytes) -> str:
    written = read_value(value)
    if written is None:
        return repr(value[:60])
    return f"{written.producer}|{written.epoch}|{written.sequence}"
