"""Fetch sessions (KIP-227) for SmallCluster: an answer names only what has something that was not told before.

As strict as a broker may be: what was told once is not told again before the partition is named again or changes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.messages.fetch import (
    FetchablePartitionResponse,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
)

Wanted = dict[TopicPartition, FetchPartition]


@dataclass
class Session:
    """What one client is believed to want, and what it was told: of a partition, anything that compares."""

    epoch: int
    wanted: Wanted
    told: dict[TopicPartition, Any] = field(default_factory=dict)


@dataclass
class Plan:
    """What a request wants; `session_id` is 0 without a session."""

    wanted: Wanted
    session_id: int = 0
    session: Session | None = None
    is_incremental: bool = False
    error: ErrorCode = ErrorCode.NONE

    def response(
        self, answers: Sequence[tuple[str, FetchablePartitionResponse]], state_of: Callable[[TopicPartition], Any]
    ) -> FetchResponse:
        topics: list[FetchableTopicResponse] = []
        for name, answer in answers:
            each = TopicPartition(name, answer.partition)
            news = (state_of(each), answer.error_code)
            if self.session is not None:
                if self.is_incremental and self.session.told.get(each) == news:
                    continue
                if answer.record_set or answer.error_code:
                    self.session.told[each] = news
            topics.append(FetchableTopicResponse(name, [answer]))
        return FetchResponse(session_id=self.session_id, responses=topics)


class SmallFetchSessions:
    """The sessions of one broker; without `slots` there are none."""

    def __init__(self) -> None:
        self.slots = 100
        self.sessions: dict[int, Session] = {}
        self._next_id = 1

    def plan(self, request: FetchRequest) -> Plan:
        named = {TopicPartition(t.topic, part.partition): part for t in request.topics for part in t.partitions}
        if request.session_epoch <= 0:
            self.sessions.pop(request.session_id, None)
            if request.session_epoch < 0 or len(self.sessions) >= self.slots:
                return Plan(named)
            session_id, self._next_id = self._next_id, self._next_id + 1
            session = self.sessions[session_id] = Session(1, named)
            return Plan(named, session_id, session)
        found = self.sessions.get(request.session_id)
        if found is None:
            return Plan({}, error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if found.epoch != request.session_epoch:
            return Plan({}, error=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        found.epoch += 1
        for each, part in named.items():
            # What is named anew stands behind the others.
            found.wanted.pop(each, None)
            found.wanted[each] = part
            found.told.pop(each, None)
        for topic in request.forgotten_topics_data:
            for partition in topic.partitions:
                del found.wanted[TopicPartition(topic.topic, partition)]
                found.told.pop(TopicPartition(topic.topic, partition), None)
        return Plan(dict(found.wanted), request.session_id, found, is_incremental=True)
