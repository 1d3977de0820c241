"""The scrubber looks at once where somebody could not read, whatever else there is to check, and then goes on."""

import contextlib

import pytest

from barnabas.storage.log_config import LogConfig
from barnabas.storage.scan import CorruptSegment
from barnabas.storage.scrubber import PIECE_BYTES, ScrubSettings
from tests.unit.storage.logs import NOW, append, batch, offset_for_timestamp, read_bytes
from tests.unit.storage.test_scrubber import World

VALUE = b"v" * 1000
ONE = len(batch(VALUE))
IN_SEGMENT = 3 * PIECE_BYTES // ONE
CONFIG = LogConfig(segment_bytes=IN_SEGMENT * ONE, index_interval_bytes=2 * ONE, file_delete_delay_ms=0)


class LargeWorld(World):
    """A log of three segments and a bit, each three times what the scrubber reads at once; one record in a batch."""

    config = CONFIG

    async def fill(self) -> "LargeWorld":
        await self.start()
        self.store.directories.create_log(self.at)
        for number in range(3 * IN_SEGMENT + 5):
            append(self.log, batch(VALUE, timestamp=NOW + number), leader_epoch=0)
        await self.directory.carry_out_flushes()
        return self

    def ruin(self, offset: int, *, at: int = 16) -> None:
        """Let the batch have an impossible format, or other bytes at another place."""
        segment = self.log.segments[self.log.segments.place_of(offset)]
        self.damage((offset - segment.base_offset) * ONE + at, b"\xff" * 4, segment.path(".log"))

    def found(self) -> list[tuple[int, int]]:
        return [(damaged.start_offset, damaged.end_offset) for damaged in self.log.damage]


@pytest.fixture
async def world() -> LargeWorld:
    return await LargeWorld().fill()


LATE = 2 * IN_SEGMENT + IN_SEGMENT // 2


async def test_a_place_that_could_not_be_read_is_looked_at_next_and_the_pass_goes_on(world: LargeWorld) -> None:
    await world.scrubber.step(world.directory)
    world.ruin(LATE)
    with pytest.raises(CorruptSegment):
        read_bytes(world.log, LATE)
    await world.scrubber.step(world.directory)
    assert world.found() == [(LATE, LATE + 1)]
    assert world.told == [list(world.log.damage)]
    await world.scrub()
    assert (world.scrubber.count.passes, world.scrubber.count.found) == (1, 1)
    # But for the batches around that place nothing was checked twice.
    assert 0 <= world.scrubber.count.checked_bytes - (3 * IN_SEGMENT + 5) * ONE < 2 * PIECE_BYTES


async def test_without_a_rate_a_place_that_could_not_be_read_is_looked_at_and_nothing_else(world: LargeWorld) -> None:
    await world.scrubber.step(world.directory)
    before = world.scrubber.count.checked_bytes
    world.scrubber.settings = ScrubSettings(bytes_per_second=0)
    await world.scrub()
    assert world.scrubber.count.checked_bytes == before
    world.ruin(LATE)
    with pytest.raises(CorruptSegment):
        read_bytes(world.log, LATE)
    await world.scrub()
    assert world.found() == [(LATE, LATE + 1)]
    assert (world.scrubber.count.checked_bytes - before < 2 * PIECE_BYTES, world.directory.suspects) == (True, {})
    world.scrubber.settings = ScrubSettings()
    await world.scrub()
    # It goes on where it was.
    assert world.scrubber.count.passes == 1
    assert world.scrubber.count.checked_bytes - (3 * IN_SEGMENT + 5) * ONE < 2 * PIECE_BYTES


@pytest.mark.parametrize("at", [16, 70])
async def test_a_place_that_an_index_names_wrongly_is_no_damage(world: LargeWorld, at: int) -> None:
    await world.scrub()
    world.ruin(LATE, at=at)
    segment = world.log.segments[2]
    # Entries of 8 bytes, the position in the last 4: all of them point into batches.
    entries = bytearray(world.disk.read_bytes(segment.path(".index")))
    for entry in range(0, len(entries), 8):
        position = int.from_bytes(entries[entry + 4 : entry + 8], "big")
        entries[entry + 4 : entry + 8] = (position + 7).to_bytes(4, "big")
    world.damage(0, bytes(entries), segment.path(".index"))
    segment.close_files()
    world.directory.suspect(world.log, LATE)
    while not world.log.damage:
        assert await world.scrubber.step(world.directory)
    assert world.found() == [(LATE, LATE + 1)]


async def test_where_nothing_is_found_nothing_is_looked_for_again_for_a_while(world: LargeWorld) -> None:
    await world.scrub()
    before = world.scrubber.count.checked_bytes
    world.directory.suspect(world.log, LATE)
    await world.scrub()
    once = world.scrubber.count.checked_bytes
    assert 0 < once - before <= IN_SEGMENT * ONE
    world.directory.suspect(world.log, LATE)
    await world.scrub()
    assert world.scrubber.count.checked_bytes == once
    world.store.clock.advance(10 * 60_000)
    world.directory.suspect(world.log, LATE)
    await world.scrub()
    assert world.scrubber.count.checked_bytes > once


async def test_a_search_by_time_that_cannot_read_tells_where(world: LargeWorld) -> None:
    await world.scrub()
    world.ruin(LATE)
    with pytest.raises(CorruptSegment):
        offset_for_timestamp(world.log, NOW + LATE)
    await world.scrubber.step(world.directory)
    assert world.found() == [(LATE, LATE + 1)]


@pytest.mark.parametrize("size", [-1, 0, 1 << 30])
async def test_a_length_that_is_ruined_where_the_place_was_remembered_sends_nothing_else(
    world: LargeWorld, size: int
) -> None:
    end = world.log.log_end_offset
    assert len(read_bytes(world.log, end - 2, max_bytes=1)) == ONE
    segment = world.log.segments.active
    world.damage((end - 2 - segment.base_offset) * ONE + 8, size.to_bytes(4, "big", signed=True), segment.path(".log"))
    with pytest.raises(CorruptSegment):
        read_bytes(world.log, end - 2, max_bytes=1)
    assert world.directory.suspects == {world.log: end - 2}


async def test_damage_that_was_cut_is_not_known_after_a_restart(world: LargeWorld) -> None:
    await world.scrub()
    world.ruin(LATE)
    with contextlib.suppress(CorruptSegment):
        read_bytes(world.log, LATE)
    await world.scrub()
    assert world.found() == [(LATE, LATE + 1)]
    await world.store.directories.truncate({world.at: LATE})
    for number in range(LATE, LATE + 3):
        append(world.log, batch(VALUE, timestamp=NOW + number), leader_epoch=1)
    await world.scrub()
    told = len(world.told)
    await world.restart()
    assert (world.found(), len(world.told)) == ([], told)
