"""Promise P6 as seeds are held to it: a leader within 10 s of the last fault, all replicas in sync within 60 s."""

import pytest

from barnabas.simulation.convergence import IN_SYNC_S, LED_S, Recovery
from barnabas.simulation.plan import Scene, run_plan

SESSION_S = 6.0


def test_a_cluster_that_recovers_tells_how_long_it_took() -> None:
    async def story(scene: Scene) -> None:
        leader = await scene.await_leader()
        scene.world.kill(leader)
        assert await scene.produce()

    tally = run_plan(story)
    assert tally.violations == []
    assert tally.led_after_s is not None
    assert tally.led_after_s <= LED_S
    assert tally.in_sync_after_s is not None
    # The others wrote without it: the replica has what it missed, and is in sync again.
    assert 0 < tally.in_sync_after_s <= IN_SYNC_S


@pytest.mark.parametrize(("replication_factor", "what", "within_s"), [(1, "led", LED_S), (3, "in sync", IN_SYNC_S)])
def test_what_does_not_come_back_is_told_when_its_time_is_over(
    replication_factor: int, what: str, within_s: float
) -> None:
    told_s = 0.0

    async def story(scene: Scene) -> None:
        nonlocal told_s
        world = scene.world
        world.kill(await scene.await_leader())
        killed_s = world.loop.now_s
        recovery = Recovery(world)

        def is_told() -> bool:
            recovery.look()
            return bool(world.violations)

        await scene.until(is_told, timeout_s=90)
        told_s = world.loop.now_s - killed_s
        (violation,) = world.violations
        assert f"not all are {what} {within_s:.0f} s after the last fault: {scene.partition}" in violation
        assert recovery.in_sync_after_s is None
        assert (recovery.led_after_s is None) == (what == "led")
        world.violations.clear()

    tally = run_plan(story, replication_factor=replication_factor, min_in_sync=1)
    assert tally.violations == []
    # Who was killed counts as alive for a session: until then nobody else may lead.
    since_s = SESSION_S if what == "led" else 0.0
    assert since_s + within_s < told_s < since_s + within_s + 1
