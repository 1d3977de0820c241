"""An offload that does the work where it is called, so that a test is one thread and in one order."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class InlineOffload:
    """Keeps the lanes that were used."""

    def __init__(self) -> None:
        self.lanes: list[str] = []

    async def thread(self, lane: str, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        self.lanes.append(lane)
        return call(*args, **kwargs)

    async def process(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        self.lanes.append("process")
        return call(*args, **kwargs)

    def close(self) -> None:
        pass
