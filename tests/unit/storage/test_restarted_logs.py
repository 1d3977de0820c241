"""A log that begins again at its leader's start: durable when told, and whole wherever a crash comes."""

import contextlib

import pytest

from barnabas.storage.file_names import HIGH_WATERMARK_CHECKPOINT, RECOVERY_POINT_CHECKPOINT
from tests.support.crash_disk import Crashed
from tests.unit.storage.logs import TP
from tests.unit.storage.test_durability import Machine, _Whole


async def with_eight(machine: Machine) -> None:
    await machine.start()
    machine.append(*range(8))
    await machine.flush()
    await machine.directory.checkpoint_all()


async def test_what_a_log_began_again_with_survives_a_power_cut():
    machine = Machine()
    await with_eight(machine)
    await machine.store.directories.restart_at(TP, 20)
    log = await machine.cut_power()
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (20, 20, 20)
    assert machine.epochs() == {}


async def test_a_high_watermark_rises_with_the_start():
    # KAFKA-9491
    machine = Machine()
    await with_eight(machine)
    machine.log.set_high_watermark(3)
    await machine.store.directories.restart_at(TP, 20)
    assert machine.log.high_watermark == 20
    await machine.directory.checkpoint(HIGH_WATERMARK_CHECKPOINT)
    assert (await machine.kill()).high_watermark == 20


async def test_a_log_that_begins_again_lower_is_not_believed_synced_there():
    machine = Machine()
    await with_eight(machine)
    await machine.store.directories.restart_at(TP, 20)
    await machine.directory.checkpoint_all()
    await machine.store.directories.restart_at(TP, 10)
    # Before it does no segment begins there, so one less is said.
    assert machine.directory.read_checkpoint(RECOVERY_POINT_CHECKPOINT) == {TP: 9}


@pytest.mark.parametrize("offset", [2, 8, 20])
async def test_a_crash_while_a_log_begins_again_leaves_no_hole(offset):
    ends = set()
    for change in range(30):
        machine = Machine()
        await with_eight(machine)
        machine.disk.crash_at(change, _Whole())
        with contextlib.suppress(Crashed):
            await machine.store.directories.restart_at(TP, offset)
        log = await machine.cut_power()
        ends.add(log.log_end_offset)
        assert sorted(machine.epochs()) == list(range(log.log_start_offset, log.log_end_offset))
        machine.append(log.log_end_offset)
        assert log.log_end_offset - 1 in machine.epochs()
    assert {offset, 8} <= ends


async def test_where_nothing_is_cut_nothing_is_synced():
    machine = Machine()
    await machine.start()
    machine.append(*range(4))
    before = machine.log.recovery_point
    await machine.store.directories.truncate({TP: 4})
    assert machine.log.recovery_point == before
    machine.log.assign_leader_epoch(5, start_offset=4)
    await machine.store.directories.truncate({TP: 4})
    assert machine.log.leader_epochs.latest_epoch == 0
    assert machine.log.recovery_point == 4
