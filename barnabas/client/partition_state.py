"""What a consumer knows of one partition that it reads: where it is, what it waits for, who works on it. Pure.

Three offsets never go back on their own: `finished` (all before was worked on) <= `position` (all before was handed
out) <= `fetch_offset` (all before was fetched). A new place makes a new `version`; what was asked for or fetched under
another version is dropped.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from barnabas.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.errors import ClientError

UNKNOWN: Final = -1


@dataclass(slots=True, eq=False)
class PartitionState:
    """One partition. Offsets are -1 until they are known."""

    topic_partition: TopicPartition
    wants_committed: bool = False
    """The group's committed offset is looked for; without one, `offset_reset` says where to begin."""
    reset_to: int | None = None
    """The timestamp of ListOffsets (milliseconds, -1 the end, -2 the start) whose offset is looked for."""
    fetch_offset: int = UNKNOWN
    fetch_epoch: int = UNKNOWN
    """The leader epoch of the record before `fetch_offset`, by which a truncation shows; -1 where it is not known."""
    position: int = UNKNOWN
    position_epoch: int = UNKNOWN
    finished: int = UNKNOWN
    finished_epoch: int = UNKNOWN
    checked_epoch: int = UNKNOWN
    """The leader epoch whose log is known to hold what was read."""
    version: int = 0
    buffered: int = 0
    """Answers that were fetched and not handed out."""
    is_paused: bool = False
    in_hand: bool = False
    is_held: bool = False
    """Nothing is handed out: the partition comes or goes, and the caller is told of it."""
    error: "ClientError | None" = None
    """Nothing is read until the caller moves the position."""
    not_before_s: float = 0.0
    failures: int = 0
    was_doubted: bool = False
    """Whether others were asked who leads, as who does had said that the log has no `fetch_offset`."""
    replica: int = UNKNOWN
    """The follower that the leader named as nearer (KIP-392), read from up to `replica_until_s`; -1 for the leader."""
    replica_until_s: float = 0.0
    served: int = 0
    """When it last gave something, counted in answers: who waited longest is fetched first."""

    @property
    def has_position(self) -> bool:
        return self.fetch_offset >= 0

    def move_to(self, offset: int, leader_epoch: int = UNKNOWN) -> None:
        """Read on from `offset`; `leader_epoch` is that of the record before, if it is known."""
        self._begin_anew()
        self.fetch_offset = self.position = self.finished = offset
        self.fetch_epoch = self.position_epoch = self.finished_epoch = leader_epoch

    def look_for(self, timestamp: int) -> None:
        """Read on from the first offset at or after a time, which is yet to be found."""
        self._begin_anew()
        self.reset_to = timestamp

    def fail(self, error: "ClientError") -> None:
        """Stop here until the caller moves the position."""
        self._begin_anew()
        self.error = error

    def _begin_anew(self) -> None:
        self.version += 1
        self.wants_committed, self.reset_to, self.error = False, None, None
        self.fetch_offset = self.position = self.finished = UNKNOWN
        self.fetch_epoch = self.position_epoch = self.finished_epoch = self.checked_epoch = UNKNOWN
        self.buffered, self.failures, self.not_before_s, self.was_doubted = 0, 0, 0.0, False

    def hand_out(self, *, next_offset: int, leader_epoch: int) -> None:
        self.position, self.position_epoch = next_offset, leader_epoch
        self.in_hand = True

    def finish(self, version: int) -> None:
        """What was handed out under `version` was worked on."""
        self.in_hand = False
        if version == self.version:
            self.finished, self.finished_epoch = self.position, self.position_epoch

    def commit(self, offset: int, leader_epoch: int) -> None:
        """The caller commits up to here, maybe within a batch: that counts as worked on, and later commits keep it."""
        if self.finished < offset <= self.position:
            self.finished, self.finished_epoch = offset, leader_epoch

    def abandon(self) -> None:
        """The partition is not read any more."""
        self._begin_anew()
        self.in_hand = False

    def read_from(self, replica: int, *, until_s: float) -> None:
        self.replica, self.replica_until_s = replica, until_s

    def leave_replica(self) -> bool:
        """Read from the leader again; whether that is a change."""
        was_away = self.replica >= 0
        self.replica = UNKNOWN
        return was_away

    def back_off(self, now_s: float, *, first_s: float, longest_s: float) -> None:
        """Leave the partition alone for a while that grows from failure to failure."""
        self.not_before_s = now_s + min(first_s * 2**self.failures, longest_s)
        self.failures = min(self.failures + 1, 16)

    def succeed(self) -> None:
        self.failures, self.not_before_s, self.was_doubted = 0, 0.0, False
