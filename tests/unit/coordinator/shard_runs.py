"""One shard on a log in memory, in virtual time, and what it did."""

import asyncio
from typing import Any

from barnabas.coordinator.effect import Effect
from barnabas.coordinator.outcome import Outcome
from barnabas.coordinator.shard import Shard
from barnabas.coordinator.shard_settings import ShardSettings
from barnabas.protocol.error_code import ErrorCode
from tests.support.virtual_time import VirtualTimeLoop, turns
from tests.unit.coordinator.counting import Rung, Values
from tests.unit.coordinator.memory_log import MemoryLog


class LoopClock:
    def monotonic_us(self) -> int:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        return round(loop.now_s * 1_000_000)

    def monotonic_ms(self) -> int:
        return self.monotonic_us() // 1000

    def wall_ms(self) -> int:
        return 1_600_000_000_000 + self.monotonic_ms()


def lost(error: ErrorCode) -> str:
    return f"lost: {error.name}"


class Run:
    """One shard on a log in memory, and what it did."""

    def __init__(self, log: MemoryLog | None = None, **settings: Any) -> None:
        self.log = log or MemoryLog()
        self.effects: list[str] = []
        self.machines: list[Values] = []
        self.first: list[Outcome] = []
        self.shard: Shard[Values] = Shard(
            self.log,
            self.make_machine,
            coordinator_epoch=3,
            clock=LoopClock(),
            spawn=lambda work, name: asyncio.get_running_loop().create_task(work, name=name),
            carry_out=self.carry_out,
            settings=ShardSettings(**settings),
        )

    def make_machine(self) -> Values:
        self.machines.append(Values())
        if self.first:
            self.machines[-1].first = self.first.pop(0)
        return self.machines[-1]

    def carry_out(self, shard: Shard[Values], effect: Effect) -> None:
        assert isinstance(effect, Rung)
        self.effects.append(effect.what)

    async def opened(self) -> "Run":
        self.shard.open()
        await asyncio.sleep(1)
        assert self.shard.is_loaded
        return self

    def ask(self, call: Any) -> "asyncio.Task[Any]":
        return asyncio.create_task(self.shard.run(call, on_lost=lost))


async def opened(log: MemoryLog | None = None, **settings: Any) -> Run:
    return await Run(log, **settings).opened()


async def none_done(*asked: "asyncio.Task[Any]") -> None:
    await turns()
    assert [each.done() for each in asked] == [False] * len(asked)
