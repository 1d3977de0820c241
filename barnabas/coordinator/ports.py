"""What a coordinator's shard needs of the world, beside a clock."""

from typing import Protocol

from barnabas.coordinator.outcome import ProducerStamp
from barnabas.protocol.error_code import ErrorCode


class LogRefused(Exception):
    """The partition has not taken a batch, or will not commit it; `error` is the partition's, not yet mapped."""

    def __init__(self, error: ErrorCode, message: str = "") -> None:
        super().__init__(f"{error.name}{': ' + message if message else ''}")
        self.error = error


class CoordinatorLog(Protocol):
    """One partition of an internal topic that this broker leads, in one leader epoch."""

    @property
    def name(self) -> str:
        """The partition, for what is logged."""

    def refusal(
        self, producer: ProducerStamp | None = None, *, marker_coordinator_epoch: int | None = None
    ) -> ErrorCode | None:
        """Why an append would be refused now, as far as that can be known without one: too few replicas, an epoch of
        the producer or, for a marker, of its coordinator that is over.
        """

    @property
    def max_batch_bytes(self) -> int:
        """The topic's max.message.bytes."""

    def try_append(self, batch: bytes) -> int | None:
        """Append one batch now; the offset after it, or None when that would have to wait. Then await `append`.

        Raises LogRefused.
        """

    async def append(self, batch: bytes) -> int:
        """Append one batch; the offset after it. One caller at a time. Raises LogRefused."""

    def is_committed(self, end_offset: int) -> bool:
        """Whether all below `end_offset` is committed already."""

    async def committed(self, end_offset: int) -> None:
        """Wait until all below `end_offset` is committed. Raises LogRefused: NOT_ENOUGH_REPLICAS_AFTER_APPEND while too
        few replicas are in sync (it may still be committed), anything else when the leadership has ended.
        """

    async def proven(self) -> None:
        """Wait until it is sure that nobody else led the partition, in a later epoch, when this was asked.

        Raises LogRefused: the leadership has ended.
        """

    def bounds(self) -> tuple[int, int]:
        """The log's first offset and the one after its last."""

    async def read(self, offset: int, max_bytes: int) -> bytes:
        """The batches from the one that has `offset` on, at least one whole; none where no more follow.

        Raises LogRefused.
        """
