"""A model of a compacted log against real files: what is written, in any order, and cleaned now and then.

The model remembers every record. After each cleaning the files must hold, of what was committed or is no transaction's,
the last record of each key (a tombstone may be gone once it was in the clean part); nothing that was not written, all
at its own offset and in order; nothing that was aborted below the end of the cleaning; and what recovery rebuilds of
the active producers must be what is known of them. Cleaning a clean log changes nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.protocol.batch import Codec
from barnabas.protocol.records import Record
from tests.support.crash_disk import CrashDisk
from tests.unit.storage.cleaning.segment_world import LIMITS, NOW, SegmentWorld

KEYS = st.sampled_from(["a", "b", "c", "d", "\x00\x00\x00\x00", "\x00\x00\x00\x01", "long key " * 40])
VALUES = st.none() | st.sampled_from(["1", "two", "x" * 200])
BATCHES = st.lists(st.tuples(KEYS | st.none(), VALUES), min_size=1, max_size=5)
CODECS = st.sampled_from([Codec.NONE, Codec.NONE, Codec.LZ4, Codec.ZSTD, Codec.GZIP, Codec.SNAPPY])


@dataclass
class Model:
    """The log, what was written into it, and the transactions that are open."""

    world: SegmentWorld
    written: dict[int, Record] = field(default_factory=dict)
    open: dict[int, list[int]] = field(default_factory=dict)
    aborted: set[int] = field(default_factory=set)
    sequences: dict[int, int] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    time: int = NOW

    def put(self, pairs: Sequence[tuple[str | None, str | None]], codec: Codec, producer: int, *, txn: bool) -> None:
        identity = (-1, -1, -1)
        txn = txn and producer >= 0
        if producer >= 0:
            identity = (producer, self.epochs.setdefault(producer, 0), self.sequences.get(producer, 0))
            self.sequences[producer] = identity[2] + len(pairs)
        self.world.put(*pairs, codec=codec, producer=identity, transactional=txn)
        records = self.world.last_put
        self.written |= {record.offset: record for record in records}
        if txn:
            self.open.setdefault(producer, []).extend(record.offset for record in records)

    def end(self, producer: int, *, commit: bool, fence: bool) -> None:
        """End the producer's transaction, which may be empty; `fence` raises its epoch first, as a coordinator does."""
        epoch = self.epochs.setdefault(producer, 0)
        if fence:
            epoch = self.epochs[producer] = epoch + 1
            self.sequences[producer] = 0
        self.world.end(producer, epoch, commit=commit, coordinator_epoch=len(self.written))
        offsets = self.open.pop(producer, [])
        if not commit:
            self.aborted.update(offsets)

    def roll(self) -> None:
        self.time += 1000
        self.world.roll(self.time)

    def uncleanable(self) -> int:
        """The base offset of the segment with the first unstable offset, or of the active one."""
        bases = self.world.bases
        unstable = min((offsets[0] for offsets in self.open.values()), default=bases[-1])
        return max(base for base in bases if base <= min(unstable, bases[-1]))

    def clean(self, *, map_keys: int, retention_ms: int, segment_bytes: int) -> None:
        world = self.world
        bound = self.uncleanable()
        if bound <= world.first_dirty:
            return
        limits = replace(LIMITS, offset_map_bytes=24 * map_keys, segment_bytes=segment_bytes)
        before, kept_before = world.first_dirty, {record.offset for record in world.records()}
        end = world.clean(world.job(upto=bound, retention_ms=retention_ms, limits=limits)).result.first_dirty_offset
        assert before < end <= bound
        self.check(end, clean_before=before, kept_before=kept_before)

    def check(self, end: int, *, clean_before: int, kept_before: set[int]) -> None:
        found = self.world.records()
        offsets = [record.offset for record in found]
        assert offsets == sorted(set(offsets))
        assert found == [self.written[offset] for offset in offsets], "a record stays as it was written"

        unfinished = {offset for each in self.open.values() for offset in each}
        good = {n: r for n, r in self.written.items() if n not in self.aborted and r.key is not None}
        newest = {record.key: offset for offset, record in sorted(good.items()) if offset < end}
        for offset in newest.values():
            # A tombstone in the clean part may have been removed, now or before.
            may_be_gone = good[offset].value is None and offset < clean_before
            assert offset in offsets or may_be_gone, f"the newest record of its key, {good[offset]}, is gone"
        assert {n for n in kept_before if n >= end} <= set(offsets) | self.aborted, "what is not mapped stays"
        for offset in offsets:
            if offset < end:
                assert offset not in self.aborted, "an aborted record is there"
                assert newest.get(self.written[offset].key) == offset, "a record that was superseded is there"
        committed = {record.offset for record in self.world.records(committed=True)}
        assert committed - unfinished == set(offsets) - unfinished - self.aborted, "the aborted index hides the aborted"
        self.check_producers()

    def check_producers(self) -> None:
        rebuilt = self.world.rebuilt_producers()
        for entry in self.world.producers:
            again = rebuilt.get(entry.producer_id)
            assert again is not None, f"producer {entry.producer_id} is lost"
            assert (again.epoch, again.last_sequence) == (entry.epoch, entry.last_sequence)
            assert [batch[:3] for batch in again.batches[-1:]] == [batch[:3] for batch in entry.batches[-1:]]
            assert again.txn_first_offset == entry.txn_first_offset
        unfinished = {entry.producer_id for entry in rebuilt if entry.txn_first_offset >= 0}
        assert unfinished <= set(self.open), "a marker is gone before its transaction"

    def check_idempotence(self) -> None:
        """Cleaning all of the log again, from its start, with nothing new, changes no file."""
        world = self.world
        bound = world.bases[-1]
        if self.open or not bound or world.first_dirty < bound:
            return
        world.first_dirty = 0
        world.clean(world.job(retention_ms=10**12))
        content = {base: world.content(base) for base in world.bases}
        aborted = dict(world.aborted)
        world.clean(world.job(retention_ms=10**12))
        assert {base: world.content(base) for base in world.bases} == content
        assert world.aborted == aborted


def world_in_memory() -> SegmentWorld:
    disk = CrashDisk()
    disk.make_directory("/log")
    return SegmentWorld("/log", disk)


@st.composite
def steps(draw: st.DrawFn) -> list[tuple[object, ...]]:
    producer = st.integers(-1, 2)
    step = st.one_of(
        st.tuples(st.just("put"), BATCHES, CODECS, producer, st.booleans()),
        st.tuples(st.just("put"), BATCHES, CODECS, producer, st.booleans()),
        st.tuples(st.just("end"), st.integers(0, 2), st.booleans(), st.sampled_from([False, False, False, True])),
        st.tuples(st.just("roll")),
        st.tuples(
            st.just("clean"),
            st.sampled_from([2, 5, 1000]),
            st.sampled_from([0, 1500, 10**9]),
            st.sampled_from([1, 600, 10**6]),
        ),
        st.tuples(st.just("forget"), st.integers(0, 2)),
    )
    return draw(st.lists(step, min_size=3, max_size=30))


def play(model: Model, script: Sequence[tuple[object, ...]]) -> None:
    for name, *arguments in script:
        if name == "put":
            pairs, codec, producer, txn = arguments
            # A producer with an open transaction writes inside of it.
            model.put(pairs, codec, producer, txn=txn or producer in model.open)  # type: ignore[arg-type]
        elif name == "end":
            producer, commit, fence = arguments
            if producer in model.open or fence:
                model.end(producer, commit=bool(commit) and not fence, fence=bool(fence))  # type: ignore[arg-type]
        elif name == "roll":
            model.roll()
        elif name == "clean":
            map_keys, retention_ms, segment_bytes = arguments
            model.clean(map_keys=map_keys, retention_ms=retention_ms, segment_bytes=segment_bytes)  # type: ignore[arg-type]
        elif name == "forget" and arguments[0] not in model.open:
            # The producer was idle for long; when it comes back any sequence is right.
            kept = [entry for entry in model.world.producers if entry.producer_id != arguments[0]]
            model.world.producers = type(model.world.producers)(kept, end_offset=model.world.next_offset)


@given(steps())
@settings(max_examples=150)
def test_a_log_keeps_its_promises_through_cleanings(script: list[tuple[object, ...]]) -> None:
    model = Model(world_in_memory())
    play(model, [*script, ("roll",), *[("clean", 2, 10**9, 10**6)] * 12, ("clean", 1000, 10**9, 10**6)])
    for producer in list(model.open):
        model.end(producer, commit=True, fence=False)
    for _ in range(2):
        # The second time what there was is clean, and its tombstones and markers may go.
        play(model, [("put", [("new", "1")], Codec.NONE, -1, False), ("roll",), ("clean", 1000, 0, 10**6)])
    model.check_idempotence()


@pytest.mark.parametrize("retention_ms", [0, 10**9])
def test_the_model_sees_a_record_that_is_missing(retention_ms: int) -> None:
    model = Model(world_in_memory())
    model.put([("a", "1")], Codec.NONE, -1, txn=False)
    model.put([("b", "1")], Codec.NONE, -1, txn=False)
    model.roll()
    model.clean(map_keys=1000, retention_ms=retention_ms, segment_bytes=10**6)
    file = model.world.disk.open(model.world.path(0, ".log"))
    file.truncate(len(model.world.batches()[0][1]))
    file.close()
    with pytest.raises(AssertionError, match="is gone"):
        model.check(2, clean_before=0, kept_before=set())
