"""Our cleaner against that of Kafka 2.7.2: drawn logs are cleaned by both, and what is left must be the same.

The logs have producers with and without transactions, aborted ones too, tombstones, records without keys, all codecs
and several segments; a part of each counts as clean. Compared are records, batches and their headers, markers, the
aborted indexes, the offset up to which the log is clean, and which segments became one.

Where we differ on purpose the logs do not go: keys that look like those of markers (KAFKA-14055), tombstones in dirty
segments that are older than clean ones, a map that is full. A marker that Kafka empties we keep whole.
"""

import json
import os
import random
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest

from barnabas.protocol.batch import BatchHeader, Codec
from barnabas.storage.txn_index import decode_aborted
from tests.support.java import compile_java, run_java
from tests.support.kafka_jars import BROKER_JARS, JarsNotAvailable, class_path
from tests.unit.storage.cleaning.segment_world import LIMITS, SegmentWorld

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]

SOURCE = Path(__file__).parent / "java" / "CleanerRun.java"
LOGS = 40
RETENTIONS = (0, 1500, 10**9)
DEDUPE_BYTES = 1 << 20
SEGMENT_BYTES = 1200
PRODUCERS = 4


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> str:
    try:
        jars = class_path(BROKER_JARS)
    except JarsNotAvailable as error:
        pytest.skip(str(error))
    return compile_java(SOURCE, jars=jars, output=tmp_path_factory.mktemp("classes"))


class Writer:
    """Writes a drawn log."""

    def __init__(self, world: SegmentWorld, rng: random.Random) -> None:
        self.world = world
        self.rng = rng
        self.open: dict[int, int] = {}
        self.sequences: dict[int, int] = {}
        self.epochs: dict[int, int] = {}
        self.time = world.now_ms

    def step(self) -> None:
        choice = self.rng.random()
        if choice < 0.7:
            self.put()
        elif choice < 0.85:
            self.end(self.rng.randrange(PRODUCERS))
        else:
            self.time += 1000
            self.world.roll(self.time)

    def put(self) -> None:
        rng = self.rng
        pairs = [
            (
                None if rng.random() < 0.1 else f"key {rng.randrange(12)}",
                None if rng.random() < 0.2 else rng.randbytes(20).hex(),
            )
            for _ in range(rng.randint(1, 6))
        ]
        producer, identity = rng.randrange(-2, PRODUCERS), (-1, -1, -1)
        is_txn = producer in self.open or (producer >= 0 and rng.random() < 0.5)
        if producer >= 0:
            sequence = self.sequences.get(producer, 0)
            identity = (producer, self.epochs.setdefault(producer, 0), sequence)
            self.sequences[producer] = sequence + len(pairs)
        append_time = self.world.now_ms + rng.randrange(10**6) if rng.random() < 0.2 else None
        base = self.world.put(
            *pairs, codec=rng.choice(list(Codec)), producer=identity, transactional=is_txn, append_time=append_time
        )
        if is_txn:
            self.open.setdefault(producer, base)

    def end(self, producer: int) -> None:
        fences = self.rng.random() < 0.2
        if producer not in self.open and not fences:
            return
        if fences:
            self.epochs[producer] = self.epochs.setdefault(producer, 0) + 1
            self.sequences[producer] = 0
        commit = not fences and self.rng.random() < 0.6
        self.world.end(producer, self.epochs[producer], commit=commit)
        self.open.pop(producer, None)

    def uncleanable(self) -> int:
        bound = min([*self.open.values(), self.world.bases[-1]])
        return max(base for base in self.world.bases if base <= bound)


def drawn_log(directory: Path, rng: random.Random) -> tuple[SegmentWorld, int]:
    """A log of which something can be cleaned, and its first uncleanable offset."""
    directory.mkdir(parents=True)
    # Kafka forgets producers that were idle for weeks by its own clock.
    world = SegmentWorld(str(directory), now_ms=time.time_ns() // 1_000_000 - 3_600_000)
    writer = Writer(world, rng)
    for _ in range(rng.randint(10, 60)):
        writer.step()
    if rng.random() < 0.7:
        for producer in list(writer.open):
            world.end(producer, writer.epochs[producer], commit=rng.random() < 0.5)
        writer.open.clear()
    world.roll(writer.time + 1000)
    for base in world.bases:
        os.utime(world.path(base, ".log"), (world.modified_ms[base] / 1000, world.modified_ms[base] / 1000))
    return world, writer.uncleanable()


def described(header: BatchHeader) -> tuple[object, ...]:
    """What both must agree on; Kafka counts the times of a batch from the first record that is left."""
    if header.is_control:
        return (header.base_offset, header.producer_id, header.producer_epoch)
    return (
        header.base_offset,
        header.last_offset,
        header.record_count,
        header.attributes,
        header.max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.leader_epoch,
    )


def described_log(world: SegmentWorld) -> dict[str, object]:
    aborted = [
        txn
        for base in world.bases
        if world.disk.exists(world.path(base, ".txnindex"))
        for txn in decode_aborted(world.disk.read_bytes(world.path(base, ".txnindex")), base_offset=base)
    ]
    return {
        "segments": world.bases,
        "batches": [described(header) for header, _ in world.batches()],
        "records": world.records(),
        "aborted": aborted,
    }


def test_both_cleaners_leave_the_same(classes: str, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    worlds: list[tuple[SegmentWorld, int, int]] = []
    arguments = [str(SEGMENT_BYTES), str(LIMITS.index_interval_bytes), str(DEDUPE_BYTES), "65536"]
    while len(worlds) < LOGS:
        ours = tmp_path / f"{len(worlds)}-{rng.random()}" / "ours" / "t-0"
        world, uncleanable = drawn_log(ours, rng)
        dirty = [base for base in world.bases if base < uncleanable]
        if not dirty:
            continue
        world.first_dirty = rng.choice(dirty)
        retention_ms = rng.choice(RETENTIONS)
        kafkas = ours.parents[1] / "kafka" / "t-0"
        shutil.copytree(ours, kafkas)
        arguments += [str(kafkas), str(world.first_dirty), str(uncleanable), str(retention_ms)]
        worlds.append((world, uncleanable, retention_ms))
    output = run_java(classes, "kafka.log.CleanerRun", arguments)
    results = [json.loads(line.removeprefix("RESULT ")) for line in output.splitlines() if line.startswith("RESULT ")]
    limits = replace(LIMITS, segment_bytes=SEGMENT_BYTES, segment_index_bytes=1 << 20, offset_map_bytes=DEDUPE_BYTES)
    emptied = removed = 0
    for (world, uncleanable, retention_ms), result in zip(worlds, results, strict=True):
        kafkas = Path(world.directory).parents[1] / "kafka" / "t-0"
        before = len(world.records())
        cleaned = world.clean(world.job(upto=uncleanable, retention_ms=retention_ms, limits=limits))
        assert cleaned.result.first_dirty_offset == result["end_offset"]
        theirs = SegmentWorld(str(kafkas), next_offset=world.next_offset)
        theirs.bases = sorted(int(path.stem) for path in kafkas.glob("*.log"))
        expected, found = described_log(theirs), described_log(world)
        for part in expected:
            assert found[part] == expected[part], f"{part} of {world.directory}, first dirty {world.first_dirty}"
        removed += before - len(world.records())
        emptied += sum(header.record_count == 0 for header, _ in world.batches())
    assert removed > 10 * LOGS
    assert emptied > LOGS / 10
