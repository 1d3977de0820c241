"""The coordinator of the small cluster: the broker's own rules of groups over a log that is a list."""

import asyncio
import itertools
from collections.abc import Callable, Hashable
from typing import Any

from barnabas.coordinator.group_coordinator import GroupCoordinator
from barnabas.coordinator.groups.settings import GroupSettings
from barnabas.coordinator.offsets.settings import OffsetSettings
from barnabas.coordinator.outcome import CoordinatorRecord, Outcome, Ticket
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages import APIS
from barnabas.protocol.messages.find_coordinator import FindCoordinatorResponse
from barnabas.protocol.messages.offset_commit import OffsetCommitResponsePartition, OffsetCommitResponseTopic

GROUP_APIS = {
    ApiKey.FIND_COORDINATOR, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP,
    ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH,
}  # fmt: skip


class SmallGroups:
    """All groups of a small cluster, at broker `node_id`; what it answers others is NOT_COORDINATOR."""

    def __init__(self) -> None:
        self.node_id = 1
        self.records: list[CoordinatorRecord] = []
        self._uuids = itertools.count()
        self._tickets = itertools.count()
        self._waiting: dict[Ticket, asyncio.Future[Any]] = {}
        self._timers: dict[Hashable, asyncio.TimerHandle] = {}
        self.machine = self._new_machine()

    def move_to(self, node_id: int) -> None:
        """Another broker coordinates from now on: it has what the log has."""
        for ticket in self.machine.unload():
            self._waiting.pop(ticket).set_result(ErrorCode.NOT_COORDINATOR)
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self.node_id = node_id
        self.machine = self._new_machine()
        for record in self.records:
            self.machine.replay(record, None)
        self._carry_out(self.machine.loaded(coordinator_epoch=1, now_ms=self._now_ms(), wall_ms=0))

    async def answer(self, asked: Any, address_of: Callable[[int], tuple[str, int]]) -> Any:
        request, version, key = asked.request, asked.header.api_version, asked.key
        if key is ApiKey.FIND_COORDINATOR:
            host, port = address_of(self.node_id)
            return FindCoordinatorResponse(node_id=self.node_id, host=host, port=port)
        if asked.node_id != self.node_id:
            return refusal(key, request, ErrorCode.NOT_COORDINATOR)
        machine, times = self.machine, {"now_ms": self._now_ms(), "wall_ms": 0}
        if key is ApiKey.HEARTBEAT:
            return refusal(key, request, machine.heartbeat(request, self._now_ms()))
        ticket = Ticket(next(self._tickets))
        answer = self._waiting[ticket] = asyncio.get_running_loop().create_future()
        match key:
            case ApiKey.JOIN_GROUP:
                client = {"client_id": asked.header.client_id or "", "client_host": "/127.0.0.1"}
                outcome = machine.join(ticket, request, version=version, **client, **times)
            case ApiKey.SYNC_GROUP:
                outcome = machine.sync(ticket, request, version=version, **times)
            case ApiKey.LEAVE_GROUP:
                outcome = machine.leave(ticket, request, version=version, **times)
            case ApiKey.OFFSET_COMMIT:
                outcome = machine.commit(ticket, request, **times)
            case _:
                outcome = machine.fetch(ticket, request)
        self._carry_out(outcome)
        response = await answer
        return refusal(key, request, response) if isinstance(response, ErrorCode) else response

    def _new_machine(self) -> GroupCoordinator:
        settings = GroupSettings(min_session_timeout_ms=1, initial_rebalance_delay_ms=20)
        return GroupCoordinator(settings, OffsetSettings(), new_uuid=lambda: f"uuid-{next(self._uuids)}")

    def _now_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)

    def _carry_out(self, outcome: Outcome) -> None:
        for record in outcome.records:
            self.records.append(record)
            self.machine.replay(record, None)
        for key, due_ms in outcome.timers:
            if (timer := self._timers.pop(key, None)) is not None:
                timer.cancel()
            if due_ms is not None:
                delay_s = max(due_ms - self._now_ms(), 0) / 1000
                self._timers[key] = asyncio.get_running_loop().call_later(delay_s, self._ring, key)
        for ticket, response in outcome.replies:
            waiting = self._waiting.pop(ticket)
            if not waiting.done():
                waiting.set_result(response)

    def _ring(self, key: Hashable) -> None:
        self._timers.pop(key, None)
        self._carry_out(self.machine.on_timer(key, now_ms=self._now_ms(), wall_ms=0))


def refusal(key: ApiKey, request: Any, error: ErrorCode) -> Any:
    """What a broker answers with one error for all of a request."""
    response = APIS[key].response()
    if key is ApiKey.OFFSET_COMMIT:
        response.topics = [
            OffsetCommitResponseTopic(
                topic.name, [OffsetCommitResponsePartition(part.partition_index, error) for part in topic.partitions]
            )
            for topic in request.topics
        ]
    else:
        response.error_code = error
    return response
