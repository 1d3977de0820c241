"""A log keeps what it promised through any crash, found by chance: see crash_world.py for what is promised."""

import asyncio
from random import Random

from hypothesis import given, note, settings
from hypothesis import strategies as st

from tests.unit.storage.crash_world import ACTIONS, World

SWARM_RUNS = 150
SWARM_STEPS = 60

DRAWN = st.one_of(
    st.tuples(st.just(name), st.integers(least, most)) for name, (least, most) in [*ACTIONS.items(), ("append", (1, 4))]
)


async def _run(actions, seed, say=lambda _: None):
    world = World(seed)
    await world.open()
    for name, argument in [*actions, ("append", 1), ("reopen", 0)]:
        say(f"{name} {argument}")
        await world.do(name, argument)
        if world.crash is None:
            world.check(after_crash=None)
    world.check(after_crash=None)


@settings(max_examples=100)
@given(st.lists(DRAWN, min_size=3, max_size=25), st.integers(0, 2**32))
def test_a_log_keeps_what_it_promised_through_any_crash(actions, seed):
    asyncio.run(_run(actions, seed, note))


def _draw_swarm(seed):
    """Actions with weights of this seed's own: uniform ones miss what needs many of a kind."""
    random = Random(seed)
    weights = {name: random.choice((0, 1, 1, 4)) for name in ACTIONS} | {"append": random.choice((2, 6))}
    names = random.choices(list(weights), list(weights.values()), k=SWARM_STEPS)
    return [(name, random.randint(*ACTIONS[name])) for name in names]


def test_a_swarm_of_long_lives_keeps_what_it_promised(seed):
    for number in range(seed, seed + SWARM_RUNS):
        try:
            asyncio.run(_run(_draw_swarm(number), number))
        except Exception as error:
            raise AssertionError(f"swarm seed {number}: {error}") from error
