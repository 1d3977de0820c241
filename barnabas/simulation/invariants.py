"""What must hold of a cluster at every moment, looked at from outside: its brokers' memory, disks and ZooKeeper.

Cheap rules (leaders, high watermarks, epochs, assignments) are looked at often; the logs are compared below the high
watermark less often, each batch once. The committed prefix of a partition is remembered for good: what was below a
leader's high watermark once must stand in every later leader, at the same place, with the same bytes. Partitions whose
promise is weaker (`watched` leaves them out) are held to the cheap rules only.

A replica with bit rot in it is not compared while that stands, but to its end; afterwards all of it is, once more.

The looking itself changes nothing: files are read from the disk's image, znodes from the server's tree.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from barnabas.protocol.batch import HEADER_BYTES, CorruptBatch, read_header
from barnabas.protocol.ids import TopicPartition
from barnabas.simulation.bit_rot import BitRot
from barnabas.simulation.disk import PlantedError
from barnabas.simulation.disk_image import Inode
from barnabas.simulation.machine import Machine
from replication.partition import Partition
from zk_schema import paths
from zk_schema.json_text import InvalidPayload
from zk_schema.memory import MemoryZooKeeper
from zk_schema.payloads import ControllerEpochText, PartitionState, TopicAssignment

_LOG_SUFFIX: Final = ".log"
_CONTROLLER_GRACE_S: Final = 10.0


class BatchPlace(NamedTuple):
    """A batch in a log. The checksum covers what the producer sent; offset and epoch stand outside it."""

    base_offset: int
    next_offset: int
    leader_epoch: int
    crc: int


@dataclass(slots=True)
class _ScannedFile:
    """The batches of a segment as far as they were looked at."""

    batches: list[BatchPlace] = field(default_factory=list)
    verified: int = 0
    last_head: bytes = b""
    last_start: int = 0
    end: int = 0


@dataclass(slots=True)
class Committed:
    """What is known to be below the high watermark of a partition."""

    batches: dict[int, BatchPlace] = field(default_factory=dict)
    end: int = 0
    start: int = 0


Violation = Callable[[str], None]


class Invariants:
    """Looks at the machines of a world and reports what must not be."""

    def __init__(
        self, machines: list[Machine], zookeeper: MemoryZooKeeper, rot: BitRot, on_violation: Violation
    ) -> None:
        self.watched: dict[TopicPartition, None] = {}
        self.compacted: dict[TopicPartition, None] = {}
        """Those of the watched whose replicas hold different parts of what was written, each its own."""

        self.leader_changes = 0
        self.committed: dict[TopicPartition, Committed] = {}
        self._machines = machines
        self._zookeeper = zookeeper
        self._rot = rot
        self._report = on_violation
        self._leaders: dict[tuple[TopicPartition, int], int] = {}
        self._newest_epoch: dict[TopicPartition, int] = {}
        self._high_watermarks: dict[tuple[TopicPartition, int], int] = {}
        self.controller_epoch = 0
        self._terms: dict[int, int] = {}
        self._written: dict[TopicPartition, tuple[int, int]] = {}
        self._states: dict[TopicPartition, tuple[bytes, PartitionState]] = {}
        self._caught_up: dict[tuple[int, int, TopicPartition], None] = {}
        self._too_early: dict[tuple[int, int, TopicPartition], float] = {}
        self._scanned: dict[tuple[str, str], _ScannedFile] = {}

    def replicas(self) -> Iterator[tuple[Machine, Partition]]:
        """The replicas of all brokers that run."""
        for machine in self._machines:
            if machine.broker is not None:
                for partition in machine.broker.services.replicas.partitions():
                    yield machine, partition

    def replicas_of(self, at: TopicPartition) -> Iterator[tuple[Machine, Partition]]:
        """Those of one partition."""
        for machine in self._machines:
            partition = None if machine.broker is None else machine.broker.services.replicas.partition(at)
            if partition is not None:
                yield machine, partition

    # Cheap rules.

    def look(self) -> None:
        """Leaders, high watermarks, epochs."""
        for machine, partition in self.replicas():
            # A topic of the same name that was made anew begins with epoch 0 again.
            if partition.leader_id == machine.broker_id and partition.topic_partition in self.watched:
                self._look_at_leader(machine, partition)
            log = partition.log
            if log.high_watermark > log.log_end_offset:
                self._report(
                    f"{partition.topic_partition} on {machine.host}: high watermark {log.high_watermark} "
                    f"above its end {log.log_end_offset}"
                )
        self._look_at_controller_epoch()
        self._look_at_directories()
        for at in self.watched:
            self._look_at_writer(at)

    def _look_at_directories(self) -> None:
        """A log directory is given up only where its device failed."""
        for machine in self._machines:
            if machine.broker is not None:
                for directory in machine.broker.services.replicas.log_directories.directories:
                    if directory.failure is not None and not isinstance(directory.failure, PlantedError):
                        self._report(f"{directory.path} of {machine.host} is offline for {directory.failure!r}")

    def _look_at_writer(self, at: TopicPartition) -> None:
        """What was written after a controller was elected that one wrote; leader epochs never fall."""
        znode = self._zookeeper.tree.get(paths.partition_state(at.topic, at.partition))
        election = self._zookeeper.tree.get(paths.CONTROLLER_EPOCH)
        mzxid, epoch = self._written.get(at, (-1, -1))
        if znode is None or election is None or mzxid == znode.stat.mzxid:
            return
        state = self.state(at)
        assert state is not None
        self._written[at] = znode.stat.mzxid, state.leader_epoch
        if znode.stat.mzxid > election.stat.mzxid and state.controller_epoch != self.controller_epoch:
            self._report(f"{at}: written in epoch {state.controller_epoch} after {self.controller_epoch}: {state}")
        if state.leader_epoch < epoch:
            self._report(f"{at}: the leader epoch fell from {epoch}: {state}")

    def on_cut(self, machine: Machine, directory: str) -> None:
        """A log was cut. A replica in sync that had caught up must still have what any replica knows as committed."""
        held = list(self.replicas())
        for other, partition in held:
            at, end = partition.topic_partition, partition.log.log_end_offset
            key = (machine.broker_id, machine.incarnation, at)
            if other is not machine or partition.log.directory != directory or key not in self._caught_up:
                continue
            committed = max(each.log.high_watermark for _, each in held if each.topic_partition == at)
            if (
                at in self.watched
                and end < committed
                and self._is_told_in_sync(machine, at)
                and not partition.is_offline
            ):
                self._report(f"{at}: {machine.host} is in sync and was cut to {end}, though {committed} is committed")

    def _look_at_leader(self, machine: Machine, partition: Partition) -> None:
        at, epoch = partition.topic_partition, partition.leader_epoch
        leader = self._leaders.setdefault((at, epoch), machine.broker_id)
        if leader != machine.broker_id:
            self._report(f"{at}: brokers {leader} and {machine.broker_id} both lead in epoch {epoch}")
        if epoch > self._newest_epoch.get(at, -1):
            self.leader_changes += at in self._newest_epoch
            self._newest_epoch[at] = epoch
        self._look_at_what_it_was_told(machine, partition)
        high_watermark = partition.log.high_watermark
        before = self._high_watermarks.get((at, epoch), -1)
        if high_watermark < before:
            self._report(f"{at}: the high watermark fell from {before} to {high_watermark} in epoch {epoch}")
        self._high_watermarks[at, epoch] = high_watermark

    def _look_at_what_it_was_told(self, machine: Machine, partition: Partition) -> None:
        """Nobody hears of a leadership or of an in-sync set that does not stand in ZooKeeper, or stood there before."""
        at, epoch, leadership = partition.topic_partition, partition.leader_epoch, partition.leadership
        state = self.state(at)
        if state is None or leadership is None:
            return
        if epoch > state.leader_epoch or (epoch == state.leader_epoch and state.leader != machine.broker_id):
            self._report(f"{at}: {machine.host} leads in epoch {epoch}, and in ZooKeeper stands {state}")
        znode = self._zookeeper.tree.get(paths.partition_state(at.topic, at.partition))
        assert znode is not None
        version, isr = leadership.isr.zk_version, leadership.isr.committed
        if version > znode.stat.version or (version == znode.stat.version and set(isr) != set(state.isr)):
            self._report(
                f"{at}: {machine.host} believes in the in-sync set {isr} of version {version}, "
                f"and in ZooKeeper stands {state} of version {znode.stat.version}"
            )

    def _look_at_controller_epoch(self) -> None:
        znode = self._zookeeper.tree.get(paths.CONTROLLER_EPOCH)
        if znode is not None:
            epoch = ControllerEpochText.decode(znode.data).epoch
            if epoch < self.controller_epoch:
                self._report(f"the controller epoch fell from {self.controller_epoch} to {epoch}")
            self.controller_epoch = epoch
            self._look_at_terms(epoch)

    def _look_at_terms(self, newest: int) -> None:
        """Each term in office stands in ZooKeeper, or stood there before, and is one broker's."""
        for machine in self._machines:
            epoch = None if machine.broker is None else machine.broker.services.controller.controller_epoch
            if epoch is None:
                continue
            holder = self._terms.setdefault(epoch, machine.broker_id)
            if epoch > newest or holder != machine.broker_id:
                self._report(
                    f"{machine.host} is controller in epoch {epoch}, which is broker {holder}'s; last: {newest}"
                )

    # Znodes.

    def assignment(self, topic: str) -> TopicAssignment | None:
        znode = self._zookeeper.tree.get(paths.topic(topic))
        return None if znode is None else TopicAssignment.decode(znode.data)

    def state(self, at: TopicPartition) -> PartitionState | None:
        """What ZooKeeper says of a partition."""
        znode = self._zookeeper.tree.get(paths.partition_state(at.topic, at.partition))
        if znode is None:
            return None
        known = self._states.get(at)
        if known is None or known[0] != znode.data:
            known = self._states[at] = znode.data, PartitionState.decode(znode.data)
        return known[1]

    def look_at_znodes(self) -> None:
        """The ISR is a subset of the assignment, and so is the leader."""
        for topic in self._zookeeper.tree.children(paths.BROKER_TOPICS) or []:
            try:
                assignment = self.assignment(topic)
            except InvalidPayload as error:
                self._report(f"{topic}: {error}")
                continue
            for number, replicas in (assignment.partitions if assignment is not None else {}).items():
                state = self.state(TopicPartition(topic, number))
                if state is None:
                    continue
                if not state.isr or not set(state.isr) <= set(replicas):
                    self._report(f"{topic}-{number}: ISR {state.isr} of the assignment {replicas}")
                if state.leader != -1 and state.leader not in state.isr:
                    self._report(f"{topic}-{number}: leader {state.leader} is not in the ISR {state.isr}")

    def look_at_returned_replicas(self, now_s: float) -> None:
        """A replica whose process started anew is in no ISR with others before it has caught up.

        The controller needs its time to learn of the new process; a state written long after that is not excused.
        """
        high_watermarks = {
            partition.topic_partition: partition.log.high_watermark
            for machine, partition in self.replicas()
            if self.is_true_leader(machine, partition)
        }
        early: dict[tuple[int, int, TopicPartition], float] = {}
        for machine, partition in self.replicas():
            at = partition.topic_partition
            key = (machine.broker_id, machine.incarnation, at)
            if key in self._caught_up or at not in high_watermarks:
                continue
            if partition.log.log_end_offset >= high_watermarks[at]:
                self._caught_up[key] = None
            elif self._is_told_in_sync(machine, at):
                early[key] = self._too_early.get(key, now_s)
                if now_s - early[key] > _CONTROLLER_GRACE_S:
                    self._report(f"{at}: {machine.host} came back, has not caught up, and is in sync with others")
        self._too_early = early

    def _is_told_in_sync(self, machine: Machine, at: TopicPartition) -> bool:
        """Whether the ISR was written since the broker registered, and has it beside others."""
        znode = self._zookeeper.tree.get(paths.partition_state(at.topic, at.partition))
        registration = self._zookeeper.tree.get(paths.broker(machine.broker_id))
        if znode is None or registration is None or znode.stat.mzxid <= registration.stat.czxid:
            return False
        isr = PartitionState.decode(znode.data).isr
        return machine.broker_id in isr and len(isr) > 1

    # Logs.

    def compare_logs(self) -> None:
        """Below the high watermark every replica in sync holds what was committed; so does every true leader."""
        held = list(self.replicas())
        for machine, partition in held:
            if self._is_damaged(machine, partition):
                self._forget_files(machine, partition.log.directory)
        for machine, partition in held:
            if partition.topic_partition in self.watched and self.is_true_leader(machine, partition):
                self._take_committed(machine, partition)
        for machine, partition in held:
            at = partition.topic_partition
            is_sound = not partition.is_offline and not self._is_damaged(machine, partition)
            if is_sound and at in self.committed and at not in self.compacted:
                self._compare(machine, partition)

    def _is_damaged(self, machine: Machine, partition: Partition) -> bool:
        """Whether something was done to the replica that is not mended yet."""
        at = partition.topic_partition
        # Where the end of a file went there are no bad bytes to be found, once others were appended.
        is_known = bool(partition.log.damage) and self._rot.has_hit(machine, at)
        return is_known or self._rot.stands_on(machine, at)

    def is_true_leader(self, machine: Machine, partition: Partition) -> bool:
        """Whether a broker leads as ZooKeeper says it, and knows."""
        if partition.leader_id != machine.broker_id or partition.is_offline:
            return False
        state = self.state(partition.topic_partition)
        return state is not None and state.leader == machine.broker_id and state.leader_epoch == partition.leader_epoch

    def _take_committed(self, machine: Machine, partition: Partition) -> None:
        at, log = partition.topic_partition, partition.log
        known = self.committed.setdefault(at, Committed())
        if log.log_end_offset < known.end:
            self._report(
                f"{at}: {machine.host} leads in epoch {partition.leader_epoch} and ends at {log.log_end_offset}, "
                f"but up to {known.end} was committed"
            )
            return
        known.start = max(known.start, log.log_start_offset)
        if log.high_watermark <= known.end or self._is_damaged(machine, partition):
            return
        if at in self.compacted:
            known.end = log.high_watermark
            return
        for batch in self.batches(machine, log.directory, start=known.end, end=log.high_watermark):
            known.batches[batch.base_offset] = batch
            known.end = batch.next_offset

    def _compare(self, machine: Machine, partition: Partition) -> None:
        """A replica below its own high watermark, and a true leader altogether, differs nowhere from the committed."""
        at, log = partition.topic_partition, partition.log
        known = self.committed[at]
        bound = known.end if self.is_true_leader(machine, partition) else min(log.high_watermark, known.end)
        for path, inode in machine.disk.files_in(log.directory):
            if not path.endswith(_LOG_SUFFIX):
                continue
            scanned = self._scan(machine, path, inode)
            while scanned.verified < len(scanned.batches):
                batch = scanned.batches[scanned.verified]
                if batch.next_offset > bound:
                    break
                expected = known.batches.get(batch.base_offset)
                if batch.base_offset >= known.start and expected != batch:
                    self._report(f"{at} on {machine.host}: {batch} where {expected} was committed (below {bound})")
                    return
                scanned.verified += 1

    def batches(self, machine: Machine, directory: str, *, start: int, end: int) -> Iterator[BatchPlace]:
        """The batches of a log on its disk that touch [start, end)."""
        for path, inode in machine.disk.files_in(directory):
            if not path.endswith(_LOG_SUFFIX):
                continue
            scanned = self._scan(machine, path, inode)
            if scanned.batches and scanned.batches[-1].next_offset > start:
                for batch in scanned.batches:
                    if batch.next_offset > start and batch.base_offset < end:
                        yield batch

    def forget_what_was_read(self) -> None:
        """Look at all batches again, also those that were compared."""
        self._scanned.clear()

    def _forget_files(self, machine: Machine, directory: str) -> None:
        """What was read of a replica's files may be read differently."""
        for key in [key for key in self._scanned if key[0] == machine.host and key[1].startswith(f"{directory}/")]:
            del self._scanned[key]

    def _scan(self, machine: Machine, path: str, inode: Inode) -> _ScannedFile:
        key, data = (machine.host, path), inode.data
        scanned = self._scanned.get(key)
        if scanned is None or not _still_holds(scanned, data):
            scanned = self._scanned[key] = _ScannedFile()
        while len(data) - scanned.end >= HEADER_BYTES:
            try:
                header = read_header(data, scanned.end)
            except CorruptBatch:
                break
            if header.length <= 0 or scanned.end + header.size_bytes > len(data):
                break
            place = BatchPlace(header.base_offset, header.next_offset, header.leader_epoch, header.crc)
            scanned.batches.append(place)
            scanned.last_start = scanned.end
            scanned.last_head = bytes(data[scanned.end : scanned.end + HEADER_BYTES])
            scanned.end += header.size_bytes
        return scanned


def _still_holds(scanned: _ScannedFile, data: bytearray) -> bool:
    """Whether the file has only grown since: its last batch stands where it stood."""
    start = scanned.last_start
    return len(data) >= scanned.end and data[start : start + len(scanned.last_head)] == scanned.last_head
