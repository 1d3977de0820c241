"""What the replicas of one broker share: its parts that they use, and what it counts of them."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

from barnabas.protocol.ids import BrokerEpoch, BrokerId
from barnabas.runtime.clock import Clock
from barnabas.storage.directories import LogDirectories
from replication.isr import IsrChannel
from replication.quota import ReplicationQuotas


@dataclass(slots=True)
class ReplicationCount:
    """How often partitions that this broker leads changed their in-sync sets, and what it fetched as a follower."""

    shrinks: int = 0
    expands: int = 0
    failed_updates: int = 0
    """Answers of the controller to proposals that it did not do."""
    bytes_in: int = 0


@dataclass(slots=True)
class ReplicationPorts:
    """See the module.

    `broker_epoch_of` tells under which epoch a broker is registered, None when it is not known to be alive. With
    `holds_below_min_isr` the high watermark stays where it is while fewer replicas than min.insync.replicas are in
    sync. `order` numbers what happens on this broker, each time with a greater number.
    """

    broker_id: BrokerId
    clock: Clock
    spawn: Callable[..., "asyncio.Task[None]"]
    log_directories: LogDirectories
    isr_channel: IsrChannel
    broker_epoch_of: Callable[[BrokerId], BrokerEpoch | None]
    replica_lag_time_max_ms: int = 30_000
    holds_below_min_isr: bool = True
    counts: ReplicationCount = field(default_factory=ReplicationCount)
    quotas: ReplicationQuotas = field(default_factory=ReplicationQuotas)
    order: Iterator[int] = field(default_factory=lambda: count(1))
