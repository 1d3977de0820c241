"""What a transaction coordinator wants done in the world. Pure."""

from dataclasses import dataclass

from barnabas.coordinator.effect import Effect
from barnabas.protocol.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class SendMarkers(Effect):
    """The end of a transaction has to be written into these partitions, by their leaders.

    Each partition that has its marker, or is gone, is reported by `TransactionCoordinator.markers_written`; one that
    cannot have it yet is tried again. `coordinator_epoch` fences coordinators of earlier epochs.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    partitions: tuple[TopicPartition, ...]
