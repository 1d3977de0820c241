"""A member of a group: joins, divides partitions where it leads, keeps alive, joins again, leaves.

One task does it in turn: join and sync until there is an assignment, then heartbeats until something asks for another
one. Whatever waits for the member's owner (who finishes what it works on and commits before partitions go) waits beside
heartbeats, so that a slow owner is not thrown out before `max_poll_interval_ms`. Static members (KIP-345) do not leave;
a new member that is told its id first (KIP-394) comes back with it at once.
"""

import asyncio
import logging
from collections.abc import Coroutine, Hashable, Sequence
from typing import Any, Final, Protocol

from barnabas.client.cluster import Cluster
from barnabas.client.consumer_options import ConsumerOptions
from barnabas.client.coordinators import CoordinatorKind, Coordinators, GroupMetadata
from barnabas.client.errors import ClientError, KafkaError, ProtocolViolation, error_code
from barnabas.client.group_protocol import (
    NO_GENERATION,
    PROTOCOL_TYPE,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    wanted_topics,
)
from barnabas.client.membership_rules import Verdict, change_between, judge, to_revoke_before_joining
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.messages import heartbeat, join_group, leave_group, sync_group
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from barnabas.protocol.messages.leave_group import LeaveGroupRequest
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from barnabas.protocol.primitives import WireError
from barnabas.protocol.schema import Api

log = logging.getLogger(__name__)

_PAUSE_S: Final = 0.1
_JOIN_MARGIN_MS: Final = 5_000
_JOIN_STATIC_SINCE: Final = 5
_STATIC_SINCE: Final = 3
_LEAVE_ALONE: Final = 2


class Owner(Protocol):
    """Whose member this is: who reads the partitions."""

    async def wanted_topics(self) -> Sequence[str]:
        """The topics it subscribes to now. Raises ClientError."""
        ...

    def owned(self) -> Sequence[TopicPartition]: ...

    async def give_up(self, partitions: Sequence[TopicPartition], *, lost: bool) -> None:
        """Stop reading these; if they are not `lost` already, finish what is worked on and commit it before."""
        ...

    async def receive(self, partitions: Sequence[TopicPartition]) -> None:
        """Read these too."""
        ...

    def is_too_slow(self) -> bool:
        """Whether it has not asked for records for so long that others shall have its partitions."""
        ...

    async def is_back(self) -> None:
        """Return when it asks for records again."""
        ...

    def fail(self, error: ClientError) -> None:
        """It cannot be a member any more."""
        ...


class Membership:
    """One member. `start` it; `close` it."""

    def __init__(self, cluster: Cluster, options: ConsumerOptions, owner: Owner, *, lane: Hashable) -> None:
        assert options.group_id is not None
        self.generation_id = NO_GENERATION
        self.member_id = ""
        self._assigned_in = NO_GENERATION
        """The generation that the present assignment is of. One that was joined is not known to last until it assigns:
        another coordinator may not have heard of it, and give its number to the next."""

        self._group_id = options.group_id
        self._cluster = cluster
        self._options = options
        self._owner = owner
        self._coordinators = Coordinators(cluster, lane=lane)
        self._assignors = {assignor.name: assignor for assignor in options.assignors}
        self._is_cooperative = all(assignor.is_cooperative for assignor in options.assignors)
        self._last_assigned: tuple[list[TopicPartition], int] = [], NO_GENERATION
        self._led_topics: dict[str, int] | None = None
        """As a leader: the partitions of the group's topics when they were divided."""
        self._joined_topics: list[str] = []
        self._is_joining = False
        self._wake = asyncio.Event()
        self._rejoin: str | None = "it is new"
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def metadata(self) -> GroupMetadata:
        """As whom to commit: as who was given the partitions, and not as who has joined to be given others."""
        return GroupMetadata(self._group_id, self._assigned_in, self.member_id, self._options.group_instance_id)

    @property
    def is_stable(self) -> bool:
        return self.generation_id != NO_GENERATION and self._rejoin is None

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._run()), loop.create_task(self._watch_topics())]
        for task in self._tasks:
            task.add_done_callback(self._must_not_fail)

    def rejoin(self, reason: str) -> None:
        """Take part in a new rebalance."""
        self._rejoin = self._rejoin or reason
        self._wake.set()

    def on_outside(self, member: GroupMetadata, error: ErrorCode) -> None:
        """A commit as `member` was refused: the group does not know its generation or member id. Raises KafkaError."""
        is_present = member == self.metadata and member.generation_id == self.generation_id
        if is_present and not self._is_joining:
            self._obey(judge(error), error)

    async def close(self) -> None:
        """Give everything up and leave the group."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._owner.give_up(self._owner.owned(), lost=self.generation_id == NO_GENERATION)
        await self._leave()

    # Staying.

    async def _run(self) -> None:
        try:
            while True:
                await self._join()
                await self._stay()
        except ClientError as error:
            self._owner.fail(error)

    def _must_not_fail(self, task: "asyncio.Task[None]") -> None:
        """A mistake of ours or of the owner's callbacks ends the consumer; it would stay without partitions."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("group %s: the membership ended", self._group_id, exc_info=error)
            self._owner.fail(ClientError(f"group {self._group_id}: the membership ended: {error!r}"))

    async def _stay(self) -> None:
        """Keep alive until a new assignment is wanted."""
        interval_s = pause_s = self._options.heartbeat_interval_ms / 1000
        while self._rejoin is None:
            self._wake.clear()
            try:
                async with asyncio.timeout(pause_s):
                    await self._wake.wait()
            except TimeoutError:
                if self._owner.is_too_slow():
                    await self._pause_membership()
                else:
                    pause_s = interval_s if await self._heartbeat() else _PAUSE_S

    async def _pause_membership(self) -> None:
        log.warning("group %s: no records were asked for in time: the member leaves until they are", self._group_id)
        await self._leave()
        self._forget_generation(forget_member=self._options.group_instance_id is None)
        await self._owner.give_up(self._owner.owned(), lost=True)
        await self._owner.is_back()
        self.rejoin("records are asked for again")

    async def _beside_heartbeats(self, work: Coroutine[Any, Any, None]) -> None:
        """Do what may take long without being taken for dead."""
        task = asyncio.get_running_loop().create_task(work)
        try:
            while True:
                done, _ = await asyncio.wait([task], timeout=self._options.heartbeat_interval_ms / 1000)
                if done:
                    return task.result()
                if self.generation_id != NO_GENERATION:
                    await self._heartbeat()
        finally:
            task.cancel()

    async def _heartbeat(self) -> bool:
        """Keep alive; False where it has to be tried again soon. Raises ClientError."""
        request = HeartbeatRequest(self._group_id, self.generation_id, self.member_id, self._options.group_instance_id)
        # A broker that is silent for that long is not asked again on this connection, and there is time for another.
        timeout_ms = max(self._options.session_timeout_ms // 3, 1)
        try:
            response = await self._ask(heartbeat.API, request, least=self._static(_STATIC_SINCE), timeout_ms=timeout_ms)
        except ClientError as error:
            if not error.retriable:
                raise
            log.debug("group %s: no heartbeat: %s", self._group_id, error)
            return False
        code = error_code(response.error_code)
        self._obey(judge(code), code)
        return judge(code) is not Verdict.LATER

    def _obey(self, verdict: Verdict, error: ErrorCode) -> None:
        """Do what an answer asks for. Raises KafkaError where nothing can be done."""
        if verdict is Verdict.FATAL:
            raise KafkaError(error, context=f"group {self._group_id}")
        if verdict in (Verdict.LOST, Verdict.STRANGER):
            self._forget_generation(forget_member=verdict is Verdict.STRANGER)
        if verdict in (Verdict.REJOIN, Verdict.LOST, Verdict.STRANGER):
            self.rejoin(error.name)

    def _forget_generation(self, *, forget_member: bool) -> None:
        self.generation_id = self._assigned_in = NO_GENERATION
        if forget_member:
            self.member_id = ""

    # Joining.

    async def _join(self) -> None:
        """Join until there is an assignment that nothing speaks against."""
        while self._rejoin is not None:
            log.debug("group %s: joining: %s", self._group_id, self._rejoin)
            try:
                await self._join_once()
            except ClientError as error:
                if not error.retriable:
                    raise
                self._rejoin = self._rejoin or str(error)
                log.debug("group %s: not joined: %s", self._group_id, error)
                await asyncio.sleep(_PAUSE_S * self._cluster.random.uniform(0.8, 1.2))
            finally:
                self._is_joining = False

    async def _join_once(self) -> None:
        topics = await self._owner.wanted_topics()
        await self._give_up_before_joining(topics)
        self._led_topics = None
        self._joined_topics = list(topics)
        self._rejoin = None
        self._is_joining = True
        assigned = await self._enter(topics)
        self._is_joining = False
        if assigned is not None:
            await self._apply(assigned, topics)

    async def _give_up_before_joining(self, topics: Sequence[str]) -> None:
        """Who loses its generation while it gives up what it does not want any more loses what it wants too."""
        while True:
            lost = self.generation_id == NO_GENERATION
            is_cooperative = self._is_cooperative and not lost
            revoked = to_revoke_before_joining(self._owner.owned(), topics, is_cooperative=is_cooperative)
            if not revoked:
                return
            await self._beside_heartbeats(self._owner.give_up(revoked, lost=lost))

    async def _enter(self, topics: Sequence[str]) -> list[TopicPartition] | None:
        """Become a member of a generation; return what it assigns, None where joining begins again."""
        response = await self._ask(
            join_group.API,
            self._join_request(topics),
            least=self._static(_JOIN_STATIC_SINCE),
            timeout_ms=self._options.max_poll_interval_ms + _JOIN_MARGIN_MS,
        )
        code = error_code(response.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
        if not self._is_fine(code):
            return None
        self.member_id, self.generation_id = response.member_id, response.generation_id
        assignments: list[SyncGroupRequestAssignment] = []
        if response.leader == response.member_id and response.members:
            assignments = await self._divide(response)
        request = SyncGroupRequest(
            group_id=self._group_id,
            generation_id=response.generation_id,
            member_id=response.member_id,
            group_instance_id=self._options.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=response.protocol_name,
            assignments=assignments,
        )
        timeout_ms = self._options.max_poll_interval_ms + _JOIN_MARGIN_MS
        synced = await self._ask(sync_group.API, request, least=self._static(_STATIC_SINCE), timeout_ms=timeout_ms)
        if not self._is_fine(error_code(synced.error_code)):
            return None
        try:
            # A leader may have had nothing to say to this member.
            return decode_assignment(synced.assignment) if synced.assignment else []
        except WireError as error:
            raise ProtocolViolation(f"group {self._group_id}: the assignment cannot be read: {error}") from error

    def _is_fine(self, code: ErrorCode) -> bool:
        """Raises KafkaError where the request shall be tried again, or nothing can be done."""
        verdict = judge(code)
        if verdict is Verdict.LATER:
            raise KafkaError(code, context=f"group {self._group_id}")
        self._obey(verdict, code)
        return verdict is Verdict.FINE

    def _join_request(self, topics: Sequence[str]) -> JoinGroupRequest:
        assigned, generation_id = self._last_assigned
        owned = tuple(self._owner.owned())
        return JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=self._options.session_timeout_ms,
            rebalance_timeout_ms=self._options.max_poll_interval_ms,
            member_id=self.member_id,
            group_instance_id=self._options.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[
                JoinGroupRequestProtocol(
                    assignor.name,
                    encode_subscription(
                        Subscription(
                            topics=tuple(topics),
                            user_data=assignor.user_data(assigned, generation_id),
                            owned=owned,
                            generation_id=generation_id,
                        )
                    ),
                )
                for assignor in self._options.assignors
            ],
        )

    async def _divide(self, response: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """As the leader: who gets what."""
        name = response.protocol_name or ""
        assignor = self._assignors.get(name)
        if assignor is None:
            raise ProtocolViolation(f"group {self._group_id}: the coordinator chose {name}, which was not offered")
        try:
            members = {
                each.member_id: decode_subscription(each.metadata, group_instance_id=each.group_instance_id)
                for each in response.members
            }
        except WireError as error:
            raise ProtocolViolation(f"group {self._group_id}: a subscription cannot be read: {error}") from error
        counts = await self._count_partitions(wanted_topics(members))
        self._led_topics = counts
        assignment = assignor.assign(counts, members)
        return [
            SyncGroupRequestAssignment(member_id, encode_assignment(partitions))
            for member_id, partitions in assignment.items()
        ]

    async def _count_partitions(self, topics: Sequence[str]) -> dict[str, int]:
        """How many partitions each topic has, 0 where it is not there."""
        found = (await self._cluster.metadata(topics)).topics if topics else {}
        return {name: len(found[name].partitions) if name in found else 0 for name in topics}

    async def _apply(self, assigned: Sequence[TopicPartition], topics: Sequence[str]) -> None:
        change = change_between(self._owner.owned(), assigned)
        self._assigned_in = self.generation_id
        self._last_assigned = list(assigned), self.generation_id
        if change.revoked:
            # Only cooperative members have something here; who gets it waits for the next generation.
            await self._beside_heartbeats(self._owner.give_up(change.revoked, lost=False))
            self.rejoin("partitions were given up")
        log.info("group %s: generation %d: %d partitions", self._group_id, self.generation_id, len(assigned))
        await self._beside_heartbeats(self._owner.receive(change.added))
        if list(await self._owner.wanted_topics()) != list(topics):
            self.rejoin("the subscription changed")

    # The rest.

    async def _watch_topics(self) -> None:
        """Join again when topics or partitions come that the assignment does not know of."""
        while True:
            await asyncio.sleep(self._options.metadata_max_age_ms / 1000)
            led = self._led_topics
            try:
                if led is not None and await self._count_partitions(list(led)) != led and self._led_topics is led:
                    self.rejoin("partitions were added or removed")
                if list(await self._owner.wanted_topics()) != self._joined_topics:
                    self.rejoin("topics were added or removed")
            except ClientError as error:
                log.debug("group %s: topics are not known: %s", self._group_id, error)

    async def _leave(self) -> None:
        """Tell the coordinator, once; static members stay."""
        if not self.member_id or self._options.group_instance_id is not None:
            return
        request = LeaveGroupRequest(group_id=self._group_id, member_id=self.member_id)
        try:
            await self._ask(leave_group.API, request, most=_LEAVE_ALONE, timeout_ms=self._options.session_timeout_ms)
        except ClientError as error:
            log.debug("group %s: the member leaves without a word: %s", self._group_id, error)

    def _static(self, since: int) -> int:
        return 0 if self._options.group_instance_id is None else since

    async def _ask(self, api: Api, request: object, *, least: int = 0, most: int | None = None, timeout_ms: int) -> Any:
        return await self._coordinators.ask(
            CoordinatorKind.GROUP,
            self._group_id,
            api,
            request,
            codes=lambda response: [response.error_code],
            least=least,
            most=most,
            timeout_ms=timeout_ms,
        )
