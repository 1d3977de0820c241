"""What happens to a log while good bytes for its damage are put in place, or while the scrubber reads it."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from barnabas.storage.damage import DamagedRange
from barnabas.storage.mended_segment import Fill, spool_path
from barnabas.storage.scrubber import Scrubber, ScrubSettings
from replication.log_renewal import CannotMend
from replication.mending import Mender, MenderPorts
from tests.support.inline_offload import InlineOffload
from tests.unit.replication.replica_world import ME, OTHER, TP, ReplicaWorld
from tests.unit.storage.logs import batch, read_bytes, replicate

ONE = len(batch(b"v" * 20))


class ReadingSlowly(InlineOffload):
    """Something happens between the reading of a piece and what the scrubber makes of it."""

    meanwhile: Callable[[], Awaitable[None]] | None = None

    async def thread(self, lane: str, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        result = await super().thread(lane, call, *args, **kwargs)
        if self.meanwhile is not None:
            happens, self.meanwhile = self.meanwhile, None
            await happens()
        return result


class MendWorld:
    """A follower's log of six batches of a record each; the third is damaged, which the scrubber has found."""

    async def open(self) -> "MendWorld":
        self.world = await ReplicaWorld().open()
        await self.world.assign(leader=OTHER, replicas=(OTHER, ME))
        self.partition = self.world.partition()
        self.log = self.partition.log
        self.write(0, b"v")
        self.log.advance_high_watermark(6)
        self.good = read_bytes(self.log, 0)
        self.segment = self.log.segments.active
        self.reading = ReadingSlowly()
        self.scrubber = Scrubber(
            self.world.log_directories,
            disk=self.world.disk,
            clock=self.world.clock,
            offload=self.reading,
            settings=ScrubSettings(),
            on_damage=lambda _: None,
        )
        self.scrubber.recall()
        self.mender = Mender(
            self.world.replicas,
            self.scrubber,
            MenderPorts(
                clock=self.world.clock,
                disk=self.world.disk,
                offload=InlineOffload(),
                endpoint_of=lambda _: None,
                connect=self.unreachable,
                resign=self.unreachable,
            ),
        )
        self.segment.log_file.pwrite(b"\xff", 2 * ONE + 70)
        await self.scrub()
        (self.damaged,) = self.log.damage
        assert (self.damaged.start_offset, self.damaged.end_offset) == (2, 3)
        return self

    async def unreachable(self, *_: object) -> Any:
        raise AssertionError("nobody is asked here")

    def write(self, offset: int, value: bytes) -> None:
        for number in range(offset, 6):
            replicate(self.log, batch(value * 20, base_offset=number, leader_epoch=0))

    async def scrub(self) -> None:
        while await self.scrubber.step(self.world.directory):
            pass

    async def mend(self, damaged: DamagedRange, generation: int) -> None:
        """Put the bytes that were there over the damage."""
        spool = self.world.disk.open(spool_path(self.log.directory, 0), create=True)
        spool.pwrite(self.good[damaged.position : damaged.end_position], 0)
        fill = Fill(damaged, 0, damaged.size_bytes)
        await self.mender._write_over(self.partition, self.segment, spool, fill, generation)


@pytest.fixture
async def mending() -> MendWorld:
    return await MendWorld().open()


async def test_what_was_fetched_for_a_log_that_was_cut_since_is_not_put_into_it(mending: MendWorld) -> None:
    fetched_at = mending.log.generation
    await mending.world.log_directories.truncate({TP: 2})
    mending.write(2, b"w")
    others = read_bytes(mending.log, 0)
    # And the same place is damaged again.
    mending.log.damage.add(mending.damaged)
    with pytest.raises(CannotMend):
        await mending.mend(mending.damaged, fetched_at)
    assert mending.segment.log_file.pread(len(others), 0) == others
    assert list(mending.log.damage) == [mending.damaged]


async def test_a_piece_that_was_read_before_it_was_mended_does_not_count(mending: MendWorld) -> None:
    async def mend() -> None:
        await mending.mend(mending.damaged, mending.log.generation)

    mending.world.clock.advance(ScrubSettings().interval_ms)
    mending.reading.meanwhile = mend
    assert await mending.scrubber.step(mending.world.directory)
    assert mending.reading.meanwhile is None
    assert not mending.log.damage
    await mending.scrub()
    assert not mending.log.damage
    assert read_bytes(mending.log, 0) == mending.good


async def test_a_mended_log_reads_its_producers_again_as_a_follower(mending: MendWorld) -> None:
    log = mending.log
    await mending.mend(mending.damaged, log.generation)
    assert mending.scrubber.ailing() == []
    log.note_hidden(2)
    log.producers.end_offset = 0
    assert mending.scrubber.ailing() == [log]
    await mending.mender.mend([log])
    assert (log.hidden_from, log.producers.end_offset, mending.scrubber.ailing()) == (None, 6, [])


async def test_what_damage_hid_is_not_read_while_there_is_other_damage_nor_by_a_leader(mending: MendWorld) -> None:
    mending.log.note_hidden(2)
    await mending.mender.mend([mending.log])
    assert mending.log.hidden_from == 2
    await mending.mend(mending.damaged, mending.log.generation)
    await mending.world.assign(1, leader=ME, replicas=(OTHER, ME))
    mending.world.clock.advance(60_000)
    await mending.mender.mend([mending.log])
    assert mending.log.hidden_from == 2
