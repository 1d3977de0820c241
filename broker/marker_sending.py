"""Carries the ends of transactions to the leaders of their partitions: WriteTxnMarkers (API 27), in batches.

Begun by the coordinator's `SendMarkers` once the decision is committed, and done when each partition has the marker or
is gone; each is reported to the machine that decided, once. A machine that is gone is not worked for any longer: the
next one begins anew, as it alone knows what became of the transaction.

What a leader answers decides what follows (`outcome_of`). Nothing but the answer of a later epoch ends the work on a
marker: an error that is not expected is tried again, as a transaction that is never completed blocks its readers for
good (KAFKA-9749). A partition counts as gone when ZooKeeper does not know it; what the controller has told of the
cluster may not be all yet.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final

from barnabas.client.errors import ClientError
from barnabas.coordinator.effect import Effect
from barnabas.coordinator.shard import Shard
from barnabas.coordinator.transactions.effects import SendMarkers
from barnabas.coordinator.transactions.transaction_coordinator import TransactionCoordinator
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import NO_LEADER, BrokerId, TopicPartition
from barnabas.protocol.messages import write_txn_markers
from barnabas.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from broker.broker_line import BrokerLine
from broker.fetching import BrokerReach
from broker.metadata_view import MetadataView
from zk_schema import paths
from zk_schema.json_text import InvalidPayload
from zk_schema.ops import ZooKeeperError
from zk_schema.payloads import TopicAssignment
from zk_schema.port import ZooKeeper

log = logging.getLogger(__name__)

RETRY_MS: Final = 50
_LONGEST_RETRY_MS: Final = 1_000
_MARKERS_PER_REQUEST: Final = 1_000
_REQUESTS_PER_BROKER: Final = 5
_REQUEST_TIMEOUT_MS: Final = 30_000

WriteOwn = Callable[[WriteTxnMarkersRequest], Awaitable[WriteTxnMarkersResponse]]
"""What this broker does with a request of its own: it comes by no network."""


class MarkerOutcome(Enum):
    """What a leader's answer means for a marker."""

    WRITTEN = auto()
    AGAIN = auto()
    OVER = auto()
    """A later epoch of the producer or of its coordinator has decided: this one has nothing to say any more."""


_WRITTEN: Final = frozenset(
    {
        ErrorCode.NONE,
        # No transaction can have written to a log of an old format.
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
_OVER: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})


def outcome_of(error: ErrorCode) -> MarkerOutcome:
    """What follows from a leader's answer for one partition."""
    if error in _WRITTEN:
        return MarkerOutcome.WRITTEN
    return MarkerOutcome.OVER if error in _OVER else MarkerOutcome.AGAIN


@dataclass(eq=False, slots=True)
class _Decision:
    """A transaction's end that is being carried out for the machine that decided it."""

    shard: Shard[TransactionCoordinator]
    machine: TransactionCoordinator
    markers: SendMarkers
    failures: int = 0
    is_over: bool = False

    @property
    def is_wanted(self) -> bool:
        return not self.is_over and self.shard.machine is self.machine


@dataclass(eq=False, slots=True)
class _Lane:
    """What one broker is to write, and how it is reached."""

    line: BrokerLine
    waiting: dict[_Decision, set[TopicPartition]] = field(default_factory=dict)
    requests: int = 0


class MarkerSending:
    """See the module. `carry_out` is what a broker's `Coordination` calls."""

    def __init__(
        self,
        broker_id: BrokerId,
        *,
        metadata: MetadataView,
        zk: ZooKeeper,
        reach: BrokerReach,
        write_own: WriteOwn,
        spawn: Callable[..., "asyncio.Task[Any]"],
    ) -> None:
        self._broker_id = broker_id
        self._metadata = metadata
        self._zk = zk
        self._reach = reach
        self._write_own = write_own
        self._spawn = spawn
        self._lanes: dict[BrokerId, _Lane] = {}

    def carry_out(self, shard: Shard[Any], effect: Effect) -> None:
        """Begin to write the markers that a transaction coordinator wants."""
        assert isinstance(effect, SendMarkers), effect
        machine = shard.machine
        if isinstance(machine, TransactionCoordinator):
            self._assign(_Decision(shard, machine, effect), effect.partitions)

    # Who is to write it.

    def _assign(self, decision: _Decision, partitions: Iterable[TopicPartition]) -> None:
        """Have the leaders of `partitions` write the marker; where there is none, look again later."""
        if not decision.is_wanted:
            return
        unknown: set[TopicPartition] = set()
        leaderless: set[TopicPartition] = set()
        # In an order that is the same in every process: a simulated run can be repeated.
        for partition in sorted(partitions):
            known = self._metadata.partition(partition)
            if known is None:
                unknown.add(partition)
            elif known.leader == NO_LEADER or known.leader not in self._metadata.brokers:
                leaderless.add(partition)
            else:
                lane = self._lane(known.leader)
                lane.waiting.setdefault(decision, set()).add(partition)
                self._begin_request(lane)
        if unknown or leaderless:
            self._spawn(self._look_again(decision, unknown, leaderless), name="markers without a leader")

    async def _look_again(
        self, decision: _Decision, unknown: set[TopicPartition], leaderless: set[TopicPartition]
    ) -> None:
        gone = await self._gone_of(unknown) if unknown else set()
        if gone:
            self._report(decision, gone)
        if left := (unknown | leaderless) - gone:
            await self._pause(decision)
            self._assign(decision, left)

    async def _gone_of(self, partitions: set[TopicPartition]) -> set[TopicPartition]:
        """Those that ZooKeeper does not know: they were deleted, and nobody waits for their marker."""
        gone = set()
        for topic in sorted({partition.topic for partition in partitions}):
            try:
                found = await self._zk.get(paths.topic(topic))
                there = {} if found is None else TopicAssignment.decode(found.data).partitions
            except ZooKeeperError as error:
                log.warning("it cannot be asked whether topic %s is there: %s", topic, error)
                continue
            except InvalidPayload as error:
                log.error("what ZooKeeper has of topic %s cannot be read: %s", topic, error)
                continue
            gone |= {each for each in partitions if each.topic == topic and each.partition not in there}
        return gone

    async def _pause(self, decision: _Decision) -> None:
        decision.failures += 1
        await asyncio.sleep(min(RETRY_MS << min(decision.failures - 1, 8), _LONGEST_RETRY_MS) / 1000)

    def _report(self, decision: _Decision, done: set[TopicPartition]) -> None:
        decision.shard.tell(
            lambda machine, now_ms, wall_ms: machine.markers_written(
                decision.markers, done, now_ms=now_ms, wall_ms=wall_ms
            ),
            of=decision.machine,
        )

    # Sending.

    def _begin_request(self, lane: _Lane) -> None:
        if lane.requests < _REQUESTS_PER_BROKER:
            lane.requests += 1
            self._spawn(self._send_all(lane), name=f"markers for broker {lane.line.broker_id}")

    async def _send_all(self, lane: _Lane) -> None:
        """Send what waits for a broker, a request at a time; a few of these run at once."""
        try:
            while batch := self._next_batch(lane):
                await self._send(lane, batch)
        finally:
            lane.requests -= 1

    def _next_batch(self, lane: _Lane) -> dict[_Decision, set[TopicPartition]]:
        """What goes next. The answer names producers, so that each is in a request once."""
        batch: dict[_Decision, set[TopicPartition]] = {}
        producers: set[int] = set()
        for decision in [*lane.waiting]:
            if not decision.is_wanted:
                del lane.waiting[decision]
            elif decision.markers.producer_id not in producers:
                producers.add(decision.markers.producer_id)
                batch[decision] = lane.waiting.pop(decision)
                if len(batch) == _MARKERS_PER_REQUEST:
                    break
        return batch

    async def _send(self, lane: _Lane, batch: dict[_Decision, set[TopicPartition]]) -> None:
        request = WriteTxnMarkersRequest(
            markers=[_marker(decision.markers, partitions) for decision, partitions in batch.items()]
        )
        try:
            response = await self._exchange(lane, request)
        except ClientError as error:
            log.warning("markers of %d transactions cannot go to broker %d: %s", len(batch), lane.line.broker_id, error)
            for decision, partitions in batch.items():
                self._spawn(self._look_again(decision, set(), partitions), name="markers that were not sent")
            return
        errors = {
            (marker.producer_id, TopicPartition(topic.name, each.partition_index)): _error(each.error_code)
            for marker in response.markers
            for topic in marker.topics
            for each in topic.partitions
        }
        for decision, partitions in batch.items():
            producer_id = decision.markers.producer_id
            self._take_answer(
                decision,
                # A partition that the answer leaves out has no marker for all we know.
                {each: errors.get((producer_id, each), ErrorCode.UNKNOWN_SERVER_ERROR) for each in partitions},
                lane,
            )

    async def _exchange(self, lane: _Lane, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        if lane.line.broker_id == self._broker_id:
            return await self._write_own(request)
        connection = await lane.line.connected()
        response = await connection.request(write_txn_markers.API, request, timeout_ms=_REQUEST_TIMEOUT_MS)
        assert isinstance(response, WriteTxnMarkersResponse)
        return response

    def _take_answer(self, decision: _Decision, errors: dict[TopicPartition, ErrorCode], lane: _Lane) -> None:
        outcomes = {partition: outcome_of(error) for partition, error in errors.items()}
        markers = decision.markers
        if over := [each for each, outcome in outcomes.items() if outcome is MarkerOutcome.OVER]:
            decision.is_over = True
            log.warning(
                "%s: the end of the transaction of producer %d, epoch %d, is not written to %s, nor to others: %s",
                markers.transactional_id,
                markers.producer_id,
                markers.producer_epoch,
                over[0],
                errors[over[0]].name,
            )
            return
        if written := {each for each, outcome in outcomes.items() if outcome is MarkerOutcome.WRITTEN}:
            self._report(decision, written)
        if left := errors.keys() - written:
            level = logging.DEBUG if decision.failures < 3 else logging.INFO
            first = min(left)
            log.log(
                level,
                "%s: broker %d has not written the end of the transaction to %d partitions (%s: %s), again",
                markers.transactional_id,
                lane.line.broker_id,
                len(left),
                first,
                errors[first].name,
            )
            self._spawn(self._look_again(decision, set(), set(left)), name="markers to be sent again")

    def _lane(self, broker_id: BrokerId) -> _Lane:
        lane = self._lanes.get(broker_id)
        if lane is None:
            client_id = f"broker-{self._broker_id}-markers"
            line = BrokerLine(broker_id, self._reach, client_id=client_id, spawn=self._spawn)
            lane = self._lanes[broker_id] = _Lane(line)
        return lane


def _error(number: int) -> ErrorCode:
    """What a broker answered; one of a later version may say what is not known here."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def _marker(markers: SendMarkers, partitions: Iterable[TopicPartition]) -> WritableTxnMarker:
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        topics.setdefault(topic, []).append(number)
    return WritableTxnMarker(
        producer_id=markers.producer_id,
        producer_epoch=markers.producer_epoch,
        transaction_result=markers.commit,
        coordinator_epoch=markers.coordinator_epoch,
        topics=[WritableTxnMarkerTopic(name, numbers) for name, numbers in topics.items()],
    )
