"""Damage on one of three replicas, again and again: bits that flip, bytes that become zero, files that lose their end.

    python -m tests.simulation.damage_story --count 1000 --seed 1

Whole brokers on a virtual clock. Each injection hits one replica's file at a drawn place, while its broker runs or
while it is down, whole or after a power cut. Then all replicas must come to hold the bytes that were written, with
nothing known to be damaged, all in sync and every acknowledged record there. Meanwhile and afterwards a consumer reads
from every replica from the start: whatever it is given whole and with a right checksum must be what was written there.
What it may be given before the scrubber has come by, as by any broker that sends its files unread, is a wrong checksum.
"""

import argparse
import random
import sys
from collections import Counter
from dataclasses import dataclass

from barnabas.protocol.batch import CorruptBatch, verify_crc
from barnabas.protocol.entries import iterate_entries
from barnabas.simulation.bit_rot import Blemish
from barnabas.simulation.convergence import why_not_converged
from barnabas.simulation.disk_image import Inode
from barnabas.simulation.plan import Scene, run_plan
from barnabas.simulation.trial import Tally
from barnabas.storage.read import OffsetOutOfRange
from barnabas.storage.scan import CorruptSegment
from replication.partition import Partition

_COVERED_FROM = 21
KINDS = ("bit rot", "zeroes", "truncation")
STATES = ("running", "stopped", "killed", "power cut")
_SETTINGS = {
    "barnabas.scrub.interval.ms": "500",
    "log.flush.offset.checkpoint.interval.ms": "2000",
    "log.index.interval.bytes": "200",
    "num.recovery.threads.per.data.dir": "1",
}
_TOPIC = {"segment.bytes": "3000", "retention.ms": "-1", "file.delete.delay.ms": "100"}


@dataclass(frozen=True)
class Injection:
    """One of them, drawn from its own seed."""

    kind: str
    state: str
    on_leader: bool
    place: float
    size_bytes: int
    bit: int

    @classmethod
    def draw(cls, chance: random.Random) -> "Injection":
        return cls(
            chance.choice(KINDS),
            chance.choices(STATES, weights=(6, 1, 2, 2))[0],
            chance.random() < 0.35,
            chance.random(),
            chance.choice((1, 4, 40, 300, 1500)),
            chance.randrange(8),
        )


class DamageStory:
    """Called with a scene: plays `count` injections."""

    def __init__(self, count: int, seed: str) -> None:
        self.count = count
        self.chance = random.Random(f"{seed}/damage")
        self.acted: Counter[str] = Counter()
        self.written: dict[int, bytes] = {}
        self.payloads: set[bytes] = set()
        self.refused = 0
        self.bad_checksums = 0

    async def __call__(self, scene: Scene) -> None:
        assert await scene.produce(25)
        await self._until_whole(scene)
        for number in range(self.count):
            injection = Injection.draw(self.chance)
            try:
                await self._play(scene, injection)
            except AssertionError as error:
                raise AssertionError(f"injection {number} ({injection}): {error}") from error

    async def _play(self, scene: Scene, injection: Injection) -> None:
        leader = await scene.await_leader()
        victim = leader if injection.on_leader else self.chance.choice(scene.followers())
        assert await scene.produce(2)
        await self._remember(scene)
        machine = scene.world.machines[victim]
        if injection.state == "running":
            self._inject(scene, victim, injection)
        else:
            if injection.state == "stopped":
                await scene.world.stop(victim)
            elif injection.state == "killed":
                scene.world.kill(victim)
            else:
                scene.world.power_cut(victim)
            self._inject(scene, victim, injection)
            await scene.sleep(self.chance.choice((0.0, 1.0, 8.0)))
            if not machine.is_up:
                scene.world.start(victim)
        for _ in range(4):
            await scene.sleep(0.3)
            self._read_everywhere(scene)
        await self._until_whole(scene)
        self._read_everywhere(scene, must_be_whole=True)

    def _inject(self, scene: Scene, victim: int, injection: Injection) -> None:
        disk = scene.world.machines[victim].disk
        name = str(scene.partition)
        files = [
            (path, inode)
            for directory in ("/data/a", "/data/b")
            for path, inode in disk.files_in(f"{directory}/{name}")
            if path.endswith(".log") and inode.data
        ]
        assert files, "no log to damage"
        at = int(injection.place * sum(len(inode.data) for _, inode in files))
        for _, inode in files:
            if at < len(inode.data):
                break
            at -= len(inode.data)
        before = bytes(inode.data)
        _damage(inode, at, injection)
        if inode.data != before:
            begin = min(at, len(inode.data)) if len(inode.data) == len(before) else len(inode.data)
            size_bytes = min(injection.size_bytes, len(before) - begin) if injection.kind != "bit rot" else 1
            bad = bytes(inode.data[begin : begin + size_bytes])
            machine = scene.world.machines[victim]
            scene.world.rot.note(Blemish(machine, scene.partition, inode, begin, size_bytes, bad))
            role = "leader" if injection.on_leader else "follower"
            self.acted[f"{injection.kind}, {injection.state}, {role}"] += 1

    async def _remember(self, scene: Scene) -> None:
        """Every batch as it was written, by its first offset: read off a leader that is whole."""
        # One that leads only since the last acknowledgement has yet to hear how much of its log is committed.
        await scene.until(lambda: self._commits_all(scene, scene.leader()))
        leader = await scene.await_leader()
        for _, _, base, data in _batches(self._replica(scene, leader)):
            assert self.written.setdefault(base, data) == data, f"another batch at {base}"
            self.payloads.add(data[_COVERED_FROM:])

    def _commits_all(self, scene: Scene, leader: int | None) -> bool:
        if leader is None:
            return False
        log = self._replica(scene, leader).log
        return log.high_watermark == log.log_end_offset

    @staticmethod
    def _replica(scene: Scene, number: int) -> Partition:
        partition = next(
            (part for machine, part in scene.world.invariants.replicas() if machine.broker_id == number), None
        )
        assert partition is not None, f"broker {number} has no replica"
        return partition

    async def _until_whole(self, scene: Scene) -> None:
        def is_whole() -> bool:
            replicas = [part for _, part in scene.world.invariants.replicas()]
            if (
                why_not_converged(scene.world)
                or len(replicas) != len(scene.world.machines)
                or any(part.log.damage for part in replicas)
            ):
                return False
            return all(self._why_not_equal(part) is None for part in replicas)

        if not await scene.world.until(is_whole, timeout_s=90.0, step_s=0.25):
            told = {
                machine.broker_id: (self._why_not_equal(part), [str(each) for each in part.log.damage])
                for machine, part in scene.world.invariants.replicas()
            }
            raise AssertionError(f"not whole: {why_not_converged(scene.world)} {told}")

    def _why_not_equal(self, partition: Partition) -> str | None:
        """Whether all that was written is there, byte for byte."""
        try:
            found = {base: data for _, _, base, data in _batches(partition)}
        except (CorruptBatch, CorruptSegment) as error:
            return str(error)
        wanted = {base: data for base, data in self.written.items() if base >= partition.log.log_start_offset}
        wrong = [base for base in wanted if found.get(base) != wanted[base]]
        return f"{len(wrong)} batches differ, the first at {wrong[0]}" if wrong else None

    def _read_everywhere(self, scene: Scene, *, must_be_whole: bool = False) -> None:
        """Read as a consumer does that checks what it is given."""
        for _, partition in scene.world.invariants.replicas():
            log = partition.log
            offset = log.log_start_offset
            while offset < log.high_watermark:
                try:
                    taken = _read(partition, offset)
                except (CorruptSegment, OffsetOutOfRange) as error:
                    if must_be_whole:
                        raise AssertionError(f"refused at {offset}") from error
                    self.refused += 1
                    break
                offset, is_sound = self._judge(taken, offset, is_scrubbed=must_be_whole)
                if not is_sound:
                    break

    def _judge(self, data: bytes, offset: int, *, is_scrubbed: bool) -> tuple[int, bool]:
        begun = offset
        try:
            for position, header in iterate_entries(data):
                verify_crc(data, position, header)
                batch = data[position : position + header.size_bytes]
                assert batch[_COVERED_FROM:] in self.payloads, f"wrong bytes at {header.base_offset}"
                if is_scrubbed:
                    # Base offset, length and leader epoch stand outside of the checksum.
                    known = self.written.get(header.base_offset)
                    assert known in (None, batch), f"a wrong header at {header.base_offset}"
                if header.next_offset <= offset and header.base_offset > begun:
                    return offset, False
                offset = max(offset, header.next_offset)
        except CorruptBatch:
            assert not is_scrubbed, f"bytes with a wrong checksum at {offset}"
            self.bad_checksums += 1
            return offset, False
        return offset, offset > begun


def _damage(inode: Inode, at: int, injection: Injection) -> None:
    """On the platter: what is read from now on, also after a power cut."""
    inode.sync()
    if injection.kind == "bit rot":
        inode.data[at] ^= 1 << injection.bit
    elif injection.kind == "zeroes":
        size = min(injection.size_bytes, len(inode.data) - at)
        inode.data[at : at + size] = bytes(size)
    else:
        del inode.data[max(0, len(inode.data) - injection.size_bytes) :]
    inode.synced = bytes(inode.data)


def _read(partition: Partition, offset: int) -> bytes:
    read = partition.log.read(
        offset, max_bytes=1 << 20, upper_bound_offset=partition.log.high_watermark, min_one_batch=True
    )
    if read.slice is None:
        return b""
    data = read.slice.read()
    read.slice.release()
    return data


def _batches(partition: Partition):
    offset = partition.log.log_start_offset
    while offset < partition.log.high_watermark:
        data = _read(partition, offset)
        if not data:
            return
        for position, header in iterate_entries(data):
            verify_crc(data, position, header)
            batch = data[position : position + header.size_bytes]
            yield position, header, header.base_offset, batch
            offset = header.next_offset


def run(count: int, seed: str) -> tuple[Tally, DamageStory]:
    """Play so many injections in one cluster."""
    story = DamageStory(count, seed)
    return run_plan(story, seed=seed, settings=_SETTINGS, topic_settings=_TOPIC), story


def main() -> int:
    """Play them in clusters of at most 50, so that one seed replays what failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", default="1")
    options = parser.parse_args()
    left, number, failures = options.count, 0, 0
    acted: Counter[str] = Counter()
    while left > 0:
        seed, count = f"{options.seed}.{number}", min(left, 50)
        tally, story = run(count, seed)
        acted.update(story.acted)
        said = "; ".join(tally.violations) or "whole"
        print(f"seed {seed}: {count} injections, {story.refused} reads refused: {said}", flush=True)
        failures += not tally.passed
        left, number = left - count, number + 1
    for kind, times in sorted(acted.items()):
        print(f"{times:5} {kind}")
    print(f"{sum(acted.values())} injections acted, {failures} clusters failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
