"""Damage on one of three replicas of a compacted topic, again and again, while each replica is cleaned at its own time.

Batches that are mended may differ from those of other replicas, so records are judged: whatever a reader is given whole
must have been written there, and at the end every replica has the last record of each key, and known damage has none.
What rots is as in drawn clusters (`barnabas.simulation.bit_rot`): no file is cut, since in a compacted log offsets are
missing anyway, and base offsets are spared, for there nobody can tell a wrong one.
"""

import random
from collections import Counter

from barnabas.protocol.batch import CorruptBatch
from barnabas.protocol.entries import iterate_entries, verify_entry
from barnabas.protocol.records import iterate_records
from barnabas.simulation.convergence import why_not_converged
from barnabas.simulation.plan import Scene, run_plan
from barnabas.simulation.trial import Tally
from barnabas.storage.log import LogOffline
from barnabas.storage.read import OffsetOutOfRange
from barnabas.storage.scan import CorruptSegment
from replication.partition import Partition

_MAX_INFLATED_BYTES = 1 << 20
_SETTINGS = {
    "barnabas.scrub.interval.ms": "500",
    "log.flush.offset.checkpoint.interval.ms": "1000",
    "log.cleaner.backoff.ms": "300",
    "log.cleaner.dedupe.buffer.size": "1048577",
}
_TOPIC = {
    "cleanup.policy": "compact",
    "segment.bytes": "1000",
    "min.cleanable.dirty.ratio": "0.01",
    # Tombstones stay, so that what is gone gave way to a later record of its key.
    "delete.retention.ms": "86400000",
    "file.delete.delay.ms": "100",
}
_Record = tuple[bytes | None, bytes | None]


class CompactedDamageStory:
    """Called with a scene: plays `count` injections."""

    def __init__(self, count: int, seed: str) -> None:
        self.count = count
        self.chance = random.Random(f"{seed}/compacted damage")
        self.acted: Counter[str] = Counter()
        self.written: dict[int, _Record] = {}

    async def __call__(self, scene: Scene) -> None:
        at = scene.partition
        scene.world.history.compacted[at] = scene.world.invariants.compacted[at] = None
        for _ in range(self.count):
            assert await scene.produce(4)
            self._remember(scene)
            await self._play(scene)

    async def _play(self, scene: Scene) -> None:
        on_leader, state = (
            self.chance.random() < 0.35,
            self.chance.choice(["running", "running", "killed", "power cut"]),
        )
        leader = await scene.await_leader()
        victim = leader if on_leader else self.chance.choice(scene.followers())
        world, machine = scene.world, scene.world.machines[victim]
        below = min(scene.end(number) for number in scene.replicas())
        if state == "killed":
            world.kill(victim)
        elif state == "power cut":
            world.power_cut(victim)
        if world.rot.strike(machine, scene.partition, self.chance, below=below):
            self.acted[f"{state}, {'leader' if on_leader else 'follower'}"] += 1
        if not machine.is_up:
            await scene.sleep(self.chance.choice((0.0, 1.0, 8.0)))
            world.start(victim)
        for _ in range(3):
            await scene.sleep(0.3)
            for _, partition in world.invariants.replicas():
                self._records(partition)
        assert await world.until(lambda: not why_not_converged(world), timeout_s=90, step_s=0.25), why_not_converged(
            world
        )
        for _, partition in world.invariants.replicas():
            self._look_at_whole(partition)

    def _remember(self, scene: Scene) -> None:
        """Every record as it was sent: what was acknowledged stands where the answer said."""
        for operation in scene.world.history.produces[scene.partition]:
            assert operation.offset is not None, operation
            value = None if operation.is_tombstone else operation.value
            self.written[operation.offset] = operation.key, value

    def _look_at_whole(self, partition: Partition) -> None:
        found = self._records(partition, must_be_whole=True)
        last = {key: offset for offset, (key, _) in sorted(self.written.items())}
        missing = [offset for offset in last.values() if offset not in found]
        assert not missing, f"the last records of their keys are missing: {missing}"

    def _records(self, partition: Partition, *, must_be_whole: bool = False) -> dict[int, _Record]:
        """What a reader is given that checks what it gets, up to the first that is no good."""
        log = partition.log
        found: dict[int, _Record] = {}
        offset = log.log_start_offset
        try:
            while offset < log.high_watermark:
                read = log.read(offset, max_bytes=1 << 20, upper_bound_offset=log.high_watermark, min_one_batch=True)
                if read.slice is None:
                    break
                data = read.slice.read()
                read.slice.release()
                for at, header in iterate_entries(data):
                    verify_entry(data, at, header)
                    for record in iterate_records(data, at, header, _MAX_INFLATED_BYTES):
                        found[record.offset] = record.key, record.value
                    offset = max(offset, header.next_offset)
        except (CorruptSegment, CorruptBatch, LogOffline, OffsetOutOfRange) as error:
            if must_be_whole:
                raise AssertionError(f"at {offset}: {error}") from error
        for place, record in found.items():
            assert self.written.get(place, record) == record, f"wrong at {place}: {record}"
        return found


def run(count: int, seed: str) -> tuple[Tally, CompactedDamageStory]:
    """Play so many injections in one cluster."""
    story = CompactedDamageStory(count, seed)
    return run_plan(story, seed=seed, settings=_SETTINGS, topic_settings=_TOPIC), story
