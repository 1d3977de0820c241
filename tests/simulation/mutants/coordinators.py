"""What takes the place of rules of the coordinators, and of what they rest on. Each function gets the original."""

from typing import Any

from barnabas.coordinator.offsets.expiry import NO_GROUP
from barnabas.coordinator.transactions.states import COMPLETED, prepared
from barnabas.protocol.error_code import ErrorCode
from replication.acknowledgements import fail
from tests.simulation.mutants.mutant import Rule

_NEVER_HEARD_OF = -1


def markers_leave_no_time(original: Rule) -> Rule:
    """52. A producer of which a marker tells was not heard of by that."""

    def apply_marker(self: Any, header: Any, *arguments: Any, **named: Any) -> Any:
        completed = original(self, header, *arguments, **named)
        entry = self.get(header.producer_id)
        entry.last_timestamp, entry.is_active, entry.active_ms = _NEVER_HEARD_OF, False, _NEVER_HEARD_OF
        return completed

    return apply_marker


def tell_at_once(original: Rule) -> Rule:
    """53. A reply leaves before what it speaks of is in the log."""

    def put(self: Any, entry: Any) -> None:
        self._answer(entry.outcome.replies)
        original(self, entry)

    return put


def count_what_is_refused(original: Rule) -> Rule:
    """54. The machine takes for written what the log refuses."""

    def refuse(self: Any, outcome: Any, error: Any) -> None:
        for record in outcome.records:
            self.machine.replay(record, outcome.producer)
        original(self, outcome, error)

    return refuse


def send_markers_once(_original: Rule) -> Rule:
    """55. Where a marker cannot be written at once it never is."""

    async def look_again(_self: Any, *_: Any) -> None:
        return None

    return look_again


def everything_fits(_original: Rule) -> Rule:
    """56. Batches of tombstones are as large as it comes."""
    return lambda *_: True


def ask_nobody(_original: Rule) -> Rule:
    """57. A transaction may begin in a partition though its coordinator does not know of it."""
    return lambda *_: True


def confirm_while_it_completes(original: Rule) -> Rule:
    """59. EndTxn hears that all is well while the markers are on their way."""

    def end(self: Any, ticket: Any, producer: Any, *, commit: bool, **named: Any) -> Any:
        outcome = original(self, ticket, producer, commit=commit, **named)
        known = self._transactions[producer.transactional_id].metadata
        if known.state in COMPLETED and known.state is prepared(commit=commit) and not outcome.records:
            outcome.replies = [(ticket, ErrorCode.NONE)]
        return outcome

    return end


def time_by_the_wall(original: Rule) -> Rule:
    """60. How long a transaction is open is told by the wall clock and the time in its record."""

    def abort_overdue(self: Any, *, now_ms: int, wall_ms: int) -> Any:
        for transactional_id in self._ongoing:
            transaction = self._transactions[transactional_id]
            transaction.started_ms = now_ms - (wall_ms - transaction.metadata.start_timestamp_ms)
        return original(self, now_ms=now_ms, wall_ms=wall_ms)

    return abort_overdue


def end_with_an_unknown_error(_original: Rule) -> Rule:
    """61. Who waits for an acknowledgement when the leader is replaced hears UNKNOWN_SERVER_ERROR."""

    def end(self: Any) -> None:
        for waiters in (self.committed, self.durable, self.trimmed):
            fail(waiters, ErrorCode.UNKNOWN_SERVER_ERROR)

    return end


def overtake_nothing(_original: Rule) -> Rule:
    """62. What was sent to a transaction counts when it commits, whatever was committed in between."""
    return lambda *_: None


def prove_nothing(_original: Rule) -> Rule:
    """P5. A leader believes itself."""
    return lambda *_: None


def everybody_is_gone(original: Rule) -> Rule:
    """63. Offsets age from their commit, also of groups that have members."""

    def expired_partitions(offsets: Any, _use: Any, **named: Any) -> Any:
        return original(offsets, NO_GROUP, **named)

    return expired_partitions


def restarts_are_not_stored(_original: Rule) -> Rule:
    """64. The new member id of a static member is known to its coordinator alone."""
    return lambda *_: None


def hide_nothing(_original: Rule) -> Rule:
    """Readers of what is committed are given what is open."""

    def refresh_unstable(self: Any) -> None:
        self.first_unstable_offset = None

    return refresh_unstable


def offsets_count_at_once(_original: Rule) -> Rule:
    """Offsets that are sent to a transaction are committed by that."""

    def replay_pending(self: Any, topic: str, partition: int, value: Any, _producer_id: int) -> None:
        self.replay(topic, partition, value)

    return replay_pending


def never_overdue(_original: Rule) -> Rule:
    """No transaction is open for too long."""
    return lambda *_, **__: False
