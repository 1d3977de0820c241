"""What the broker's configuration says of groups. Pure."""

from dataclasses import dataclass
from typing import Final

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000
"""How long who joins for the first time may wait for its generation: it cannot send heartbeats meanwhile, and its
client may be long gone (KAFKA-7610)."""


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """group.min.session.timeout.ms and its like, under their own names."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 2**31 - 1
    initial_rebalance_delay_ms: int = 3_000
