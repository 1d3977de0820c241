"""Fetch sessions (KIP-227): what a client fetches, remembered between its requests.

A session registers once with its partitions. An append or a move of the high watermark puts the partition into the
session's `dirty` set and wakes the request that is parked on the session, if one is: an idle poll costs nothing per
partition, a busy one costs what changed.

The cache is bounded by slots (`max.incremental.fetch.session.cache.slots`) and by the partitions that it remembers.
A follower's session is of one registration of its broker: what goes on in a session of an earlier one may have been
said before the broker lost power, and what it had with it (KIP-903 has the follower name the registration).

When it is full a newcomer may take the place of a session that rested for two minutes, or of a smaller one that is
old enough; a follower may also displace young sessions of clients, and as many of them as its partitions need. Who gets
no place is served without a session.
"""

import random
from collections.abc import Iterable
from typing import Final, Protocol

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import NO_LEADER_EPOCH, BrokerEpoch, TopicPartition
from barnabas.runtime.clock import Clock
from broker.fetch_gathering import Gathering

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_MAX_INT32: Final = 2**31 - 1
_RESTED_MS: Final = 120_000
_MAX_CACHED_PARTITIONS: Final = 250_000


class WantedPartition:
    """One partition that a client fetches, and what the session's last answer said of it."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "sent_high_watermark",
        "sent_log_start_offset",
        "tells_again",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        *,
        fetch_offset: int,
        max_bytes: int,
        current_leader_epoch: int = -1,
        last_fetched_epoch: int = -1,
        log_start_offset: int = -1,
    ) -> None:
        self.topic_partition = topic_partition
        self.fetch_offset = fetch_offset
        self.max_bytes = max_bytes
        # Any negative epoch means that none is known.
        self.current_leader_epoch = max(current_leader_epoch, NO_LEADER_EPOCH)
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        self.sent_high_watermark = -1
        self.sent_log_start_offset = -1
        self.tells_again = False
        """Whether the next answer names it also if nothing has changed since the one before."""

    def update(self, newer: "WantedPartition") -> None:
        """The client asks for it again: keep what was sent, take the rest."""
        self.fetch_offset = newer.fetch_offset
        self.max_bytes = newer.max_bytes
        self.current_leader_epoch = newer.current_leader_epoch
        self.last_fetched_epoch = newer.last_fetched_epoch
        self.log_start_offset = newer.log_start_offset


class Watched(Protocol):
    """A replica, as a session sees it: it tells a consumer's session of what is committed, a follower's of its end."""

    def watch(self, watcher: "FetchSession") -> None: ...

    def unwatch(self, watcher: "FetchSession") -> None: ...

    def watch_end(self, watcher: "FetchSession") -> None: ...

    def unwatch_end(self, watcher: "FetchSession") -> None: ...


class ParkedFetch(Protocol):
    """A request that waits for something new in its session."""

    def partition_changed(self, topic_partition: TopicPartition) -> None: ...

    def watermark_changed(self, topic_partition: TopicPartition) -> None: ...

    def interrupted(self) -> None:
        """Nobody will tell it of changes any more."""
        ...


class FetchSession:
    """One client's session, a privileged one is a follower's.

    `dirty` holds, in order, the partitions that the next answer must look at.
    """

    __slots__ = (
        "_is_closed",
        "_parked",
        "_watched",
        "broker_epoch",
        "created_ms",
        "dirty",
        "epoch",
        "gathering",
        "is_privileged",
        "last_used_ms",
        "partitions",
        "session_id",
    )

    def __init__(
        self, session_id: int, *, is_privileged: bool, now_ms: int, broker_epoch: BrokerEpoch | None = None
    ) -> None:
        self.session_id = session_id
        self.broker_epoch = broker_epoch
        """Of a follower: under which its broker was known when the session began."""

        self.is_privileged = is_privileged
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.epoch = INITIAL_EPOCH
        self.gathering = Gathering()
        self.partitions: dict[TopicPartition, WantedPartition] = {}
        self.dirty: dict[TopicPartition, None] = {}
        self._watched: dict[TopicPartition, Watched] = {}
        self._parked: ParkedFetch | None = None
        self._is_closed = False

    def partition_changed(self, topic_partition: TopicPartition) -> None:
        """The partition that was watched has something new."""
        if topic_partition in self.partitions:
            self.dirty[topic_partition] = None
            if self._parked is not None:
                self._parked.partition_changed(topic_partition)

    def watermark_changed(self, topic_partition: TopicPartition) -> None:
        """What the follower is to be told of the partition has changed, though there is nothing new to read."""
        if topic_partition in self.partitions:
            self.dirty[topic_partition] = None
            if self._parked is not None:
                self._parked.watermark_changed(topic_partition)

    def park(self, request: ParkedFetch) -> None:
        """Tell `request` of changes until `unpark`."""
        if self._parked is not None:
            self._parked.interrupted()
        self._parked = request
        if self._is_closed:
            request.interrupted()

    def unpark(self, request: ParkedFetch) -> None:
        if self._parked is request:
            self._parked = None

    def put(self, wanted: WantedPartition) -> None:
        known = self.partitions.get(wanted.topic_partition)
        if known is None:
            self.partitions[wanted.topic_partition] = wanted
        else:
            # A follower whose place in the log has not moved on may have dropped the last answer, as it does when
            # its leader epoch changes: an idle partition would never hear of the high watermark in it again.
            known.tells_again = self.is_privileged and wanted.fetch_offset <= known.fetch_offset
            known.update(wanted)
        self.dirty[wanted.topic_partition] = None

    def remove(self, topic_partition: TopicPartition) -> None:
        self.partitions.pop(topic_partition, None)
        self.dirty.pop(topic_partition, None)
        self.stop_watching(topic_partition)

    def watch(self, topic_partition: TopicPartition, replica: Watched) -> None:
        """Hear of the changes of `replica`, and no more of one that was there before it."""
        if self._watched.get(topic_partition) is replica or self._is_closed:
            return
        self.stop_watching(topic_partition)
        self._watched[topic_partition] = replica
        if self.is_privileged:
            replica.watch_end(self)
        else:
            replica.watch(self)

    def stop_watching(self, topic_partition: TopicPartition) -> None:
        replica = self._watched.pop(topic_partition, None)
        if replica is None:
            return
        if self.is_privileged:
            replica.unwatch_end(self)
        else:
            replica.unwatch(self)

    def close(self) -> None:
        self._is_closed = True
        for topic_partition in tuple(self._watched):
            self.stop_watching(topic_partition)
        if self._parked is not None:
            self._parked.interrupted()
            self._parked = None


class FollowerLine:
    """What followers have shown on one connection: who asks again has had the answer before.

    Of those without a session: the request that came first may have been under way since an earlier life of the broker.
    Whoever sent the next one lived when the first was answered, so it has the registration that was known then, if it
    is known still (KIP-903).
    """

    __slots__ = ("_answered", "_known")

    def __init__(self) -> None:
        self._known: tuple[int, BrokerEpoch | None] | None = None
        self._answered = (-1, 0)

    def on_answer(self, replica_id: int, moment: int) -> None:
        """The follower is answered; see `replication.leadership_proof` for moments."""
        self._answered = (replica_id, moment)

    def heard_at(self, replica_id: int) -> int:
        """The moment of the answer that the follower has had, 0 when none."""
        follower, moment = self._answered
        return moment if follower == replica_id else 0

    def proves(self, replica_id: int, broker_epoch: BrokerEpoch | None) -> bool:
        """Whether this request, without a session, is surely of that registration; to be asked once for each."""
        before, self._known = self._known, (replica_id, broker_epoch)
        return before == self._known


class FetchPlan:
    """What one Fetch request reads: its session if it has one, and whether the answer names only what changed."""

    __slots__ = ("error", "is_incremental", "session", "wanted")

    def __init__(
        self,
        wanted: list[WantedPartition],
        session: FetchSession | None = None,
        is_incremental: bool = False,
        error: ErrorCode = ErrorCode.NONE,
    ) -> None:
        self.wanted = wanted
        self.session = session
        self.is_incremental = is_incremental
        self.error = error

    @property
    def session_id(self) -> int:
        return NO_SESSION if self.session is None else self.session.session_id


class FetchSessions:
    """The cache of one broker."""

    def __init__(self, *, max_slots: int, clock: Clock, rng: random.Random) -> None:
        self._max_slots = max_slots
        self._clock = clock
        self._random = rng
        self._sessions: dict[int, FetchSession] = {}
        self._cached_partitions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def cached_partitions(self) -> int:
        return self._cached_partitions

    def plan(
        self,
        *,
        session_id: int,
        session_epoch: int,
        wanted: list[WantedPartition],
        forgotten: Iterable[TopicPartition],
        is_follower: bool,
        broker_epoch: BrokerEpoch | None = None,
    ) -> FetchPlan:
        """Resolve a request's (session id, epoch): new, incremental, or without a session.

        `broker_epoch` is the one under which the broker of a follower is registered, None where that is not known.
        """
        if session_epoch == FINAL_EPOCH:
            self._close(session_id)
            return FetchPlan(wanted)
        if session_epoch == INITIAL_EPOCH:
            self._close(session_id)
            return self._begin(wanted, is_follower=is_follower, broker_epoch=broker_epoch)
        session = self._sessions.get(session_id)
        if session is not None and session.broker_epoch != broker_epoch:
            self._close(session_id)
            session = None
        if session is None:
            return FetchPlan([], error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session_epoch != session.epoch:
            return FetchPlan([], error=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        return self._continue(session, wanted, forgotten)

    def _begin(
        self, wanted: list[WantedPartition], *, is_follower: bool, broker_epoch: BrokerEpoch | None
    ) -> FetchPlan:
        by_partition = {partition.topic_partition: partition for partition in wanted}
        if not self._make_room(len(by_partition), is_follower=is_follower):
            return FetchPlan(wanted)
        now_ms = self._clock.monotonic_ms()
        session = FetchSession(self._new_id(), is_privileged=is_follower, now_ms=now_ms, broker_epoch=broker_epoch)
        session.epoch = 1
        session.partitions = by_partition
        session.dirty = dict.fromkeys(by_partition)
        self._sessions[session.session_id] = session
        self._cached_partitions += len(by_partition)
        return FetchPlan(list(by_partition.values()), session)

    def _continue(
        self, session: FetchSession, wanted: list[WantedPartition], forgotten: Iterable[TopicPartition]
    ) -> FetchPlan:
        size = len(session.partitions)
        for partition in wanted:
            session.put(partition)
        for topic_partition in forgotten:
            session.remove(topic_partition)
        self._cached_partitions += len(session.partitions) - size
        if not session.partitions:
            self._close(session.session_id)
            return FetchPlan([])
        if not self._has_place_for(0, is_follower=session.is_privileged):
            everything = list(session.partitions.values())
            self._close(session.session_id)
            return FetchPlan(everything)
        session.epoch = 1 if session.epoch == _MAX_INT32 else session.epoch + 1
        session.last_used_ms = self._clock.monotonic_ms()
        # The session that was used last stands last.
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)
        return FetchPlan(self.dirty_of(session), session, is_incremental=True)

    @staticmethod
    def dirty_of(session: FetchSession) -> list[WantedPartition]:
        return [session.partitions[topic_partition] for topic_partition in session.dirty]

    def _new_id(self) -> int:
        while True:
            session_id = self._random.randint(1, _MAX_INT32)
            if session_id not in self._sessions:
                return session_id

    def _close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._cached_partitions -= len(session.partitions)
            session.close()

    def _make_room(self, partitions: int, *, is_follower: bool) -> bool:
        """Whether a new session of that many partitions has a place, if need be another one's."""
        if self._max_slots <= 0 or not self._has_place_for(partitions, is_follower=is_follower):
            return False
        if len(self._sessions) < self._max_slots:
            return True
        now_ms = self._clock.monotonic_ms()
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.last_used_ms > _RESTED_MS:
            self._close(oldest.session_id)
            return True

        def is_evictable(session: FetchSession) -> bool:
            is_old = now_ms - session.created_ms > _RESTED_MS
            return is_old or (is_follower and not session.is_privileged)

        def rank(session: FetchSession) -> tuple[bool, int, int]:
            return session.is_privileged, len(session.partitions), session.session_id

        victim = min(filter(is_evictable, self._sessions.values()), key=rank, default=None)
        if victim is None or (is_follower, partitions) < rank(victim)[:2]:
            return False
        self._close(victim.session_id)
        return True

    def _has_place_for(self, partitions: int, *, is_follower: bool) -> bool:
        """Whether so many more partitions may be remembered; clients make way for a follower, those at rest first."""
        if is_follower:
            for session in list(self._sessions.values()):
                if self._cached_partitions + partitions <= _MAX_CACHED_PARTITIONS:
                    break
                if not session.is_privileged:
                    self._close(session.session_id)
        return self._cached_partitions + partitions <= _MAX_CACHED_PARTITIONS
