"""What replicas in sync must agree on when nothing happens any more: bytes, leader epochs and producers.

The logs are compared whole, batch heads and records, from where the later of two begins up to where the shorter ends
(what is above the high watermark may be on its way); compacted ones record by record. Of leader epochs those with
records count: a follower never hears of the others; who copied a compacted log cannot know where they began. Of a
producer its last batch counts: a restart forgets the earlier ones, as in Kafka. Not so where a replica was damaged: who
starts after a crash reads the producers of what was synced off headers, whose checksums it does not look at.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from barnabas.protocol.entries import iterate_entries, iterate_entry_records
from barnabas.protocol.records import ControlRecordType, read_control_record
from barnabas.simulation.machine import Machine
from barnabas.simulation.world import World
from barnabas.storage.log import Log
from replication.partition import Partition


def differences(world: World) -> Iterator[str]:
    """What in-sync replicas of the load's topics have otherwise than their leaders."""
    invariants = world.invariants
    held = {(machine.broker_id, part.topic_partition): (machine, part) for machine, part in invariants.replicas()}
    for at in invariants.watched:
        state = invariants.state(at)
        leader = None if state is None else held.get((state.leader, at))
        if state is None or leader is None:
            continue
        for number in state.isr:
            other = held.get((number, at))
            if other is not None and number != state.leader:
                differ = _differ_when_compacted if at in invariants.compacted else _differ
                producers = (
                    ()
                    if any(world.rot.has_hit(machine, at) for machine, _ in (leader, other))
                    else _differ_in_producers(leader, other)
                )
                for what in (*differ(leader, other), *producers):
                    yield f"{at}: {what} differ between broker {state.leader}, which leads, and broker {number}"


_MAX_DECOMPRESSED_BYTES: Final = 1 << 26
_LONGER_THAN_A_SEED_MS: Final = 3_600_000
_Replica = tuple[Machine, Partition]


def _start(leader: _Replica, other: _Replica) -> int:
    return max(leader[1].log.log_start_offset, other[1].log.log_start_offset)


def _end(leader: _Replica, other: _Replica) -> int:
    return min(leader[1].log.log_end_offset, other[1].log.log_end_offset)


def _differ(leader: _Replica, other: _Replica) -> Iterator[str]:
    start, end = _start(leader, other), _end(leader, other)
    ours_and_theirs = [_bytes(machine, part.log, start=start, end=end) for machine, part in (leader, other)]
    if ours_and_theirs[0] != ours_and_theirs[1]:
        yield f"records from {start} on"
    ours, theirs = (_epochs(part.log, start=start, end=end) for _, part in (leader, other))
    if ours != theirs:
        yield f"leader epochs, {ours} and {theirs},"


def _differ_when_compacted(leader: _Replica, other: _Replica) -> Iterator[str]:
    """Each is compacted at its own time: what one lacks gave way to a later record of its key, or is a tombstone.

    Of a transaction only what was committed counts.

    Where tombstones go soon, one may have gone with its value before a replica that was away saw it: as in Kafka, such
    a replica keeps the value.
    """
    start, end = _start(leader, other), _end(leader, other)
    tombstones_stay = all(part.log.config.delete_retention_ms >= _LONGER_THAN_A_SEED_MS for _, part in (leader, other))
    ours, theirs = (_records(_bytes(machine, part.log, start=start, end=end)) for machine, part in (leader, other))
    last = {key: offset for offset, (key, _) in sorted((ours | theirs).items())}
    for here, there in ((ours, theirs), (theirs, ours)):
        for offset, record in here.items():
            gave_way = not tombstones_stay or record.value is None or last.get(record.key, -1) > offset
            if there[offset] != record if offset in there else not gave_way:
                yield f"{record} at {offset}, {there.get(offset)},"
                return


def _differ_in_producers(leader: _Replica, other: _Replica) -> Iterator[str]:
    start = _start(leader, other)
    if leader[1].log.log_end_offset != other[1].log.log_end_offset:
        return
    ours, theirs = (_producers(part.log, start=start) for _, part in (leader, other))
    if ours != theirs:
        yield f"producers, {sorted(ours - theirs)} and {sorted(theirs - ours)},"


class _Kept(NamedTuple):
    key: bytes | None
    value: bytes | None


def _records(data: bytes) -> dict[int, _Kept]:
    """By offset. Without markers, and without what was aborted: each replica is rid of that when it is compacted."""
    found: dict[int, _Kept] = {}
    open_offsets: dict[int, list[int]] = {}
    for at, header in iterate_entries(data):
        records = iterate_entry_records(data, at, header, _MAX_DECOMPRESSED_BYTES)
        if not header.is_control:
            kept = {each.offset: _Kept(each.key, each.value) for each in records}
            found |= kept
            if header.is_transactional:
                open_offsets.setdefault(header.producer_id, []).extend(kept)
            continue
        for marker in records:
            written = open_offsets.pop(header.producer_id, [])
            if read_control_record(marker).kind is ControlRecordType.ABORT:
                for offset in written:
                    del found[offset]
    return found


def _bytes(machine: Machine, log: Log, *, start: int, end: int) -> bytes:
    """All batches, and messages of old formats, that end above `start` and begin below `end`."""
    found = bytearray()
    for path, inode in machine.disk.files_in(log.directory):
        if path.endswith(".log"):
            data = inode.data
            for at, header in iterate_entries(data):
                if header.next_offset > start and header.base_offset < end:
                    found += data[at : at + header.size_bytes]
    return bytes(found)


def _epochs(log: Log, *, start: int, end: int) -> set[tuple[int, ...]]:
    entries = [(entry.epoch, entry.start_offset) for entry in log.leader_epochs.entries]
    ends = [*(begin for _, begin in entries[1:]), log.log_end_offset]
    return {
        (epoch, max(begin, start))
        for (epoch, begin), stop in zip(entries, ends, strict=False)
        if min(stop, end) > max(begin, start)
    }


def _producers(log: Log, *, start: int) -> set[tuple[int, ...]]:
    return {
        (entry.producer_id, entry.epoch, last.last_sequence, last.last_offset, last.offset_delta, entry.last_timestamp)
        for entry in log.producers
        if (last := entry.batches[-1] if entry.batches else None) is not None and last.last_offset >= start
    }
