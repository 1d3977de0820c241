"""What a coordinator's machine is to the shard that runs it: the machine's methods and what a handler of it returns.

Pure. What the log holds (committed offsets, groups, transactions) is changed by `Machine.replay` alone, so that a
machine that was loaded and one that has lived are the same. What dies with the broker (parked requests, deadlines, a
rebalance under way) is changed by handlers as they go.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, NewType, Protocol

from barnabas.coordinator.effect import Effect
from barnabas.protocol.error_code import ErrorCode

Ticket = NewType("Ticket", int)
"""Names one request that waits for its reply. A shard never gives one out twice."""

Replies = list[tuple[Ticket, Any]]


class CoordinatorRecord(NamedTuple):
    """One record of an internal topic; without a value, the end of what `key` named."""

    key: bytes
    value: bytes | None


class ProducerStamp(NamedTuple):
    """The producer in whose transaction a batch stands."""

    producer_id: int
    producer_epoch: int


@dataclass(slots=True)
class Outcome:
    """What a handler wants: all of it happens in the order of the handlers that returned it, or none."""

    records: list[CoordinatorRecord] = field(default_factory=list)
    """Appended as one batch, in this order, and replayed before another handler runs."""
    is_divisible: bool = False
    """Where the records are too large for one batch they go as several: after a crash the first ones may stand alone.
    Replies and effects still wait for the last."""
    replies: Replies = field(default_factory=list)
    """Answers to this request or to parked ones. They leave when these records and all earlier ones are committed."""
    effects: list[Effect] = field(default_factory=list)
    timers: list[tuple[Hashable, int | None]] = field(default_factory=list)
    """(key, due) sets a timer, due in monotonic milliseconds; (key, None) cancels it. Carried out at once."""
    producer: ProducerStamp | None = None
    """The batch is part of this producer's transaction."""
    if_failed: Callable[[ErrorCode], Replies] | None = None
    """What the replies become when the records are refused or not committed in time: gets the log's error, for
    `coordinator_error` or the API's own mapping. Where the log refused (nothing was replayed) the machine lives on, so
    this also takes back what the handler changed of the soft state. None: replies become their requests' `on_lost`."""
    notes: list[str] = field(default_factory=list)
    """Lines for the operator's log. Told at once, whatever becomes of the records."""


class Machine(Protocol):
    """All groups, or all transactional ids, of one partition of an internal topic.

    `now_ms` is monotonic, for deadlines; `wall_ms` is the Unix epoch's, for records. Requests are further methods,
    `join(ticket, request, now_ms=…, wall_ms=…) -> Outcome`: who is answered at once has its ticket in `replies`, who is
    parked has not. Handlers never raise for what a peer sent.
    """

    def replay(self, record: CoordinatorRecord, producer: ProducerStamp | None) -> None:
        """A record stands in the log: the only change of what the log holds. Raises ValueError if it cannot be read;
        the record then changes nothing.
        """

    def replay_marker(self, producer_id: int, *, commit: bool) -> None:
        """The producer's transaction has ended in this partition."""

    def loaded(self, *, coordinator_epoch: int, now_ms: int, wall_ms: int) -> Outcome:
        """All of the log has been replayed. What to begin with: timers, transactions that were under way."""

    def on_timer(self, key: Hashable, *, now_ms: int, wall_ms: int) -> Outcome:
        """A timer that an outcome set is due, and gone."""

    def unload(self) -> list[Ticket]:
        """This machine will hear nothing more. Who still waits: the shard answers them."""

    def contents(self) -> str:
        """How much the machine holds, in words for the operator's log."""


_UNAVAILABLE: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
_GONE: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR})
_TOO_LARGE: Final = frozenset(
    {ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_FETCH_SIZE}
)


def coordinator_error(
    error: ErrorCode,
    *,
    timed_out: ErrorCode = ErrorCode.COORDINATOR_NOT_AVAILABLE,
    too_large: ErrorCode = ErrorCode.MESSAGE_TOO_LARGE,
) -> ErrorCode:
    """What a client hears when the log of an internal topic answered an append with `error`, as Kafka says it.

    The APIs differ in two: `timed_out` is what an append not committed in time becomes (REBALANCE_IN_PROGRESS where a
    group is stored), `too_large` a batch beyond max.message.bytes (INVALID_COMMIT_OFFSET_SIZE where offsets are; for
    the rest Kafka has UNKNOWN_SERVER_ERROR, which tells nobody what to do).
    """
    if error is ErrorCode.REQUEST_TIMED_OUT:
        return timed_out
    if error in _UNAVAILABLE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error in _GONE:
        return ErrorCode.NOT_COORDINATOR
    if error in _TOO_LARGE:
        return too_large
    return error
