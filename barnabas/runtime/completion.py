"""A future that tells who waits in the moment in which it is done, and not a turn of the loop later.

What is answered goes through several waits one after the other: for the high watermark, for all partitions of the
request, for the connection. With futures each is a turn of the loop, with whatever else became ready before it. A
callback here runs within the call that completes, so it must not wait and must not change what the completing one has
under way; what it raises goes to the loop's handler, as from a callback of a future. It can be awaited as well, but
`asyncio.wait` and the like take futures only.
"""

import asyncio
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")

_PENDING: Final = 0
_DONE: Final = 1
_CANCELLED: Final = 2


class Completion(Generic[T]):
    """See the module."""

    __slots__ = ("_callbacks", "_error", "_result", "_state")

    def __init__(self) -> None:
        self._state = _PENDING
        self._result: T | None = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Any], object]] = []

    def done(self) -> bool:
        return self._state != _PENDING

    def cancelled(self) -> bool:
        return self._state == _CANCELLED

    def result(self) -> T:
        """What it came to. Raises what it failed with, CancelledError, or InvalidStateError while it is not done."""
        error = self.exception()
        if error is not None:
            raise error
        return self._result  # type: ignore[return-value]

    def exception(self) -> BaseException | None:
        """What it failed with, None of a success. Raises as `result` of one that is cancelled or not done."""
        if self._state == _DONE:
            return self._error
        if self._state == _CANCELLED:
            raise asyncio.CancelledError
        raise asyncio.InvalidStateError("it is not done")

    def set_result(self, result: T) -> None:
        """Raises InvalidStateError where it is done already."""
        self._require_pending()
        self._result = result
        self._finish(_DONE)

    def set_exception(self, error: BaseException) -> None:
        """As `set_result`."""
        self._require_pending()
        self._error = error
        self._finish(_DONE)

    def cancel(self) -> bool:
        """Nobody needs it any more; whether it was under way still."""
        if self._state != _PENDING:
            return False
        self._finish(_CANCELLED)
        return True

    def add_done_callback(self, callback: Callable[[Any], object]) -> None:
        """Call `callback` with this when it is done: now, if it is."""
        if self._state == _PENDING:
            self._callbacks.append(callback)
        else:
            self._call(callback)

    def __await__(self) -> Generator[Any, None, T]:
        if self._state == _PENDING:
            woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._callbacks.append(partial(_wake, woken))
            try:
                yield from woken.__await__()
            except asyncio.CancelledError:
                # As with a future: who is cancelled takes along what it waits for.
                self.cancel()
                raise
        return self.result()

    def _require_pending(self) -> None:
        if self._state != _PENDING:
            raise asyncio.InvalidStateError("it is done already")

    def _finish(self, state: int) -> None:
        self._state = state
        callbacks = self._callbacks
        self._callbacks = []
        for callback in callbacks:
            self._call(callback)

    def _call(self, callback: Callable[[Any], object]) -> None:
        try:
            callback(self)
        except Exception as error:  # noqa: BLE001 - the others are told in any case
            loop = asyncio.get_running_loop()
            loop.call_exception_handler({"message": "what waited for a completion failed", "exception": error})


def _wake(woken: "asyncio.Future[None]", _: object) -> None:
    if not woken.done():
        woken.set_result(None)
