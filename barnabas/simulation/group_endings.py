"""Hears of groups that a coordinator forgets, as nothing is left of them: their generations begin again.

Clients are not told of it, so no history of theirs shows it; brokers log it when they write it down.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from barnabas.coordinator import shard
from barnabas.coordinator.group_coordinator import FORGOTTEN

_BEFORE: Final = ": group "


@contextmanager
def heard_of(on_ended: Callable[[str], None]) -> Iterator[None]:
    """Within it, `on_ended` is called with the id of each group that any broker of this process forgets."""
    listener, level = _Listener(on_ended), shard.log.level
    shard.log.addHandler(listener)
    shard.log.setLevel(logging.INFO)
    try:
        yield
    finally:
        shard.log.setLevel(level)
        shard.log.removeHandler(listener)


class _Listener(logging.Handler):
    def __init__(self, on_ended: Callable[[str], None]) -> None:
        super().__init__(logging.INFO)
        self._on_ended = on_ended

    def emit(self, record: logging.LogRecord) -> None:
        told = record.getMessage()
        if told.endswith(f": {FORGOTTEN}"):
            self._on_ended(told.partition(_BEFORE)[2].removesuffix(f": {FORGOTTEN}"))
