"""Retention against clocks that jump and records that lie about their time: only what Kafka's rules give up goes.

By time a segment goes when the wall clock is past its greatest timestamp by more than retention.ms; where no record has
a timestamp the file's time stands for it. A clock that goes back keeps everything; one that jumps a year ahead takes
what is older than that by it, and no more; the future is kept until it is past. Size and start offset know no clock.
"""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.runtime.disk import Disk
from barnabas.storage.directories import LogDirectories
from barnabas.storage.log import Log
from barnabas.storage.log_config import LogConfig
from barnabas.storage.maintenance import sweep_log
from barnabas.storage.retention import SegmentFacts, decide_retention
from tests.support.crash_disk import CrashDisk
from tests.unit.storage.logs import NOW, TP, append, batch, read_bytes
from tests.unit.storage.stores import Store, open_store

DAY = 24 * 3600 * 1000
WEEK, YEAR = 7 * DAY, 365 * DAY
NO_TIME = -1
ONE = len(batch(b"v" * 20))


def kept_after(clock_ms: int, timestamps: list[int], **config: int) -> int:
    """The start of a log of segments of one record each with these times, after retention at this clock."""
    facts = [
        SegmentFacts(place, place + 1 if place + 1 < len(timestamps) else None, 100, timestamp)
        for place, timestamp in enumerate(timestamps)
    ]
    return len(
        decide_retention(
            facts,
            LogConfig(**{"retention_ms": WEEK, **config}),
            now_ms=clock_ms,
            high_watermark=len(timestamps),
            log_start_offset=0,
            log_end_offset=len(timestamps),
        )
    )


@pytest.mark.parametrize(
    ("clock_ms", "gone"),
    [
        pytest.param(NOW, 0, id="as it should be"),
        pytest.param(NOW - YEAR, 0, id="a year back"),
        pytest.param(0, 0, id="zero"),
        pytest.param(-YEAR, 0, id="before 1970"),
        pytest.param(NOW + WEEK, 2, id="a week on: exactly a week old is young enough"),
        pytest.param(NOW + WEEK + 1, 3, id="a moment later"),
        pytest.param(NOW + YEAR, 3, id="a year on"),
        pytest.param((1 << 63) - 1, 3, id="the end of time"),
    ],
)
def test_where_the_clock_jumps_to(clock_ms: int, gone: int) -> None:
    assert kept_after(clock_ms, [NOW - 2, NOW - 1, NOW]) == gone


@pytest.mark.parametrize(
    ("timestamps", "gone"),
    [
        pytest.param([NOW + YEAR, NOW - YEAR], 0, id="the future holds what comes after it"),
        pytest.param([NOW - YEAR, NOW + YEAR, NOW - YEAR], 1, id="and lets go what came before"),
        pytest.param([0, 0], 2, id="1970"),
        pytest.param([(1 << 63) - 1, 0], 0, id="the greatest time that there is"),
    ],
)
def test_times_that_are_not_now(timestamps: list[int], gone: int) -> None:
    assert kept_after(NOW, timestamps) == gone


def test_no_clock_moves_the_bounds_of_size_and_start() -> None:
    for clock_ms in (0, NOW - YEAR, NOW, NOW + YEAR):
        assert kept_after(clock_ms, [NOW] * 5, retention_ms=-1, retention_bytes=200) == 3
        assert kept_after(clock_ms, [NOW] * 5, retention_ms=-1) == 0


@dataclass
class Swept:
    """One log in a directory on a real disk, swept when a test says so."""

    store: Store
    log: Log
    times: list[int]

    @property
    def directories(self) -> LogDirectories:
        return self.store.directories

    def write(self, timestamp: int, *, file_time_ms: int | None = None) -> None:
        """One batch, a segment of its own; the file's time is the clock's unless it is given."""
        append(self.log, batch(b"v" * 20, timestamp=timestamp), now_ms=self.store.clock.wall_ms())
        self.log.advance_high_watermark(self.log.log_end_offset)
        changed_ms = self.store.clock.wall_ms() if file_time_ms is None else file_time_ms
        self.store.disk.set_modified_ms(self.log.segments.active.path(".log"), max(changed_ms, 0))
        self.times.append(timestamp if timestamp >= 0 else max(changed_ms, 0))

    def sweep(self) -> int:
        """Where the log starts after a sweep. All that is above is there."""
        sweep_log(self.directories.directories[0], self.log, self.store.clock.wall_ms())
        start, end = self.log.log_start_offset, self.log.log_end_offset
        if start < end:
            assert read_bytes(self.log, start)[:8] == start.to_bytes(8)
        assert end == len(self.times)
        return start

    async def restart(self) -> None:
        await self.directories.close()
        path = self.directories.directories[0].path
        self.store = await open_store(path, config=self.log.config, clock=self.store.clock, disk=self.store.disk)
        log = self.directories.log(TP)
        assert log is not None
        self.log = log


async def swept(path: str, *, disk: Disk | None = None, **config: int) -> Swept:
    chosen = LogConfig(**{"segment_bytes": ONE, "retention_ms": WEEK, "segment_ms": 1 << 60, **config})
    store = await open_store(path, config=chosen, disk=disk)
    return Swept(store, store.directories.create_log(TP), [])


async def test_a_clock_a_year_ahead_takes_what_is_older_and_nothing_that_was_written_since(tmp_path) -> None:
    log = await swept(str(tmp_path))
    for _ in range(3):
        log.write(NOW)
    log.store.clock.jump_wall(YEAR)
    for _ in range(2):
        log.write(log.store.clock.wall_ms())
    assert log.sweep() == 3
    log.store.clock.jump_wall(-YEAR)
    for _ in range(2):
        log.write(NOW)
        assert log.sweep() == 3, "what was written a year ahead is young, and what comes after it stays behind it"
    await log.directories.close()


@pytest.mark.parametrize("jump_ms", [-YEAR, -NOW])
async def test_a_clock_that_goes_back_takes_nothing(tmp_path, jump_ms: int) -> None:
    log = await swept(str(tmp_path))
    for age in (YEAR, WEEK, 0):
        log.write(NOW - age)
    log.store.clock.jump_wall(jump_ms)
    log.write(max(NOW + jump_ms, 0))
    assert log.sweep() == 0
    log.store.clock.jump_wall(-jump_ms)
    assert log.sweep() == 1, "right again, it takes what is old"
    await log.directories.close()


async def test_records_without_a_time_have_that_of_their_file_also_after_a_restart(tmp_path) -> None:
    log = await swept(str(tmp_path))
    for age in (2 * WEEK, WEEK + 1, WEEK, 0):
        log.write(NO_TIME, file_time_ms=NOW - age)
    await log.restart()
    assert log.sweep() == 2
    log.store.clock.jump_wall(YEAR)
    assert log.sweep() == 4, "the last one went too: a new segment was begun"
    await log.directories.close()


async def test_what_is_not_committed_stays_whatever_the_clock_says(tmp_path) -> None:
    log = await swept(str(tmp_path))
    log.write(NOW)
    for _ in range(3):
        append(log.log, batch(b"v" * 20), now_ms=NOW)
        log.times.append(NOW)
    log.store.clock.jump_wall(YEAR)
    assert log.sweep() == 1
    await log.directories.close()


TIMES = st.one_of(
    st.integers(-2 * WEEK, 2 * WEEK).map(lambda age: NOW + age),
    st.sampled_from([NO_TIME, 0, NOW - YEAR, NOW + YEAR, (1 << 62)]),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), TIMES),
        st.tuples(st.just("jump"), st.sampled_from([-YEAR, YEAR, -WEEK, WEEK, 1, -NOW, NOW])),
        st.tuples(st.just("sweep"), st.just(0)),
        st.tuples(st.just("restart"), st.just(0)),
    ),
    max_size=30,
)


@given(steps=STEPS, retention_bytes=st.sampled_from([-1, 0, 2 * ONE]))
@settings(max_examples=60, deadline=None)
async def test_nothing_goes_but_by_the_rules(steps, retention_bytes: int) -> None:
    log = await swept("/data", disk=CrashDisk(), retention_bytes=retention_bytes)
    start = 0
    for step, value in [*steps, ("sweep", 0)]:
        if step == "write":
            log.write(value)
        elif step == "jump":
            log.store.clock.jump_wall(value)
        elif step == "restart":
            await log.restart()
        else:
            now_ms = log.store.clock.wall_ms()
            while start < len(log.times) and now_ms - log.times[start] > WEEK:
                start += 1
            if retention_bytes >= 0:
                start = max(start, len(log.times) - retention_bytes // ONE)
            assert log.sweep() == start
    await log.directories.close()
