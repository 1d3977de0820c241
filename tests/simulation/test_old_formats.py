"""Clients of old formats in simulated clusters, and errands about how records are stored."""

from collections.abc import Callable

import pytest

from barnabas.simulation.draws import Draws
from barnabas.simulation.format_errands import KINDS
from barnabas.simulation.history import Outcome
from barnabas.simulation.old_clients import OldProducer, OldReader
from barnabas.simulation.plan import Scene, run_plan
from barnabas.simulation.report import line
from barnabas.simulation.trial import run_seed


def test_what_old_clients_send_is_converted_and_all_clients_read_it() -> None:
    sent: list[bytes] = []
    read: list[bytes] = []

    async def story(scene: Scene) -> None:
        world, at = scene.world, scene.partition
        for _ in range(8):
            producer = OldProducer(world.stage, world.client_name(), [at])
            for _ in range(4):
                assert await producer.start(producer.produce(at))
        await scene.settle()
        reader = OldReader(world.stage, world.client_name(), [at])
        while await reader.start(reader.poll(at, wait_ms=0)) > reader.position_of(at):
            continue
        sent.extend(one.value for one in world.history.produces[at] if one.outcome is Outcome.OK)
        read.extend(value for poll in world.history.polls[at] for _, value in poll.records)

    tally = run_plan(story)
    assert tally.passed, line(tally)
    assert len(sent) > 30
    assert set(sent) <= set(read)


def _all_of_it(draws: Draws) -> None:
    draws.old_producers, draws.old_readers, draws.format_errands = 2, 1, tuple(KINDS)


def _nothing_else(draws: Draws) -> None:
    _all_of_it(draws)
    draws.strikes, draws.errands_at, draws.rots_at = [], [], []


@pytest.mark.parametrize("change", [_nothing_else, _all_of_it])
def test_formats_and_settings_change_while_a_cluster_works(change: Callable[[Draws], None], seed: str) -> None:
    tally = run_seed(f"{seed}.formats", change=change)
    assert tally.passed, line(tally)
