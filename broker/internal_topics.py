"""The topics that coordinators keep their state in; clients do not write to them."""

from typing import Final

CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
INTERNAL_TOPICS: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE})


def is_internal(topic: str) -> bool:
    """Whether only coordinators write to it."""
    return topic in INTERNAL_TOPICS
