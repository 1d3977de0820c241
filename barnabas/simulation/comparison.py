"""What replicas in sync must agree on when nothing happens any more: bytes, leader epochs and producers.

The logs are compared whole, batch heads and records, from where the later of two begins. Of leader epochs those with
records count: a follower never hears of the others. Of a producer its last batch counts: a restart forgets the earlier
ones, as in Kafka.
"""

from collections.abc import Iterator

from barnabas.protocol.batch import HEADER_BYTES, read_header
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
                for what in _differ(leader, other):
                    yield f"{at}: {what} differ between broker {state.leader}, which leads, and broker {number}"


def _differ(leader: tuple[Machine, Partition], other: tuple[Machine, Partition]) -> Iterator[str]:
    logs = (leader[1].log, other[1].log)
    start = max(log.log_start_offset for log in logs)
    if _bytes(leader[0], logs[0], start=start) != _bytes(other[0], logs[1], start=start):
        yield f"records from {start} on"
    ours, theirs = (_epochs(log, start=start) for log in logs)
    if ours != theirs:
        yield f"leader epochs, {ours} and {theirs},"
    ours, theirs = (_producers(log, start=start) for log in logs)
    if ours != theirs:
        yield f"producers, {sorted(ours - theirs)} and {sorted(theirs - ours)},"


def _bytes(machine: Machine, log: Log, *, start: int) -> bytes:
    """All batches that end above an offset."""
    found = bytearray()
    for path, inode in machine.disk.files_in(log.directory):
        if path.endswith(".log"):
            data = inode.data
            at = 0
            while len(data) - at >= HEADER_BYTES:
                header = read_header(data, at)
                if header.next_offset > start:
                    found += data[at : at + header.size_bytes]
                at += header.size_bytes
    return bytes(found)


def _epochs(log: Log, *, start: int) -> set[tuple[int, ...]]:
    entries = [(entry.epoch, entry.start_offset) for entry in log.leader_epochs.entries]
    ends = [*(begin for _, begin in entries[1:]), log.log_end_offset]
    return {
        (epoch, max(begin, start))
        for (epoch, begin), end in zip(entries, ends, strict=False)
        if end > max(begin, start)
    }


def _producers(log: Log, *, start: int) -> set[tuple[int, ...]]:
    return {
        (entry.producer_id, entry.epoch, last.last_sequence, last.last_offset, last.offset_delta, entry.last_timestamp)
        for entry in log.producers
        if (last := entry.batches[-1] if entry.batches else None) is not None and last.last_offset >= start
    }
