"""Random lives of a partition: in whichever order things happen, what is acknowledged is there, and all are told."""

import asyncio
import random
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.entries import iterate_entries
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerId
from barnabas.protocol.records import iterate_records
from barnabas.storage.log_config import LogConfig
from replication.partition import Partition, PartitionRefused
from tests.support.virtual_time import turns, virtual_time
from tests.unit.replication.replica_world import ME, OTHER, Appended, ReplicaWorld, append_later
from tests.unit.storage.logs import batch, read_bytes


@dataclass
class Sent:
    """A batch that somebody sent, and what became of it."""

    value: bytes
    epoch: int
    acks: int
    task: "asyncio.Task[Appended]"
    is_acknowledged: bool = False


class Life:
    """One partition, and those who write to it."""

    def __init__(self, rng: random.Random, *, each_flushed: bool) -> None:
        self.rng = rng
        self.each_flushed = each_flushed
        self.config = LogConfig(
            flush_messages=1 if each_flushed else 1 << 60, segment_bytes=2000, index_interval_bytes=100
        )
        self.world = ReplicaWorld()
        self.epoch = 0
        self.sent: list[Sent] = []
        self.high_watermark = 0

    @property
    def partition(self) -> Partition:
        return self.world.partition()

    async def live(self, steps: list[str]) -> None:
        await self.world.open()
        await self.world.lead(config=self.config)
        for step in steps:
            await self.step(step)
            self.check()
        for kind in ("write", "flush"):
            self.world.offload.release(kind)
        await turns(200)
        self.check()
        self.check_end()

    async def step(self, step: str) -> None:
        match step:
            case "send":
                self.send()
            case "leave":
                self.rng.choice(self.sent or [self.send()]).task.cancel()
            case "turn":
                await turns(self.rng.randrange(1, 4))
            case "slow":
                self.world.disk.slow_ms = self.rng.choice([0, 10])
            case "hold write" | "hold flush":
                self.world.offload.hold(step.removeprefix("hold "))
            case "release write" | "release flush":
                self.world.offload.release(step.removeprefix("release "))
            case "step write" | "step flush":
                self.world.offload.step(step.removeprefix("step "))
            case "lead" | "resign":
                await self.change_role(ME if step == "lead" else OTHER)
            case "fail":
                if self.rng.random() < 0.3:
                    self.world.disk.fail(self.rng.choice(["pwrite", "fsync"]), ".log", times=1)

    def send(self) -> Sent:
        value, acks = b"%d" % len(self.sent), self.rng.choice([1, -1])
        sent = Sent(value, self.epoch, acks, asyncio.get_running_loop().create_task(self.write(batch(value), acks)))
        self.sent.append(sent)
        return sent

    async def write(self, data: memoryview, acks: int) -> Appended:
        """As a handler does: inline where that can be, else in turn."""
        info = self.partition.try_append(data, acks=acks)
        if info is not None:
            return Appended(info, self.partition.when_acknowledged(info, acks=acks))
        return await append_later(self.partition, data, acks=acks)

    async def change_role(self, leader: BrokerId) -> None:
        self.epoch += 1
        changing = self.world.supervisor.spawn(
            self.world.assign(self.epoch, leader=leader, replicas=(ME, OTHER), config=self.config), name="assign"
        )
        await turns(self.rng.randrange(3))
        self.world.offload.release("write")
        error = await changing
        assert error in (ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR)
        for sent in self.sent:
            appended = appended_of(sent)
            wait = None if appended is None else appended.wait
            assert wait is None or wait.done() or leader == ME, "a wait has outlived the leadership"

    def check(self) -> None:
        log = self.partition.log
        assert self.high_watermark <= log.high_watermark <= log.log_end_offset
        self.high_watermark = log.high_watermark
        if self.each_flushed:
            assert log.high_watermark <= log.recovery_point
        for sent in self.sent:
            appended = appended_of(sent)
            if appended is None or sent.is_acknowledged:
                continue
            wait = appended.wait
            if wait is None or (wait.done() and not wait.cancelled() and wait.exception() is None):
                sent.is_acknowledged = True
                last = appended.info.last_offset
                assert not self.each_flushed or log.recovery_point > last, "acknowledged before its fsync returned"
                assert sent.acks != -1 or log.high_watermark > last

    def check_end(self) -> None:
        """Everybody knows, everything that was acknowledged is there, and it is there once."""
        assert self.world.failed == []
        for sent in self.sent:
            assert sent.task.done(), f"nobody told {sent.value!r}"
            appended = appended_of(sent)
            assert appended is None or appended.wait is None or appended.wait.done(), f"{sent.value!r} waits for ever"
        if self.partition.is_offline:
            return
        values = values_of(self.partition)
        for sent in self.sent:
            appended = appended_of(sent)
            if appended is not None:
                assert values[appended.info.first_offset] == sent.value
        assert len(set(values)) == len(values)


def appended_of(sent: Sent) -> Appended | None:
    """Where it was put, None while that is not known or when it was refused."""
    if not sent.task.done() or sent.task.cancelled():
        return None
    error = sent.task.exception()
    assert error is None or isinstance(error, PartitionRefused)
    return None if error is not None else sent.task.result()


def values_of(partition: Partition) -> list[bytes]:
    """The values of all records in the order of their offsets, which must have no gap."""
    log = partition.log
    values: list[bytes] = []
    while len(values) < log.log_end_offset:
        data = read_bytes(log, len(values))
        for position, header in iterate_entries(data):
            for record in iterate_records(data, position, header, 1 << 20):
                assert record.offset == len(values)
                assert record.value is not None
                values.append(bytes(record.value))
    return values


STEPS = st.lists(
    st.sampled_from(
        ["send"] * 6
        + ["turn"] * 3
        + ["slow", "slow", "leave", "fail"]
        + ["hold write", "release write", "step write", "hold flush", "release flush", "step flush"]
        + ["lead", "resign"]
    ),
    min_size=20,
    max_size=80,
)


@given(steps=STEPS, seed=st.integers(0, 1 << 30), each_flushed=st.booleans())
def test_whatever_happens_what_is_acknowledged_is_there(steps: list[str], seed: int, *, each_flushed: bool) -> None:
    virtual_time(Life(random.Random(seed), each_flushed=each_flushed).live)(steps)
