"""What the simulator says of clusters that do well, and of clusters in which something is wrong on purpose."""

import pytest

from barnabas.simulation.draws import draw
from barnabas.simulation.faults import KINDS
from barnabas.simulation.plan import Scene, run_plan
from barnabas.simulation.report import summarise
from barnabas.simulation.trial import Tally
from broker.fetch_reader import FetchReader
from replication.fetcher import Fetcher


def broken(tally: Tally) -> str:
    return "\n".join(tally.violations)


def test_a_leader_that_is_killed_is_followed_by_another_and_nothing_is_lost():
    async def story(scene: Scene) -> None:
        await scene.sleep(1)
        assert await scene.produce(5)
        old = scene.leader()
        assert old is not None
        scene.world.kill(old)
        sending = scene.produce_soon(3)
        await scene.until(lambda: scene.leader() not in (old, None))
        scene.world.start(old)
        assert await sending
        await scene.read()

    tally = run_plan(story)
    assert tally.violations == []
    assert tally.converged
    assert tally.leader_changes >= 1
    assert tally.acted == {"crash": 1}


def test_a_pause_beyond_the_session_moves_the_leader_and_the_old_one_comes_back():
    async def story(scene: Scene) -> None:
        assert await scene.produce(2)
        old = scene.leader()
        assert old is not None
        scene.world.pause(old)
        await scene.until(lambda: scene.leader() not in (old, None))
        assert await scene.produce(2)
        scene.world.resume(old)
        await scene.until(lambda: len(scene.isr()) == 3)

    tally = run_plan(story)
    assert tally.violations == []
    assert set(tally.acted) == {"pause", "session expiry"}


def test_a_cut_follower_leaves_the_in_sync_set_and_comes_back():
    async def story(scene: Scene) -> None:
        # The client has learned who leads before the follower may be cut off from a controller that leads.
        assert await scene.produce()
        leader = scene.leader()
        follower = next(each for each in scene.followers() if each != scene.controller())
        ways = [(f"broker-{leader}", f"broker-{follower}"), (f"broker-{follower}", f"broker-{leader}")]
        for way in ways:
            scene.world.cut(*way)
        assert await scene.produce(3)
        await scene.until(lambda: follower not in scene.isr())
        for way in ways:
            scene.world.heal(*way)
        await scene.until(lambda: follower in scene.isr())

    assert run_plan(story).violations == []


def test_a_directory_that_is_given_up_though_its_device_is_well_is_a_violation():
    async def story(scene: Scene) -> None:
        assert await scene.produce(2)
        machine = next(each for each in scene.world.machines.values() if each.broker_id == scene.followers()[0])
        assert machine.broker is not None
        machine.broker.services.replicas.log_directories.directories[0].fail(OSError(9, "Bad file descriptor"))
        await scene.sleep(1)

    assert "is offline for OSError(9, 'Bad file descriptor')" in broken(run_plan(story))


def test_a_story_that_does_not_come_true_is_a_violation():
    async def story(scene: Scene) -> None:
        assert scene.leader() == 99, "nobody has that number"

    assert "nobody has that number" in broken(run_plan(story))


def test_records_that_every_disk_forgot_are_missed():
    async def story(scene: Scene) -> None:
        assert await scene.produce(5)
        for number in scene.replicas():
            scene.world.power_cut(number, keep_some=False)
        for number in scene.replicas():
            scene.world.start(number)

    tally = run_plan(story)
    assert "lost" in broken(tally) or "unseen" in broken(tally)


def test_with_every_append_synced_a_power_cut_of_all_loses_nothing():
    async def story(scene: Scene) -> None:
        assert await scene.produce(5)
        for number in scene.replicas():
            scene.world.power_cut(number, keep_some=False)
        for number in scene.replicas():
            scene.world.start(number)

    tally = run_plan(story, topic_settings={"flush.messages": "1"})
    assert tally.violations == []
    assert sum(tally.acted.values()) == 3


def test_a_byte_that_changed_below_the_high_watermark_is_seen():
    async def story(scene: Scene) -> None:
        assert await scene.produce(5)
        machine = scene.world.machines[scene.followers()[0]]
        await scene.sleep(3)
        assert machine.broker is not None
        partition = machine.broker.services.replicas.partition(scene.partition)
        assert partition is not None
        ((_, inode),) = [each for each in machine.disk.files_in(partition.log.directory) if each[0].endswith(".log")]
        inode.data[20] ^= 1
        scene.world.invariants.forget_what_was_read()
        await scene.sleep(3)

    assert "was committed" in broken(run_plan(story))


def test_an_exception_that_a_broker_did_not_expect_is_seen(monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(FetchReader, "read", fail)

    async def story(scene: Scene) -> None:
        await scene.sleep(2)

    assert "ZeroDivisionError" in broken(run_plan(story))


@pytest.mark.parametrize(("owner", "method"), [(FetchReader, "read"), (Fetcher, "_round")])
def test_what_is_meant_for_the_runner_is_not_taken_for_a_bug(monkeypatch: pytest.MonkeyPatch, owner: type, method: str):
    """In a request's handling, and in a task whose end is the broker's."""

    def fail(*_: object) -> None:
        pytest.fail("the time is over")

    monkeypatch.setattr(owner, method, fail)

    async def story(scene: Scene) -> None:
        await scene.produce(2)

    with pytest.raises(pytest.fail.Exception, match="the time is over"):
        run_plan(story)


def test_draws_differ_and_every_kind_of_fault_comes_up():
    drawn = [draw(str(seed)) for seed in range(200)]
    assert {each.brokers for each in drawn} == {3, 4, 5}
    assert {each.replication_factor for each in drawn} == {1, 2, 3}
    assert set().union(*(each.weights for each in drawn)) == set(KINDS)
    assert any(not each.errands for each in drawn)
    assert all(len(each.weights) >= 2 for each in drawn)
    assert draw("7") == draw("7")


def test_a_lone_replica_that_must_not_be_lost_is_synced_and_does_not_rot():
    lone = [each for seed in range(200) if (each := draw(str(seed))).replication_factor == 1]
    assert 5 < len(lone) < 30
    for each in lone:
        assert each.syncs_each_append
        assert each.topic_settings["flush.messages"] == "1"
        assert each.weights["power all"] > 1
        assert each.rot_gap_s == 0


def test_what_may_be_forgotten_follows_from_what_is_promised():
    for seed in range(300):
        drawn = draw(str(seed))
        assert drawn.may_lose_one == (drawn.min_in_sync >= 2)


def test_a_seed_that_is_too_small_does_not_count():
    large = Tally(
        "1",
        simulated_s=121,
        brokers=3,
        operations=300,
        acknowledged=100,
        acted={"a": 4, "b": 1},
        leader_changes=1,
        converged=True,
    )
    assert large.counts
    for name, value in {
        "simulated_s": 119,
        "brokers": 2,
        "operations": 299,
        "acknowledged": 99,
        "acted": {"a": 5},
        "leader_changes": 0,
        "converged": False,
        "violations": ["one"],
    }.items():
        before = getattr(large, name)
        setattr(large, name, value)
        assert not large.counts, name
        setattr(large, name, before)


def test_a_report_names_what_failed():
    failed = Tally("5", violations=["lost"], operations=10)
    report = summarise([failed, Tally("6", operations=30)], elapsed_s=2, workers=1)
    assert report["failed"] == ["5"]
    assert report["operations"] == {"p0": 10, "p10": 10, "p50": 10, "p90": 30, "p100": 30, "sum": 40}
