"""Requests and answers as messages over one raw connection: nothing is retried, negotiated or hidden."""

from collections.abc import Sequence
from typing import Any, cast

from barnabas.protocol.batch import Codec
from barnabas.protocol.compiler import decode
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.frames import decode_response_header, frame_request
from barnabas.protocol.ids import ApiKey, TopicPartition
from barnabas.protocol.messages import APIS
from barnabas.protocol.messages.fetch import FetchablePartitionResponse, FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from barnabas.protocol.records import Record, build_batch
from tests.support.raw_client import RawConnection

PRODUCE_VERSION = 8
FETCH_VERSION = 12


class ApiConnection(RawConnection):
    """A connection that speaks messages. Correlation ids count up from 0."""

    def __init__(self, host: str, port: int, *, timeout_seconds: float = 15.0) -> None:
        super().__init__(host, port, timeout_seconds=timeout_seconds)
        self._sent = 0
        self._waiting: dict[int, tuple[ApiKey, int]] = {}

    def send(self, api_key: ApiKey, version: int, request: object) -> None:
        frame = frame_request(api_key, version, correlation_id=self._sent, client_id="test", request=request)
        self._waiting[self._sent] = (api_key, version)
        self._sent += 1
        self.send_bytes(b"".join(cast("list[bytes]", frame)))

    def receive(self) -> Any:
        """The answer to the oldest request that has none."""
        frame = self.receive_frame()
        correlation_id = next(iter(self._waiting))
        api_key, version = self._waiting.pop(correlation_id)
        found, position = decode_response_header(api_key, version, frame)
        assert found == correlation_id, f"answer {found} where {correlation_id} was due"
        answer, end = decode(APIS[api_key].response, version, frame, position)
        assert end == len(frame), f"{len(frame) - end} bytes behind the answer"
        return answer

    def call(self, api_key: ApiKey, version: int, request: object) -> Any:
        self.send(api_key, version, request)
        return self.receive()

    def send_produce(self, partition: TopicPartition, batch: bytes, *, acks: int = -1) -> None:
        data = PartitionProduceData(partition_index=partition.partition, records=batch)
        topic = TopicProduceData(name=partition.topic, partitions=[data])
        request = ProduceRequest(transactional_id=None, acks=acks, timeout_ms=20_000, topics=[topic])
        self.send(ApiKey.PRODUCE, PRODUCE_VERSION, request)

    def receive_produced(self) -> PartitionProduceResponse:
        answer = self.receive()
        return cast("PartitionProduceResponse", answer.responses[0].partitions[0])

    def produce(self, partition: TopicPartition, *values: bytes, acks: int = -1) -> PartitionProduceResponse:
        self.send_produce(partition, batch_of(values), acks=acks)
        return self.receive_produced()

    def fetch(self, partition: TopicPartition, offset: int, *, max_wait_ms: int = 0) -> FetchablePartitionResponse:
        wanted = FetchPartition(partition=partition.partition, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            topics=[FetchTopic(topic=partition.topic, partitions=[wanted])],
        )
        answer = self.call(ApiKey.FETCH, FETCH_VERSION, request)
        assert answer.error_code == ErrorCode.NONE
        return cast("FetchablePartitionResponse", answer.responses[0].partition_responses[0])

    def fetch_bytes(self, partition: TopicPartition, offset: int) -> bytes:
        """The batches from that offset on, as they come; fails on an error."""
        answer = self.fetch(partition, offset)
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code).name
        return bytes(cast("memoryview", answer.record_set or b""))


def batch_of(values: Sequence[bytes], *, codec: Codec = Codec.NONE) -> bytes:
    """A batch of records without keys."""
    return build_batch([Record(0, 1_600_000_000_000, None, value, ()) for value in values], codec=codec)
