"""The side of a fetch session (KIP-227) that fetches: a request names only what changed since the one before.

Followers and consumers are on this side. The broker that is asked remembers what it was told. A session begins with a
request that names everything (id 0, epoch 0); the answer gives it an id, and from then on each request counts its epoch
up, from 1 and after the greatest int to 1 again. Where the broker has forgotten the session, or nobody knows whether it
got the last request, the next one names everything again and closes what may be left of the old session. A broker
without room for sessions answers id 0: each request names everything then.

Whoever fetches says at any time what is wanted (`want`, `leave_out`); `next_round` takes it up. Pure.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import LeaderEpoch, TopicPartition
from barnabas.protocol.messages.fetch import FetchPartition, FetchTopic, ForgottenTopic

NO_SESSION: Final = 0
_INITIAL_EPOCH: Final = 0
_MAX_INT32: Final = 2**31 - 1


class Position(NamedTuple):
    """Where to fetch a partition, under which leader epoch, and where the own log starts (-1 for a consumer)."""

    fetch_offset: int
    log_start_offset: int
    leader_epoch: LeaderEpoch


_NOWHERE: Final = Position(-1, -1, LeaderEpoch(-1))


@dataclass(slots=True, init=False)
class FetchRound:
    """One request's part of the session."""

    session_id: int
    session_epoch: int
    named: dict[TopicPartition, Position]
    forgotten: list[TopicPartition]

    # Written out: compiled, what dataclasses would make of the fields is interpreted still.
    def __init__(
        self,
        session_id: int,
        session_epoch: int,
        named: dict[TopicPartition, Position],
        forgotten: list[TopicPartition],
    ) -> None:
        self.session_id = session_id
        self.session_epoch = session_epoch
        self.named = named
        self.forgotten = forgotten

    def topics(self, max_bytes: int) -> list[FetchTopic]:
        """What the request says of the partitions that it names; `max_bytes` is for each."""
        topics: dict[str, FetchTopic] = {}
        for (name, number), (fetch_offset, log_start_offset, leader_epoch) in self.named.items():
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = FetchTopic(name)
            topic.partitions.append(
                FetchPartition(
                    partition=number,
                    current_leader_epoch=leader_epoch,
                    fetch_offset=fetch_offset,
                    log_start_offset=log_start_offset,
                    partition_max_bytes=max_bytes,
                )
            )
        return list(topics.values())

    def forgotten_topics(self) -> list[ForgottenTopic]:
        return [ForgottenTopic(name, numbers) for name, numbers in _by_topic(self.forgotten).items()]


class FetcherSession:
    """See the module. At most one round is under way."""

    __slots__ = ("_changed", "_epoch", "_sent", "_session_id", "_wanted")

    def __init__(self) -> None:
        self._session_id = NO_SESSION
        self._epoch = _INITIAL_EPOCH
        self._wanted: dict[TopicPartition, Position] = {}
        self._sent: dict[TopicPartition, Position] = {}
        self._changed: dict[TopicPartition, None] = {}

    def __len__(self) -> int:
        """How many partitions are wanted."""
        return len(self._wanted)

    def want(self, topic_partition: TopicPartition, position: Position) -> None:
        """Fetch the partition there from the next round on."""
        if self._wanted.get(topic_partition) != position:
            self._wanted[topic_partition] = position
            self._changed[topic_partition] = None

    def leave_out(self, topic_partition: TopicPartition) -> None:
        """Do not fetch the partition from the next round on.

        What the present answer gives of it may be dropped: where it is wanted again before that round, it is named.
        """
        if self._wanted.pop(topic_partition, None) is not None:
            self._changed[topic_partition] = None
            self.name_again(topic_partition)

    def wanted(self, topic_partition: TopicPartition) -> Position | None:
        return self._wanted.get(topic_partition)

    def asked(self, topic_partition: TopicPartition) -> Position | None:
        """Where the leader believes the partition to be fetched, as far as the last round told."""
        return self._sent.get(topic_partition)

    def name_again(self, topic_partition: TopicPartition) -> None:
        """What an answer gave of the partition was dropped: only if it is named will the leader give that once more."""
        if topic_partition in self._sent:
            self._sent[topic_partition] = _NOWHERE
            self._changed[topic_partition] = None

    def next_round(self) -> FetchRound:
        """What the next request says; `on_answer` or `on_failure` ends it."""
        if self._epoch == _INITIAL_EPOCH:
            self._sent = dict(self._wanted)
            self._changed.clear()
            return FetchRound(self._session_id, _INITIAL_EPOCH, dict(self._wanted), [])
        named: dict[TopicPartition, Position] = {}
        forgotten: list[TopicPartition] = []
        for topic_partition in self._changed:
            position = self._wanted.get(topic_partition)
            if position is None:
                if self._sent.pop(topic_partition, None) is not None:
                    forgotten.append(topic_partition)
            elif self._sent.get(topic_partition) != position:
                self._sent[topic_partition] = named[topic_partition] = position
        self._changed.clear()
        return FetchRound(self._session_id, self._epoch, named, forgotten)

    def on_answer(self, error: ErrorCode, session_id: int) -> None:
        """The round was answered, with the error of the whole answer."""
        if error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._session_id, self._epoch = NO_SESSION, _INITIAL_EPOCH
        elif error is not ErrorCode.NONE:
            self._epoch = _INITIAL_EPOCH
        elif session_id == NO_SESSION:
            self._session_id, self._epoch = NO_SESSION, _INITIAL_EPOCH
        elif self._epoch == _INITIAL_EPOCH:
            self._session_id, self._epoch = session_id, 1
        elif session_id != self._session_id:
            self._epoch = _INITIAL_EPOCH
        else:
            self._epoch = 1 if self._epoch == _MAX_INT32 else self._epoch + 1

    def on_failure(self) -> None:
        """Nobody knows whether the leader got the round."""
        self._epoch = _INITIAL_EPOCH


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for name, number in partitions:
        topics.setdefault(name, []).append(number)
    return topics
