"""What one handler of a group sees and wants: the time, the settings, and the outcome that it fills. Pure."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from barnabas.coordinator.groups.settings import GroupSettings
from barnabas.coordinator.outcome import Outcome, Ticket


@dataclass(frozen=True, slots=True)
class SessionTimer:
    """A member has to be heard of by then."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class PendingMemberTimer:
    """Who was given a member id has to come back with it by then."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class RebalanceTimer:
    """The members of a group have to have gathered, or asked for their assignments, by then."""

    group_id: str


@dataclass(frozen=True, slots=True)
class ExpiryTimer:
    """Offsets and groups that nobody needs are looked for (offsets.retention.check.interval.ms)."""


@dataclass(frozen=True, slots=True)
class SweepTimer:
    """The next piece of what is being cleared away."""


@dataclass(frozen=True, slots=True)
class DeletionTimer:
    """The next piece of a group that is being deleted."""

    group_id: str


@dataclass(slots=True)
class Turn:
    """One run of a handler. `now_ms` is monotonic and for deadlines, `wall_ms` for records."""

    now_ms: int
    wall_ms: int
    settings: GroupSettings
    outcome: Outcome = field(default_factory=Outcome)

    def reply(self, ticket: Ticket, response: Any) -> None:
        self.outcome.replies.append((ticket, response))

    def set_timer(self, key: Hashable, delay_ms: int) -> None:
        self.outcome.timers.append((key, self.now_ms + delay_ms))

    def cancel_timer(self, key: Hashable) -> None:
        self.outcome.timers.append((key, None))
