"""The transactions of one producer (KIP-98): its id and epoch, the partitions it wrote to, and how each one ends.

    FRESH -> READY -> OPEN -> COMMITTING -> READY
                           -> ABORTING   -> READY
             OPEN -> ABORT_ONLY -> ABORTING             something was lost, or the coordinator lost sight of us
             OPEN -> PREPARED                           all is written, and somebody else ends it
             any  -> ENDED                              another producer has this transactional id, or none may

A commit or an abort whose answer was lost may be asked for again: the coordinator knows what it decided. After an abort
that left gaps in a partition's sequences the producer gets a new epoch (KIP-360), as it does where the coordinator said
that its epoch is not valid; if that was another producer's doing, it is told there.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import Enum, auto
from typing import Any, Final, TypeVar

from barnabas.client.cluster import Cluster
from barnabas.client.coordinators import CoordinatorKind, Coordinators, GroupMetadata, OffsetAndMetadata
from barnabas.client.errors import (
    ClientError,
    KafkaError,
    ProducerFenced,
    RequestTimedOut,
    TransactionFailed,
    WrongTransactionState,
    error_code,
)
from barnabas.client.outgoing import Identity
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
    init_producer_id,
    txn_offset_commit,
)
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from barnabas.protocol.schema import Api

log = logging.getLogger(__name__)

T = TypeVar("T")

_CONCURRENT_PAUSE_S: Final = 0.02
_KEEPS_IDENTITY_SINCE: Final = 3

_FENCED: Final = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
_LOST: Final = frozenset({ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.UNKNOWN_PRODUCER_ID})
"""The coordinator or a broker has forgotten us: the transaction is gone, a new epoch mends it."""


class TransactionState(Enum):
    """See the module."""

    FRESH = auto()
    READY = auto()
    OPEN = auto()
    ABORT_ONLY = auto()
    COMMITTING = auto()
    ABORTING = auto()
    PREPARED = auto()
    ENDED = auto()


class Transactions:
    """See the module. `on_partitions_added` is called when partitions that were wanted may be written to."""

    def __init__(
        self,
        cluster: Cluster,
        transactional_id: str,
        *,
        timeout_ms: int,
        on_partitions_added: Callable[[], None],
        on_failed: Callable[[ClientError], None],
    ) -> None:
        self.state = TransactionState.FRESH
        self.cause: ClientError | None = None
        self.needs_epoch = False
        self._cluster = cluster
        self._coordinators = Coordinators(cluster)
        self.transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._on_partitions_added = on_partitions_added
        self._on_failed = on_failed
        self._identity: Identity | None = None
        self._added: set[TopicPartition] = set()
        self._wanted: set[TopicPartition] = set()
        self._has_asked_for_offsets = False
        self._is_begun = False
        """Whether the coordinator has said that the transaction is open."""
        self._adding: asyncio.Task[None] | None = None

    # What the sender asks.

    @property
    def identity(self) -> Identity:
        assert self._identity is not None, "nothing is sent before initialise()"
        return self._identity

    @property
    def failure(self) -> ClientError | None:
        """Why it can only be aborted, if it can."""
        return self.cause if self.state is TransactionState.ABORT_ONLY else None

    def may_write(self, topic_partition: TopicPartition) -> bool:
        if topic_partition in self._added:
            return True
        self._wanted.add(topic_partition)
        if self._adding is None and self.state is TransactionState.OPEN:
            self._adding = asyncio.get_running_loop().create_task(self._add_wanted())
        return False

    def on_record_lost(self, error: ClientError) -> None:
        self.fail(error)

    def fail(self, error: ClientError) -> None:
        """The open transaction cannot be committed any more."""
        if self.state in (TransactionState.OPEN, TransactionState.COMMITTING):
            self.state, self.cause = TransactionState.ABORT_ONLY, error
            self.needs_epoch = True
            self._on_failed(error)
        elif self.state is TransactionState.ABORTING:
            # What was asked for and not answered may come late: in an epoch that is over it does nothing.
            self.needs_epoch = True

    # What the program asks.

    def check_open(self) -> None:
        """Raises what keeps records from being part of a transaction now."""
        if self.state is not TransactionState.OPEN:
            raise self.refusal("begin_transaction() comes first")

    def refusal(self, advice: str) -> ClientError:
        if self.cause is not None and self.state is TransactionState.ENDED:
            return self.cause
        if self.cause is not None and self.state is TransactionState.ABORT_ONLY:
            return TransactionFailed(f"the transaction can only be aborted: {self.cause}", self.cause)
        return WrongTransactionState(f"transactional id {self.transactional_id}: {self.state.name.lower()}: {advice}")

    async def initialise(self) -> Identity:
        """Take the transactional id over: older producers with it are fenced, what they left open is aborted."""
        if self.state is not TransactionState.FRESH:
            raise self.refusal("it is initialised once")
        identity = await self._init_producer_id(None)
        self._identity = identity
        self.state = TransactionState.READY
        return identity

    def begin(self) -> None:
        if self.state is not TransactionState.READY:
            raise self.refusal("it cannot begin now")
        self.state = TransactionState.OPEN

    async def add_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata) -> None:
        """Let the offsets count for the group if the transaction commits."""
        self.check_open()
        producer_id, epoch = self.identity
        joining = AddOffsetsToTxnRequest(self.transactional_id, producer_id, epoch, group.group_id)
        self._has_asked_for_offsets = True
        try:
            await self._call(add_offsets_to_txn.API, joining, lambda response: [response.error_code])
            self._is_begun = True
            await self._commit_offsets(offsets, group)
        except ProducerFenced:
            raise
        except ClientError as error:
            self.fail(error)
            raise self.refusal("") from error

    async def end(self, *, commit: bool) -> None:
        """Commit or abort; nothing may be under way. Raises RequestTimedOut where it is not known: ask again."""
        wanted = TransactionState.COMMITTING if commit else TransactionState.ABORTING
        if self.state is not wanted:
            possible = (TransactionState.OPEN,) if commit else (TransactionState.OPEN, TransactionState.ABORT_ONLY)
            if self.state not in possible:
                raise self.refusal("there is nothing to end")
            self.state = wanted
        if self._adding is not None:
            await asyncio.wait([self._adding])
        if self._added or self._wanted or self._has_asked_for_offsets:
            await self._end_at_coordinator(commit=commit)
        if self.needs_epoch:
            self._identity = await self._init_producer_id(self._identity)
        self._reset()

    def prepare(self) -> Identity:
        """Leave the transaction to whoever gets this identity; nothing may be under way."""
        self.check_open()
        if not self._is_begun:
            raise self.refusal("nothing was written, so there is nothing to prepare")
        self.state = TransactionState.PREPARED
        return self.identity

    async def complete(self, identity: Identity, *, commit: bool) -> None:
        """End what the producer with this identity prepared. Raises as `end` does."""
        assert self.state is TransactionState.FRESH
        self._identity, self._is_begun = identity, True
        self.state = TransactionState.COMMITTING if commit else TransactionState.ABORTING
        await self._end_at_coordinator(commit=commit)

    async def _end_at_coordinator(self, *, commit: bool) -> None:
        try:
            request = EndTxnRequest(self.transactional_id, *self.identity, commit)
            await self._call(end_txn.API, request, lambda response: [response.error_code])
        except KafkaError as error:
            if error.error is ErrorCode.INVALID_TXN_STATE and not commit and not self._is_begun:
                # What was to begin it was refused, or never got there: nothing is open.
                return
            if error.error not in _LOST:
                self._end_all(error)
                raise
            if commit:
                self.fail(error)
                raise self.refusal("") from error
            self.needs_epoch = True

    def _reset(self) -> None:
        self.state, self.cause, self.needs_epoch = TransactionState.READY, None, False
        self._added.clear()
        self._wanted.clear()
        self._has_asked_for_offsets = self._is_begun = False

    async def close(self) -> None:
        if self._adding is not None:
            self._adding.cancel()
            await asyncio.gather(self._adding, return_exceptions=True)

    # Asking the coordinators.

    async def _init_producer_id(self, present: Identity | None) -> Identity:
        producer_id, epoch = present or (-1, -1)
        least = 0 if present is None else _KEEPS_IDENTITY_SINCE
        request = InitProducerIdRequest(self.transactional_id, self._timeout_ms, producer_id, epoch)
        api = init_producer_id.API
        response = await self._call(api, request, lambda answer: [answer.error_code], least=least)
        return Identity(response.producer_id, response.producer_epoch)

    async def _add_wanted(self) -> None:
        """Make the wanted partitions part of the transaction, all that came together in one request."""
        try:
            # Others that are wanted in this turn of the loop go along.
            await asyncio.sleep(0)
            while self._wanted and self.state is TransactionState.OPEN:
                wanted = set(self._wanted)
                await self._add_partitions(wanted)
                self._is_begun = True
                self._wanted -= wanted
                self._added |= wanted
                self._on_partitions_added()
        except ClientError as error:
            self.fail(error)
        finally:
            self._adding = None

    async def _add_partitions(self, wanted: Iterable[TopicPartition]) -> None:
        topics: dict[str, AddPartitionsToTxnTopic] = {}
        for name, number in sorted(wanted):
            topics.setdefault(name, AddPartitionsToTxnTopic(name)).partitions.append(number)
        request = AddPartitionsToTxnRequest(self.transactional_id, *self.identity, list(topics.values()))

        def codes(response: Any) -> list[int]:
            every = [each.error_code for topic in response.results for each in topic.results]
            # Of a request that failed for some partitions, the others were not looked at.
            return [code for code in every if code not in (0, ErrorCode.OPERATION_NOT_ATTEMPTED)] or every

        await self._call(add_partitions_to_txn.API, request, codes)

    async def _commit_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata) -> None:
        topics: dict[str, TxnOffsetCommitRequestTopic] = {}
        for (name, number), (offset, leader_epoch, note) in offsets.items():
            partition = TxnOffsetCommitRequestPartition(number, offset, leader_epoch, note)
            topics.setdefault(name, TxnOffsetCommitRequestTopic(name)).partitions.append(partition)
        request = TxnOffsetCommitRequest(
            self.transactional_id,
            group.group_id,
            *self.identity,
            generation_id=group.generation_id,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=list(topics.values()),
        )

        def codes(response: Any) -> list[int]:
            return [each.error_code for topic in response.topics for each in topic.partitions]

        least = 0 if group.generation_id < 0 and not group.member_id else 3
        key = (CoordinatorKind.GROUP, group.group_id)
        await self._call(txn_offset_commit.API, request, codes, least=least, key=key)

    async def _call(
        self,
        api: Api,
        request: object,
        codes: Callable[[Any], list[int]],
        *,
        least: int = 0,
        key: tuple[CoordinatorKind, str] | None = None,
    ) -> Any:
        """Ask a coordinator until it says yes. Raises KafkaError, ProducerFenced or RequestTimedOut."""
        kind, name = key or (CoordinatorKind.TRANSACTION, self.transactional_id)

        async def attempt() -> Any:
            try:
                response = await self._coordinators.ask(kind, name, api, request, codes=codes, least=least)
            except KafkaError:
                raise
            except (ClientError, asyncio.CancelledError):
                # It may come there yet, after whatever is asked next. Of an epoch that is over it is refused (KIP-890).
                self.needs_epoch = True
                raise
            found = next((code for code in codes(response) if code), 0)
            if found:
                raise _refusal(error_code(found), f"{api.key.name} of transactional id {self.transactional_id}")
            return response

        try:
            return await self._patiently(attempt)
        except KafkaError as error:
            if error.error in _FENCED:
                fenced = ProducerFenced(f"another producer has the transactional id {self.transactional_id}: {error}")
                self._end_all(fenced)
                raise fenced from error
            raise

    async def _patiently(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """As `Cluster.patiently`, but what completes within milliseconds is asked for again after some."""
        last: ClientError | None = None

        async def hurried() -> T:
            nonlocal last
            while True:
                try:
                    return await attempt()
                except _Completing as error:
                    last = error
                    await asyncio.sleep(_CONCURRENT_PAUSE_S)
                except ClientError as error:
                    last = error
                    raise

        timeout_ms = self._cluster.options.timeout_ms
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await self._cluster.patiently(hurried)
        except TimeoutError:
            told = f"transactional id {self.transactional_id}: gave up after {timeout_ms} ms"
            raise RequestTimedOut(f"{told}: {last}" if last else told) from None

    def _end_all(self, error: ClientError) -> None:
        self.state, self.cause = TransactionState.ENDED, error
        self._on_failed(error)


class _Completing(KafkaError):
    """CONCURRENT_TRANSACTIONS: the transaction before is not complete yet."""


def _refusal(error: ErrorCode, context: str) -> KafkaError:
    if error is ErrorCode.CONCURRENT_TRANSACTIONS:
        return _Completing(error, context=context)
    return KafkaError(error, context=context)
