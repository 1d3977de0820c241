"""A consumer whose group is coordinated in ZooKeeper, as consumers were before Kafka 0.9.

Members register under /consumers/GROUP/ids, claim partitions under owners, keep offsets under offsets; each watches the
members, the brokers and the topics it reads, and computes the same division (zookeeper_rebalance.py) when something
changes. What is not its own any more it finishes, commits and releases; what is its own now it claims. A claim that
another member still holds is tried again after a pause. What it keeps it reads on.

Registrations and claims are ephemeral: when the session is over nothing that is in hand is committed, and all begins
anew. Offsets live outside of the brokers' groups; OffsetCommit version 0 and older consumers see the same ones.
"""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

from barnabas.client.cluster import Cluster
from barnabas.client.consumer_options import ConsumerOptions
from barnabas.client.coordinators import OffsetAndMetadata
from barnabas.client.errors import ClientError
from barnabas.client.fetched_records import FetchedRecords
from barnabas.client.fetcher import Fetcher
from barnabas.client.partition_state import PartitionState
from barnabas.client.zookeeper_rebalance import owned_by, streams_of
from barnabas.protocol.ids import TopicPartition
from zk_schema import paths
from zk_schema.json_text import InvalidPayload
from zk_schema.ops import Create, Delete, NodeExists, NodeMissing, Set, ZooKeeperError
from zk_schema.payloads import ConsumerOffset, ConsumerRegistration, SubscriptionPattern, TopicAssignment
from zk_schema.port import Expired, Resync, ZooKeeper, ZooKeeperEvent

log = logging.getLogger(__name__)


@dataclass(slots=True, frozen=True)
class ZooKeeperConsumerOptions:
    """How the member takes part; `reading` says how it reads (its group settings are not looked at)."""

    group_id: str
    consumer_id: str
    """Unique in the group; the old consumers' are GROUP_HOST-MILLISECONDS-RANDOM."""
    auto_commit_interval_ms: int | None = 60_000
    rebalance_backoff_ms: int = 2_000
    release_timeout_ms: int = 30_000
    """How long a batch in hand may hold a partition that is somebody else's now."""
    reading: ConsumerOptions = field(default_factory=ConsumerOptions)


class ZooKeeperConsumer:
    """Use it as an asynchronous context manager; the session is the caller's and stays open."""

    def __init__(
        self,
        cluster: Cluster,
        zookeeper: ZooKeeper,
        options: ZooKeeperConsumerOptions,
        *,
        random: random.Random,
    ) -> None:
        self._cluster = cluster
        self._zookeeper = zookeeper
        self._options = options
        self._random = random
        self._fetcher = Fetcher(cluster, options.reading, committed=self._read_offsets, lane=("fetch", self))
        self._registration = ConsumerRegistration({})
        self._is_registered = False
        self._claimed: dict[TopicPartition, str] = {}
        self._dirty = asyncio.Event()
        self._committed: dict[TopicPartition, int] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._unlisten = zookeeper.listen(self._on_event)

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._fetcher.start()
        self._tasks = [loop.create_task(self._coordinate())]
        if self._options.auto_commit_interval_ms is not None:
            self._tasks.append(loop.create_task(self._commit_now_and_then(self._options.auto_commit_interval_ms)))
        for task in self._tasks:
            task.add_done_callback(self._must_not_fail)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Commit what was worked on, release the partitions and leave the group."""
        self._unlisten()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            if self._options.auto_commit_interval_ms is not None:
                await self.commit()
            await self._release(list(self._claimed), wait=False)
            await self._unregister()
        except ZooKeeperError as error:
            log.warning("group %s: left without a word: %s", self._options.group_id, error)
        await self._fetcher.close()
        await self._cluster.close_lane(("fetch", self))

    def subscribe(
        self,
        streams: Mapping[str, int],
        *,
        pattern: SubscriptionPattern = SubscriptionPattern.STATIC,
        timestamp_ms: int = -1,
    ) -> None:
        """Read these topics; the numbers are this member's shares of each. A pattern's one key is an expression."""
        self._registration = ConsumerRegistration(dict(streams), pattern, timestamp_ms)
        self._is_registered = False
        self._dirty.set()

    @property
    def assignment(self) -> list[TopicPartition]:
        """What is read now, sorted."""
        return sorted(self._claimed)

    async def batches(self) -> AsyncGenerator[FetchedRecords, None]:
        """Records as they come, without end; several streams may run at once. Raises ClientError."""
        while True:
            handed = await self._fetcher.take()
            is_finished = False
            try:
                yield handed.fetched
                is_finished = True
            finally:
                if is_finished:
                    self._fetcher.finish(handed)
                else:
                    self._fetcher.release(handed)

    async def commit(self) -> None:
        """Write how far the claimed partitions were worked on. Raises ZooKeeperError."""
        await self._commit(list(self._claimed))

    # Coordination.

    def _on_event(self, event: ZooKeeperEvent) -> None:
        match event:
            case Expired():
                self._lose_all()
            case Resync(new_session=True):
                self._is_registered = False
                self._lose_all()
            case _:
                pass
        self._dirty.set()

    def _lose_all(self) -> None:
        """The claims went with the session: others may have them."""
        self._forget(list(self._claimed))

    async def _coordinate(self) -> None:
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            try:
                if not self._registration.subscription:
                    continue
                await self._register()
                is_settled = await self._rebalance()
            except (ZooKeeperError, InvalidPayload) as error:
                log.warning("group %s: not rebalanced: %s", self._options.group_id, error)
                is_settled = False
            if not is_settled:
                await asyncio.sleep(self._options.rebalance_backoff_ms / 1000 * self._random.uniform(0.5, 1.0))
                self._dirty.set()

    def _must_not_fail(self, task: "asyncio.Task[None]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("group %s: coordination ended", self._options.group_id, exc_info=error)
            self._fetcher.fail(ClientError(f"group {self._options.group_id}: coordination ended: {error!r}"))

    async def _register(self) -> None:
        if self._is_registered:
            return
        registration, path = self._registration, self._id_path
        data = registration.encode()
        session_id = self._zookeeper.session_id
        found = await self._zookeeper.get(path)
        if found is not None and found.stat.ephemeral_owner == session_id:
            await self._zookeeper.write(Set(path, data))
        else:
            # One of a former session of ours goes when that one is over; until then this is refused and tried again.
            await self._create(path, data, ephemeral=True)
        self._is_registered = registration is self._registration and session_id == self._zookeeper.session_id

    async def _unregister(self) -> None:
        if self._is_registered:
            with suppress(NodeMissing):
                await self._zookeeper.write(Delete(self._id_path))

    async def _rebalance(self) -> bool:
        """Release and claim what the znodes say now; False where another member holds something still."""
        wanted = await self._divide()
        released = [each for each, stream in self._claimed.items() if wanted.get(each) != stream]
        await self._release(released, wait=True)
        is_settled = True
        for each, stream in sorted(wanted.items()):
            if each not in self._claimed and not await self._claim(each, stream):
                is_settled = False
        return is_settled

    async def _divide(self) -> dict[TopicPartition, str]:
        """Read members, brokers and topics, watch them, and compute this member's share."""
        group = self._options.group_id
        await self._zookeeper.children(paths.BROKER_IDS, watch=True)
        members: dict[str, ConsumerRegistration] = {}
        for name in await self._zookeeper.children(paths.consumer_ids(group), watch=True) or ():
            found = await self._zookeeper.get(paths.consumer_id(group=group, name=name), watch=True)
            if found is not None:
                members[name] = ConsumerRegistration.decode(found.data)
        topics: Sequence[str] = []
        if any(each.pattern is not SubscriptionPattern.STATIC for each in members.values()):
            topics = await self._zookeeper.children(paths.BROKER_TOPICS, watch=True) or []
        own = members.get(self._options.consumer_id)
        partitions: dict[str, list[int]] = {}
        for topic in streams_of(own, topics) if own is not None else ():
            found = await self._zookeeper.get(paths.topic(topic), watch=True)
            if found is not None:
                partitions[topic] = sorted(TopicAssignment.decode(found.data).partitions)
        return owned_by(self._options.consumer_id, members, partitions)

    async def _claim(self, topic_partition: TopicPartition, stream: str) -> bool:
        session_id = self._zookeeper.session_id
        try:
            await self._create(self._owner_path(topic_partition), stream.encode(), ephemeral=True)
        except NodeExists:
            return False
        if session_id != self._zookeeper.session_id:
            return False  # made and gone, or made by a session that is over
        self._claimed[topic_partition] = stream
        self._fetcher.states[topic_partition] = PartitionState(topic_partition, wants_committed=True)
        self._fetcher.changed()
        return True

    async def _release(self, partitions: Sequence[TopicPartition], *, wait: bool) -> None:
        """Stop reading, commit, and let others claim. Raises ZooKeeperError."""
        for each in partitions:
            self._fetcher.states[each].is_held = True
        if wait and partitions:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._options.release_timeout_ms / 1000):
                    await self._fetcher.idle(partitions)
            if self._options.auto_commit_interval_ms is not None:
                await self._commit(partitions)
        for each in partitions:
            if each in self._claimed:
                with suppress(NodeMissing):
                    await self._zookeeper.write(Delete(self._owner_path(each)))
        self._forget(partitions)

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        for each in partitions:
            self._claimed.pop(each, None)
            self._committed.pop(each, None)
            state = self._fetcher.states.pop(each, None)
            if state is not None:
                state.abandon()
        self._fetcher.changed()

    # Offsets.

    async def _commit_now_and_then(self, interval_ms: int) -> None:
        while True:
            await asyncio.sleep(interval_ms / 1000)
            try:
                await self.commit()
            except ZooKeeperError as error:
                log.warning("group %s: offsets are not committed: %s", self._options.group_id, error)

    async def _commit(self, partitions: Sequence[TopicPartition]) -> None:
        for each in partitions:
            while (offset := self._uncommitted(each)) is not None:
                try:
                    await self._write_offset(self._offset_path(each), ConsumerOffset(offset).encode())
                except NodeExists:
                    continue  # another commit of ours was there first, perhaps with a later offset
                if each in self._claimed:
                    self._committed[each] = offset
                break

    def _uncommitted(self, each: TopicPartition) -> int | None:
        state = self._fetcher.states.get(each)
        if state is None or state.finished < 0 or self._committed.get(each) == state.finished:
            return None
        return state.finished

    async def _write_offset(self, path: str, data: bytes) -> None:
        """Raises NodeExists where somebody made the znode meanwhile, and other ZooKeeperErrors."""
        try:
            await self._zookeeper.write(Set(path, data))
        except NodeMissing:
            await self._create(path, data)

    async def _read_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        for each in partitions:
            try:
                znode = await self._zookeeper.get(self._offset_path(each))
                if znode is not None:
                    found[each] = OffsetAndMetadata(ConsumerOffset.decode(znode.data).offset)
            except ZooKeeperError as error:
                raise OffsetsUnknown(f"group {self._options.group_id}: {each}: {error}") from error
            except InvalidPayload as error:
                raise ClientError(f"group {self._options.group_id}: {each}: {error}") from error
        return found

    async def _create(self, path: str, data: bytes, *, ephemeral: bool = False) -> None:
        """Make a znode and what is missing above it. Raises NodeExists and other ZooKeeperErrors."""
        try:
            await self._zookeeper.write(Create(path, data, ephemeral=ephemeral))
        except NodeMissing:
            for parent in paths.parents(path):
                with suppress(NodeExists):
                    await self._zookeeper.write(Create(parent, b""))
            await self._zookeeper.write(Create(path, data, ephemeral=ephemeral))

    @property
    def _id_path(self) -> str:
        return paths.consumer_id(group=self._options.group_id, name=self._options.consumer_id)

    def _owner_path(self, each: TopicPartition) -> str:
        return paths.consumer_owner(
            group=self._options.group_id, topic_name=each.topic, partition_number=each.partition
        )

    def _offset_path(self, each: TopicPartition) -> str:
        return paths.consumer_offset(
            group=self._options.group_id, topic_name=each.topic, partition_number=each.partition
        )


class OffsetsUnknown(ClientError):
    """ZooKeeper does not answer now; it is asked again."""

    retriable = True
