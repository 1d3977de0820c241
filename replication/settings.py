"""What a topic's settings make its replicas do.  [P]

Resolved by whoever reads configuration, and applied in one place, `Replicas`, when a replica is assigned and whenever
they change.
"""

from dataclasses import dataclass

from barnabas.storage.log_config import LogConfig


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """What a topic's partitions act on. The two lists name replicas as `partition:broker`, or all of them as `*`."""

    log: LogConfig
    min_insync_replicas: int = 1
    leader_throttled_replicas: tuple[str, ...] = ()
    follower_throttled_replicas: tuple[str, ...] = ()
