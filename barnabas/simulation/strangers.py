"""Requests that a good client would not send, or no longer sends: old versions, damaged batches, what does not exist.

Whatever the broker answers, it must not fail, and nothing of it may show in the topics of the load: no value that is
sent here is one of theirs, so that a record that slipped in is found by the history's checker.
"""

import random
from collections.abc import Awaitable, Callable
from typing import Final

from barnabas.client.cluster import Cluster
from barnabas.client.connection import Connection
from barnabas.client.errors import ClusterUnreachable
from barnabas.protocol.batch import Codec
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.messages import api_versions, fetch, list_offsets, metadata, produce
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.list_offsets import ListOffsetPartition, ListOffsetRequest, ListOffsetTopic
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.records import Record, build_batch

_TIMEOUT_MS: Final = 3_000


class Stranger:
    """One who sends such requests to the brokers of a cluster. Every method raises ClientError."""

    def __init__(self, cluster: Cluster, chance: random.Random, now_ms: Callable[[], int]) -> None:
        self._cluster = cluster
        self._chance = chance
        self._now_ms = now_ms

    async def visit(self, at: TopicPartition, scratch: TopicPartition | None) -> None:
        """One request of a drawn kind about a partition of the load, or about one where all is allowed."""
        kinds: list[Callable[[TopicPartition], Awaitable[None]]] = [
            self.produce_damaged,
            self.produce_out_of_sequence,
            self.produce_with_odd_acks,
            self.fetch_as_of_old,
            self.fetch_converted,
            self.fetch_nothing_there,
            self.list_as_of_old,
            self.ask_as_of_old,
        ]
        if scratch is not None and self._chance.random() < 0.5:
            await self._chance.choice([self.produce_compressed, self.fetch_converted])(scratch)
        else:
            await self._chance.choice(kinds)(at)

    # Producing.

    async def produce_damaged(self, at: TopicPartition) -> None:
        """A batch in which one byte is another."""
        batch = bytearray(self._batch(3))
        # Behind the offset, the size and the leader epoch, which are the broker's to write.
        place = self._chance.randrange(16, len(batch))
        batch[place] ^= 1 << self._chance.randrange(8)
        await self._produce(at, bytes(batch), acks=-1)

    async def produce_out_of_sequence(self, at: TopicPartition) -> None:
        """An idempotent batch of a producer that nobody knows, from the middle on."""
        records = [Record(0, self._now_ms(), None, b"stranger", ())]
        batch = build_batch(records, producer_id=1 << 40, producer_epoch=0, base_sequence=self._chance.randint(1, 99))
        # It carries a value that nobody may ever read: a damaged checksum keeps it out where the sequence would not.
        await self._produce(at, batch[:-1] + bytes([batch[-1] ^ 1]), acks=-1)

    async def produce_with_odd_acks(self, at: TopicPartition) -> None:
        await self._produce(at, self._batch(1), acks=self._chance.choice([2, 5, -7]))

    async def produce_compressed(self, at: TopicPartition) -> None:
        """Where any record is welcome: compressed, and with and without the room that the topic leaves."""
        codec = self._chance.choice(list(Codec))
        batch = self._batch(self._chance.choice([1, 10, 80]), codec=codec)
        await self._produce(at, batch, acks=self._chance.choice([0, 1, -1]), least=7)

    def _batch(self, count: int, *, codec: Codec = Codec.NONE) -> bytes:
        records = [
            Record(0, self._now_ms() + number, b"key", b"stranger" * self._chance.randint(1, 9), (("h", b"v"),))
            for number in range(count)
        ]
        return build_batch(records, codec=codec)

    async def _produce(self, at: TopicPartition, batch: bytes, *, acks: int, least: int = 3) -> None:
        connection = await self._leader_of(at)
        data = [TopicProduceData(at.topic, [PartitionProduceData(at.partition, batch)])]
        request = ProduceRequest(None, acks, _TIMEOUT_MS, data)
        if acks == 0:
            await connection.send_only(produce.API, request, least=least)
        else:
            most = self._chance.randint(least, 8)
            await connection.request(produce.API, request, timeout_ms=_TIMEOUT_MS, least=least, most=most)

    # Reading.

    async def fetch_as_of_old(self, at: TopicPartition) -> None:
        """Any version, any offset, from any broker."""
        partition = FetchPartition(
            partition=at.partition,
            fetch_offset=self._chance.choice([-5, 0, 1, 7, 1 << 40]),
            partition_max_bytes=self._chance.choice([0, 50, 1 << 20]),
            current_leader_epoch=self._chance.choice([-1, 0, 1, 50]),
        )
        request = FetchRequest(
            replica_id=self._chance.choice([-1, -1, -2]),
            max_wait_ms=self._chance.choice([0, 100]),
            min_bytes=self._chance.choice([0, 1, 10_000]),
            max_bytes=self._chance.choice([0, 100, 1 << 24]),
            isolation_level=self._chance.choice([0, 1]),
            topics=[FetchTopic(at.topic, [partition])],
        )
        connection = await self._any_broker()
        most = self._chance.randint(4, 11)
        await connection.request(fetch.API, request, timeout_ms=_TIMEOUT_MS, most=most)

    async def fetch_converted(self, at: TopicPartition) -> None:
        """As clients did that know only the old formats."""
        partition = FetchPartition(
            partition=at.partition,
            fetch_offset=self._chance.choice([0, 1, 7]),
            partition_max_bytes=self._chance.choice([50, 2_000, 1 << 20]),
        )
        request = FetchRequest(replica_id=-1, min_bytes=0, max_wait_ms=0, topics=[FetchTopic(at.topic, [partition])])
        connection = await self._leader_of(at)
        await connection.request(fetch.API, request, timeout_ms=_TIMEOUT_MS, most=self._chance.randint(0, 3))

    async def fetch_nothing_there(self, at: TopicPartition) -> None:
        topics = [FetchTopic("nobody made this", [FetchPartition(partition=0)])]
        topics.append(FetchTopic(at.topic, [FetchPartition(partition=99, partition_max_bytes=100)]))
        connection = await self._any_broker()
        request = FetchRequest(replica_id=-1, min_bytes=1, topics=topics)
        await connection.request(fetch.API, request, timeout_ms=_TIMEOUT_MS, least=4, most=11)

    async def list_as_of_old(self, at: TopicPartition) -> None:
        most = self._chance.randint(0, 5)
        partition = ListOffsetPartition(
            partition_index=at.partition,
            timestamp=self._chance.choice([-1, -2, self._now_ms() - 5_000, self._now_ms() + (1 << 40)]),
            current_leader_epoch=self._chance.choice([-1, 0, 3]),
        )
        if most == 0:
            partition.max_num_offsets = self._chance.choice([0, 1, 5])
        request = ListOffsetRequest(replica_id=-1, topics=[ListOffsetTopic(at.topic, [partition])])
        connection = await self._any_broker()
        request.isolation_level = self._chance.choice([0, 1]) if most >= 2 else 0
        await connection.request(list_offsets.API, request, timeout_ms=_TIMEOUT_MS, most=most)

    async def ask_as_of_old(self, at: TopicPartition) -> None:
        most = self._chance.randint(0, 9)
        connection = await self._any_broker()
        names = [MetadataRequestTopic(name) for name in (at.topic, "nobody made this")]
        request = MetadataRequest(topics=names, allow_auto_topic_creation=most < 4 or self._chance.random() < 0.5)
        await connection.request(metadata.API, request, timeout_ms=_TIMEOUT_MS, most=most)
        await connection.request(api_versions.API, ApiVersionsRequest(), most=self._chance.randint(0, 3))

    async def _leader_of(self, at: TopicPartition) -> Connection:
        return await self._cluster.connection((await self._cluster.leader(at)).node_id)

    async def _any_broker(self) -> Connection:
        nodes = (await self._cluster.metadata()).nodes
        if not nodes:
            raise ClusterUnreachable("no broker is known")
        return await self._cluster.connection(self._chance.choice(sorted(nodes)))
