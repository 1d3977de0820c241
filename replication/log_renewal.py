"""Fetches the log of a follower anew from its leader, beside the present one, whose place it then takes.

For a log in which damage cannot be mended in place (`replication.mend_plan` says why). What is committed
comes from the leader, fetched as `replication.mending` does; what follows comes from the present log, as when a log
moves to another directory, and as then nothing is written while the last of it is copied and the new log takes the
place. Until then the present log is what it was, to readers and to leader and controller; a start before that forgets
what has gathered. It takes as much room again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from barnabas.client.connection import Connection
from barnabas.client.errors import KafkaError
from barnabas.protocol.batch import CURRENT_MAGIC, CorruptBatch, TruncatedBatch
from barnabas.protocol.entries import iterate_entries
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerId
from barnabas.runtime.offload import Offload
from barnabas.storage.append import AppendRejected
from barnabas.storage.directory import LogDirectory
from barnabas.storage.file_names import future_directory
from barnabas.storage.index import CorruptIndex
from barnabas.storage.leader_epochs import EpochEntry, LeaderEpochs
from barnabas.storage.log import Log
from replication.leader_questions import (
    CONSUMER,
    DEBUGGING_CONSUMER,
    EARLIEST,
    LATEST,
    ask_offset,
    fetch_records,
)
from replication.log_moves import LogCopy, NothingToCopy
from replication.partition import Partition
from replication.ports import ReplicationPorts

_PIECE_BYTES: Final = 1024 * 1024
_ANY_UNIQUE: Final = "0" * 32


class CannotMend(Exception):
    """Not now; the text says why."""


class ToldEpochs:
    """The epochs that the leader's batches tell of, and, between and behind them, what this log's list `said`.

    Of a compacted log each list may know what the other does not, but no list knows better than a batch.
    """

    __slots__ = ("_end_offset", "_epochs", "_said")

    def __init__(self, said: Sequence[EpochEntry], *, end_offset: int) -> None:
        self._said = said
        self._epochs = LeaderEpochs()
        self._end_offset = end_offset

    def note(self, records: memoryview) -> None:
        """The next batches, all whole."""
        epochs = self._epochs
        for _, header in iterate_entries(records):
            if header.magic < CURRENT_MAGIC:
                epochs.clear()
            elif header.leader_epoch > epochs.latest_epoch:
                found = EpochEntry(header.leader_epoch, header.base_offset)
                epochs.assign_from_batch(found, floor=self._end_offset, said=self._said)
            self._end_offset = header.next_offset

    def complete(self, now: Sequence[EpochEntry]) -> LeaderEpochs:
        """The list, when the batches are all there; behind them is what the log's list says `now`."""
        latest = self._epochs.latest_epoch
        behind = (each for each in now if each.start_offset >= self._end_offset and each.epoch > latest)
        return LeaderEpochs((*self._epochs.entries, *behind))


@dataclass(slots=True)
class LogRenewal:
    """See the module."""

    partition: Partition
    connection: Connection
    ports: ReplicationPorts
    offload: Offload
    timeout_ms: int

    async def run(self) -> None:
        """Let the partition have a new log. Raises CannotMend, LogOffline, PartitionRefused and ClientError."""
        partition, present = self.partition, self.partition.log
        futures = self.ports.log_directories.futures
        epoch, target = partition.leader_epoch, present.high_watermark
        if any(damaged.end_offset > target for damaged in present.damage):
            raise CannotMend(f"not all of the damage is committed, offset {target} is")
        if future_directory(partition.topic_partition, _ANY_UNIQUE) is None:
            raise CannotMend("the topic's name is too long for a log beside the present one")
        start = await self._ask(EARLIEST, replica_id=DEBUGGING_CONSUMER)
        # Asked last: a move may have begun while the leader was asked.
        if futures.find(partition.topic_partition) is not None:
            raise CannotMend("the log is on its way to another directory")
        # The new log begins no earlier than the leader's: neither may the present one, nor what is copied from it.
        partition.apply_leader_progress(leader_epoch=epoch, high_watermark=target, log_start_offset=start)
        directory = partition.directory
        future = futures.create(partition.topic_partition, directory, present.config)
        try:
            await futures.restart_at(directory, future, start)
            copy = LogCopy(partition, directory, future, self.ports, self.offload, floor=target)
            told = ToldEpochs(present.leader_epochs.entries, end_offset=future.log_start_offset)
            await self._fetch_all(copy, future, target, told)

            def correct_epochs() -> None:
                """A damaged header may have put an epoch into the present list, or have hidden one."""
                if partition.leader_epoch != epoch or partition.is_leader or partition.log is not present:
                    raise CannotMend("the replica follows another leader now")
                present.leader_epochs = told.complete(present.leader_epochs.entries)
                present.note_epochs_changed()

            async def finish() -> tuple[Log, LogDirectory]:
                correct_epochs()
                return await copy.finish()

            # First of all: by that list it is decided how far the new log agrees with the present one.
            correct_epochs()
            await copy.fill(nearly=True)
            await partition.exchange_log(finish)
        except (AppendRejected, CorruptBatch, CorruptIndex) as error:
            raise CannotMend(f"what was fetched cannot be appended: {error}") from error
        except NothingToCopy as error:
            # What the present log takes for its end is inside of a leader's batch: its last header is damaged.
            raise CannotMend(str(error)) from error
        finally:
            if futures.find(partition.topic_partition) == (directory, future):
                futures.discard(partition.topic_partition)

    async def _fetch_all(self, copy: LogCopy, future: Log, target: int, told: ToldEpochs) -> None:
        """All that the leader has below `target`."""
        while future.log_end_offset < target:
            before = future.log_end_offset
            position = future.log_start_offset, before
            answer = await fetch_records(
                self.connection,
                self.partition.topic_partition,
                before,
                leader_epoch=self.partition.leader_epoch,
                replica_id=DEBUGGING_CONSUMER,
                max_bytes=_PIECE_BYTES,
                timeout_ms=self.timeout_ms,
            )
            if answer.error is not ErrorCode.NONE:
                raise KafkaError(answer.error, context=f"broker {self.partition.leader_id} answers a fetch")
            wanted, is_last = _below(answer.records, target)
            if wanted:
                told.note(wanted)
                await copy.append(memoryview(bytearray(wanted)))
            elif is_last or (not answer.records and await self._ask(LATEST, replica_id=CONSUMER) >= target):
                # What was there is cleaned away.
                return
            if (future.log_start_offset, future.log_end_offset) == position:
                raise CannotMend(f"broker {self.partition.leader_id} has nothing at offset {before}")

    async def _ask(self, timestamp: int, *, replica_id: BrokerId) -> int:
        found = await ask_offset(
            self.connection,
            self.partition.topic_partition,
            leader_epoch=self.partition.leader_epoch,
            timestamp=timestamp,
            replica_id=replica_id,
            timeout_ms=self.timeout_ms,
        )
        if found < 0:
            raise CannotMend(f"broker {self.partition.leader_id} does not tell where its log begins and ends")
        return found


def _below(records: memoryview, target: int) -> tuple[memoryview, bool]:
    """The batches that end at or below `target`, and whether one follows that does not. Raises CorruptBatch."""
    end = 0
    try:
        for position, header in iterate_entries(records):
            if header.next_offset > target:
                return records[:end], True
            end = position + header.size_bytes
    except TruncatedBatch:
        pass
    return records[:end], False
