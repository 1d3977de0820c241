"""Simulated clusters in which something never comes about are told of; each bug here is put in for its test."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.simulation.history import ACKS_ALL
from barnabas.simulation.invariants import Invariants
from barnabas.simulation.plan import Scene, run_plan
from barnabas.simulation.trial import Tally
from controller.driver import Controller
from replication.leader import LeaderState
from replication.partition import Partition
from tests.simulation.mutants.stories import cut, heal, host
from zk_schema import paths
from zk_schema.ops import Delete

UNMOVED = {"auto.leader.rebalance.enable": "false"}


async def a_follower_is_cut_off(scene: Scene) -> None:
    leader = await scene.await_leader()
    if leader == scene.controller():
        scene.world.expire_session(leader)
        leader = await scene.await_leader(otherwise=leader)
        await scene.settle()
    away = next(each for each in scene.followers() if each != scene.controller())
    cut(scene, leader, away)
    await scene.produce()
    await scene.sleep(15)
    heal(scene, leader, away)


async def who_was_left_out_asks_late(scene: Scene) -> None:
    """A request comes from who was left out and is cut off; as the high watermark has not moved, it joins."""
    leader = await scene.await_leader()
    away = next(each for each in scene.followers() if each != scene.controller())
    await scene.settle()
    scene.world.cut(host(away), host(leader))
    await scene.produce(3, acks=1)
    await scene.until(lambda: away not in scene.isr())
    await scene.sleep(15)
    scene.world.cut(host(leader), host(away))
    scene.world.heal(host(away), host(leader))
    await scene.until(lambda: away in scene.isr())
    await scene.sleep(1)
    scene.world.heal(host(leader), host(away))


async def a_quiet_cluster(scene: Scene) -> None:
    await scene.sleep(15)
    await scene.produce(3)


def told(tally: Tally, text: str) -> bool:
    return any(text in violation for violation in tally.violations)


@pytest.mark.parametrize("story", [a_follower_is_cut_off, a_quiet_cluster])
def test_without_a_bug_nothing_is_told_and_much_was_looked_at(story: Any) -> None:
    tally = run_plan(story, settings=UNMOVED)
    assert tally.violations == []
    assert tally.looked > 50


def test_who_comes_back_into_the_in_sync_set_has_its_time_anew() -> None:
    tally = run_plan(who_was_left_out_asks_late, settings=UNMOVED, min_in_sync=3)
    assert tally.violations == []


def test_an_in_sync_set_that_never_shrinks_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LeaderState, "decide_shrink", lambda _self, **_: None)
    assert told(run_plan(a_follower_is_cut_off, settings=UNMOVED), "is behind and cut off")


def test_an_answer_that_never_leaves_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_self: Partition, _info: Any, *, acks: int) -> "asyncio.Future[None] | None":
        return asyncio.get_running_loop().create_future() if acks == ACKS_ALL else None

    monkeypatch.setattr(Partition, "when_acknowledged", never)
    assert told(run_plan(a_quiet_cluster), "was not answered")


def test_an_office_that_nobody_takes_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nobody_stands(_self: Controller) -> None: ...

    async def story(scene: Scene) -> None:
        monkeypatch.setattr(Controller, "_stand", nobody_stands)
        session = scene.world.machines[scene.controller() or 0].session
        assert session is not None
        await session.write(Delete(paths.CONTROLLER))
        await scene.sleep(15)
        monkeypatch.undo()
        scene.world.expire_session(1)
        await scene.until(lambda: scene.controller() is not None)

    assert told(run_plan(story), "nobody is the controller")


@pytest.mark.parametrize("check", ["look", "look_at_znodes", "compare_logs"])
def test_a_check_that_fails_itself_is_told(check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original: Callable[[Invariants], None] = getattr(Invariants, check)
    looks = 0

    def fails_once(self: Invariants) -> None:
        nonlocal looks
        looks += 1
        if looks == 3:
            raise KeyError("of the check")
        original(self)

    monkeypatch.setattr(Invariants, check, fails_once)
    assert told(run_plan(a_quiet_cluster), "what must hold could not be looked at: KeyError('of the check')")
