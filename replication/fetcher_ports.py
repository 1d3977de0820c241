"""What the fetchers of a broker share: its settings, its parts that they use, and what they count."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from barnabas.client.connection import Address
from barnabas.protocol.ids import BrokerId
from barnabas.protocol.schema import Api
from barnabas.runtime.clock import Clock
from replication.quota import ReplicationQuota


class LeaderConnection(Protocol):
    """How a leader is asked: what that takes of `barnabas.client.connection.Connection`, and it raises as that does."""

    @property
    def address(self) -> Address: ...

    @property
    def is_open(self) -> bool: ...

    async def request(self, api: Api, request: object, *, timeout_ms: int, least: int = 0, most: int) -> Any: ...

    def close(self, reason: str) -> None: ...


@dataclass(slots=True, frozen=True)
class FetcherSettings:
    """The broker's settings of its fetchers; Kafka's keys are in the comments."""

    replica_id: BrokerId
    fetchers_per_leader: int = 1  # num.replica.fetchers
    min_bytes: int = 1  # replica.fetch.min.bytes
    wait_max_ms: int = 500  # replica.fetch.wait.max.ms
    partition_max_bytes: int = 1024 * 1024  # replica.fetch.max.bytes
    response_max_bytes: int = 10 * 1024 * 1024  # replica.fetch.response.max.bytes
    backoff_ms: int = 1_000  # replica.fetch.backoff.ms
    socket_timeout_ms: int = 30_000  # replica.socket.timeout.ms


@dataclass(slots=True)
class FetchCount:
    """What the fetchers of a broker have done."""

    requests: int = 0
    received_bytes: int = 0


@dataclass(slots=True)
class FetchFigures:
    """How the fetchers of a broker are, for its metrics."""

    fetchers: int = 0
    requests: int = 0
    received_bytes: int = 0
    max_lag: int = 0
    """The most committed records that a partition lacks."""
    stopped_partitions: int = 0
    """Those that are followed and not fetched: fenced, or with a log that failed."""


@dataclass(slots=True, frozen=True)
class FetcherPorts:
    """What the fetchers of one broker share.

    `endpoint_of` tells where a broker is reached by others, None while it is not known to live; `connect` opens a
    connection there for a client of that name, and raises ClientError. `quota` is for throttled replicas.
    """

    clock: Clock
    spawn: Callable[..., "asyncio.Task[None]"]
    endpoint_of: Callable[[BrokerId], Address | None]
    connect: Callable[[Address, str], Awaitable[LeaderConnection]]
    count: FetchCount
    quota: ReplicationQuota
