"""What waits to be sent to one broker, with superseded parts merged away.  [P]

A broker that does not answer for a while must not be told its whole history afterwards, and what waits for it must not
grow without bound. So of each partition at most one LeaderAndIsr and one StopReplica wait, the latest, and at most two
UpdateMetadata in all, beside one that was not answered:

- a LeaderAndIsr takes the place of an earlier one of that partition, at its own later turn; `is_new` is inherited;
- a StopReplica takes the place of an earlier StopReplica and LeaderAndIsr of that partition; `delete` is inherited;
- a LeaderAndIsr after a StopReplica leaves it: the old log is removed before the new one is made;
- an UpdateMetadata joins the one that waits at the end, or takes its place there with what that one had to say: clients
  do not hear of a leader before it does. The first one tells of the brokers that live by now: a broker may know its
  peers earlier than in the order of sending, never later, since a follower must know the broker of its leader. That a
  welcome ends stands in the last portion of the last one;
- a ReportLogEnds joins the one that waits: only the answer to the latest question counts.

All commands of a queue carry the same controller epoch and broker epoch. Commands that were put in are not changed.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, TypeVar

from barnabas.protocol.ids import TopicPartition
from controller.commands import (
    MAX_PARTITIONS_PER_COMMAND,
    Command,
    LeaderAndIsr,
    LeaderAndIsrPartition,
    ReportLogEnds,
    StopReplica,
    StopReplicaPartition,
    UpdateMetadata,
    UpdateMetadataPartition,
)

_TIDY_FROM: Final = 64
_MOST_METADATA: Final = 2

EntryT = TypeVar("EntryT")
Entries = dict[TopicPartition, EntryT]


@dataclass(slots=True, eq=False)
class _Lead:
    command: LeaderAndIsr
    entries: Entries[LeaderAndIsrPartition]


@dataclass(slots=True, eq=False)
class _Stop:
    command: StopReplica
    entries: Entries[StopReplicaPartition]


@dataclass(slots=True, eq=False)
class _Metadata:
    command: UpdateMetadata
    entries: Entries[UpdateMetadataPartition]


@dataclass(slots=True, eq=False)
class _Ask:
    command: ReportLogEnds
    entries: Entries[TopicPartition]


class CommandQueue:
    """Commands to one registration of a broker, in the order in which they are to be sent."""

    def __init__(self, limit: int = MAX_PARTITIONS_PER_COMMAND) -> None:
        self._limit = limit
        self._order: deque[_Lead | _Stop | _Metadata | _Ask] = deque()
        self._lead_of: dict[TopicPartition, _Lead] = {}
        self._stop_of: dict[TopicPartition, _Stop] = {}
        self._metadata: list[_Metadata] = []
        self._ask: _Ask | None = None
        self._tidy_at = _TIDY_FROM

    def __bool__(self) -> bool:
        self._drop_empty()
        return bool(self._order)

    def put(self, command: Command) -> None:
        """Let a command wait behind the others."""
        match command:
            case LeaderAndIsr():
                self._put_lead(command)
            case StopReplica():
                self._put_stop(command)
            case UpdateMetadata():
                self._put_metadata(command)
            case ReportLogEnds():
                self._put_ask(command)
        if len(self._order) > self._tidy_at:
            self._order = deque(each for each in self._order if each.entries or isinstance(each, _Metadata))
            self._tidy_at = max(_TIDY_FROM, 2 * len(self._order))

    def take(self) -> Command:
        """The next command, of at most `limit` partitions."""
        self._drop_empty()
        waiting = self._order[0]
        keys = list(islice(waiting.entries, self._limit))
        command: Command
        match waiting:
            case _Lead():
                command = replace(waiting.command, partitions=[waiting.entries.pop(at) for at in keys])
                for at in keys:
                    del self._lead_of[at]
            case _Stop():
                command = replace(waiting.command, partitions=[waiting.entries.pop(at) for at in keys])
                for at in keys:
                    del self._stop_of[at]
            case _Metadata():
                command = replace(waiting.command, partitions=[waiting.entries.pop(at) for at in keys])
                if waiting.entries:
                    command.ends_welcome = False
                else:
                    self._metadata.remove(waiting)
            case _Ask():
                command = replace(waiting.command, partitions=[waiting.entries.pop(at) for at in keys])
                if not waiting.entries:
                    self._ask = None
        if not waiting.entries:
            self._order.popleft()
        return command

    def put_back(self, command: Command) -> None:
        """A command that was taken but not answered goes first again, without what was superseded meanwhile."""
        match command:
            case LeaderAndIsr():
                self._put_back_lead(command)
            case StopReplica():
                self._put_back_stop(command)
            case UpdateMetadata():
                self._put_back_metadata(command)
            case ReportLogEnds():
                self._put_ask(command)

    def _drop_empty(self) -> None:
        # A message of UpdateMetadata without partitions still tells of the live brokers.
        while self._order and not self._order[0].entries and not isinstance(self._order[0], _Metadata):
            self._order.popleft()

    def _put_lead(self, command: LeaderAndIsr) -> None:
        last = self._order[-1] if self._order else None
        if isinstance(last, _Lead):
            leaders = dict.fromkeys((*last.command.live_leaders, *command.live_leaders))
            last.command = replace(last.command, live_leaders=tuple(leaders))
        else:
            last = _Lead(command, {})
            self._order.append(last)
        for entry in command.partitions:
            at = entry.topic_partition
            older = self._lead_of.get(at)
            if older is not None and older.entries.pop(at).is_new:
                entry = replace(entry, is_new=True)
            last.entries[at] = entry
            self._lead_of[at] = last

    def _put_stop(self, command: StopReplica) -> None:
        waiting = _Stop(command, {})
        self._order.append(waiting)
        for entry in command.partitions:
            at = entry.topic_partition
            if at in self._lead_of:
                del self._lead_of.pop(at).entries[at]
            older = self._stop_of.get(at)
            if older is not None and older.entries.pop(at).delete:
                entry = replace(entry, delete=True)
            waiting.entries[at] = entry
            self._stop_of[at] = waiting

    def _put_metadata(self, command: UpdateMetadata) -> None:
        entries, ends_welcome = _by_partition(command.partitions), command.ends_welcome
        for waiting in self._metadata:
            ends_welcome |= waiting.command.ends_welcome
            # Who lives is told by each of them; that a welcome ends by the last one.
            waiting.command = replace(command, ends_welcome=False)
            for at in entries:
                waiting.entries.pop(at, None)
        if not self._metadata or self._metadata[-1] is not self._order[-1]:
            if len(self._metadata) >= _MOST_METADATA:
                self._order.remove(self._metadata[-1])
            else:
                self._metadata.append(_Metadata(command, {}))
            self._order.append(self._metadata[-1])
        last = self._metadata[-1]
        last.entries.update(entries)
        last.command = replace(command, ends_welcome=ends_welcome)

    def _put_back_metadata(self, command: UpdateMetadata) -> None:
        entries = _by_partition(command.partitions)
        for waiting in self._metadata:
            for at in waiting.entries:
                entries.pop(at, None)
        if not self._metadata:
            self._metadata.append(_Metadata(command, {}))
        else:
            last = self._metadata[-1]
            last.command = replace(last.command, ends_welcome=command.ends_welcome or last.command.ends_welcome)
            if self._metadata[0] is self._order[0]:
                self._order.popleft()
            else:
                # Not what waits behind a LeaderAndIsr: clients would hear of a leader before it does.
                self._metadata.insert(0, _Metadata(replace(last.command, ends_welcome=False), {}))
        first = self._metadata[0]
        first.entries = entries | first.entries
        self._order.appendleft(first)

    def _put_ask(self, command: ReportLogEnds) -> None:
        if self._ask is None:
            self._ask = _Ask(command, {})
            self._order.append(self._ask)
        self._ask.entries.update(dict(zip(command.partitions, command.partitions, strict=True)))

    def _put_back_lead(self, command: LeaderAndIsr) -> None:
        waiting = _Lead(command, {})
        self._order.appendleft(waiting)
        for entry in command.partitions:
            at = entry.topic_partition
            newer = self._lead_of.get(at)
            if newer is not None and at not in self._stop_of:
                newer.entries[at] = replace(newer.entries[at], is_new=newer.entries[at].is_new or entry.is_new)
            elif newer is None and at not in self._stop_of:
                waiting.entries[at] = entry
                self._lead_of[at] = waiting

    def _put_back_stop(self, command: StopReplica) -> None:
        waiting = _Stop(command, {})
        self._order.appendleft(waiting)
        for entry in command.partitions:
            at = entry.topic_partition
            newer = self._stop_of.get(at)
            if newer is None:
                waiting.entries[at] = entry
                self._stop_of[at] = waiting
            else:
                newer.entries[at] = replace(newer.entries[at], delete=newer.entries[at].delete or entry.delete)


def _by_partition(partitions: Iterable[UpdateMetadataPartition]) -> Entries[UpdateMetadataPartition]:
    return {entry.topic_partition: entry for entry in partitions}
