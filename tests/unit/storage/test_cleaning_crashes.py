"""A cleaning cut at each of its changes, and in the midst of everything else that happens to a log."""

import asyncio
from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.crash_disk import CrashDisk, Crashed
from tests.support.crash_points import CrashPoint, CutDisk, Scenario, changes_of, play, points_of
from tests.unit.storage.cleaning_model import ModelledLog
from tests.unit.storage.cleaning_store import CONFIG, CleaningStore
from tests.unit.storage.logs import NOW

DAY_MS = 24 * 3600 * 1000
VALUE = b"v" * 30


class Clean(Scenario):
    """A log cleaned once before, to which was added what a second cleaning takes away: see `prepare`."""

    def __init__(self) -> None:
        self.model: ModelledLog
        self.others = 0

    async def prepare(self, disk: CutDisk) -> None:
        assert isinstance(disk, CrashDisk)
        store = CleaningStore(disk=disk, config=replace(CONFIG, segment_bytes=1000))
        self.model = model = ModelledLog(store, Random(1))
        disk.now_ms = store.clock.wall_ms
        await model.open()
        self.put_others(10)
        model.put([(b"key 1", VALUE), (b"key 2", VALUE)])
        await model.clean()
        # A group of two segments of which only the first record stays: what it becomes ends before the second one
        # begins, where an old value of a key stands that is deleted later.
        self.put_others(1)
        model.put([(b"key 1", VALUE)])
        store.log.roll()
        model.put([(b"deleted", VALUE)])
        model.put([(b"key 2", VALUE)])
        store.log.roll()
        model.put([(b"deleted", None)])
        model.put([(b"key 3", b"aborted"), (b"key 9", b"aborted")], producer=7, transactional=True)
        model.put([(b"key 3", b"committed")], producer=8, transactional=True)
        model.end_transaction(7, commit=False)
        model.end_transaction(8, commit=True)
        model.put([(b"key 1", VALUE), (b"key 2", VALUE)])
        self.put_others(12)
        await model.settle()

    def put_others(self, count: int) -> None:
        """Keys of their own, so that segments stay apart."""
        for _ in range(count):
            self.others += 1
            self.model.put([(b"other %d" % self.others, VALUE)])

    async def act(self) -> None:
        assert await self.model.store.cleaner.clean_filthiest()
        await self.model.store.directory.carry_out_removals()

    async def check(self, disk: CutDisk, point: CrashPoint | None) -> None:
        model = self.model
        await model.store.open()
        assert not model.store.store.failures
        model.check()
        # It is cleaned to the end, its tombstones grow old and go, and what was deleted does not come back.
        for _ in range(3):
            await model.clean()
            model.check()
            model.store.clock.advance(DAY_MS + 1)
            self.put_others(10)
        await model.store.reopen()
        model.check()
        assert b"deleted" not in {key for _, key, _ in model.store.records()}


async def test_every_state_that_a_crash_leaves_of_a_cleaning_recovers() -> None:
    changes = await changes_of(Clean(), lambda: NOW)
    kinds = {(change.kind, change.path.rpartition(".")[2]) for change in changes}
    assert {("rename", "cleaned"), ("rename", "swap"), ("rename", "log"), ("fsync", "cleaned")} <= kinds
    for point in points_of(changes):
        # What is there after a change is what is there before the next. Chance has a say where names change.
        is_new = point.moment != "after" or point.change is changes[-1]
        if is_new and (point.end != "power, and some" or point.change.kind in ("rename", "fsync_directory")):
            await play(Clean(), point, now_ms=lambda: NOW)


KEYS = st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=4)
CRASH = st.tuples(st.sampled_from(["kill", "power cut"]), st.integers(0, 120))
ACTIONS = st.one_of(
    st.tuples(st.just("put"), KEYS, st.sampled_from([-1, -1, 7, 8])),
    st.tuples(st.just("put"), KEYS, st.just(-1)),
    st.tuples(st.just("end"), st.sampled_from([7, 8]), st.booleans()),
    st.tuples(st.just("roll")),
    st.tuples(st.just("clean"), st.booleans()),
    st.tuples(st.just("put"), KEYS, st.just(-1)),
    st.tuples(st.just("crash while cleaning"), CRASH),
    st.tuples(st.just("crash while cleaning"), CRASH),
    st.tuples(st.just("clean, cut meanwhile"), st.integers(0, 12), st.integers(0, 30), st.one_of(st.none(), CRASH)),
    st.tuples(st.just("cut"), st.integers(1, 8)),
    st.tuples(st.just("wait"), st.sampled_from([1000, DAY_MS + 1])),
    st.tuples(st.just("crash"), CRASH),
    st.tuples(st.just("stop")),
)


async def _do(model: ModelledLog, action: tuple) -> None:
    match action:
        case ("put", keys, producer):
            records = [(b"key %d" % key, VALUE if has_value else None) for key, has_value in keys]
            for _ in range(3):
                model.put(records, producer=producer, transactional=producer >= 0)
        case ("end", producer, commit):
            if model.is_open(producer):
                model.end_transaction(producer, commit=commit)
        case ("roll",):
            model.log.roll()
        case ("clean", rolls):
            await model.clean(rolls=rolls)
        case ("crash", crash):
            model.crash_at(*crash)
        case ("crash while cleaning", crash):
            await model.settle()
            model.crash_at(*crash)
            await model.clean()
        case ("clean, cut meanwhile", back, turns, crash):
            await model.settle(committed=max(model.committed, model.offset_before(back)))
            if crash is not None:
                model.crash_at(*crash)
            cleaning = asyncio.ensure_future(model.store.cleaner.clean_filthiest())
            try:
                for _ in range(turns):
                    await asyncio.sleep(0)
                await model.cut(back)
            finally:
                await asyncio.wait([cleaning])
                cleaning.exception()
            cleaning.result()
        case ("cut", back):
            await model.cut(back)
        case ("wait", for_ms):
            model.store.clock.advance(for_ms)
        case ("stop",):
            await model.store.reopen()
            model.durable_to = model.end


@given(seed=st.integers(0, 2**32), actions=st.lists(ACTIONS, min_size=4, max_size=25))
@settings(max_examples=60, deadline=None)
def test_the_last_value_of_each_key_outlives_whatever_happens_to_its_log(seed: int, actions: list[tuple]) -> None:
    asyncio.run(_play(seed, actions))


async def _play(seed: int, actions: list[tuple]) -> None:
    model = ModelledLog(CleaningStore(config=replace(CONFIG, segment_bytes=500)), Random(seed))
    await model.open()
    for number in range(16):
        model.put([(b"key %d" % (number % 6), VALUE)])
    for action in actions:
        try:
            await _do(model, action)
            if model.crash is None:
                model.check()
        except Crashed:
            await model.recover()
    model.store.disk.crash_no_more()
    model.crash = None
    await model.clean()
    await model.clean()
    model.check()
