"""What tests send through clients, what they get back, and the interface that every client is put behind."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from barnabas.protocol.ids import TopicPartition

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
MAX_REQUEST_BYTES = 4_000_000

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Message:
    """A record as a client sees it. Times are milliseconds since the epoch; None leaves the choice to the client."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Delivery:
    """What became of a message: its place, or the name that the client gives to the error."""

    partition: int = -1
    offset: int = -1
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Received:
    """A message that came back, with its offset."""

    offset: int
    message: Message


class Consumer(Protocol):
    """Reads partitions from their start."""

    name: str

    def consume(
        self, bootstrap: str, counts: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, Sequence[Received]]:
        """Read each partition from its start until it gave its count, or nothing came for long."""


class Client(Consumer, Protocol):
    """Sends and reads. Some clients refuse, before anything is sent, a record without key and value."""

    sends_records_of_nothing: bool

    def produce(
        self, bootstrap: str, messages: Sequence[Message], *, codec: str = "none", one_by_one: bool = False
    ) -> Sequence[Delivery]:
        """Send all with acks=all over one producer; one delivery for each, in order.

        One by one: each is sent when the one before it was delivered or refused, so that each is a batch; and without
        idempotence, because some clients leave a hole in their sequence when a batch is refused.
        """
