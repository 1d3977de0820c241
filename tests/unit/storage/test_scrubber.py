"""The scrubber over logs: what it finds is not read any more, what is good is, and it goes on where it was."""

import contextlib
from struct import pack

import pytest

from barnabas.protocol.entries import iterate_entries
from barnabas.protocol.ids import TopicPartition
from barnabas.storage.log_config import LogConfig
from barnabas.storage.scan import CorruptSegment
from barnabas.storage.scrub_record import SCRUB_RECORD, ScrubRecord
from barnabas.storage.scrubber import PIECE_BYTES, Scrubber, ScrubSettings
from tests.support.crash_disk import CrashDisk
from tests.unit.storage.logs import NOW, TP, append, batch, offset_for_timestamp, read_bytes, replicate
from tests.unit.storage.stores import open_store

ONE = len(batch(b"v" * 20))
CONFIG = LogConfig(segment_bytes=4 * ONE, index_interval_bytes=2 * ONE, file_delete_delay_ms=0)
PATH = "/data/topic-0/00000000000000000000.log"


class World:
    """A log of ten batches of one record in three segments, and a scrubber."""

    config, at = CONFIG, TP

    def __init__(self):
        self.disk = CrashDisk(lambda: NOW)
        self.told = []

    async def start(self, records=0):
        self.store = await open_store("/data", disk=self.disk, config=self.config)
        self.directory = self.store.directories.directories[0]
        if records:
            self.store.directories.create_log(TP)
        for number in range(records):
            append(self.log, batch(b"v" * 20, timestamp=NOW + number))
        await self.directory.carry_out_flushes()
        self.scrubber = Scrubber(
            self.store.directories,
            disk=self.disk,
            clock=self.store.clock,
            offload=self.store.offload,
            settings=ScrubSettings(),
            on_damage=lambda log: self.told.append(list(log.damage)),
        )
        self.scrubber.recall()
        return self

    @property
    def log(self):
        return self.store.directories.log(TP)

    def damage(self, position, data, path=PATH):
        file = self.disk.open(path)
        file.pwrite(data, position)
        file.fsync()

    async def scrub(self):
        while await self.scrubber.step(self.directory):
            pass

    async def restart(self):
        await self.store.directories.close()
        self.disk.kill()
        self.disk.restart()
        await self.start()


def offsets(data):
    return [header.base_offset for _, header in iterate_entries(data)]


def readable(log):
    """The offsets that a reader gets who skips what it is refused."""
    found = []
    for offset in range(log.log_end_offset):
        with contextlib.suppress(CorruptSegment):
            found += offsets(read_bytes(log, offset, max_bytes=1))
    return sorted(set(found))


async def test_a_good_log_is_checked_whole_once_in_an_interval():
    world = await World().start(10)
    await world.scrub()
    assert world.scrubber.count.checked_bytes == 10 * ONE
    await world.scrub()
    assert (world.scrubber.count.checked_bytes, world.scrubber.count.passes) == (10 * ONE, 1)
    world.store.clock.advance(ScrubSettings().interval_ms)
    await world.scrub()
    assert (world.scrubber.count.checked_bytes, world.told) == (20 * ONE, [])


class LargeSegments(World):
    config = LogConfig(segment_bytes=1 << 20)


async def test_a_small_batch_counts_for_a_kilobyte_so_that_many_of_them_cost_no_more():
    world = await LargeSegments().start(200)
    large = batch(b"v" * 150_000)
    append(world.log, large)
    assert await world.scrubber.step(world.directory) == 200 * 1024 + len(large)
    assert world.scrubber.count.checked_bytes == 200 * ONE + len(large)


@pytest.mark.parametrize("at", [10, 65])
async def test_damage_is_refused_and_the_rest_is_read(at):
    world = await World().start(10)
    world.damage(ONE + at, b"\xff\xff")
    await world.scrub()
    assert [(each.start_offset, each.end_offset) for each in world.log.damage] == [(1, 2)]
    assert world.told == [list(world.log.damage)]
    with pytest.raises(CorruptSegment):
        read_bytes(world.log, 1)
    assert offsets(read_bytes(world.log, 0)) == [0]
    assert readable(world.log) == [0, 2, 3, 4, 5, 6, 7, 8, 9]


async def test_a_read_that_begins_before_the_damage_ends_there():
    world = await World().start(10)
    world.damage(2 * ONE + 65, b"\xff\xff")
    await world.scrub()
    assert offsets(read_bytes(world.log, 0)) == [0, 1]
    assert offsets(read_bytes(world.log, 3)) == [3]


async def test_damage_at_the_beginning_and_over_the_end_of_a_segment():
    world = await World().start(10)
    world.damage(0, bytes(ONE + 10))
    file = world.disk.open(PATH.replace("00.log", "04.log"))
    file.truncate(2 * ONE + 5)
    await world.scrub()
    assert [(each.start_offset, each.end_offset) for each in world.log.damage] == [(0, 2), (6, 8)]
    assert readable(world.log) == [2, 3, 4, 5, 8, 9]


async def test_what_is_damaged_is_known_after_a_restart_and_looked_at_first():
    world = await World().start(10)
    world.damage(ONE + 65, b"\xff\xff")
    await world.scrub()
    await world.restart()
    assert [(each.start_offset, each.end_offset) for each in world.log.damage] == [(1, 2)]
    assert len(world.told) == 2
    with pytest.raises(CorruptSegment):
        read_bytes(world.log, 1)
    file = world.disk.open(PATH)
    good = bytearray(batch(b"v" * 20, timestamp=NOW + 1, base_offset=1, leader_epoch=0))
    file.pwrite(good, ONE)
    await world.scrubber.step(world.directory)
    assert not world.log.damage
    assert readable(world.log) == list(range(10))


async def test_a_pass_goes_on_after_a_restart_where_it_was():
    world = await World().start(10)
    await world.scrubber.step(world.directory)
    # It is not written at each step.
    world.store.clock.advance(30_000)
    await world.scrubber.step(world.directory)
    seen = world.scrubber.count.checked_bytes
    assert 0 < seen < 10 * ONE
    await world.restart()
    await world.scrub()
    assert seen + world.scrubber.count.checked_bytes == 10 * ONE


async def test_a_pass_goes_through_the_logs_by_name_while_some_go_and_others_come():
    world = await World().start(1)
    directories = world.store.directories

    def make(number):
        append(directories.create_log(TopicPartition("z", number)), batch(b"v" * 20))

    for number in range(5):
        make(number)
    seen = []
    while await world.scrubber.step(world.directory):
        at = world.directory.scrub_record.partition
        if at not in seen:
            seen.append(at)
        if at == TopicPartition("z", 1) and directories.log(TopicPartition("z", 3)) is not None:
            directories.delete_log(TopicPartition("z", 3))
            make(9)
    assert seen == [TP, *(TopicPartition("z", number) for number in (0, 1, 2, 4, 9)), None]
    assert world.scrubber.count.passes == 1
    assert world.scrubber.count.checked_bytes == 6 * ONE


async def test_what_was_cut_or_retired_while_it_was_read_does_not_count():
    world = await World().start(10)
    world.damage(5 * ONE % (4 * ONE) + 65, b"\xff\xff", PATH.replace("00.log", "04.log"))
    read = world.store.offload.thread

    async def cut_meanwhile(lane, call, *arguments):
        found = await read(lane, call, *arguments)
        if lane.startswith("scrub") and world.log.log_end_offset > 5:
            world.store.offload.thread = read
            await world.store.directories.truncate({TP: 5})
        return found

    await world.scrubber.step(world.directory)
    world.store.offload.thread = cut_meanwhile
    await world.scrub()
    assert not world.log.damage
    assert world.scrubber.count.found == 0


async def test_a_cut_forgets_the_damage_that_it_took_away():
    world = await World().start(10)
    world.damage(65 + ONE, b"\xff\xff", PATH.replace("00.log", "04.log"))
    await world.scrub()
    assert len(world.log.damage) == 1
    await world.store.directories.truncate({TP: 4})
    for number in range(4, 8):
        append(world.log, batch(b"w" * 20, timestamp=NOW + number), leader_epoch=1)
    assert readable(world.log) == list(range(8))


async def test_damage_below_the_logs_start_is_none():
    world = await World().start(10)
    world.damage(ONE + 65, b"\xff\xff")
    world.log.advance_high_watermark(10)
    world.log.advance_log_start_offset(3)
    await world.scrub()
    assert not world.log.damage


async def test_damage_that_begins_below_the_logs_start_and_reaches_over_it_is_not_served():
    world = await World().start()
    world.store.directories.create_log(TP)
    for number in range(3):
        append(world.log, batch(*[b"v"] * 10, timestamp=NOW + number))
    await world.directory.carry_out_flushes()
    size = world.log.size_bytes // 3
    world.damage(2 * size - 1, b"\xff")
    world.log.advance_high_watermark(30)
    world.log.advance_log_start_offset(15)
    await world.scrub()
    assert [(each.start_offset, each.end_offset) for each in world.log.damage] == [(10, 20)]
    assert world.told == [list(world.log.damage)]
    with pytest.raises(CorruptSegment):
        read_bytes(world.log, 15)
    assert offsets(read_bytes(world.log, 20)) == [20]


async def test_good_batches_between_gaps_are_trusted_where_the_policy_was_compact_once():
    world = await World().start()
    world.store.directories.create_log(TP)
    for offset in (0, 1, 5, 9, 13):
        replicate(world.log, batch(b"v" * 20, base_offset=offset, leader_epoch=0))
    world.directory.first_dirty[TP] = 10
    assert not world.log.config.compact
    await world.directory.carry_out_flushes()
    world.damage(ONE + 65, b"\xff\xff")
    await world.scrub()
    assert [(each.start_offset, each.end_offset) for each in world.log.damage] == [(1, 5)]
    assert readable(world.log) == [0, 5, 9, 13]


async def test_a_log_that_somebody_could_not_read_is_looked_at_next():
    world = await World().start(10)
    await world.scrub()
    await world.restart()
    world.damage(0, b"\xff" * 20)
    with pytest.raises(CorruptSegment):
        read_bytes(world.log, 0)
    await world.scrubber.step(world.directory)
    assert [(each.start_offset, each.end_offset) for each in world.log.damage] == [(0, 1)]


async def test_damage_below_the_recovery_point_is_found_after_a_kill():
    world = await World().start(10)
    await world.directory.checkpoint_all()
    world.damage(65, b"\xff\xff")
    world.disk.kill()
    world.disk.restart()
    await world.start()
    await world.scrub()
    assert [(each.start_offset, each.end_offset) for each in world.log.damage] == [(0, 1)]


def test_what_cannot_be_read_of_the_record_begins_anew():
    for data in (b"", b"{}", b"[1]", b'{"pass_started_ms": 1, "place": ["a"], "damage": []}'):
        assert ScrubRecord.decode(data) == ScrubRecord()


async def test_the_record_is_kept_in_the_log_directory():
    world = await World().start(10)
    world.damage(65, b"\xff\xff")
    await world.scrub()
    record = ScrubRecord.decode(world.disk.read_bytes(f"/data/{SCRUB_RECORD}"))
    assert record.partition is None
    assert [each.start_offset for each in record.damage[TP]] == [0]
    assert ScrubRecord.decode(record.encode()) == record


@pytest.mark.parametrize("at", [10, 30, 65])
async def test_a_search_by_time_that_comes_to_damage_is_refused(at):
    world = await World().start(10)
    world.damage(ONE + at, b"\xff\xff")
    await world.scrub()
    assert offset_for_timestamp(world.log, NOW).offset == 0
    for wanted in (1, 2):
        with pytest.raises(CorruptSegment, match="damaged: offsets 1 to 1"):
            offset_for_timestamp(world.log, NOW + wanted)
    assert [offset_for_timestamp(world.log, NOW + wanted).offset for wanted in range(3, 10)] == [3, 4, 5, 6, 7, 8, 9]
    assert offset_for_timestamp(world.log, NOW + 10) is None


@pytest.mark.parametrize("at", [10, 30, 65])
async def test_a_search_by_time_passes_over_damage_below_the_start_of_the_log(at):
    world = await World().start(10)
    world.damage(at, b"\xff\xff")
    await world.scrub()
    await world.restart()
    world.log.set_high_watermark(10)
    with pytest.raises(CorruptSegment, match="damaged: offsets 0 to 0"):
        offset_for_timestamp(world.log, NOW)
    world.log.advance_log_start_offset(1)
    assert [offset_for_timestamp(world.log, NOW + wanted).offset for wanted in range(10)] == [
        1,
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        8,
        9,
    ]


async def test_what_a_start_found_damaged_is_told_at_once_and_kept():
    world = await World().start(10)
    await world.store.directories.close()
    world.damage(ONE + 65, b"\xff", PATH.replace("00.log", "08.log"))
    world.disk.kill()
    world.disk.restart()
    await world.start()
    assert [[(each.start_offset, each.end_offset) for each in told] for told in world.told] == [[(9, 10)]]
    await world.scrub()
    assert [(each.start_offset, each.end_offset) for each in world.log.damage] == [(9, 10)]
    record = ScrubRecord.decode(world.disk.read_bytes(f"/data/{SCRUB_RECORD}"))
    assert record.damage == {TP: list(world.log.damage)}


INDEX_PATH = "/data/topic-0/00000000000000000004.index"
LYING = {
    "mid batch": (INDEX_PATH, pack(">ii", 1, ONE + 9)),
    "behind the offset": (INDEX_PATH, pack(">ii", 0, 3 * ONE)),
    "the time index": (INDEX_PATH.replace(".index", ".timeindex"), b""),
}


@pytest.mark.parametrize("how", [*LYING])
async def test_an_index_that_a_reader_found_to_lie_is_built_again_in_the_running_broker(how):
    world = await World().start(10)
    path, data = LYING[how]
    good = {each: world.disk.read_bytes(each) for each in (INDEX_PATH, INDEX_PATH.replace(".index", ".timeindex"))}
    # Its entries are counted when it is opened.
    assert offset_for_timestamp(world.log, NOW + 6).offset == 6
    file = world.disk.open(path)
    file.pwrite(data, 0)
    file.truncate(max(len(data), 8) if data else 0)
    file.close()
    segment = world.log.segments[1]
    segment._places.clear()
    if path == INDEX_PATH:
        assert offsets(read_bytes(world.log, 5, max_bytes=1)) == [5]
    else:
        assert offset_for_timestamp(world.log, NOW + 6).offset == 6
    assert segment.index_problem is not None
    await world.scrub()
    assert segment.index_problem is None
    assert {each: world.disk.read_bytes(each) for each in good} == good
    segment._places.clear()
    assert offset_for_timestamp(world.log, NOW + 6).offset == 6
    assert offsets(read_bytes(world.log, 5, max_bytes=1)) == [5]
    assert segment.index_problem is None
    assert not world.log.damage


@pytest.mark.parametrize("restarts", [True, False])
async def test_damage_longer_than_a_piece_is_forgotten_when_its_bytes_are_good_again(restarts):
    world = World()
    world.config = LogConfig()
    await world.start()
    world.store.directories.create_log(TP)
    for _ in range(30):
        append(world.log, batch(b"v" * 20_000))
    await world.directory.flush(world.log, 30)
    one = world.log.size_bytes // 30
    good = world.log.segments.active.log_file.pread(20 * one, 5 * one)
    world.damage(5 * one, bytes(20 * one))
    await world.scrub()
    assert [(each.start_offset, each.end_offset) for each in world.log.damage] == [(5, 25)]
    assert 20 * one > PIECE_BYTES
    # Half of it is not enough.
    for mended, left in ((10, [(15, 25)]), (20, [])):
        world.damage(5 * one, good[: mended * one])
        if restarts:
            await world.restart()
        world.store.clock.advance(ScrubSettings().interval_ms)
        await world.scrub()
        assert [(each.start_offset, each.end_offset) for each in world.log.damage] == left


@pytest.mark.parametrize("compact", [False, True])
async def test_a_lost_end_that_no_index_points_behind_is_found_by_the_time_of_its_last_batch(compact):
    world = World()
    world.config = LogConfig(segment_bytes=4 * ONE, file_delete_delay_ms=0, compact=compact)
    await world.start(10)
    await world.store.directories.close()
    file = world.disk.open(PATH)
    file.truncate(2 * ONE)
    file.fsync()
    world.disk.kill()
    world.disk.restart()
    await world.start()
    assert not world.log.damage
    for _ in range(2):
        world.store.clock.advance(ScrubSettings().interval_ms)
        await world.scrub()
        assert [(each.start_offset, each.end_offset, each.size_bytes) for each in world.log.damage] == [(2, 4, 0)]
    assert (len(world.told), world.scrubber.count.found) == (1, 1)
    assert readable(world.log) == [0, 1, 4, 5, 6, 7, 8, 9]
    await world.restart()
    assert [(each.start_offset, each.end_offset, each.size_bytes) for each in world.log.damage] == [(2, 4, 0)]
