"""What is wrong with a cluster, told from its metadata: values in, values out."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from barnabas.client.metadata import ClusterMetadata, PartitionMetadata
from barnabas.protocol.ids import TopicPartition

_SHOWN: Final = 3
DEFAULT_MIN_ISR: Final = 1


def is_unavailable(partition: PartitionMetadata) -> bool:
    """Whether nobody leads it."""
    return partition.leader < 0


def is_under_replicated(partition: PartitionMetadata, adding: int = 0) -> bool:
    """Whether fewer are in sync than it has replicas, those that a reassignment is `adding` not counted."""
    return len(partition.isr) < len(partition.replicas) - adding


def is_under_min_isr(partition: PartitionMetadata, min_isr: int) -> bool:
    """Whether a write with acks=all is refused, be it that the topic asks for more in sync than it has replicas."""
    return is_unavailable(partition) or len(partition.isr) < min_isr


@dataclass(slots=True)
class Health:
    """The state of a cluster; `problems` is empty when all is well."""

    brokers: int = 0
    controller: int = -1
    partitions: int = 0
    down: list[int] = field(default_factory=list)
    silent: list[int] = field(default_factory=list)
    """Brokers that are registered and do not answer."""
    offline_disks: list[int] = field(default_factory=list)
    unavailable: list[TopicPartition] = field(default_factory=list)
    under_min_isr: list[TopicPartition] = field(default_factory=list)
    under_replicated: list[TopicPartition] = field(default_factory=list)
    damaged: dict[TopicPartition, list[int]] = field(default_factory=dict)
    """Replicas of which something is damaged and not served, by partition."""

    @property
    def problems(self) -> list[str]:
        """What is wrong, the worst first."""
        told = []
        if self.controller < 0:
            told.append("no broker is the controller")
        told += _some(self.unavailable, "has no leader", "have no leader")
        limited = [at for at in self.under_min_isr if at not in self.unavailable]
        told += _some(limited, "is under min.insync.replicas", "are under min.insync.replicas")
        if self.down:
            told.append(f"{_named('broker', self.down)} {'is' if len(self.down) == 1 else 'are'} down")
        if self.silent:
            told.append(f"{_named('broker', self.silent)} {'does' if len(self.silent) == 1 else 'do'} not answer")
        if self.offline_disks:
            told.append(f"{_named('broker', self.offline_disks)} lost a log directory")
        for at, brokers in self.damaged.items():
            told.append(f"{at} is damaged on {_named('broker', brokers)}")
        rest = [at for at in self.under_replicated if at not in self.unavailable and at not in limited]
        told += _some(rest, "is under-replicated", "are under-replicated")
        return told

    @property
    def line(self) -> str:
        """One line that says it all."""
        if self.problems:
            return f"unhealthy: {'; '.join(self.problems)}"
        return f"healthy: {self.brokers} brokers, controller {self.controller}, {self.partitions} partitions in sync"

    def document(self) -> dict[str, Any]:
        """For programs."""
        return {
            "healthy": not self.problems,
            "problems": self.problems,
            "brokers": self.brokers,
            "controller": self.controller if self.controller >= 0 else None,
            "partitions": self.partitions,
            "brokers_down": self.down,
            "brokers_that_do_not_answer": self.silent,
            "brokers_with_offline_directories": self.offline_disks,
            "unavailable": list(map(str, self.unavailable)),
            "under_min_isr": list(map(str, self.under_min_isr)),
            "under_replicated": list(map(str, self.under_replicated)),
            "damaged": {str(at): brokers for at, brokers in self.damaged.items()},
        }


def examine(
    metadata: ClusterMetadata, min_isr: Mapping[str, int], adding: Mapping[TopicPartition, int] | None = None
) -> Health:
    """Look at all topics of `metadata`.

    `min_isr` is by topic, 1 where it says nothing; `adding` has how many replicas a reassignment adds to a partition.
    """
    adding = adding or {}
    health = Health(brokers=len(metadata.nodes), controller=metadata.controller_id)
    if health.controller not in metadata.nodes:
        health.controller = -1
    down, disks = set[int](), set[int]()
    for name, topic in sorted(metadata.topics.items()):
        for number, partition in topic.partitions.items():
            at = TopicPartition(name, number)
            health.partitions += 1
            if is_unavailable(partition):
                health.unavailable.append(at)
            if is_under_min_isr(partition, min_isr.get(name, DEFAULT_MIN_ISR)):
                health.under_min_isr.append(at)
            if is_under_replicated(partition, adding.get(at, 0)):
                health.under_replicated.append(at)
            down.update(broker for broker in partition.replicas if broker not in metadata.nodes)
            disks.update(broker for broker in partition.offline_replicas if broker in metadata.nodes)
    health.down, health.offline_disks = sorted(down), sorted(disks)
    return health


def _some(partitions: list[TopicPartition], one: str, many: str) -> Iterable[str]:
    if len(partitions) == 1:
        yield f"{partitions[0]} {one}"
    elif partitions:
        shown = ", ".join(map(str, partitions[:_SHOWN])) + (", ..." if len(partitions) > _SHOWN else "")
        yield f"{len(partitions)} partitions {many} ({shown})"


def _named(what: str, numbers: list[int]) -> str:
    return f"{what}{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
