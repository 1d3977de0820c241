"""What an append came to, as its answer tells it."""

from dataclasses import dataclass
from typing import Final

UNKNOWN_OFFSET: Final = -1


@dataclass(slots=True, init=False)
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

    # Written out: compiled, what dataclasses would make of the fields is interpreted still.
    def __init__(  # noqa: PLR0917 - as the fields are
        self,
        first_offset: int,
        last_offset: int,
        max_timestamp: int,
        log_append_time_ms: int,
        log_start_offset: int,
        size_bytes: int,
        duplicate: bool,
        rebuilt_records: int = 0,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.max_timestamp = max_timestamp
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.size_bytes = size_bytes
        self.duplicate = duplicate
        self.rebuilt_records = rebuilt_records
