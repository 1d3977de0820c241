"""The metrics of the coordinators of this broker: groups, their offsets, and how the partitions behind them do.

Names are Kafka's; what it does not count begins with `barnabas_`.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from prometheus_client.core import Metric

from barnabas.coordinator.groups.states import GroupState
from broker.coordination import Coordination
from broker.metric_exposition import gauge

_GROUPS: Final = "kafka_coordinator_group_groupmetadatamanager_"


def coordinator_families(coordination: Coordination) -> Iterator[Metric]:
    """All of them; of what is being loaded nothing is counted yet."""
    states: Counter[GroupState] = Counter()
    offsets = 0
    for shard in coordination.groups.values():
        if shard.machine is not None:
            states.update(shard.machine.count_by_state())
            offsets += shard.machine.count_offsets()
    yield gauge(f"{_GROUPS}numgroups", "Groups that this broker coordinates", states.total())
    for state in GroupState:
        yield gauge(f"{_GROUPS}numgroups{state.value.lower()}", f"Those of them that are {state.value}", states[state])
    yield gauge(f"{_GROUPS}numoffsets", "Offsets that groups have committed", offsets)
    for name, shards in (
        ("group", [*coordination.groups.values()]),
        ("transaction", [*coordination.transactions.values()]),
    ):
        prefix = f"barnabas_{name}_coordinator_"
        loading = sum(not shard.is_loaded for shard in shards)
        longest_ms = max((shard.counts.load_ms for shard in shards), default=0)
        yield gauge(f"{prefix}partitions", "Partitions that this broker coordinates", len(shards))
        yield gauge(f"{prefix}loading_partitions", "Those of them that are being loaded", loading)
        yield gauge(f"{prefix}load_time_max_ms", "How long the slowest of them took to load", longest_ms)
        drops = sum(shard.counts.drops for shard in shards)
        yield gauge(f"{prefix}drops", "How often they were read again because an append had failed", drops)
