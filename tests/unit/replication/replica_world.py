"""Replicas on a disk in memory whose threads and speed are the test's."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerEpoch, BrokerId, LeaderEpoch, TopicPartition
from barnabas.runtime.completion import Completion
from barnabas.runtime.tasks import Supervisor
from barnabas.storage.append import AppendInfo
from barnabas.storage.directories import LogDirectories
from barnabas.storage.directory import LogDirectory
from barnabas.storage.log_config import LogConfig
from replication.fetcher_ports import FetchFigures
from replication.log_moves import LogMoves
from replication.partition import Partition, PartitionRefused
from replication.ports import ReplicationPorts
from replication.replica import Replica
from replication.replicas import ReplicaAssignment, Replicas
from replication.settings import TopicSettings
from tests.support.clock import ManualClock
from tests.support.crash_disk import CrashDisk
from tests.support.held_offload import HeldOffload
from tests.unit.replication.recording_isr_channel import RecordingIsrChannel
from tests.unit.storage.logs import batch

ME: Final = BrokerId(1)
OTHER: Final = BrokerId(2)
TP: Final = TopicPartition("t", 0)
FLUSH_EACH: Final = LogConfig(flush_messages=1)


class TimedDisk(CrashDisk):
    """A disk on which each change takes `slow_ms` of the clock."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock.wall_ms)
        self._clock = clock
        self.slow_ms = 0

    def step(self, change: Callable[[float], None]) -> None:
        self._clock.advance(self.slow_ms)
        super().step(change)


class NoFetching:
    """Fetches nothing. `followed` has from whom it should and under which epoch, `calls` what it was told."""

    def __init__(self) -> None:
        self.followed: dict[TopicPartition, tuple[BrokerId, LeaderEpoch]] = {}
        self.calls: list[str] = []

    def follow(self, replica: Replica) -> None:
        self.followed[replica.topic_partition] = replica.leader_id, replica.leader_epoch
        self.calls.append(f"follow {replica.topic_partition}")

    def unfollow(self, topic_partition: TopicPartition) -> None:
        if self.followed.pop(topic_partition, None) is not None:
            self.calls.append(f"unfollow {topic_partition}")

    def figures(self) -> FetchFigures:
        return FetchFigures(max_lag=7, received_bytes=8, stopped_partitions=9)

    def change_count(self, fetchers_per_leader: int, replicas: object) -> None:
        raise AssertionError(f"{fetchers_per_leader} fetchers for {replicas}: nobody fetches here")

    def stop_idle(self) -> None:
        self.calls.append("stop idle")

    async def stop(self) -> None:
        self.followed.clear()
        self.calls.append("stop")


class ReplicaWorld:
    """One broker's replicas. `failed` has what its supervisor would have ended the process for."""

    def __init__(self, directories: int = 1) -> None:
        self.clock = ManualClock()
        self.disk = TimedDisk(self.clock)
        self.offload = HeldOffload()
        self.failed: list[str] = []
        self.supervisor = Supervisor(lambda what, error: self.failed.append(f"{what}: {error!r}"))
        self.log_directories = LogDirectories(
            [f"/logs{number}" for number in range(directories)],
            disk=self.disk,
            clock=self.clock,
            offload=self.offload,
            random=random.Random(1),
            default_config=LogConfig(),
            on_failure=self._on_failure,
        )
        self.channel = RecordingIsrChannel()
        self.live: dict[BrokerId, BrokerEpoch] = {ME: BrokerEpoch(1), OTHER: BrokerEpoch(2)}
        self.ports = ReplicationPorts(
            broker_id=ME,
            clock=self.clock,
            spawn=self.supervisor.spawn,
            log_directories=self.log_directories,
            isr_channel=self.channel,
            broker_epoch_of=self.live.get,
        )
        self.fetched = NoFetching()
        self.moves = LogMoves(self.ports, self.offload, at_once=2)
        self.replicas = Replicas(self.ports, self.fetched, self.moves)

    def _on_failure(self, path: str, error: OSError) -> None:
        self.replicas.on_directory_failure(path)

    async def open(self) -> "ReplicaWorld":
        await self.log_directories.open(broker_id=ME, cluster_id="cluster")
        self.disk.fsync_directory("/")
        return self

    async def assign(
        self,
        epoch: int = 0,
        *,
        leader: BrokerId = ME,
        at: TopicPartition = TP,
        config: LogConfig | None = None,
        is_new: bool = True,
        replicas: tuple[BrokerId, ...] = (ME,),
        isr: tuple[BrokerId, ...] = (ME,),
        min_in_sync_replicas: int = 1,
    ) -> ErrorCode:
        return await self.replicas.assign(
            ReplicaAssignment(
                topic_partition=at,
                leader_id=leader,
                leader_epoch=LeaderEpoch(epoch),
                isr=isr,
                replicas=replicas,
                zk_version=0,
                is_new=is_new,
                settings=TopicSettings(config or LogConfig(), min_in_sync_replicas),
            )
        )

    async def stop(self, epoch: int, *, at: TopicPartition = TP, delete: bool = True) -> ErrorCode:
        return await self.replicas.stop(at, leader_epoch=LeaderEpoch(epoch), delete=delete)

    async def lead(
        self, *, at: TopicPartition = TP, config: LogConfig | None = None, min_in_sync_replicas: int = 1
    ) -> Partition:
        """Lead a new partition in epoch 0."""
        error = await self.assign(at=at, config=config, min_in_sync_replicas=min_in_sync_replicas)
        assert error is ErrorCode.NONE
        return self.partition(at)

    def partition(self, at: TopicPartition = TP) -> Partition:
        partition = self.replicas.partition(at)
        assert partition is not None
        return partition

    @property
    def directory(self) -> LogDirectory:
        return self.log_directories.directories[0]

    def make_slow(self, partition: Partition) -> None:
        """Let one write take 10 ms, so that the directory's next ones go through its thread."""
        self.disk.slow_ms = 10
        append_now(partition)
        self.disk.slow_ms = 0
        assert not self.directory.writes_inline


async def leading(*, config: LogConfig | None = None) -> tuple[ReplicaWorld, Partition]:
    """A world with one partition that this broker leads in epoch 0."""
    world = await ReplicaWorld().open()
    return world, await world.lead(config=config)


def append_now(partition: Partition, *values: bytes, acks: int = -1) -> AppendInfo:
    info = partition.try_append(batch(*(values or (b"v",))), acks=acks)
    assert info is not None
    return info


@dataclass(slots=True)
class Appended:
    """What became of an append, and what its answer waits for."""

    info: AppendInfo
    wait: Completion[None] | None

    @property
    def first_offset(self) -> int:
        return self.info.first_offset


def append_later(partition: Partition, data: memoryview, *, acks: int = -1) -> "asyncio.Task[Appended]":
    """Append in turn and ask at once what to wait for, as a handler does."""

    async def append() -> Appended:
        info = await partition.append(data, acks=acks)
        return Appended(info, partition.when_acknowledged(info, acks=acks))

    return asyncio.get_running_loop().create_task(append())


def acknowledged(partition: Partition, info: AppendInfo, *, acks: int = -1) -> Completion[None]:
    """What the answer waits for; there must be something."""
    future = partition.when_acknowledged(info, acks=acks)
    assert future is not None
    return future


def begun(partition: Partition) -> "asyncio.Future[None]":
    """A proof that is waited for; it must not be there at once."""
    future = partition.proof.begin()
    assert future is not None
    assert not future.done()
    return future


def refusal(future: "Completion[None] | asyncio.Future[None] | None") -> ErrorCode:
    """Why a wait has failed."""
    assert future is not None
    assert future.done()
    error = future.exception()
    assert isinstance(error, PartitionRefused)
    return error.error
