"""The way to the cluster that a query names."""

import asyncio
from typing import Final

from barnabas.client.cluster import Cluster, ClusterOptions, open_cluster
from barnabas.client.errors import ClusterUnreachable
from barnabas.pipeline.given_options import OptionError

_PAUSE_S: Final = 0.2


def connect(bootstrap_servers: str, options: ClusterOptions) -> Cluster:
    """A cluster by the option kafka.bootstrap.servers; nothing is connected yet. Raises OptionError."""
    try:
        return open_cluster(bootstrap_servers, options=options)
    except ValueError as error:
        raise OptionError(f"option kafka.bootstrap.servers={bootstrap_servers!r}: {error}") from None


async def reach(cluster: Cluster) -> None:
    """Return when the cluster has answered; from then on it is asked patiently. Raises ClientError.

    A client gives up at once where nothing ever answered, so that a wrong address shows. Here brokers that are being
    started again would cost a task of a query, or its commit: they get `ClusterOptions.timeout_ms`.
    """
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + cluster.options.timeout_ms / 1000
    while True:
        try:
            await cluster.metadata()
        except ClusterUnreachable:
            if loop.time() >= deadline_s:
                raise
            await asyncio.sleep(_PAUSE_S)
        else:
            return
