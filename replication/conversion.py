"""Converting a large set to its topic's format or codec, with turns for others."""

import asyncio
import contextlib
from typing import Final

from barnabas.protocol.ids import LeaderEpoch
from barnabas.runtime.clock import Clock
from barnabas.storage.append import AppendOrigin, conversion_steps
from barnabas.storage.append_conversion import ConvertedSet
from barnabas.storage.log import Log

_TURN_US: Final = 2_000
"""How long a conversion works before it lets others go first."""


async def convert_in_turns(
    log: Log, records: memoryview, *, leader_epoch: LeaderEpoch, origin: AppendOrigin, clock: Clock
) -> ConvertedSet:
    """What a set is to be appended as; nothing else may be appended meanwhile. Raises AppendRejected."""
    steps = conversion_steps(log, records, leader_epoch=leader_epoch, origin=origin, now_ms=clock.wall_ms())
    with contextlib.closing(steps):
        ends_us = clock.monotonic_us() + _TURN_US
        while True:
            try:
                next(steps)
            except StopIteration as done:
                converted: ConvertedSet = done.value
                return converted
            if clock.monotonic_us() >= ends_us:
                await asyncio.sleep(0)
                ends_us = clock.monotonic_us() + _TURN_US
