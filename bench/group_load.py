"""Loads on coordinators of groups: members that join and send heartbeats, commits, and offsets by the million.

Everything runs in this process, on connections of `raw_line`; the brokers may be any that speak Kafka's protocol.
"""

import asyncio
import contextlib
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from barnabas.client.connection import Address
from barnabas.client.errors import raise_for
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.messages import heartbeat, join_group, offset_commit, offset_fetch, sync_group
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from bench.raw_line import GROUP, Line, Turns, coordinator_of, encoded, open_line, until_served

SESSION_TIMEOUT_MS: Final = 30_000
REBALANCE_TIMEOUT_MS: Final = 60_000
_TYPE: Final = "consumer"
_PROTOCOL: Final = "range"
_ASSIGNMENT: Final = b"a" * 64
_GROUPS_AT_ONCE: Final = 100
_FRAMES_A_LINE: Final = 20
_FILLING_LINES: Final = 8
_AGAIN_S: Final = 0.05
_BEAT_S: Final = 1.0
_PATIENCE_S: Final = 120.0


@dataclass(slots=True)
class Member:
    """A member of a group, on a connection of its own."""

    group_id: str
    line: Line
    member_id: str = ""
    generation_id: int = -1
    asked_s: float = 0.0
    """When it sent the JoinGroup that was answered last, by the performance counter."""
    joined_s: float = 0.0
    synced_s: float = 0.0

    async def enter(self, metadata: bytes = b"") -> None:
        """Join and sync until it has an assignment."""
        while True:
            joined = await self._join(metadata)
            self.joined_s = time.perf_counter()
            assigned = [SyncGroupRequestAssignment(each.member_id, _ASSIGNMENT) for each in joined.members]
            request = SyncGroupRequest(
                self.group_id, self.generation_id, self.member_id, None, _TYPE, _PROTOCOL, assigned
            )
            synced = await self.line.ask(sync_group.API, request)
            self.synced_s = time.perf_counter()
            if synced.error_code != ErrorCode.REBALANCE_IN_PROGRESS:
                raise_for(synced.error_code)
                assert synced.assignment == _ASSIGNMENT, synced
                return

    async def _join(self, metadata: bytes) -> JoinGroupResponse:
        while True:
            request = JoinGroupRequest(
                self.group_id,
                SESSION_TIMEOUT_MS,
                REBALANCE_TIMEOUT_MS,
                self.member_id,
                None,
                _TYPE,
                [JoinGroupRequestProtocol(_PROTOCOL, metadata)],
            )
            self.asked_s = time.perf_counter()
            joined: JoinGroupResponse = await self.line.ask(join_group.API, request)
            if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = joined.member_id
                continue
            raise_for(joined.error_code)
            self.member_id, self.generation_id = joined.member_id, joined.generation_id
            return joined

    async def is_to_join_again(self) -> bool:
        """Send a heartbeat; whether the answer is that others came."""
        request = HeartbeatRequest(self.group_id, self.generation_id, self.member_id)
        answer = await self.line.ask(heartbeat.API, request)
        if answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            return True
        raise_for(answer.error_code)
        return False

    def heartbeat(self) -> bytes:
        return encoded(heartbeat.API, HeartbeatRequest(self.group_id, self.generation_id, self.member_id))


async def coordinator(bootstrap: Address, group_id: str) -> Address:
    """Where a group's coordinator is, once it serves the group."""
    address, line = await _line_to_coordinator(bootstrap, group_id)
    try:
        await until_served(
            lambda: line.ask(offset_fetch.API, OffsetFetchRequest(group_id, None)),
            lambda response: [response.error_code],
        )
    finally:
        line.close()
    return address


async def _line_to_coordinator(bootstrap: Address, group_id: str) -> tuple[Address, Line]:
    asking = await open_line(bootstrap)
    try:
        async with asyncio.timeout(_PATIENCE_S):
            while True:
                address = await coordinator_of(asking, group_id, GROUP)
                try:
                    return address, await open_line(address)
                except OSError:
                    # It was killed, and the others have not been told yet.
                    await asyncio.sleep(_AGAIN_S)
    finally:
        asking.close()


async def new_members(bootstrap: Address, group_id: str, count: int) -> list[Member]:
    """So many that have not joined yet."""
    address = await coordinator(bootstrap, group_id)
    return [Member(group_id, await open_line(address)) for _ in range(count)]


async def enter_all(members: Sequence[Member], metadata: bytes = b"") -> None:
    """All join one group at once, and have their assignments.

    Who has one sends heartbeats until all do, and joins again when it hears that others came.
    """
    outside, all_are_in = len(members), asyncio.Event()

    async def enter(member: Member) -> None:
        nonlocal outside
        await member.enter(metadata)
        outside -= 1
        if not outside:
            all_are_in.set()
        if await others_came(member):
            outside += 1
            await enter(member)

    async def others_came(member: Member) -> bool:
        while outside:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(all_are_in.wait(), _BEAT_S)
            if outside and await member.is_to_join_again():
                return True
        return False

    await asyncio.gather(*map(enter, members))


async def stable_groups(bootstrap: Address, *, groups: int, members: int) -> list[Member]:
    """The members of so many groups that are Stable."""
    turns = asyncio.Semaphore(_GROUPS_AT_ONCE)

    async def gather(number: int) -> list[Member]:
        async with turns:
            found = await new_members(bootstrap, f"group-{number}", members)
            await enter_all(found)
            return found

    return [member for found in await asyncio.gather(*map(gather, range(groups))) for member in found]


async def heartbeats(members: Sequence[Member]) -> Turns:
    """A heartbeat of each member, one after the other."""
    turns = [(member.line, member.heartbeat()) for member in members]
    await _expect_first_answers(turns, error_at=-3)
    return turns


@dataclass(frozen=True, slots=True)
class Rebalance:
    """Seconds from the first JoinGroup that counted, and from the last, to the last answer to a SyncGroup.

    `whole_s` is from the first JoinGroup of all, whether it counted or was answered with a member's id.
    """

    whole_s: float
    from_first_s: float
    from_last_s: float
    joins_s: float
    """From the first answer to a JoinGroup to the last answer to a SyncGroup."""


async def rebalance(members: Sequence[Member], metadata: bytes) -> Rebalance:
    """All members join: new ones for the first time, others with another subscription."""
    began = time.perf_counter()
    await enter_all(members, metadata)
    generations = {member.generation_id for member in members}
    assert len(generations) == 1, f"the members are in generations {sorted(generations)}"
    ended = max(member.synced_s for member in members)
    asked = [member.asked_s for member in members]
    return Rebalance(
        ended - began, ended - min(asked), ended - max(asked), ended - min(member.joined_s for member in members)
    )


async def commits(bootstrap: Address, topic: str, *, connections: int) -> Turns:
    """Commits of one partition for a group of each connection's own, one connection after the other."""
    lines = []
    for number in range(connections):
        group_id = f"commits-{number}"
        line = await open_line(await coordinator(bootstrap, group_id))
        frames = [encoded(offset_commit.API, commit(group_id, topic, [0], at)) for at in range(_FRAMES_A_LINE)]
        lines.append((line, frames))
    await _expect_first_answers([(line, frames[0]) for line, frames in lines], error_at=-5)
    return [(line, frames[at]) for at in range(_FRAMES_A_LINE) for line, frames in lines]


def commit(group_id: str, topic: str, partitions: Iterable[int], offset: int) -> OffsetCommitRequest:
    """The same offset for each partition, of nobody's generation."""
    offsets = [OffsetCommitRequestPartition(partition, offset) for partition in partitions]
    return OffsetCommitRequest(group_id, topics=[OffsetCommitRequestTopic(topic, offsets)])


async def fill(bootstrap: Address, topic: str, *, groups: int, partitions: int) -> list[str]:
    """Commit an offset for each partition of the topic in so many groups; their ids."""
    group_ids = [f"offsets-{number}" for number in range(groups)]
    waiting = iter(group_ids)

    async def some() -> None:
        asking = await open_line(bootstrap)
        lines: dict[Address, Line] = {}
        for group_id in waiting:
            address = await coordinator_of(asking, group_id, GROUP)
            if address not in lines:
                lines[address] = await open_line(address)
            await _commit_all(lines[address], commit(group_id, topic, range(partitions), partitions))
        for line in (asking, *lines.values()):
            line.close()

    await asyncio.gather(*(some() for _ in range(_FILLING_LINES)))
    return group_ids


async def _commit_all(line: Line, request: OffsetCommitRequest) -> None:
    await until_served(
        lambda: line.ask(offset_commit.API, request),
        lambda response: {each.error_code for each in response.topics[0].partitions},
    )


async def all_committed(bootstrap: Address, topic: str, group_ids: Iterable[str], *, partitions: int) -> None:
    """Return once the coordinator of each of these groups has answered with what `fill` committed."""
    request = [OffsetFetchRequestTopic(topic, list(range(partitions)))]
    for group_id in group_ids:
        line = await open_line(await coordinator(bootstrap, group_id))
        answer = await line.ask(offset_fetch.API, OffsetFetchRequest(group_id, request))
        line.close()
        found = {each.committed_offset for each in answer.topics[0].partitions}
        assert found == {partitions}, f"{group_id}: offsets {found} where {partitions} was committed"


async def _expect_first_answers(turns: Turns, *, error_at: int) -> None:
    """Send each frame once: its answer, whose error code stands `error_at`, is what is expected from now on."""
    for line, frame in turns:
        answer = bytes(await line.exchange(frame))
        stop = error_at + 2
        raise_for(int.from_bytes(answer[error_at:stop], "big", signed=True))
        line.expected = answer
