"""The answers of one partition that wait: for the high watermark, for an fsync, for followers to give up records.

All of them belong to one leader epoch: when it ends, or the log's directory fails, everyone is told why.
"""

import asyncio
from typing import Final, TypeAlias

from barnabas.protocol.error_code import ErrorCode
from replication.waiters import OffsetWaiters

Waiters: TypeAlias = "OffsetWaiters[asyncio.Future[None]]"


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
        self.trimmed: Final[Waiters] = OffsetWaiters()
        """By the low watermark: what lies below is gone from all live replicas."""

    def fail_all(self, error: ErrorCode) -> None:
        for waiters in (self.committed, self.durable, self.trimmed):
            fail(waiters, error)


def wait_for(waiters: Waiters, offset: int) -> "asyncio.Future[None]":
    """A future that is done when `offset` is reached; it fails with PartitionRefused when that can no longer be."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiters.add(offset, future)
    return future


def complete(waiters: Waiters, offset: int) -> None:
    """Let go of those who waited for `offset` or less."""
    for future in waiters.pop_reached(offset):
        if not future.done():
            future.set_result(None)


def fail(waiters: Waiters, error: ErrorCode) -> None:
    """Tell everyone that it will not be."""
    for future in waiters.pop_all():
        if not future.done():
            refuse(future, error)


def refuse(future: "asyncio.Future[None]", error: ErrorCode) -> "asyncio.Future[None]":
    """Fail one wait."""
    future.set_exception(PartitionRefused(error))
    # Whoever waited may be gone; an exception that nobody looks at would be reported to the loop.
    future.exception()
    return future
