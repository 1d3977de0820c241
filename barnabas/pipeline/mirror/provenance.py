"""Where records have been, so that none of them comes back. Pure.

A mirror writes down at its target which producer id it writes with and which clusters each topic has records of. A
batch tells its producer id, so whoever mirrors that cluster on sees at once which batches a mirror wrote, and from
where, without a header in any record: batches stay what they were. Clusters are known by their ids.

Records that came straight from the target are dropped. Those that went over a third cluster cannot be told from that
one's own: such a cycle is refused.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from barnabas.pipeline.mirror.state_records import ProducerRecord, RouteKey, RouteRecord


@dataclass(frozen=True, slots=True)
class Upstream:
    """What other mirrors have written down in a cluster that is mirrored."""

    cluster_of_producer: Mapping[int, str]
    origins_of_topic: Mapping[str, frozenset[str]]
    """The clusters that a topic has records of, beside its own."""
    direct_origins: Mapping[str, frozenset[str]]
    """Those among them that mirrors read directly."""

    def foreign_producers(self, cluster_id: str) -> frozenset[int]:
        """The producer ids of mirrors that write there what they read in the cluster `cluster_id`."""
        return frozenset(pid for pid, cluster in self.cluster_of_producer.items() if cluster == cluster_id)


def read_upstream(producers: Iterable[ProducerRecord], routes: Mapping[RouteKey, RouteRecord]) -> Upstream:
    """Put together what stands in a cluster."""
    origins: dict[str, frozenset[str]] = {}
    direct: dict[str, frozenset[str]] = {}
    for route in routes.values():
        origins[route.target] = origins.get(route.target, frozenset()) | frozenset(route.origins)
        direct[route.target] = direct.get(route.target, frozenset()) | {route.cluster}
    return Upstream({pid: each.cluster for each in producers for pid in each.producer_ids}, origins, direct)


@dataclass(frozen=True, slots=True)
class Cycle:
    """A topic that has records of the target already. `is_direct` where a mirror brings them from there itself."""

    topic: str
    is_direct: bool


def find_cycles(topics: Collection[str], upstream: Upstream, target_cluster: str) -> list[Cycle]:
    """Those of `topics` whose records would come back to where they came from."""
    return [
        Cycle(topic, upstream.direct_origins.get(topic, frozenset()) >= {target_cluster})
        for topic in topics
        if target_cluster in upstream.origins_of_topic.get(topic, frozenset())
    ]


def origins_after(topic: str, upstream: Upstream, source_cluster: str) -> frozenset[str]:
    """The clusters that the target's topic has records of when `topic` of `source_cluster` is mirrored into it."""
    return upstream.origins_of_topic.get(topic, frozenset()) | {source_cluster}
