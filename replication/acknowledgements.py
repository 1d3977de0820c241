"""The answers of one partition that wait: for the high watermark, for an fsync, for followers to give up records.

All of them belong to one leadership: when it ends, or the log's directory fails, everyone is told. A leader that leads
on in another epoch keeps its log, so who waits for an offset of it waits on, as in Kafka.

Whoever waits has its records in the log, and other replicas may have them. So the end of the leadership is told as
NOT_ENOUGH_REPLICAS_AFTER_APPEND and not, as Kafka does, as NOT_LEADER_OR_FOLLOWER: librdkafka takes that for a proof
that nothing was written, puts the records into other batches, which no broker knows as duplicates, and writes them
twice.
"""

import asyncio
from typing import Final, TypeAlias

from barnabas.protocol.error_code import ErrorCode
from barnabas.runtime.completion import Completion
from replication.waiters import OffsetWaiters

AFTER_APPEND: Final = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
Wait: TypeAlias = "Completion[None] | asyncio.Future[None]"
Waiters: TypeAlias = OffsetWaiters[Completion[None]]
WaitingFutures: TypeAlias = OffsetWaiters["asyncio.Future[None]"]


class PartitionRefused(Exception):
    """The partition does not do what was asked; `error` is what the peer is told."""

    def __init__(self, error: ErrorCode, message: str = "") -> None:
        super().__init__(message or error.name)
        self.error = error
        self.message = message or None


class Acknowledgements:
    """See the module."""

    __slots__ = ("committed", "durable", "trimmed")

    def __init__(self) -> None:
        self.committed: Final[Waiters] = OffsetWaiters()
        """By the high watermark."""
        self.durable: Final[Waiters] = OffsetWaiters()
        """By the recovery point."""
        self.trimmed: Final[WaitingFutures] = OffsetWaiters()
        """By the low watermark: what lies below is gone from all live replicas. `asyncio.wait` takes futures only."""

    def end(self) -> None:
        """This replica leads no longer."""
        fail(self.committed, AFTER_APPEND)
        fail(self.durable, AFTER_APPEND)
        fail(self.trimmed, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def fail_with_directory(self, *, others_may_have_it: bool) -> None:
        """The log cannot be used any more."""
        fail(self.committed, AFTER_APPEND if others_may_have_it else ErrorCode.KAFKA_STORAGE_ERROR)
        fail(self.durable, ErrorCode.KAFKA_STORAGE_ERROR)
        fail(self.trimmed, ErrorCode.KAFKA_STORAGE_ERROR)


def wait_for(waiters: Waiters, offset: int) -> Completion[None]:
    """Done when `offset` is reached; it fails with PartitionRefused when that can no longer be."""
    wait: Completion[None] = Completion()
    waiters.add(offset, wait)
    return wait


def complete(waiters: Waiters | WaitingFutures, offset: int) -> None:
    """Let go of those who waited for `offset` or less."""
    for wait in waiters.pop_reached(offset):
        if not wait.done():
            wait.set_result(None)


def fail(waiters: Waiters | WaitingFutures, error: ErrorCode) -> None:
    """Tell everyone that it will not be."""
    for wait in waiters.pop_all():
        if not wait.done():
            refuse(wait, error)


def refuse(wait: Wait, error: ErrorCode) -> None:
    """Fail one wait."""
    wait.set_exception(PartitionRefused(error))
    # Whoever waited may be gone; an exception of a future that nobody looks at would be reported to the loop.
    wait.exception()
