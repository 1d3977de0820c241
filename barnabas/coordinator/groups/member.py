"""One member of a group. Pure."""

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from barnabas.coordinator.outcome import Ticket

Protocols: TypeAlias = tuple[tuple[str, bytes], ...]
"""Names of protocols with the member's metadata for each, the one it likes best first."""


class Waiting(NamedTuple):
    """A JoinGroup request that waits for its reply, in the version that it came in."""

    ticket: Ticket
    version: int


@dataclass(slots=True)
class Member:
    """Who takes part; with a `group_instance_id`, under whatever member id it has at the time (KIP-345).

    Changed by `Group` alone where that keeps counts: protocols and `join`.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    join: Waiting | None = None
    """Its JoinGroup request, while that waits for the others."""
    sync: Ticket | None = None
    """Its SyncGroup request, while that waits for the leader's."""
    is_new: bool = False
    """It has never been told of a generation."""
    owes_sync: bool = False
    """It was told of the present generation and has not asked for its assignment."""
    session_ends_ms: int = 0
    """Monotonic: when it counts as gone if nothing is heard of it. Kept by `sessions`."""
    accepted_us: int = 0
    """When the connection was accepted over which its newest commit came."""

    @property
    def is_waiting(self) -> bool:
        """Whether a request of it is parked: meanwhile it cannot send another, and its session does not end."""
        return self.join is not None or self.sync is not None

    def metadata(self, protocol: str) -> bytes:
        """What it says of itself under a protocol that it knows."""
        return next(metadata for name, metadata in self.protocols if name == protocol)

    def knows(self, protocol: str) -> bool:
        return any(name == protocol for name, _ in self.protocols)
