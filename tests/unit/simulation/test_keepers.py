"""Who looks after a client of a simulated cluster."""

import asyncio
import random

import pytest

from barnabas.simulation import keepers
from barnabas.simulation.keepers import Keeper, KeptProcess
from barnabas.simulation.loop import SimulationLoop
from barnabas.simulation.world import World


class _Restless(KeptProcess):
    """Does not end by itself."""

    is_at_it_s = 0.0

    async def run(self) -> None:
        while True:
            self.is_at_it_s = self.stage.loop.now_s
            await asyncio.sleep(0.01)


def test_who_was_replaced_or_given_up_does_nothing_more_when_its_keeper_has_ended(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    # A zombie that went on would write while the final reads are under way.
    monkeypatch.setattr(keepers, "_ACTS", ("zombie",))
    loop = SimulationLoop(random.Random(f"{seed}/loop"))  # type: ignore[abstract]
    world = World(loop, f"{seed}", brokers=1)
    made: list[_Restless] = []

    def make(name: str) -> _Restless:
        made.append(_Restless(world.stage, name, host="client"))
        return made[-1]

    async def story() -> float:
        keeper = Keeper(world, "client", make, mean_gap_s=1.0)
        keeper.begin()
        keeping = asyncio.ensure_future(keeper.keep())
        assert await world.until(lambda: len(made) == 2 and not keeper.is_acting, timeout_s=60.0, step_s=0.01)
        keeping.cancel()
        assert all(loop.now_s - each.is_at_it_s < 0.1 for each in made)
        await keeper.end()
        ended_s = loop.now_s
        await asyncio.sleep(60)
        return ended_s

    ended_s = loop.run_until_complete(story())
    loop.close()
    assert all(each.is_at_it_s < ended_s - 0.5 for each in made)
