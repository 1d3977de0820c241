"""What a broker does about damage in its logs, and which bytes may take the place of what is damaged.

A follower asks its leader for the damaged offsets and puts what it gets where the damage is; nothing else of its log
is touched. It is not cut below the damage and fetched again from there, as it is when logs diverge: a member of the
in-sync set has promised what it holds, and a cut would take back good records of which it may hold the last copy but
one, while leader and controller go on counting on it. Leaving the set first would cost the same and more: records that
were acknowledged by two would be held by one until all behind the damage is copied. Put in place, the log only gains.

Only offsets below the high watermark are mended: there all replicas agree, whatever became of later records. What
comes from the leader counts if its checksums are right, it lies within the damage and ends where the next good batch
begins. Where they are not as many bytes as the damage has, the segment is written anew (`storage.mended_segment`).
What the leader has given up is given up here too.

Not so where a log is compacted. Each replica is cleaned when its own broker gets to it, and a part of one does not go
with the rest of another. Say a key had a value and, later, a tombstone. Where the leader has been cleaned further it
has neither; this replica still has the value, so with what the leader has where the tombstone was damaged, the value
would be back for good. Where the leader has been cleaned less it still has the value, and this replica neither: filled
in where something near the value was damaged, it would be back too. So:

- as many bytes as the damage has, up to the same next batch, are the same batches, and are put in place. (Two cleaned
  differently have different batches there. Were they as long by chance, the one that has been cleaned further has taken
  away all that is superseded below, so what it has goes with either);
- else all that is committed comes from the leader, from where its log begins (`replication.log_renewal`). Above the
  high watermark nothing was ever cleaned, here or there, so the rest of this log goes with it. The new log gathers
  beside the present one and takes its place at once: putting one segment after the other in place would in one of the
  two cases above, whatever the order, show the value meanwhile, and to a crash for longer. And the present log, which
  has promised what it holds, stays whole until then, so the replica need not leave the in-sync set.

All of a log comes from the leader too where the leader's batches are of other epochs than this log's list says: a start
that met a damaged header took its epoch for one that began there, and nothing here tells which of the list are right.

A leader that is cleaned while its log is copied may take a tombstone away before it is copied, but after its value was.
That is so for whoever reads a compacted log from its start, a new replica as a consumer, and is what
delete.retention.ms is for.

A leader asks nobody: another replica may lack what it has. It resigns, where another member of the in-sync set can
lead, and mends as a follower; else it leads on, serves the rest, and says so.

Pure: `replication.mending` acts.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from barnabas.protocol.batch import Buffer, CorruptBatch, TruncatedBatch
from barnabas.protocol.entries import iterate_entries, verify_entry
from barnabas.protocol.ids import NO_LEADER, BrokerId
from barnabas.storage.leader_epochs import EpochEntry


class OnDamage(Enum):
    """What to do about a damaged range."""

    MEND = auto()
    RESIGN = auto()
    WAIT = auto()
    """Nobody can help now."""


def decide_on_damage(
    *,
    broker_id: BrokerId,
    leader_id: BrokerId,
    isr: Sequence[BrokerId],
    end_offset: int,
    high_watermark: int,
) -> OnDamage:
    """What this replica does about damage that ends at `end_offset`; `isr` is known to a leader only."""
    if leader_id == broker_id:
        return OnDamage.RESIGN if any(member != broker_id for member in isr) else OnDamage.WAIT
    if leader_id == NO_LEADER or end_offset > high_watermark:
        return OnDamage.WAIT
    return OnDamage.MEND


class UnfitBatches(Exception):
    """What the leader sent cannot stand where the damage is."""


class EndMismatch(UnfitBatches):
    """The leader's batches do not end where the damage does: what was taken for the next good batch may be none."""


class EpochMismatch(UnfitBatches):
    """The leader's batch is of another epoch than this log's list says.

    Where a log was compacted before it was copied, the list does not tell where an epoch began that lost its first
    records.
    """


@dataclass(slots=True)
class TakenBatches:
    """Batches for the damaged offsets. `is_complete` says that the leader has no more of them."""

    data: bytes
    next_offset: int
    is_complete: bool


def take_batches(
    records: Buffer, *, start_offset: int, end_offset: int, next_checksum: int | None, epochs: Sequence[EpochEntry]
) -> TakenBatches:
    """The whole batches of `records`, which were asked for from `start_offset` on, below `end_offset`.

    `next_checksum` is that of the good batch at `end_offset`, None where the segment ends there. `epochs` are those of
    the log that is mended. Raises UnfitBatches, EndMismatch, EpochMismatch.
    """
    first, end, next_offset, is_complete = 0, 0, start_offset, False
    try:
        for position, header in iterate_entries(records):
            if header.base_offset >= end_offset:
                is_same = header.base_offset == end_offset and header.crc == next_checksum
                if next_checksum is not None and not is_same:
                    raise EndMismatch(f"another batch stands at {end_offset} than the leader's")
                next_offset, is_complete = end_offset, True
                break
            if header.next_offset > end_offset:
                raise EndMismatch(f"the leader's batch ends at {header.next_offset}, the damage at {end_offset}")
            if header.base_offset < next_offset:
                raise UnfitBatches(f"the leader's batch begins at {header.base_offset}, not at {next_offset}")
            verify_entry(records, position, header)
            _check_epoch(header.base_offset, header.leader_epoch, epochs)
            first = position if end == 0 else first
            end, next_offset = position + header.size_bytes, header.next_offset
    except TruncatedBatch:
        # The last one was cut by the size of the answer.
        pass
    except CorruptBatch as error:
        raise UnfitBatches(f"what the leader sent is damaged itself: {error}") from None
    data = bytes(memoryview(records)[first:end])
    return TakenBatches(data, next_offset, is_complete or next_offset >= end_offset)


def _check_epoch(offset: int, epoch: int, epochs: Sequence[EpochEntry]) -> None:
    at = bisect_right(epochs, offset, key=lambda entry: entry.start_offset) - 1
    if at >= 0 and epoch >= 0 and epochs[at].epoch != epoch:
        raise EpochMismatch(f"the leader's batch at {offset} is of epoch {epoch}, here it was {epochs[at].epoch}")
