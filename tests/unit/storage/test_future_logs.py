"""Logs that move to another directory: what a crash, a restart or a deletion makes of them."""

import contextlib

import pytest

from barnabas.protocol.entries import iterate_entries
from barnabas.storage.file_names import CHECKPOINTS
from barnabas.storage.log import LogOffline
from barnabas.storage.log_config import LogConfig
from tests.support.crash_disk import CrashDisk, Crashed
from tests.unit.storage.logs import NOW, TP, append, batch, read_bytes, replicate
from tests.unit.storage.stores import open_store
from tests.unit.storage.test_durability import _Whole

COUNT = 8
CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=1)


class Machine:
    """Two log directories on a disk that crashes; the log lies in the first and moves to the second."""

    def __init__(self):
        self.disk = CrashDisk(lambda: NOW)

    async def start(self):
        self.store = await open_store("/a", "/b", disk=self.disk, config=CONFIG)
        return self

    async def with_a_log(self):
        await self.start()
        self.disk.fsync_directory("/")
        self.store.directories.create_log(TP)
        for number in range(COUNT):
            append(self.log, batch(b"v" * 20, producer=(7, 0, number)), leader_epoch=number // 3)
        self.log.set_high_watermark(COUNT)
        await self.source.flush(self.log, COUNT)
        await self.source.checkpoint_all()
        return self

    @property
    def log(self):
        return self.store.directories.log(TP)

    @property
    def source(self):
        return self.store.directories.directories[0]

    @property
    def target(self):
        return self.store.directories.directories[1]

    @property
    def futures(self):
        return self.store.directories.futures

    def gather(self, count=COUNT):
        future = self.futures.create(TP, self.target, CONFIG)
        future.truncate_fully_and_start_at(self.log.log_start_offset)
        while future.log_end_offset < count:
            data = read_bytes(self.log, future.log_end_offset)
            _, header = next(iterate_entries(data))
            replicate(future, data[: header.size_bytes])
        # Within a segment, so that nothing but a checkpoint tells of it.
        self.log.advance_log_start_offset(1)
        return future

    async def cut_power(self):
        self.disk.power_cut()
        self.disk.restart()
        return await self.start()

    async def reopen(self):
        await self.store.directories.close()
        self.disk.kill()
        self.disk.restart()
        return await self.start()

    def values(self):
        found, offset = [], self.log.log_start_offset
        while data := read_bytes(self.log, offset):
            found += [header.base_offset for _, header in iterate_entries(data)]
            offset = found[-1] + 1
        return found


async def test_a_log_that_took_the_place_has_all_that_the_other_had():
    machine = await Machine().with_a_log()
    present = machine.log
    machine.gather()
    present.assign_leader_epoch(6, start_offset=COUNT)
    moved, directory = await machine.futures.put_in_place(present, machine.source)
    assert (machine.log, directory) == (moved, machine.target)
    assert present.offline
    assert machine.futures.find(TP) is None
    assert moved.leader_epochs.latest_epoch == 6
    assert moved.producers is present.producers
    for _ in range(2):
        log = machine.log
        assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (1, COUNT, COUNT)
        assert machine.values() == list(range(1, COUNT))
        assert [entry.epoch for entry in log.leader_epochs.entries][:3] == [0, 1, 2]
        assert log.producers.get(7).last_sequence == COUNT - 1
        await machine.reopen()
    append(machine.log, batch(b"v", producer=(7, 0, COUNT)), leader_epoch=2)


async def test_what_a_new_log_dropped_before_it_took_the_place_is_removed_where_it_lies_then():
    machine = await Machine().with_a_log()
    machine.gather()
    await machine.futures.put_in_place(machine.log, machine.source)
    assert [name for name in machine.disk.list_directory("/b/topic-0") if name.endswith(".deleted")]
    machine.store.clock.advance(CONFIG.file_delete_delay_ms)
    await machine.target.carry_out_removals()
    assert not [name for name in machine.disk.list_directory("/b/topic-0") if name.endswith(".deleted")]


async def test_a_power_cut_anywhere_leaves_one_log_with_everything():
    places = set()
    for change in range(60):
        machine = await Machine().with_a_log()
        machine.gather()
        await machine.source.checkpoint_all()
        machine.disk.crash_at(change, _Whole())
        with contextlib.suppress(Crashed):
            await machine.futures.put_in_place(machine.log, machine.source)
        await machine.cut_power()
        log = machine.log
        assert (log.log_start_offset, log.log_end_offset) == (1, COUNT), change
        assert machine.values() == list(range(1, COUNT))
        assert log.leader_epochs.latest_epoch == 2
        places.add(machine.store.directories.directory_of(TP).path)
    assert places == {"/a", "/b"}


@pytest.mark.interpreted
@pytest.mark.parametrize(("side", "waits_for"), [("target", "flush"), ("source", "checkpoint_all")])
async def test_what_is_committed_while_the_new_log_takes_the_place_is_not_forgotten(monkeypatch, side, waits_for):
    machine = await Machine().with_a_log()
    machine.gather()
    directory = getattr(machine, side)
    present, wait = machine.log, getattr(directory, waits_for)
    present.set_high_watermark(3)

    async def wait_and_hear_of_the_leader(*args):
        await wait(*args)
        present.set_high_watermark(COUNT)
        present.advance_log_start_offset(2)

    monkeypatch.setattr(directory, waits_for, wait_and_hear_of_the_leader)
    moved, _ = await machine.futures.put_in_place(present, machine.source)
    assert (moved.log_start_offset, moved.high_watermark) == (2, COUNT)


async def test_what_gathers_is_there_after_a_restart_and_goes_on():
    machine = await Machine().with_a_log()
    machine.gather(5)
    await machine.reopen()
    directory, future = machine.futures.find(TP)
    assert (directory, future.log_end_offset) == (machine.target, 5)
    assert machine.log.log_end_offset == COUNT
    assert machine.store.directories.logs() == [machine.log]


async def test_what_gathers_never_takes_the_place_of_a_log_that_nobody_removed():
    machine = await Machine().with_a_log()
    machine.gather(5)
    await machine.store.directories.close()
    machine.disk.kill()
    machine.disk.restart()
    machine.store = await open_store("/b", disk=machine.disk, config=CONFIG)
    assert machine.log is None


async def test_what_gathers_takes_no_place_while_the_present_log_may_lie_in_a_directory_that_failed():
    machine = await Machine().with_a_log()
    machine.gather()
    # Its first place still waits for its removal when it moves back there.
    present, _ = await machine.futures.put_in_place(machine.log, machine.source)
    back = machine.futures.create(TP, machine.source, CONFIG)
    replicate(back, read_bytes(present, 1))
    machine.disk.kill()
    machine.disk.restart()
    machine.disk.fail("open", present.directory)
    await machine.start()
    assert machine.target.is_offline
    assert machine.log is None
    assert machine.futures.find(TP) is not None
    machine.disk.kill()
    machine.disk.heal()
    machine.disk.restart()
    await machine.start()
    assert (machine.log.log_end_offset, machine.values()) == (COUNT, list(range(1, COUNT)))


async def test_a_deletion_takes_what_gathers_along():
    machine = await Machine().with_a_log()
    machine.gather()
    machine.store.directories.delete_log(TP)
    assert machine.futures.find(TP) is None
    machine.disk.kill()
    machine.disk.restart()
    await machine.start()
    assert machine.log is None
    assert machine.futures.find(TP) is None


async def test_a_destination_that_fails_leaves_the_log_where_it_was():
    machine = await Machine().with_a_log()
    machine.gather()
    machine.disk.fail("fsync")
    with contextlib.suppress(LogOffline):
        await machine.futures.put_in_place(machine.log, machine.source)
    assert machine.target.is_offline
    assert not machine.source.is_offline
    assert machine.log.log_end_offset == COUNT
    assert not machine.log.offline


async def test_a_log_is_made_where_it_was_preferred():
    machine = await Machine().start()
    machine.store.directories.prefer(TP, "/b")
    machine.store.directories.create_log(TP)
    assert machine.store.directories.directory_of(TP) is machine.target


async def test_a_log_that_gathers_beside_the_present_one_is_forgotten_by_a_start_and_by_the_checkpoints():
    machine = await Machine().with_a_log()
    machine.source.first_dirty[TP] = 5
    before = {name: machine.source.offsets_to_checkpoint(name) for name in CHECKPOINTS}
    future = machine.futures.create(TP, machine.source, CONFIG)
    assert {name: machine.source.offsets_to_checkpoint(name) for name in CHECKPOINTS} == before
    replicate(future, read_bytes(machine.log, 0, max_bytes=1))
    await machine.source.checkpoint_all()
    machine = await machine.cut_power()
    assert machine.futures.find(TP) is None
    assert machine.values() == list(range(COUNT))
    assert machine.source.first_dirty == {TP: 5}


async def test_a_log_that_gathers_in_vain_beside_the_present_one_leaves_it_as_clean_as_it_was():
    machine = await Machine().with_a_log()
    machine.source.first_dirty[TP] = 5
    machine.futures.create(TP, machine.source, CONFIG)
    machine.futures.discard(TP)
    assert machine.source.first_dirty == {TP: 5}
