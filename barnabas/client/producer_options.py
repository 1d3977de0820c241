"""How a producer sends."""

from dataclasses import dataclass
from typing import Final

from barnabas.protocol.batch import Codec

ACKS_ALL: Final = -1
ACKS_LEADER: Final = 1
ACKS_NONE: Final = 0

MOST_IN_FLIGHT: Final = 5
"""How many batches of a producer a broker knows again."""


@dataclass(slots=True)
class ProducerOptions:
    """How records are sent. A batch leaves when it has `batch_bytes` of records, or `linger_ms` after its first one.

    Whoever sends waits while `max_buffered_bytes` are not written. A record that is not written `delivery_timeout_ms`
    after its batch was begun is given up, when the request that is under way then has ended. Raises ValueError for what
    contradicts itself.
    """

    acks: int = ACKS_ALL
    codec: Codec = Codec.NONE
    level: int | None = None
    batch_bytes: int = 256 * 1024
    linger_ms: int = 5
    max_buffered_bytes: int = 32 * 1024 * 1024
    max_request_bytes: int = 1024 * 1024
    """Of all batches of one request; one batch alone may be larger."""
    max_in_flight: int = MOST_IN_FLIGHT
    """Requests under way to one broker; of one partition, without idempotence, one at a time."""
    delivery_timeout_ms: int = 120_000
    idempotent: bool = True
    """Every record is written once, in order, also where an attempt is repeated (KIP-98). Only with acks=all."""
    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000
    """After this time the coordinator aborts a transaction that was not ended."""
    auto_create_topics: bool = True
    """Whether brokers may create a topic that is missing, where their configuration allows it."""
    halt_on_error: bool = False
    """The first record that is given up ends the producer, so that nothing is written behind it."""
    metadata_max_age_ms: int = 300_000
    """After this time partitions that were added to a topic are seen."""

    def __post_init__(self) -> None:
        if self.acks not in (ACKS_ALL, ACKS_LEADER, ACKS_NONE):
            raise ValueError(f"acks={self.acks}: -1, 0 and 1 are there")
        if not 1 <= self.max_in_flight <= MOST_IN_FLIGHT:
            raise ValueError(f"max_in_flight={self.max_in_flight}: 1 to {MOST_IN_FLIGHT} are possible")
        if self.transactional_id is not None and not self.is_idempotent:
            raise ValueError(f"transactional_id={self.transactional_id!r} wants acks=-1 and idempotent=True")
        if self.transactional_id == "":
            raise ValueError("transactional_id='' is empty")

    @property
    def is_idempotent(self) -> bool:
        return self.idempotent and self.acks == ACKS_ALL
