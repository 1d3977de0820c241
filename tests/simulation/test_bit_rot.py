"""Replicas that rot in whole simulated clusters: what is hit, that it is mended, and that it is seen where not."""

import random
from collections.abc import Awaitable, Callable, Mapping

import pytest

from barnabas.protocol.batch import CorruptBatch
from barnabas.protocol.entries import iterate_entries, verify_entry
from barnabas.protocol.records import Record, build_batch
from barnabas.simulation.bit_rot import Entry, draw_damage
from barnabas.simulation.disk_image import Inode
from barnabas.simulation.plan import Scene, run_plan
from barnabas.simulation.report import line
from barnabas.simulation.trial import Tally
from barnabas.storage.leader_epochs import EpochEntry
from barnabas.storage.log import Log
from replication.partition import Partition
from tests.simulation import compacted_damage_story

SCRUBBED = {"barnabas.scrub.interval.ms": "500", "log.flush.offset.checkpoint.interval.ms": "1000"}
ROLLED = {"segment.bytes": "600"}


def played(story: Callable[[Scene], Awaitable[None]], settings: Mapping[str, str]) -> Tally:
    return run_plan(story, settings=settings, topic_settings=ROLLED)


async def rot(scene: Scene, number: int, chance: random.Random) -> None:
    """Until something of a broker's replica has rotted; what is closed is flushed in a moment."""
    machine = scene.world.machines[number]
    below = scene.end(number)
    await scene.until(lambda: scene.world.rot.strike(machine, scene.partition, chance, below=below))


def sound_entries(data: bytearray) -> int:
    """How many whole entries stand before the first that is not."""
    sound = 0
    try:
        for at, header in iterate_entries(data):
            verify_entry(data, at, header)
            sound += 1
    except CorruptBatch:
        pass
    return sound


def test_what_rots_no_checksum_forgives() -> None:
    chance = random.Random(7)
    for _ in range(500):
        batches = [
            build_batch([Record(0, 5, b"key", chance.randbytes(chance.randrange(90)), ())] * chance.randint(1, 3))
            for _ in range(5)
        ]
        inode, entries = Inode(), list[Entry]()
        for each in batches:
            entries.append(Entry(inode, len(inode.data), len(each)))
            inode.data += each
        first = chance.randrange(5)
        position, bad = draw_damage(chance, entries[first : first + 4])
        before = bytes(inode.data)
        inode.data[position : position + len(bad)] = bad
        assert len(inode.data) == len(before)
        if inode.data == before:
            continue
        # Whoever reads from the start gets good batches as they were written, and then one that is none.
        assert sound_entries(inode.data) == first


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_what_rots_is_mended_and_readers_may_meet_it(role: str) -> None:
    mended = 0

    async def story(scene: Scene) -> None:
        nonlocal mended
        chance = random.Random(role)
        assert await scene.produce(20)
        for _ in range(4):
            leader = await scene.await_leader()
            victim = leader if role == "leader" else chance.choice(scene.followers())
            await rot(scene, victim, chance)
            await scene.until(lambda: not scene.world.rot.standing())
            assert await scene.produce(4)
            await scene.settle()
            mended += 1

    tally = played(story, SCRUBBED)
    assert tally.passed, line(tally)
    assert (mended, tally.blemishes) == (4, 4)


def test_what_nobody_mends_is_found() -> None:
    async def story(scene: Scene) -> None:
        assert await scene.produce(20)
        await rot(scene, scene.followers()[0], random.Random(1))

    tally = played(story, {**SCRUBBED, "barnabas.scrub.bytes.per.second": "0"})
    assert not tally.converged
    assert "is damaged at byte" in tally.violations[0]


def test_what_rotted_does_not_rot_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def flip(chance: random.Random, entries: list[Entry]) -> tuple[int, bytes]:
        position = entries[0].position + 20
        return position, bytes([entries[0].inode.data[position] ^ 1])

    async def story(scene: Scene) -> None:
        monkeypatch.setattr("barnabas.simulation.bit_rot.draw_damage", flip)
        assert await scene.produce(20)
        number = scene.followers()[0]
        machine, below = scene.world.machines[number], scene.end(number)
        chances = [random.Random(1), random.Random(1)]
        await scene.until(lambda: scene.world.rot.strike(machine, scene.partition, chances[0], below=below))
        assert not scene.world.rot.strike(machine, scene.partition, chances[1], below=below)
        assert scene.world.rot.standing()
        await scene.until(lambda: not scene.world.rot.standing())

    tally = played(story, {**SCRUBBED, "barnabas.scrub.interval.ms": "5000"})
    assert tally.passed, line(tally)
    assert tally.blemishes == 1


async def led_in_two_epochs(scene: Scene) -> Partition:
    """A follower's replica, with records of two leaders, of whom it was the first."""
    assert await scene.produce(3)
    first = await scene.await_leader()
    await scene.world.stop(first)
    await scene.await_leader(otherwise=first)
    scene.world.start(first)
    assert await scene.produce(5)
    await scene.settle()
    partition = next(part for machine, part in scene.world.invariants.replicas() if machine.broker_id == first)
    assert len(partition.log.leader_epochs.entries) == 2
    return partition


async def until_fetched_anew(scene: Scene, partition: Partition, damaged: Log, known: tuple[EpochEntry, ...]) -> None:
    await scene.until(lambda: partition.log is not damaged)
    assert partition.log.leader_epochs.entries == known
    await scene.settle()


@pytest.mark.parametrize("policy", ["compact", "delete"])
def test_a_log_that_does_not_know_where_an_epoch_began_is_mended(policy: str) -> None:
    """A damaged header told it at a start.

    Or, where it is compacted, it was copied from a leader that had cleaned away the first records of the epoch, which
    another leader still has.
    """

    async def story(scene: Scene) -> None:
        world, at = scene.world, scene.partition
        if policy == "compact":
            world.history.compacted[at] = world.invariants.compacted[at] = None
        partition = await led_in_two_epochs(scene)
        damaged, known = partition.log, partition.log.leader_epochs.entries
        damaged.leader_epochs.clear()
        damaged.leader_epochs.assign(known[0].epoch, start_offset=known[0].start_offset)
        damaged.leader_epochs.assign(known[1].epoch, start_offset=damaged.log_end_offset - 1)
        await until_fetched_anew(scene, partition, damaged, known)

    tally = run_plan(story, settings=SCRUBBED, topic_settings={"cleanup.policy": policy})
    assert tally.passed, line(tally)


@pytest.mark.parametrize("policy", ["compact", "delete"])
def test_a_list_that_has_an_epoch_begin_too_early_is_mended(policy: str) -> None:
    """As a start leaves it that met a header with the epoch of a later batch."""

    async def story(scene: Scene) -> None:
        if policy == "compact":
            scene.world.history.compacted[scene.partition] = scene.world.invariants.compacted[scene.partition] = None
        partition = await led_in_two_epochs(scene)
        damaged, known = partition.log, partition.log.leader_epochs.entries
        damaged.leader_epochs.assign(known[1].epoch, start_offset=1)
        await until_fetched_anew(scene, partition, damaged, known)

    tally = run_plan(story, settings=SCRUBBED, topic_settings={"cleanup.policy": policy})
    assert tally.passed, line(tally)


@pytest.mark.parametrize("number", range(2))
def test_a_compacted_topic_is_mended_and_keeps_the_last_record_of_each_key(number: int, seed: str) -> None:
    tally, story = compacted_damage_story.run(25, f"{seed}.{number}")
    assert tally.passed, line(tally)
    assert tally.compactions
    assert sum(story.acted.values()) >= 10
