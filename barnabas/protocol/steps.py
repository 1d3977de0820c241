"""Work in steps: a generator that yields whenever others may have their turn, and returns what came of it.

Whoever owns an event loop advances one a little at a time; whoever may take the time calls `complete`.
"""

from collections.abc import Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]


def complete(steps: Steps[T]) -> T:
    """All the steps at once; raises what they raise."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result
