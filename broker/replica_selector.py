"""Which replica a consumer should read from, by `replica.selector.class` (KIP-392).

The names are those of Kafka's own classes. The leader asks the selector for each fetch of a consumer that tells its
rack; a replica other than the leader is named only if it is in sync, alive on the consumer's listener, and its log
holds the offset.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from barnabas.protocol.ids import BrokerId
from broker.metadata_view import MetadataView
from replication.partition import Partition

LEADER_SELECTOR: Final = "org.apache.kafka.common.replica.LeaderSelector"
RACK_AWARE_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
_NEVER: Final = -1


class ReplicaChoice(NamedTuple):
    """A replica that could serve. The greater, the better: what it has, when it had all, its id."""

    end_offset: int
    caught_up_ms: int
    broker_id: BrokerId
    rack: str | None


def choose_replica(
    selector: str,
    partition: Partition,
    metadata: MetadataView,
    *,
    client_rack: str,
    listener_name: str,
    fetch_offset: int,
) -> BrokerId | None:
    """The follower that the consumer should ask; None when the leader is as good, or nobody else can serve."""
    leadership = partition.leadership
    if selector == LEADER_SELECTOR or leadership is None:
        return None
    own = metadata.brokers.get(leadership.broker_id)
    if own is None or own.rack == client_rack:
        return None
    reachable = metadata.brokers_on(listener_name)
    followers = [
        ReplicaChoice(
            remote.end_offset,
            _NEVER if remote.caught_up_ms is None else remote.caught_up_ms,
            broker_id,
            metadata.brokers[broker_id].rack,
        )
        for broker_id, remote in leadership.remotes.items()
        if remote.log_start_offset <= fetch_offset <= remote.end_offset
        and broker_id in leadership.isr.committed
        and broker_id in reachable
    ]
    chosen = choose_in_rack(followers, client_rack)
    return None if chosen is None else chosen.broker_id


def choose_in_rack(followers: Sequence[ReplicaChoice], client_rack: str) -> ReplicaChoice | None:
    """The most caught up of those in the rack."""
    return max((each for each in followers if each.rack == client_rack), key=lambda each: each[:3], default=None)
