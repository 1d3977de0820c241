"""What one handler of a group sees and wants: the time, the settings, and the outcome that it fills. Pure."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Final

from barnabas.coordinator.groups.settings import GroupSettings
from barnabas.coordinator.outcome import Outcome, Ticket

_SHOWN: Final = 200
"""Characters of what a client calls itself that go into a line of the log."""


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

    def note(self, group_id: str, what: str) -> None:
        """A line for the operator's log."""
        self.outcome.notes.append(f"group {shown(group_id)}: {what}")

    def reply(self, ticket: Ticket, response: Any) -> None:
        self.outcome.replies.append((ticket, response))

    def set_timer(self, key: Hashable, delay_ms: int) -> None:
        self.outcome.timers.append((key, self.now_ms + delay_ms))

    def cancel_timer(self, key: Hashable) -> None:
        self.outcome.timers.append((key, None))


def shown(name: str) -> str:
    """A client's name for something, as far as a line of the log has room for it."""
    return name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…"
