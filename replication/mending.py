"""Mends the damaged logs of a broker: followers fetch again what is damaged, leaders resign (`replication.mend_plan`).

One task per broker, idle while nothing is damaged. What the scrubber found is taken log by log, segment by segment: the
good bytes are gathered beside the segment, and put in place while nothing else is appended to or cut from the log, and
only if the log still is what it was when they were asked for. They are asked for as a debugging consumer does
(replica id -2), so that the leader does not take the damaged offset for how far this replica is.

A log that was loaded or cut with damage in it does not know what producers wrote there, nor all that was aborted: when
it is mended these are read again (`storage.producer_rebuilding`).

What cannot be mended is tried again, later each time, up to a minute.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from barnabas.client.connection import Address, Connection
from barnabas.client.errors import ClientError, KafkaError
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import NO_LEADER, BrokerId, TopicPartition
from barnabas.runtime.clock import Clock
from barnabas.runtime.disk import Disk
from barnabas.runtime.files import File
from barnabas.runtime.offload import Offload
from barnabas.storage.damage import DamagedRange
from barnabas.storage.gaps import may_have_gaps
from barnabas.storage.known_damage import forget_what_went
from barnabas.storage.log import Log, LogOffline
from barnabas.storage.mended_segment import DamagedSegment, Fill, spool_path, write_anew, write_over
from barnabas.storage.producer_rebuilding import rebuild_producers
from barnabas.storage.replacement import replace_segments
from barnabas.storage.scan import CorruptSegment
from barnabas.storage.scrubber import Scrubber
from barnabas.storage.segment import Segment
from replication.acknowledgements import PartitionRefused
from replication.leader_questions import DEBUGGING_CONSUMER, EARLIEST, DebugFetch, ask_offset, fetch_records
from replication.log_renewal import CannotMend, LogRenewal
from replication.mend_plan import EndMismatch, EpochMismatch, OnDamage, UnfitBatches, decide_on_damage, take_batches
from replication.partition import Partition
from replication.replicas import Replicas

log = logging.getLogger(__name__)

_PIECE_BYTES: Final = 1024 * 1024
_LOOK_EACH_MS: Final = 1_000
_LEAST_DELAY_MS: Final = 1_000
_MOST_DELAY_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class MenderPorts:
    """`resign` asks the controller to let others lead; who may not is left out of what it gives back."""

    clock: Clock
    disk: Disk
    offload: Offload
    endpoint_of: Callable[[BrokerId], Address | None]
    connect: Callable[[Address, str], Awaitable[Connection]]
    resign: Callable[[Sequence[Partition]], Awaitable[Sequence[TopicPartition]]]
    timeout_ms: int = 30_000


@dataclass(slots=True)
class _Trial:
    """When a log is tried again."""

    failures: int = 0
    due_ms: int = 0


class Mender:
    """See the module. `run` is its task."""

    def __init__(self, replicas: Replicas, scrubber: Scrubber, ports: MenderPorts) -> None:
        self._replicas = replicas
        self._scrubber = scrubber
        self._ports = ports
        self._wake = asyncio.Event()
        self._trials: dict[TopicPartition, _Trial] = {}
        self.resigned = 0
        """Partitions that others lead now."""

    def on_damage(self, damaged: Log) -> None:
        """The scrubber found something."""
        self._trials.pop(damaged.topic_partition, None)
        self._wake.set()

    async def run(self) -> None:
        """Mend until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while damaged := self._scrubber.ailing():
                await self.mend(damaged)
                await asyncio.sleep(_LOOK_EACH_MS / 1000)
            self._trials.clear()

    async def mend(self, damaged: Sequence[Log]) -> None:
        """Do for each of these logs what can be done now."""
        now_ms = self._ports.clock.monotonic_ms()
        to_resign: list[Partition] = []
        for member in damaged:
            at = member.topic_partition
            partition = self._replicas.partition(at)
            trial = self._trials.setdefault(at, _Trial())
            if partition is None or partition.log is not member or partition.is_offline or trial.due_ms > now_ms:
                continue
            forget_what_went(member)
            match self._decide(partition):
                case OnDamage.RESIGN:
                    to_resign.append(partition)
                    self._put_off(at)
                case OnDamage.MEND:
                    await self._try(partition)
                case OnDamage.WAIT:
                    continue
        if to_resign:
            given_up = await self._ports.resign(to_resign)
            self.resigned += len(given_up)
            for at in given_up:
                log.warning("%s: damaged here, so another replica leads", at)

    def _decide(self, partition: Partition) -> OnDamage:
        first = next(iter(partition.log.damage), None)
        if first is None:
            leader_id = partition.leader_id
            follows = leader_id not in (NO_LEADER, self._replicas.broker_id)
            return OnDamage.MEND if follows and partition.log.hidden_from is not None else OnDamage.WAIT
        return decide_on_damage(
            broker_id=self._replicas.broker_id,
            leader_id=partition.leader_id,
            isr=partition.isr,
            end_offset=min(each.end_offset for each in partition.log.damage),
            high_watermark=partition.log.high_watermark,
        )

    def _put_off(self, at: TopicPartition) -> None:
        # More damage may have been found meanwhile, and the trials of before forgotten.
        trial = self._trials.setdefault(at, _Trial())
        trial.due_ms = self._ports.clock.monotonic_ms() + min(
            _LEAST_DELAY_MS << min(trial.failures, 16), _MOST_DELAY_MS
        )
        trial.failures += 1

    async def _try(self, partition: Partition) -> None:
        at, directory = partition.topic_partition, partition.directory
        if directory.cleaning is partition.log:
            # It ends soon: where it comes to the damage, if not before.
            return
        damaged = directory.mending = partition.log
        try:
            mended = await self._mend_log(partition) if damaged.damage else 0
            await self._read_producers_again(partition)
        except (CannotMend, UnfitBatches, CorruptSegment, ClientError, PartitionRefused, LogOffline) as error:
            log.warning("%s: its damage cannot be mended yet: %s", at, error)
            self._put_off(at)
            return
        except OSError as error:
            # A log that was deleted or moved meanwhile took its files along.
            if not damaged.offline:
                directory.fail(error)
            return
        finally:
            directory.mending = None
        if mended:
            await self._scrubber.note_mended(partition.log, mended)

    # One log.

    async def _mend_log(self, partition: Partition) -> int:
        """Mend what can be; how many ranges."""
        address = self._ports.endpoint_of(partition.leader_id)
        if address is None:
            raise CannotMend(f"broker {partition.leader_id} is not known to live")
        connection = await self._ports.connect(address, f"broker-{self._replicas.broker_id}-mender")
        try:
            before = len(partition.log.damage)
            bases = dict.fromkeys(damaged.segment_base_offset for damaged in partition.log.damage)
            for base_offset in bases:
                if not await self._mend_segment(partition, connection, base_offset):
                    await self._renew(partition, connection)
                    break
            return before - len(partition.log.damage)
        finally:
            connection.close("mended")

    async def _read_producers_again(self, partition: Partition) -> None:
        """If damage hid some of them, and is gone."""
        member, directory = partition.log, partition.directory
        if member.damage or member.hidden_from is None:
            return

        async def rebuild() -> None:
            lane = f"scrub:{directory.path}"
            if not await rebuild_producers(directory, member, offload=self._ports.offload, lane=lane):
                raise CannotMend("the log has changed meanwhile")

        await partition.change_files(rebuild, leader_epoch=partition.leader_epoch)

    async def _renew(self, partition: Partition, connection: Connection) -> None:
        at, damage = partition.topic_partition, "; ".join(map(str, partition.log.damage))
        log.warning("%s: the leader has other batches where this is damaged: its log is fetched anew: %s", at, damage)
        ports, moves = self._ports, self._replicas.moves
        # A move that met the damage waits for it to be mended, and nothing can gather beside what it has gathered.
        destination = moves.set_aside(partition)
        try:
            await LogRenewal(partition, connection, self._replicas.ports, ports.offload, ports.timeout_ms).run()
        finally:
            if destination is not None:
                moves.begin_again(partition, destination)
        log.info("%s: mended: it has a new log", at)

    async def _mend_segment(self, partition: Partition, connection: Connection, base_offset: int) -> bool:
        """Mend what can be in one segment; False where only a new log can."""
        ports, member = self._ports, partition.log
        segment = _segment(member, base_offset)
        lane, path = f"scrub:{partition.directory.path}", spool_path(member.directory, base_offset)
        spool = await ports.offload.thread(lane, _new_file, ports.disk, path)
        try:
            gathering = _Gathering(partition, connection, segment, spool, ports)
            fills = await gathering.gather()
            for fill in [each for each in fills if each.fits]:
                await self._write_over(partition, segment, spool, fill, gathering.generation)
                gathering.generation = member.generation
            others = [each for each in fills if not each.fits]
            rest = [each for each in member.damage if each.segment_base_offset == base_offset]
            if others and may_have_gaps(partition.directory, partition.log):
                return False
            if others and len(others) == len(rest):
                await self._write_anew(partition, segment, spool, others)
        except EpochMismatch:
            # Nothing here says which epochs are right: they come with the leader's batches.
            return False
        except EndMismatch as error:
            if may_have_gaps(partition.directory, partition.log):
                return False
            raise CannotMend(str(error)) from None
        finally:
            spool.close()
            await ports.offload.thread(lane, ports.disk.remove, path)
        return True

    async def _write_over(
        self, partition: Partition, segment: Segment, spool: File, fill: Fill, generation: int
    ) -> None:
        member, lane = partition.log, f"scrub:{partition.directory.path}"

        async def write() -> None:
            await partition.directory.settled(member)
            if member.generation != generation or fill.damaged not in member.damage:
                raise CannotMend("the log has changed meanwhile")
            segment.pin()
            try:
                await self._ports.offload.thread(lane, write_over, segment.log_file, spool, fill)
            finally:
                segment.unpin()
            _forget(member, [fill.damaged])

        await partition.change_files(write, leader_epoch=partition.leader_epoch)

    async def _write_anew(self, partition: Partition, segment: Segment, spool: File, fills: Sequence[Fill]) -> None:
        """What the leader has is not as long as what is damaged: make another segment of it."""
        member, directory = partition.log, partition.directory
        if segment.growing is not None:

            async def close_segment() -> None:
                if member.segments.active is segment:
                    member.roll("it is mended")

            await partition.change_files(close_segment, leader_epoch=partition.leader_epoch)
            await directory.flush(member, member.log_end_offset)
        if segment.growing is not None:
            raise CannotMend("the segment is being worked on")
        generation = member.generation
        place = member.segments.place_of(segment.base_offset)
        plan = DamagedSegment(
            member.directory,
            segment.base_offset,
            member.segments[place + 1].base_offset,
            segment.size_bytes,
            segment.has_txn_index,
            member.config.index_interval_bytes,
        )
        made = await self._ports.offload.thread(
            f"scrub:{directory.path}", write_anew, self._ports.disk, plan, spool, fills
        )
        is_done = await replace_segments(directory, member, made, generation=generation, offload=self._ports.offload)
        if not is_done:
            raise CannotMend("the log has changed meanwhile")
        _forget(member, [fill.damaged for fill in fills])


class _Gathering:
    """Fetches what takes the place of a segment's damage into the spool."""

    def __init__(
        self, partition: Partition, connection: Connection, segment: Segment, spool: File, ports: MenderPorts
    ) -> None:
        self.generation = partition.log.generation
        self._partition = partition
        self._connection = connection
        self._segment = segment
        self._spool = spool
        self._ports = ports
        self._epoch = partition.leader_epoch
        self._size_bytes = 0

    async def gather(self) -> list[Fill]:
        """A fill for each range of the segment that is below the high watermark."""
        member = self._partition.log
        fills = []
        for damaged in member.damage:
            if damaged.segment_base_offset != self._segment.base_offset or damaged.end_offset > member.high_watermark:
                continue
            try:
                fill = await self._fill(damaged)
            except EndMismatch as error:
                log.warning("%s: %s; the rest of the segment is fetched again", member.topic_partition, error)
                self._extend(damaged)
                raise
            if damaged.end_offset > member.log_start_offset:
                fills.append(fill)
            else:
                log.info("%s: the leader has given up: %s", member.topic_partition, damaged)
                member.damage.remove(damaged)
        return fills

    def _extend(self, damaged: DamagedRange) -> None:
        """What follows the damage is no good batch after all."""
        member, segment = self._partition.log, self._segment
        place = member.segments.place_of(segment.base_offset)
        is_last = place + 1 >= len(member.segments)
        end_offset = member.log_end_offset if is_last else member.segments[place + 1].base_offset
        if damaged.end_position < segment.size_bytes:
            member.damage.add(replace(damaged, end_position=segment.size_bytes, end_offset=end_offset))

    async def _fill(self, damaged: DamagedRange) -> Fill:
        member = self._partition.log
        begin, offset = self._size_bytes, damaged.start_offset
        checksum = self._next_checksum(damaged)
        while offset < damaged.end_offset:
            answer = await self._fetch(offset, damaged)
            if answer.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                offset = await self._give_up_below(offset)
                continue
            if answer.error is not ErrorCode.NONE:
                raise KafkaError(answer.error, context=f"broker {self._partition.leader_id} answers a fetch")
            taken = take_batches(
                answer.records,
                start_offset=offset,
                end_offset=damaged.end_offset,
                next_checksum=checksum,
                epochs=member.leader_epochs.entries,
            )
            if taken.data:
                lane = f"scrub:{self._partition.directory.path}"
                await self._ports.offload.thread(lane, self._spool.pwrite, taken.data, self._size_bytes)
                self._size_bytes += len(taken.data)
            if taken.is_complete:
                break
            if taken.next_offset == offset:
                raise CannotMend(f"broker {self._partition.leader_id} has nothing at offset {offset}")
            offset = taken.next_offset
        return Fill(damaged, begin, self._size_bytes - begin)

    def _next_checksum(self, damaged: DamagedRange) -> int | None:
        """Of the good batch behind the damage, if it is in the segment."""
        if damaged.end_position >= self._segment.size_bytes:
            return None
        return self._segment.checksum_at(damaged.end_position)

    async def _fetch(self, offset: int, damaged: DamagedRange) -> DebugFetch:
        return await fetch_records(
            self._connection,
            self._partition.topic_partition,
            offset,
            leader_epoch=self._epoch,
            replica_id=DEBUGGING_CONSUMER,
            # A batch more, to see what follows.
            max_bytes=min(_PIECE_BYTES, damaged.size_bytes) + 64 * 1024,
            timeout_ms=self._ports.timeout_ms,
        )

    async def _give_up_below(self, offset: int) -> int:
        """The leader has nothing at `offset` any more: neither has this replica. Where its log starts."""
        partition = self._partition
        start = await ask_offset(
            self._connection,
            partition.topic_partition,
            leader_epoch=self._epoch,
            timestamp=EARLIEST,
            replica_id=DEBUGGING_CONSUMER,
            timeout_ms=self._ports.timeout_ms,
        )
        if start <= offset:
            raise CannotMend(f"broker {partition.leader_id} does not have offset {offset}")
        partition.apply_leader_progress(
            leader_epoch=self._epoch, high_watermark=partition.log.high_watermark, log_start_offset=start
        )
        self.generation = partition.log.generation
        return start


def _segment(member: Log, base_offset: int) -> Segment:
    segment = member.segments[max(0, member.segments.place_of(base_offset))]
    if segment.base_offset != base_offset:
        raise CannotMend("the segment is gone")
    return segment


def _forget(member: Log, mended: Sequence[DamagedRange]) -> None:
    """These are good; whoever read them before does not count."""
    for damaged in mended:
        member.damage.remove(damaged)
        log.info("%s: mended: %s", member.topic_partition, damaged)
    member.generation += 1


def _new_file(disk: Disk, path: str) -> File:
    file = disk.open(path, create=True)
    file.truncate(0)
    return file
