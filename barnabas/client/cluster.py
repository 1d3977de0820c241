"""A client's way to a whole cluster: which broker to ask, connections to them, and trying again.

One connection per broker and lane, opened when it is first needed, and again when it was lost. A broker answers the
requests of a connection in turn, so what may wait long at the broker (a fetch, joining a group) has a lane of its own.
Metadata is fetched when something is not known, or when an answer showed that it is stale.

`patiently` is the one place that tries again: it repeats what failed with a retriable error, after a pause that grows,
until its time is over. Only a cluster of which nothing was ever heard is given up at once, so that a wrong address
shows.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self, TypeVar

from barnabas.client.connection import Address, Connection, open_connection
from barnabas.client.errors import ClientError, ClusterUnreachable, ConnectionFailed, KafkaError, RequestTimedOut
from barnabas.client.leader_epochs import LeaderEpochs
from barnabas.client.metadata import ClusterMetadata, Node, TopicMetadata, read_metadata
from barnabas.client.transport import Connector, connect_tcp
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.messages import metadata as metadata_api
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.schema import Api

log = logging.getLogger(__name__)

T = TypeVar("T")

_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 1.0
_CLOSE_TIMEOUT_S: Final = 2.0


@dataclass(slots=True)
class ClusterOptions:
    """How a cluster is talked to. `timeout_ms` is for one call with all its attempts, the others for one attempt."""

    client_id: str = "barnabas"
    connect_timeout_ms: int = 10_000
    request_timeout_ms: int = 30_000
    timeout_ms: int = 60_000

    @property
    def broker_timeout_ms(self) -> int:
        """How long a broker may take before it answers REQUEST_TIMED_OUT; its answer shall still find us waiting."""
        return self.request_timeout_ms * 2 // 3


class Cluster:
    """Owns the connections to a cluster. Use it as an asynchronous context manager, or `close` it."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        *,
        random: random.Random,
        connector: Connector = connect_tcp,
        options: ClusterOptions | None = None,
    ) -> None:
        assert bootstrap, "at least one address to start with"
        self.options = options or ClusterOptions()
        self.random = random
        self._bootstrap = list(bootstrap)
        self._connector = connector
        self._metadata = ClusterMetadata()
        self._leader_epochs = LeaderEpochs()
        self._connections: dict[tuple[Hashable, Address], asyncio.Task[Connection]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection. Requests under way fail."""
        opening, self._connections = self._connections, {}
        await _close_all(opening.values())

    async def close_lane(self, lane: Hashable) -> None:
        """Close the connections of a lane that is not used any more. Its requests under way fail."""
        keys = [key for key in self._connections if key[0] == lane]
        await _close_all([self._connections.pop(key) for key in keys])

    # Metadata.

    async def metadata(self, topics: Iterable[str] | None = (), *, auto_create: bool = False) -> ClusterMetadata:
        """Ask any broker: about `topics`, about all with None, about brokers alone with none. Raises ClientError.

        Returns what it told. Of a partition of which it told an older leader epoch, `known` stays as it was.
        """
        wanted = None if topics is None else [MetadataRequestTopic(name) for name in dict.fromkeys(topics)]

        async def ask() -> tuple[ClusterMetadata, Address]:
            connection = await self.any_connection()
            # Version 0 has no way to ask for no topic, version 4 the first to forbid their creation.
            request = MetadataRequest(topics=wanted, allow_auto_topic_creation=auto_create)
            response = await self._request(connection, metadata_api.API, request, least=4)
            return read_metadata(response), connection.address

        fresh, teller = await self.patiently(ask)
        known = self._metadata
        registered = {node.address for nodes in (known.nodes, fresh.nodes) for node in nodes.values()}
        known.cluster_id, known.controller_id, known.nodes = fresh.cluster_id, fresh.controller_id, fresh.nodes
        for name, told in fresh.topics.items():
            before = known.topics.get(name)
            known.topics[name] = self._leader_epochs.sift(told, before, teller=teller, registered=registered)
        return fresh

    async def topic(self, name: str, *, auto_create: bool = False) -> TopicMetadata:
        """Return a topic, from memory where it is known. Raises KafkaError where it does not exist."""
        known = self._metadata.topics.get(name)
        if known is None or known.error:

            async def ask() -> TopicMetadata:
                await self.metadata([name], auto_create=auto_create)
                found = self._metadata.topics[name]
                if found.error and (found.error is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or auto_create):
                    raise KafkaError(found.error, context=f"topic {name}")
                return found

            known = await self.patiently(ask)
            if known.error:
                # It is what the cluster says of a missing topic: asking again would only wait.
                raise KafkaError(known.error, context=f"topic {name}")
        return known

    def known(self, name: str) -> TopicMetadata | None:
        """What is known of a topic without asking."""
        return self._metadata.topics.get(name)

    def forget(self, topic: str) -> None:
        """What is known of `topic` proved stale."""
        self._metadata.topics.pop(topic, None)

    def hear_of(self, topic_partition: TopicPartition, leader_epoch: int) -> None:
        """A partition has had this leader epoch: what is known of its leader before that is not to be used."""
        topic, partition = topic_partition
        self._leader_epochs.hear(topic, partition, leader_epoch)
        known = self._metadata.topics.get(topic)
        at = None if known is None else known.partitions.get(partition)
        if at is not None and 0 <= at.leader_epoch < leader_epoch:
            self.forget(topic)

    def doubt_leader(self, topic_partition: TopicPartition) -> None:
        """Who is said to lead may have been deposed and not know it: let another broker tell who does, if one can."""
        leader = self.known_leader(topic_partition)
        if leader is not None:
            self._leader_epochs.doubt(topic_partition.topic, self._metadata.nodes[leader].address)
        self.forget(topic_partition.topic)

    # Connections.

    async def connection(self, node_id: int, *, lane: Hashable = None) -> Connection:
        """The connection to a broker; who names a lane does not wait behind others. Raises ClientError."""
        node = self._metadata.nodes.get(node_id)
        if node is None:
            node = (await self.metadata()).nodes.get(node_id)
        if node is None:
            raise ConnectionFailed(f"broker {node_id} is not registered")
        return await self._connect(node.address, lane)

    async def leader(self, topic_partition: TopicPartition) -> Node:
        """The broker that leads a partition. Raises KafkaError where nobody does."""
        topic = await self.topic(topic_partition.topic)
        partition = topic.partitions.get(topic_partition.partition)
        if partition is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"it has partitions 0 to {len(topic.partitions) - 1}",
                context=str(topic_partition),
            )
        node = self._metadata.nodes.get(partition.leader)
        if node is None:
            self.forget(topic_partition.topic)
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, context=str(topic_partition))
        return node

    def known_leader(self, topic_partition: TopicPartition) -> int | None:
        """The node id of the broker that leads a partition as far as it is known without asking."""
        topic = self._metadata.topics.get(topic_partition.topic)
        partition = None if topic is None else topic.partitions.get(topic_partition.partition)
        return None if partition is None or partition.leader not in self._metadata.nodes else partition.leader

    def knows(self, node_id: int) -> bool:
        """Whether a broker was registered when metadata were asked for last."""
        return node_id in self._metadata.nodes

    async def ask_any(self, api: Api, request: object, *, least: int = 0) -> Any:
        """Send a request to any broker, once."""
        return await self._request(await self.any_connection(), api, request, least=least)

    async def ask(self, node_id: int, api: Api, request: object, *, least: int = 0) -> Any:
        """Send a request to a broker, once."""
        return await self._request(await self.connection(node_id), api, request, least=least)

    async def ask_controller(self, api: Api, request: object, *, least: int = 0) -> Any:
        """Send a request to the controller, once. Raises KafkaError(NOT_CONTROLLER) while there is none."""
        controller = (await self.metadata()).controller_id
        if controller < 0:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "the cluster has no controller at the moment")
        return await self.ask(controller, api, request, least=least)

    # Trying again.

    async def patiently(self, call: Callable[[], Awaitable[T]], *, timeout_ms: int | None = None) -> T:
        """Repeat `call` while it fails with a retriable error and time remains; then raise RequestTimedOut."""
        loop = asyncio.get_running_loop()
        timeout_ms = self.options.timeout_ms if timeout_ms is None else timeout_ms
        deadline = loop.time() + timeout_ms / 1000
        pause = _FIRST_PAUSE_S
        while True:
            try:
                return await call()
            except ClientError as error:
                if not error.retriable:
                    raise
                left = deadline - loop.time()
                if left <= 0:
                    raise RequestTimedOut(f"gave up after {timeout_ms} ms: {error}") from error
                log.debug("trying again in %.2f s: %s", pause, error)
                await asyncio.sleep(min(left, pause * self.random.uniform(0.8, 1.2)))
                pause = min(pause * 2, _LONGEST_PAUSE_S)

    async def _request(self, connection: Connection, api: Api, request: object, *, least: int = 0) -> Any:
        return await connection.request(api, request, timeout_ms=self.options.request_timeout_ms, least=least)

    async def any_connection(self) -> Connection:
        """A connection to a broker that can be reached: an open one, else a registered one, else where we started.

        Those that lag behind come last. Raises ClientError.
        """
        is_behind = self._leader_epochs.is_behind
        for (lane, address), task in self._connections.items():
            if (
                lane is None
                and not is_behind(address)
                and task.done()
                and not task.cancelled()
                and task.exception() is None
                and task.result().is_open
            ):
                return task.result()
        registered = [node.address for node in self._metadata.nodes.values()]
        self.random.shuffle(registered)
        errors: list[ClientError] = []
        for address in sorted(dict.fromkeys([*registered, *self._bootstrap]), key=is_behind):
            try:
                return await self._connect(address)
            except ClientError as error:
                errors.append(error)
        refusal = next((error for error in errors if not isinstance(error, ConnectionFailed)), None)
        if refusal is not None:
            raise refusal
        failure = ConnectionFailed if registered else ClusterUnreachable
        raise failure("; ".join(dict.fromkeys(map(str, errors))))

    async def _connect(self, address: Address, lane: Hashable = None) -> Connection:
        task = self._connections.get((lane, address))
        if task is None or (task.done() and (task.cancelled() or task.exception() or not task.result().is_open)):
            task = asyncio.ensure_future(
                open_connection(
                    address,
                    connector=self._connector,
                    client_id=self.options.client_id,
                    timeout_ms=self.options.connect_timeout_ms,
                )
            )
            task.add_done_callback(_take_exception)
            self._connections[lane, address] = task
        # Others may wait for the same connection: that one of them gives up does not end it.
        return await asyncio.shield(task)


def open_cluster(bootstrap: str, *, options: ClusterOptions | None = None) -> Cluster:
    """A cluster by the addresses of some of its brokers: `host:port`, several with commas between, `[::1]:9092` too.

    Nothing is connected yet. Raises ValueError for what is no address.
    """
    addresses = [_parse_address(each.strip()) for each in bootstrap.split(",")]
    return Cluster(addresses, random=random.Random(), options=options)


def _parse_address(text: str) -> Address:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not (port.isascii() and port.isdecimal() and 0 < int(port) < 65_536):
        raise ValueError(f"bootstrap={text!r} is not host:port")
    return Address(host.removeprefix("[").removesuffix("]"), int(port))


async def _close_all(opening: "Iterable[asyncio.Task[Connection]]") -> None:
    tasks = list(opening)
    for task in tasks:
        task.cancel()  # does nothing to one that is open
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    connections = [outcome for outcome in outcomes if isinstance(outcome, Connection)]
    for connection in connections:
        connection.close()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_CLOSE_TIMEOUT_S):
            await asyncio.gather(*(connection.ended() for connection in connections))


def _take_exception(task: "asyncio.Task[Connection]") -> None:
    """Whoever waited has it; when all of them were cancelled nobody has, and that is fine."""
    if not task.cancelled():
        task.exception()
