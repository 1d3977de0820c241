"""The fetchers of a broker, made of its configuration, its view of the cluster and its network."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from barnabas.client.connection import Address, Connection, open_connection
from barnabas.client.network_channel import connector_over
from barnabas.protocol.ids import BrokerId
from barnabas.runtime.clock import Clock
from barnabas.runtime.network import Network, PeerOptions
from broker.config import BrokerConfig
from broker.metadata_view import MetadataView
from replication.fetcher_ports import FetchCount, FetcherPorts, FetcherSettings
from replication.fetchers import Fetchers
from replication.quota import ReplicationQuota, ReplicationQuotas

_LARGEST_BATCH_BYTES: Final = 1 << 30
"""An answer may exceed what was asked for by one batch."""


@dataclass(frozen=True, slots=True)
class BrokerReach:
    """How other brokers are reached; see `replication.fetcher_ports`."""

    endpoint_of: Callable[[BrokerId], Address | None]
    connect: Callable[[Address, str], Awaitable[Connection]]


def reach_brokers(config: BrokerConfig, *, metadata: MetadataView, network: Network) -> BrokerReach:
    """By the listener between brokers."""
    connector = connector_over(network, peer_options(config))
    listener_name = config.listeners.inter_broker_name

    def endpoint_of(leader_id: BrokerId) -> Address | None:
        endpoint = metadata.endpoint(leader_id, listener_name)
        return None if endpoint is None else Address(endpoint.host, endpoint.port)

    async def connect(address: Address, name: str) -> Connection:
        timeout_ms = config.replica_socket_timeout_ms
        return await open_connection(address, connector=connector, client_id=name, timeout_ms=timeout_ms)

    return BrokerReach(endpoint_of, connect)


def make_fetchers(
    config: BrokerConfig,
    broker_id: BrokerId,
    *,
    metadata: MetadataView,
    network: Network,
    clock: Clock,
    spawn: Callable[..., "asyncio.Task[None]"],
    quota: ReplicationQuota,
) -> Fetchers:
    """Fetchers that reach leaders by the listener between brokers."""
    reach = reach_brokers(config, metadata=metadata, network=network)
    ports = FetcherPorts(clock, spawn, reach.endpoint_of, reach.connect, FetchCount(), quota)
    return Fetchers(fetcher_settings(config, broker_id), ports)


def fetcher_settings(config: BrokerConfig, broker_id: BrokerId) -> FetcherSettings:
    """How the broker fetches."""
    return FetcherSettings(
        replica_id=broker_id,
        fetchers_per_leader=config.num_replica_fetchers,
        min_bytes=config.replica_fetch_min_bytes,
        wait_max_ms=config.replica_fetch_wait_max_ms,
        partition_max_bytes=config.replica_fetch_max_bytes,
        response_max_bytes=config.replica_fetch_response_max_bytes,
        backoff_ms=config.replica_fetch_backoff_ms,
        socket_timeout_ms=config.replica_socket_timeout_ms,
    )


def replication_quotas(config: BrokerConfig) -> ReplicationQuotas:
    """The quotas of replication, without bounds: those are dynamic (`broker.config_changes`)."""

    def quota(prefix: str) -> ReplicationQuota:
        count, seconds = (config.values[f"{prefix}.window.{name}"] for name in ("num", "size.seconds"))
        assert isinstance(count, int)
        assert isinstance(seconds, int)
        return ReplicationQuota(sample_count=count, sample_ms=seconds * 1_000)

    return ReplicationQuotas(
        leader=quota("replication.quota"),
        follower=quota("replication.quota"),
        moves=quota("alter.log.dirs.replication.quota"),
    )


def peer_options(config: BrokerConfig) -> PeerOptions:
    """How the broker's connections to other brokers are set up."""
    size = config.replica_socket_receive_buffer_bytes
    is_given = "replica.socket.receive.buffer.bytes" in config.given and size > 0
    return PeerOptions(
        max_frame_bytes=_LARGEST_BATCH_BYTES,
        user_timeout_ms=config.replica_socket_timeout_ms,
        # The kernel's own tuning serves better than Kafka's 64 KB.
        receive_buffer_bytes=size if is_given else None,
    )
