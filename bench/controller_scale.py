"""What the controller costs in a large cluster: a takeover, a broker that goes, a broker that comes, a shutdown.

`python -m bench.controller_scale [--brokers 100] [--partitions 100000]`. A real driver and core on a ZooKeeper in
memory; the brokers only count what they are told. Told are the writes to ZooKeeper, the messages as they leave through
the channels' queues, the CPU time of all that, and the most of it between two turns of the loop.
"""

import argparse
import asyncio
import sys
import time
from collections import Counter
from collections.abc import Awaitable
from dataclasses import dataclass, field

from barnabas.protocol.ids import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition
from barnabas.runtime.clock import SystemClock
from barnabas.runtime.tasks import Supervisor
from controller.channel_messages import command_to_wire
from controller.command_queue import CommandQueue
from controller.commands import AnswerListener, Command, CommandResult, ControlledShutdown
from controller.driver import Controller
from controller.office import Settings
from zk_schema import paths
from zk_schema.memory import MemorySession, MemoryZooKeeper
from zk_schema.ops import Create, Delete, Op, OpResult, Znode
from zk_schema.payloads import BrokerRegistration, Endpoint, PartitionState, TopicAssignment

REPLICATION_FACTOR = 3
_PARTITIONS_PER_TOPIC = 1_000
_WINDOW = 500


@dataclass(slots=True)
class Cost:
    """What one event cost."""

    what: str
    partitions: int
    reads: int = 0
    writes: int = 0
    operations: int = 0
    """Of the writes, without the check of the controller's epoch that each begins with."""
    messages: int = 0
    entries: int = 0
    cpu_s: float = 0.0
    longest_step_s: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.what}: {self.partitions} partitions, {self.reads} reads,"
            f" {self.operations} operations in {self.writes} writes,"
            f" {self.messages} messages with {self.entries} entries, {self.cpu_s:.2f} s of CPU,"
            f" longest step {1000 * self.longest_step_s:.0f} ms"
        )


class CountingSession(MemorySession):
    """Counts what it sends."""

    reads = 0
    writes = 0
    operations = 0

    async def get(self, path: str, *, watch: bool = False) -> Znode | None:
        self.reads += 1
        return await super().get(path, watch=watch)

    async def children(self, path: str, *, watch: bool = False) -> list[str] | None:
        self.reads += 1
        return await super().children(path, watch=watch)

    async def write(self, *operations: Op) -> list[OpResult]:
        self.writes += 1
        self.operations += len(operations) - 1
        return await super().write(*operations)


@dataclass
class CountingChannel:
    """A channel to a broker that obeys at once: commands merge in the real queue while the loop does not turn."""

    scale: "Scale"
    on_answer: AnswerListener
    queue: CommandQueue = field(default_factory=CommandQueue)
    is_closed: bool = False
    is_scheduled: bool = False

    def send(self, command: Command) -> None:
        self.queue.put(command)
        if not self.is_scheduled:
            self.is_scheduled = True
            asyncio.get_running_loop().call_soon(self._deliver)

    def _deliver(self) -> None:
        self.is_scheduled = False
        while self.queue and not self.is_closed:
            command = self.queue.take()
            self.scale.messages[type(command).__name__] += 1
            self.scale.entries += len(command.partitions)
            if self.scale.encodes:
                command_to_wire(command, sequence=1, number=1).SerializeToString()
            self.on_answer(command, CommandResult())

    def close(self) -> None:
        self.is_closed = True


class Scale:
    """The cluster: partition n of T/P has its replicas on brokers n, n + d, n + 2 d, with d that grows."""

    def __init__(self, brokers: int, partitions: int, *, encodes: bool) -> None:
        self.brokers = brokers
        self.partitions = partitions
        self.encodes = encodes
        self.zk = MemoryZooKeeper()
        self.session = CountingSession(self.zk)
        self.tool = MemorySession(self.zk)
        self.failures: list[str] = []
        self.supervisor = Supervisor(lambda what, error: self.failures.append(f"{what}: {error!r}"))
        self.messages: Counter[str] = Counter()
        self.entries = 0
        self.controller = Controller(
            BrokerId(0),
            zk=self.session,
            clock=SystemClock(),
            supervisor=self.supervisor,
            open_channel=lambda _, __, on_answer: CountingChannel(self, on_answer),
            settings=Settings(auto_leader_rebalance_enable=False),
        )

    async def open(self) -> None:
        await self.session.open()
        await self.tool.open()
        for path in paths.PERSISTENT_PATHS:
            for each in (*paths.parents(path), path):
                if await self.tool.exists(each) is None:
                    await self.tool.write(Create(each, None))
        for number in range(self.brokers):
            await self.register(number)
        waiting: list[Op] = []
        for first in range(0, self.partitions, _PARTITIONS_PER_TOPIC):
            numbers = range(first, min(first + _PARTITIONS_PER_TOPIC, self.partitions))
            waiting += self._topic(f"t{first // _PARTITIONS_PER_TOPIC}", [self.replicas_of(each) for each in numbers])
        for at in range(0, len(waiting), _WINDOW):
            await self.tool.write(*waiting[at : at + _WINDOW])

    async def close(self) -> None:
        await self.controller.stop()
        await self.supervisor.stop()
        await self.session.close()
        await self.tool.close()
        assert not self.failures, self.failures

    def replicas_of(self, number: int) -> tuple[BrokerId, ...]:
        distance = 1 + (number // self.brokers) % ((self.brokers - 1) // (REPLICATION_FACTOR - 1))
        return tuple(BrokerId((number + step * distance) % self.brokers) for step in range(REPLICATION_FACTOR))

    def held_by(self, broker: int) -> int:
        return sum(broker in self.replicas_of(number) for number in range(self.partitions))

    @staticmethod
    def _topic(name: str, replicas: list[tuple[BrokerId, ...]]) -> list[Op]:
        made: list[Op] = [
            Create(paths.topic(name), TopicAssignment(dict(enumerate(replicas))).encode()),
            Create(paths.topic_partitions(name), None),
        ]
        for number, ids in enumerate(replicas):
            state = PartitionState(ids[0], LeaderEpoch(0), ids, ControllerEpoch(0))
            made += [
                Create(paths.partition(name, number), None),
                Create(paths.partition_state(name, number), state.encode()),
            ]
        return made

    async def register(self, number: int) -> None:
        endpoint = Endpoint("PLAINTEXT", f"host-{number}", 9092, "PLAINTEXT")
        registration = BrokerRegistration((endpoint,), 0, control_endpoint=f"host-{number}:1")
        await self.tool.write(Create(paths.broker(number), registration.encode()))

    async def measure(self, what: str, partitions: int, event: Awaitable[object]) -> Cost:
        """Let something happen and wait until the controller has done all that follows."""
        self.messages.clear()
        self.entries, reads, writes = 0, self.session.reads, self.session.writes
        operations = self.session.operations
        cost = Cost(what, partitions)
        started = time.process_time()
        await event
        quiet, turned = 0, time.process_time()
        seen = (-1, -1, -1)
        while quiet < 200:
            await asyncio.sleep(0)
            now = time.process_time()
            cost.longest_step_s = max(cost.longest_step_s, now - turned)
            turned = now
            state = (self.session.reads, self.session.writes, self.messages.total())
            quiet = quiet + 1 if state == seen else 0
            seen = state
        cost.cpu_s = time.process_time() - started
        cost.reads, cost.writes = self.session.reads - reads, self.session.writes - writes
        cost.operations = self.session.operations - operations
        cost.messages, cost.entries = self.messages.total(), self.entries
        return cost

    async def takes_over(self) -> Cost:
        return await self.measure("takeover", self.partitions, asyncio.ensure_future(self.controller.start()))

    async def loses(self, broker: int) -> Cost:
        gone = asyncio.ensure_future(self.tool.write(Delete(paths.broker(broker))))
        return await self.measure("a broker goes", self.held_by(broker), gone)

    async def gets(self, broker: int) -> Cost:
        came = asyncio.ensure_future(self.register(broker))
        return await self.measure("a broker comes", self.held_by(broker), came)

    async def shuts_down(self, broker: int) -> Cost:
        znode = await self.tool.get(paths.broker(broker))
        assert znode is not None
        request = ControlledShutdown(BrokerId(broker), BrokerEpoch(znode.stat.czxid))
        asked = asyncio.ensure_future(self.controller.controlled_shutdown(request))
        return await self.measure("a broker shuts down", self.held_by(broker), asked)

    def leader_of(self, number: int) -> int:
        at = TopicPartition(f"t{number // _PARTITIONS_PER_TOPIC}", number % _PARTITIONS_PER_TOPIC)
        znode = self.zk.tree.get(paths.partition_state(at.topic, at.partition))
        assert znode is not None
        return PartitionState.decode(znode.data).leader


async def run(brokers: int, partitions: int, *, encodes: bool = True) -> list[Cost]:
    """Takeover; the middle broker goes and comes; the one after it shuts down."""
    scale = Scale(brokers, partitions, encodes=encodes)
    await scale.open()
    lost = brokers // 2
    costs = [await scale.takes_over(), await scale.loses(lost)]
    assert all(scale.leader_of(number) not in {lost, -1} for number in range(partitions)), "not all are led"
    costs += [await scale.gets(lost), await scale.shuts_down(lost + 1)]
    await scale.close()
    return costs


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m bench.controller_scale")
    parser.add_argument("--brokers", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=100_000)
    arguments = parser.parse_args()
    costs = asyncio.run(run(arguments.brokers, arguments.partitions))
    for cost in costs:
        sys.stdout.write(f"{cost}\n")
    lost = costs[1]
    kept = max(lost.writes, lost.messages) <= 1.1 * lost.partitions and lost.cpu_s < 60
    sys.stdout.write(
        f"a broker that goes costs at most 1.1 writes and messages a partition: {'yes' if kept else 'NO'}\n"
    )
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
