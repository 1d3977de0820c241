"""Which brokers an agent tells of: those of the cluster that run on this machine, and those that it was told of.

A broker here is known by the process that listens on its port; its metrics are where `barnabas.metrics.port` says, or,
where that leaves the port to chance, on the one of its ports on loopback that answers. Once known it stays known: a
broker that is down is what somebody wants to hear of.
"""

import asyncio
import http.client
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from barnabas.client.admin import Admin, ConfigResource, ResourceType
from barnabas.client.cluster import Cluster
from barnabas.pipeline.operations.config import OperationsConfig
from barnabas.pipeline.operations.machine import is_own, listeners, own_addresses

_HTTP_TIMEOUT_S: Final = 2.0
_MOST_BYTES: Final = 64 * 1024 * 1024
_PORT_KEY: Final = "barnabas.metrics.port"
_LOGS_KEY: Final = "log.dirs"


@dataclass(slots=True)
class KnownBroker:
    """A broker. `pid` is None where its process is not here or cannot be seen, `metrics` where it shows none."""

    id: int
    pid: int | None = None
    metrics: str | None = None
    log_dirs: list[str] = field(default_factory=list)


class Discovery:
    """Finds brokers again and again."""

    def __init__(self, cluster: Cluster, config: OperationsConfig) -> None:
        self.brokers = {each.id: KnownBroker(each.id, metrics=each.metrics) for each in config.brokers}
        self._told = {each.id: each.metrics for each in config.brokers}
        self._cluster = cluster
        self._finds = config.finds_brokers

    async def look(self) -> None:
        """Look for brokers here. Raises ClientError where the cluster cannot be asked; what is known stays."""
        if not self._finds:
            return
        nodes = (await self._cluster.metadata()).nodes
        addresses = await asyncio.to_thread(own_addresses)
        pids = await asyncio.to_thread(listeners)
        for node_id, node in sorted(nodes.items()):
            if not is_own(node.address.host, addresses):
                continue
            broker = self.brokers.setdefault(node_id, KnownBroker(node_id))
            pid = pids.get(node.address.port)
            if broker.pid == pid and (broker.metrics is not None or pid is None):
                continue
            broker.pid = pid
            await self._learn(broker, node.address.port, pids)

    async def _learn(self, broker: KnownBroker, port: int, pids: Mapping[int, int]) -> None:
        """Ask a broker where its logs are and where it shows its metrics."""
        resource = ConfigResource(ResourceType.BROKER, str(broker.id))
        entries = await Admin(self._cluster).describe_configs(resource, [_PORT_KEY, _LOGS_KEY])
        values = {each.name: each.value or "" for each in entries}
        broker.log_dirs = [each.strip() for each in values.get(_LOGS_KEY, "").split(",") if each.strip()]
        if broker.id in self._told:
            return
        broker.metrics = None
        ports = [int(values.get(_PORT_KEY) or -1)]
        if ports == [0] and broker.pid is not None:
            ports = [each for each, pid in sorted(pids.items()) if pid == broker.pid and each != port]
        for each in ports:
            url = f"http://127.0.0.1:{each}/metrics"
            if each > 0 and await shows_metrics(url):
                broker.metrics = url
                break


async def shows_metrics(url: str) -> bool:
    """Whether a broker's metrics are there."""
    try:
        return "kafka_" in await read_metrics(url)
    except (OSError, ValueError, http.client.HTTPException):
        return False


async def read_metrics(url: str) -> str:
    """What a broker shows. Raises OSError, ValueError or HTTPException."""
    return await asyncio.to_thread(_get, url)


def _get(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError(f"{url!r} is not http://host:port/path")
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=_HTTP_TIMEOUT_S)
    try:
        connection.request("GET", parts.path or "/metrics")
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            raise ValueError(f"{url} answers {answer.status} {answer.reason}")
        return answer.read(_MOST_BYTES).decode("utf-8", "replace")
    finally:
        connection.close()
