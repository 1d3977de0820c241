"""What an append came to, as its answer tells it."""

from dataclasses import dataclass
from typing import Final

UNKNOWN_OFFSET: Final = -1


@dataclass(slots=True)
class AppendInfo:
    """An append as the answer tells it. Offsets are inclusive; times are milliseconds, -1 for none.

    A `duplicate` whose `first_offset` is `UNKNOWN_OFFSET` was appended at or below `last_offset`.
    """

    first_offset: int
    last_offset: int
    max_timestamp: int
    log_append_time_ms: int
    log_start_offset: int
    size_bytes: int
    duplicate: bool
    rebuilt_records: int = 0
    """How many records were written anew, to be of the topic's format and codec."""
