"""Produce (API key 0), versions 0 to 8: records go to the leaders of their partitions.

Behaviour: each partition of the request succeeds or fails on its own. With acks=0 nothing is answered, and an error
closes the connection, since there is no other way to tell. With acks=1 the answer leaves once the leader has the
records (and, with `flush.messages=1`, an fsync has returned); with acks=-1 once the high watermark has passed them, or
after `timeout_ms` with REQUEST_TIMED_OUT, though the records stay. The next request of the connection starts when this
one's records are appended, so answers may be waited for in parallel while order is kept.

Versions: 1 adds the throttle time, 2 timestamps (KIP-32), 3 the transactional id and record batches of format 2 only,
exactly one for each partition (KIP-98), 5 the log start offset (KIP-107), 7 zstd (KIP-110), 8 the errors of single
records (KIP-467).

A retry of a batch that is older than the five that Kafka recognises gets DUPLICATE_SEQUENCE_NUMBER, once its original
is acknowledged; Kafka 2.7 says OUT_OF_ORDER_SEQUENCE_NUMBER, and a Java producer tries the same again for ever.

Versions 0 to 2 bring messages of formats 0 and 1, which the log converts to the format that its topic is stored in;
where that is much work it is done in turns, as for a slow directory. A transactional batch without a transactional id
gets TRANSACTIONAL_ID_AUTHORIZATION_FAILED.

The batch with which a transaction begins in a partition waits for what its coordinator says of it (KIP-890, not in
Kafka 2.7): one that is late, and would open a transaction which nobody ends, gets INVALID_TXN_STATE; where the
coordinator cannot be asked the answer is NOT_ENOUGH_REPLICAS.
"""

import asyncio
import struct
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from barnabas.coordinator.transactions.requests import Producer
from barnabas.protocol.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    CURRENT_MAGIC,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    TRANSACTIONAL_BIT,
    Codec,
)
from barnabas.protocol.entries import holds_entry
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.messages import produce as messages
from barnabas.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from barnabas.runtime.completion import Completion
from barnabas.storage.append import UNKNOWN_OFFSET, AppendInfo, AppendRejected
from broker.internal_topics import INTERNAL_TOPICS
from broker.partition_access import find_partition, require_known
from broker.registry import NO_RESPONSE, CloseConnection, Handler, NoResponse, Parked
from broker.request_context import RequestContext
from broker.turns import Turns
from replication.partition import ALL_REPLICAS, Partition, PartitionRefused
from replication.transaction_guards import Guard, NotVerified

_NO_ERROR: Final = ErrorCode.NONE
_KNOWN_ACKS: Final = (1, ALL_REPLICAS, 0)
_ONE_BATCH_SINCE: Final = 3
_ZSTD_SINCE: Final = 7
_LENGTH_AT: Final = 8
_MAGIC_AT: Final = 16
_MANY: Final = 32
_MOST_QUESTIONS: Final = 3
_CANNOT_TELL: Final = ErrorCode.NOT_ENOUGH_REPLICAS
_TRANSACTIONAL_OR_CONTROL: Final = TRANSACTIONAL_BIT | CONTROL_BIT
_unpack_peek = struct.Struct(">i4xb4xh").unpack_from
_TOLD_WITHOUT_START: Final = frozenset(
    {ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.CORRUPT_MESSAGE}
)
"""Errors with which Kafka tells no log start offset; with others of an append it does."""

_ADMIN_CLIENT: Final = "__admin_client"
"""The client id with which Kafka's own tools may write to internal topics."""


class _Refused(Exception):
    """One partition's records are refused before they reach the log."""

    def __init__(self, error: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or error.name)
        self.error = error
        self.message = message


def handle(request: ProduceRequest, context: RequestContext) -> Any:
    """Append what can be appended now; the rest of the work, if there is any, is a coroutine."""
    run = _Produce(request, context)
    if _is_long(request):
        return run.append_in_turns(request)
    if run.append_now(request):
        return run.finish()
    return run.append_rest()


class _Produce:
    """One request under way. While it waits for its acknowledgement nothing of it holds the frame that it came in."""

    __slots__ = (
        "_acks",
        "_context",
        "_done",
        "_open_answers",
        "_pending",
        "_response",
        "_slow",
        "_timeout_ms",
        "_timer",
        "_topics",
        "_transactional_id",
        "_unverified",
    )

    def __init__(self, request: ProduceRequest, context: RequestContext) -> None:
        self._context = context
        self._acks = request.acks
        self._timeout_ms = request.timeout_ms
        self._transactional_id = request.transactional_id
        self._topics: list[TopicProduceResponse] = []
        self._slow: list[tuple[Partition, memoryview, PartitionProduceResponse]] = []
        self._unverified: list[tuple[Partition, Guard]] = []
        self._pending: list[tuple[Completion[None], PartitionProduceResponse]] = []
        self._response: ProduceResponse
        self._done: Completion[ProduceResponse]
        self._open_answers: int
        self._timer: asyncio.TimerHandle

    def append_now(self, request: ProduceRequest) -> bool:
        """Go through the request; False when some partitions have to wait for their directory."""
        for _ in self._append_each(request):
            pass
        return not self._slow

    async def append_in_turns(self, request: ProduceRequest) -> Any:
        """The same for a request of many partitions: other clients have their turn in between."""
        turns = Turns(self._context.broker.clock)
        for _ in self._append_each(request):
            if turns.is_due:
                await turns.let_others()
        return await self.append_rest()

    def _append_each(self, request: ProduceRequest) -> Iterator[None]:
        for topic in request.topics:
            if not topic.partitions:
                continue
            answers: list[PartitionProduceResponse] = []
            self._topics.append(TopicProduceResponse(topic.name, answers))
            for data in topic.partitions:
                self._append_one(topic.name, data, answers)
                yield

    def _append_one(self, topic: str, data: PartitionProduceData, answers: list[PartitionProduceResponse]) -> None:
        answer = PartitionProduceResponse(data.partition_index, _NO_ERROR, -1)
        answers.append(answer)
        context = self._context
        partition = context.broker.replicas.partition((topic, data.partition_index))
        try:
            if partition is None:
                require_known(context.broker, TopicPartition(topic, data.partition_index))
            # A decoded record set is a view of the request's frame.
            records = _check_format(data.records, context.version, self._transactional_id)  # type: ignore[arg-type]
            if self._acks not in _KNOWN_ACKS or topic in INTERNAL_TOPICS:
                self._check_use(topic)
            if partition is None:
                partition = find_partition(context.broker, TopicPartition(topic, data.partition_index))
            if records is None:
                return
            info = partition.try_append(records, acks=self._acks)
            if info is None:
                self._slow.append((partition, records, answer))
            else:
                self._appended(partition, info, answer)
        except NotVerified as unverified:
            assert partition is not None
            assert records is not None
            self._unverified.append((partition, unverified.guard))
            self._slow.append((partition, records, answer))
        except (_Refused, PartitionRefused) as refused:
            self._refuse(answer, partition, refused)
        except AppendRejected as rejected:
            self._reject(answer, partition, rejected)

    def _check_use(self, topic: str) -> None:
        if self._acks not in _KNOWN_ACKS:
            raise _Refused(ErrorCode.INVALID_REQUIRED_ACKS)
        if self._context.client_id != _ADMIN_CLIENT:
            raise _Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {topic}")

    async def append_rest(self) -> Any:
        """Append to the partitions whose directory was slow or busy, in the order of the request."""
        if self._unverified:
            await asyncio.gather(*(self._verify(partition, guard) for partition, guard in self._unverified))
        for partition, records, answer in self._slow:
            try:
                info = await self._append_verified(partition, records)
                self._appended(partition, info, answer)
            except PartitionRefused as refused:
                self._refuse(answer, partition, refused)
            except AppendRejected as rejected:
                self._reject(answer, partition, rejected)
        self._slow.clear()
        return self.finish()

    async def _append_verified(self, partition: Partition, records: memoryview) -> AppendInfo:
        """Append, and ask the transaction's coordinator first where that is to be asked (KIP-890)."""
        for _ in range(_MOST_QUESTIONS):
            try:
                return await partition.append(records, acks=self._acks)
            except NotVerified as unverified:
                # A marker came while the coordinator was asked, or a batch of another epoch.
                error = await self._verify(partition, unverified.guard)
                if error is not _NO_ERROR:
                    refusal = PartitionRefused(error, "the partition is not known to be part of an open transaction")
                    if error is _CANNOT_TELL:
                        partition.refuse_for_now(records, refusal)
                    raise refusal from None
        refusal = PartitionRefused(_CANNOT_TELL, "the transaction ended while its coordinator was asked")
        partition.refuse_for_now(records, refusal)
        raise refusal

    async def _verify(self, partition: Partition, guard: Guard) -> ErrorCode:
        if guard.answer is None:
            transactional_id = self._transactional_id
            assert transactional_id is not None
            producer = Producer(transactional_id, guard.producer_id, guard.producer_epoch)
            answer = await self._context.broker.coordination.verify(
                producer, partition.topic_partition, marked_epoch=guard.marked_epoch
            )
            partition.guards.answer(guard, answer)
        assert guard.answer is not None
        return guard.answer

    def _appended(self, partition: Partition, info: AppendInfo, answer: PartitionProduceResponse) -> None:
        answer.base_offset = info.first_offset
        answer.log_append_time_ms = info.log_append_time_ms
        answer.log_start_offset = info.log_start_offset
        if info.first_offset == UNKNOWN_OFFSET:
            # Clients take it for a success that does not tell the offset.
            answer.error_code = ErrorCode.DUPLICATE_SEQUENCE_NUMBER
        else:
            self._count_traffic(partition, info)
        if self._acks and (wait := partition.when_acknowledged(info, acks=self._acks)) is not None:
            self._pending.append((wait, answer))

    def _count_traffic(self, partition: Partition, info: AppendInfo) -> None:
        traffic = self._context.broker.metrics.topic(partition.topic_partition.topic)
        traffic.produce_requests += 1
        traffic.bytes_in += info.size_bytes
        traffic.messages_in += info.last_offset - info.first_offset + 1
        traffic.produce_message_conversions += info.rebuilt_records

    def _fail(self, answer: PartitionProduceResponse, error: ErrorCode, message: str | None) -> None:
        answer.error_code = error
        answer.error_message = message
        self._context.broker.metrics.count_error(messages.API.key, error)

    def _count_failure(self, partition: Partition | None) -> None:
        # Names that nobody knows are not counted: a client could think of any number of them.
        if partition is not None:
            self._context.broker.metrics.topic(partition.topic_partition.topic).failed_produce_requests += 1

    def _refuse(
        self, answer: PartitionProduceResponse, partition: Partition | None, refused: "_Refused | PartitionRefused"
    ) -> None:
        self._fail(answer, refused.error, refused.message)
        self._count_failure(partition)
        if refused.error is ErrorCode.NOT_ENOUGH_REPLICAS and partition is not None:
            answer.log_start_offset = partition.log.log_start_offset

    def _reject(self, answer: PartitionProduceResponse, partition: Partition | None, rejected: AppendRejected) -> None:
        self._fail(answer, rejected.error, str(rejected))
        self._count_failure(partition)
        if partition is not None and rejected.error not in _TOLD_WITHOUT_START:
            answer.log_start_offset = partition.log.log_start_offset
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=error.batch_index, batch_index_error_message=error.message)
            for error in rejected.record_errors
        ]

    def finish(self) -> ProduceResponse | Parked | NoResponse:
        """All is appended: answer, or park until it is acknowledged."""
        response = ProduceResponse(self._topics)
        if self._acks == 0:
            return self._finish_without_answer()
        if not self._pending:
            return response
        return Parked(self._when_acknowledged(response))

    def _finish_without_answer(self) -> NoResponse:
        failed = [
            f"{topic.name}-{partition.partition_index}: {ErrorCode(partition.error_code).name}"
            for topic in self._topics
            for partition in topic.partitions
            if partition.error_code
        ]
        if failed:
            raise CloseConnection(f"a Produce with acks=0 failed: {', '.join(failed[:5])}")
        return NO_RESPONSE

    # Methods and no functions in a function: compiled, those that name each other are a cycle, left to the collector.

    def _when_acknowledged(self, response: ProduceResponse) -> Completion[ProduceResponse]:
        loop = asyncio.get_running_loop()
        done: Completion[ProduceResponse] = Completion()
        self._response = response
        self._done = done
        self._open_answers = len(self._pending)
        self._timer = loop.call_later(max(self._timeout_ms, 0) / 1000, self._expire)
        done.add_done_callback(self._leave)
        for wait, answer in self._pending:
            wait.add_done_callback(partial(self._settle, answer))
        return done

    def _settle(self, answer: PartitionProduceResponse, wait: Completion[None]) -> None:
        if self._done.done():
            # The peer is gone.
            return
        # As in Kafka the answer keeps the offset that the records have got.
        if wait.cancelled():
            self._fail(answer, ErrorCode.REQUEST_TIMED_OUT, None)
        elif (error := wait.exception()) is not None:
            assert isinstance(error, PartitionRefused)
            self._fail(answer, error.error, error.message)
        self._open_answers -= 1
        if not self._open_answers:
            self._done.set_result(self._response)

    def _expire(self) -> None:
        for wait, _ in self._pending:
            wait.cancel()

    def _leave(self, done: Completion[ProduceResponse]) -> None:
        self._timer.cancel()
        if done.cancelled():
            # Nobody waits any more: what is told of it later needs nothing of this request.
            self._expire()


def _is_long(request: ProduceRequest) -> bool:
    """Whether going through all of its partitions could hold other clients up."""
    count = len(request.topics)
    for topic in request.topics:
        count += len(topic.partitions)
    return count > _MANY


def _check_format(records: memoryview | None, version: int, transactional_id: str | None) -> memoryview | None:
    """The records to append, if there are any. Versions 3 and later have exactly one batch of format 2 (KIP-98)."""
    if version < _ONE_BATCH_SINCE:
        return _check_message_set(records)
    if records is None or len(records) < HEADER_BYTES:
        raise _Refused(
            ErrorCode.INVALID_RECORD, f"Produce requests with version {version} must have at least one record batch"
        )
    length, magic, attributes = _unpack_peek(records, _LENGTH_AT)
    if magic != CURRENT_MAGIC:
        raise _Refused(
            ErrorCode.INVALID_RECORD,
            f"Produce requests with version {version} are only allowed to contain record batches with magic version 2",
        )
    if version < _ZSTD_SINCE and attributes & CODEC_MASK == Codec.ZSTD:
        raise _Refused(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"Produce requests with version {version} are not allowed to use ZStandard compression",
        )
    if -LOG_OVERHEAD_BYTES < length < len(records) - LOG_OVERHEAD_BYTES:
        raise _Refused(
            ErrorCode.INVALID_RECORD,
            f"Produce requests with version {version} are only allowed to contain exactly one record batch",
        )
    if transactional_id is None and attributes & _TRANSACTIONAL_OR_CONTROL == TRANSACTIONAL_BIT:
        raise _no_transactional_id()
    return records


def _check_message_set(records: memoryview | None) -> memoryview | None:
    """The same for versions before 3, which may have any number of messages of any format."""
    if not records:
        return None
    if not holds_entry(records):
        # An error that clients of that time know.
        raise _Refused(ErrorCode.CORRUPT_MESSAGE, "there is no whole message")
    if records[_MAGIC_AT] == CURRENT_MAGIC and len(records) >= HEADER_BYTES:
        length, _, attributes = _unpack_peek(records, _LENGTH_AT)
        if holds_entry(records[LOG_OVERHEAD_BYTES + length :]):
            raise _Refused(ErrorCode.INVALID_RECORD, "there is more than one batch")
        if attributes & _TRANSACTIONAL_OR_CONTROL == TRANSACTIONAL_BIT:
            raise _no_transactional_id()
    return records


def _no_transactional_id() -> _Refused:
    return _Refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


API: Final[Handler] = Handler(messages.API, handle, oldest=0, newest=8)
