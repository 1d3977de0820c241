"""An event loop in a thread of its own, for callers that are no coroutines and work while the loop turns.

Whoever uses a loop only within single calls lets it stand still between them: answers are not read, and what waits for
a time looks late when the next call comes. Here it turns all the time.
"""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, Self, TypeVar

T = TypeVar("T")


class LoopThread:
    """A context manager: leaving it cancels what runs on the loop, and ends the thread."""

    def __init__(self, name: str) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None
        self._is_up = threading.Event()
        # A program that ends does not wait for it.
        self._thread = threading.Thread(target=self._turn, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._is_up.wait()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None
        assert self._end is not None
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine, or what it raises. Who is interrupted cancels it."""
        assert self._loop is not None, "it runs between __enter__ and __exit__"
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _turn(self) -> None:
        # What is left over when the event is set is cancelled by asyncio.run.
        asyncio.run(self._stay())

    async def _stay(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        self._is_up.set()
        await self._end.wait()
