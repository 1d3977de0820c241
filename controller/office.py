"""What the procedures of one term in office share, and the shape of a procedure.  [P]

A procedure is a generator: it yields batches of actions and gets back the replies to the questions among them, in
their order. It reads and changes the state between two batches only, and each batch is small (`BATCH_PARTITIONS`), so
that the driver can let the loop turn in between. A procedure that finds that this controller must not go on raises
`LeaveOffice`.
"""

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeVar

from barnabas.protocol.ids import TopicPartition
from controller.actions import Action, Write
from controller.events import Reply
from controller.outbox import Outbox
from controller.state import ClusterState, Term
from zk_schema import paths
from zk_schema.ops import Check, Op

T = TypeVar("T")
Procedure = Generator[list[Action], tuple[Reply, ...], T]

BATCH_PARTITIONS: Final = 250
"""Partitions that one batch decides on; its writes go to ZooKeeper together."""


class LeaveOffice(Exception):
    """This controller was superseded, or cannot trust what it knows."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The configuration values that the controller's decisions depend on."""

    inter_broker_listener_name: str = "PLAINTEXT"
    delete_topic_enable: bool = True
    unclean_leader_election_enable: bool = False
    min_insync_replicas: int = 1
    last_replica_defence: bool = True
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_per_broker_percentage: int = 10
    leader_imbalance_check_interval_ms: int = 300_000


@dataclass(slots=True)
class Office:
    """The state, the settings and the messages under way."""

    state: ClusterState
    settings: Settings
    """Others take their place when the broker's configuration changes."""
    outbox: Outbox
    changes: int = 0
    """Leaderships written during the present event."""

    @classmethod
    def open(cls, term: Term, settings: Settings) -> "Office":
        state = ClusterState(term)
        return cls(state, settings, Outbox(state, inter_broker_listener_name=settings.inter_broker_listener_name))

    def fenced(self, *operations: Op, reason: str) -> Write:
        """A write that passes only while this controller's epoch is the last one."""
        return Write((Check(paths.CONTROLLER_EPOCH, self.state.term.epoch_version), *operations), reason)

    def flush(self) -> list[Action]:
        """What brokers are to be told now."""
        return list(self.outbox.flush())

    def not_in_deletion(self, partitions: Iterable[TopicPartition]) -> Iterator[TopicPartition]:
        return (at for at in partitions if at.topic not in self.state.deletions)


def batches(items: Iterable[T], size: int = BATCH_PARTITIONS) -> Iterator[list[T]]:
    """The items in lists of at most `size`."""
    source = iter(items)
    while batch := list(islice(source, size)):
        yield batch
