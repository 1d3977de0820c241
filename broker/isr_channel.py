"""The way of this broker's proposals to the controller: AlterPartition (API 56, KIP-497), in batches.

One request is under way at a time, with one item for a partition; who proposes meanwhile goes with the next. A request
waits a little for company. It is tried until the controller answers, whoever that is by then; an answer that says
nothing definite of a partition counts as none.

A request of which nothing was heard may be obeyed late. Until its time is over the answers to the same proposal say so
(`IsrAnswer.may_still_apply`).
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerEpoch, BrokerId, TopicPartition
from barnabas.runtime.clock import Clock
from broker.metadata_view import MetadataView
from controller.commands import MAX_PARTITIONS_PER_COMMAND, AlterPartition, AlterPartitionItem, AlterPartitionOutcome
from controller.control_plane import ControllerUnreachable, ControlPlane
from replication.isr import IsrAnswer, IsrProposal, OnAnswer

log = logging.getLogger(__name__)

LINGER_MS: Final = 50
RETRY_MS: Final = 100
TIMEOUT_MS: Final = 5_000
_NEVER: Final = -1

_DEFINITE: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INELIGIBLE_REPLICA,
    }
)
"""What the controller says of a partition; anything else is said of the moment, and the proposal is sent again."""


class _Waiting:
    """One proposal that has no answer yet."""

    __slots__ = ("lost_until_ms", "on_answer", "proposal")

    def __init__(self, proposal: IsrProposal, on_answer: OnAnswer, *, lost_until_ms: int) -> None:
        self.proposal = proposal
        self.on_answer = on_answer
        self.lost_until_ms = lost_until_ms


class AlterPartitionChannel:
    """Implements `replication.isr.IsrChannel`; runs one task while there is something to send."""

    def __init__(
        self,
        broker_id: BrokerId,
        *,
        broker_epoch: Callable[[], BrokerEpoch],
        metadata: MetadataView,
        control_plane: ControlPlane,
        clock: Clock,
        spawn: Callable[..., "asyncio.Task[None]"],
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._metadata = metadata
        self._control_plane = control_plane
        self._clock = clock
        self._spawn = spawn
        self._waiting: dict[TopicPartition, _Waiting] = {}
        self._lost: dict[TopicPartition, _Waiting] = {}
        """Answered proposals of which an attempt could be obeyed yet: the same may be proposed again."""
        self._task: asyncio.Task[None] | None = None

    def propose(self, topic_partition: TopicPartition, proposal: IsrProposal, on_answer: OnAnswer) -> None:
        known = self._waiting.get(topic_partition) or self._lost.pop(topic_partition, None)
        lost_until_ms = known.lost_until_ms if known is not None and known.proposal is proposal else _NEVER
        self._waiting[topic_partition] = _Waiting(proposal, on_answer, lost_until_ms=lost_until_ms)
        if self._task is None:
            self._task = self._spawn(self._run(), name="AlterPartition")

    def withdraw(self, topic_partition: TopicPartition) -> None:
        self._waiting.pop(topic_partition, None)
        self._lost.pop(topic_partition, None)

    def stop(self) -> None:
        """Send nothing more; no answer is heard from now on."""
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        try:
            await asyncio.sleep(LINGER_MS / 1000)
            while self._waiting:
                batch = dict(list(self._waiting.items())[:MAX_PARTITIONS_PER_COMMAND])
                await asyncio.sleep((LINGER_MS if await self._send(batch) else RETRY_MS) / 1000)
        finally:
            self._task = None

    async def _send(self, batch: dict[TopicPartition, _Waiting]) -> bool:
        """Send once; whether the controller has answered."""
        endpoint = self._controller_endpoint()
        if endpoint is None:
            return False
        request = AlterPartition(
            self._broker_id,
            self._broker_epoch(),
            [
                AlterPartitionItem(
                    topic_partition.topic,
                    topic_partition.partition,
                    waiting.proposal.leader_epoch,
                    waiting.proposal.new_isr,
                    waiting.proposal.zk_version,
                    waiting.proposal.joiner_epoch,
                )
                for topic_partition, waiting in batch.items()
            ],
        )
        started_ms = self._clock.monotonic_ms()
        try:
            result = await self._control_plane.call(endpoint, request, timeout_ms=TIMEOUT_MS)
        except ControllerUnreachable as error:
            log.info("AlterPartition of %d partitions is unanswered, and sent again: %s", len(batch), error)
            for waiting in batch.values():
                waiting.lost_until_ms = started_ms + TIMEOUT_MS
            return False
        if result.error_code is not ErrorCode.NONE:
            log.info("AlterPartition of %d partitions is sent again: %s", len(batch), result.error_code.name)
            return False
        for topic_partition, waiting in batch.items():
            outcome = result.partitions.get(topic_partition)
            if outcome is not None and outcome.error_code in _DEFINITE:
                self._answer(topic_partition, waiting, outcome)
        return not any(self._waiting.get(topic_partition) is waiting for topic_partition, waiting in batch.items())

    def _answer(self, topic_partition: TopicPartition, waiting: _Waiting, outcome: AlterPartitionOutcome) -> None:
        if self._waiting.get(topic_partition) is not waiting:
            # Something else was proposed meanwhile, or this broker leads no longer.
            return
        del self._waiting[topic_partition]
        may_still_apply = self._clock.monotonic_ms() < waiting.lost_until_ms
        if may_still_apply:
            self._lost[topic_partition] = waiting
        waiting.on_answer(
            IsrAnswer(
                outcome.error_code,
                outcome.leader_epoch,
                outcome.isr,
                outcome.zk_version,
                may_still_apply=may_still_apply,
            )
        )

    def _controller_endpoint(self) -> str | None:
        controller = self._metadata.brokers.get(self._metadata.controller_id)
        return None if controller is None else controller.control_endpoint
