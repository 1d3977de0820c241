"""A request of very many small elements: the event loop turns all the while, and the answer is bounded.

The largest gaps are held to 100 ms of this process's own work, though they should be a few: a garbage collection, or
one large topic, is done in one piece.
"""

import asyncio
import gc
import inspect
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateableTopicConfig,
    CreateTopicsRequest,
)
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.messages.list_offsets import ListOffsetPartition, ListOffsetRequest, ListOffsetTopic
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from barnabas.runtime.clock import SystemClock
from broker.handlers import (
    create_partitions,
    create_topics,
    delete_topics,
    describe_configs,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
)
from tests.unit.broker.small_broker import SmallBroker

MANY: Final = 100_000
LONGEST_MS: Final = 100


class Loop:
    """Measures how long the loop goes without a turn, in this process's own time, while a request is answered."""

    def __init__(self) -> None:
        self.longest_ms = 0.0
        self.turns = 0

    async def answer(self, call: Callable[[], Any]) -> Any:
        gc.collect()
        gc.freeze()  # as a broker does at its start; else the collections of this process are those of its tests
        ticking = asyncio.create_task(self._tick())
        await asyncio.sleep(0)
        try:
            result = call()
            if inspect.isawaitable(result):
                result = await result
            await asyncio.sleep(0)
        finally:
            ticking.cancel()
            gc.unfreeze()
        return result

    async def _tick(self) -> None:
        last = time.process_time()
        while True:
            await asyncio.sleep(0)
            now = time.process_time()
            self.longest_ms = max(self.longest_ms, (now - last) * 1000)
            self.turns += 1
            last = now


def name(number: int) -> str:
    return f"{number:07}"


def list_offsets_many(count: int) -> ListOffsetRequest:
    partitions = [ListOffsetPartition(partition_index=number, timestamp=0) for number in range(count)]
    return ListOffsetRequest(topics=[ListOffsetTopic(name="t", partitions=partitions)])


def epochs_many(count: int) -> OffsetForLeaderEpochRequest:
    partitions = [OffsetForLeaderPartition(partition_index=number) for number in range(count)]
    return OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(name="t", partitions=partitions)])


def topics_many(count: int, *, auto_create: bool) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name(number)) for number in range(count)]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=auto_create)


def creation_many(count: int, **more: Any) -> CreateTopicsRequest:
    topics = [CreatableTopic(name=name(number), **more) for number in range(count)]
    return CreateTopicsRequest(topics=topics, timeout_ms=0, validate_only=True)


def growth_many(count: int) -> CreatePartitionsRequest:
    topics = [CreatePartitionsTopic(name=f"{number:07}!", count=2) for number in range(count)]
    return CreatePartitionsRequest(topics=topics, timeout_ms=0)


def configs_many(count: int, kind: int, resource: str, *, keys: int = 0) -> DescribeConfigsRequest:
    wanted = [f"k{number}" for number in range(keys)] or None
    resources = [DescribeConfigsResource(kind, resource, wanted) for _ in range(count)]
    return DescribeConfigsRequest(resources=resources, include_synonyms=True, include_documentation=True)


LARGE: Final[dict[str, tuple[Any, int, Callable[[], Any]]]] = {
    "offsets": (list_offsets, 5, lambda: list_offsets_many(MANY)),
    "first offsets": (list_offsets, 0, lambda: list_offsets_many(MANY)),
    "epochs": (offset_for_leader_epoch, 3, lambda: epochs_many(MANY)),
    "unknown topics": (metadata, 4, lambda: topics_many(MANY, auto_create=False)),
    "unknown topics to be made": (
        metadata,
        4,
        lambda: MetadataRequest(topics=[MetadataRequestTopic(name=f"{number}!") for number in range(MANY)]),
    ),
    "deletions": (delete_topics, 0, lambda: DeleteTopicsRequest(topic_names=list(map(name, range(MANY))))),
    "refused creations": (create_topics, 6, lambda: creation_many(MANY // 4, num_partitions=-5, replication_factor=1)),
    "trial creations": (create_topics, 6, lambda: creation_many(5_000, num_partitions=1, replication_factor=1)),
    "large trial creations": (
        create_topics,
        6,
        lambda: creation_many(2, num_partitions=60_000, replication_factor=1),
    ),
    "a topic of many assignments": (
        create_topics,
        6,
        lambda: creation_many(
            1,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[CreatableReplicaAssignment(number, [1]) for number in range(50_000)],
        ),
    ),
    "growths": (create_partitions, 3, lambda: growth_many(MANY)),
    "configs of a topic": (describe_configs, 3, lambda: configs_many(MANY, 2, "known")),
    "configs of the broker": (describe_configs, 3, lambda: configs_many(MANY, 4, "1")),
    "many keys": (describe_configs, 3, lambda: configs_many(1, 4, "1", keys=MANY)),
    "loggers": (describe_configs, 3, lambda: configs_many(MANY, 8, "1")),
    "configs of a kind that there is not": (describe_configs, 3, lambda: configs_many(MANY, 9, "1")),
}


@pytest.mark.interpreted
@pytest.mark.parametrize("kind", LARGE)
async def test_the_loop_turns_while_a_large_request_is_answered(
    broker: SmallBroker, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    broker.announce("known")
    broker.services.clock = SystemClock()
    module, version, make = LARGE[kind]
    request = make()
    loop = Loop()
    await loop.answer(lambda: module.handle(request, broker.context(version)))
    print(f"{kind}: longest {loop.longest_ms:.1f} ms, {loop.turns} turns")
    assert loop.longest_ms < LONGEST_MS


async def test_the_loop_turns_while_every_topic_is_told_of(broker: SmallBroker) -> None:
    broker.announce("wide", 50_000)
    broker.services.clock = SystemClock()
    loop = Loop()
    response = await loop.answer(lambda: metadata.handle(MetadataRequest(topics=None), broker.context(9)))
    print(f"longest {loop.longest_ms:.1f} ms, {loop.turns} turns")
    assert [len(topic.partitions) for topic in response.topics] == [50_000]
    assert loop.longest_ms < LONGEST_MS
    assert loop.turns > 5


async def test_what_an_answer_of_configurations_has_no_room_for_is_refused(broker: SmallBroker) -> None:
    request = configs_many(describe_configs.MAX_RESOURCES + 1, 4, "2")
    response = await describe_configs.handle(request, broker.context(3))
    messages = [result.error_message for result in response.results]
    assert messages[0] == messages[describe_configs.MAX_RESOURCES - 1] != messages[-1]
    assert response.results[-1].error_code == ErrorCode.INVALID_REQUEST
    assert "more than one answer holds" in str(messages[-1])


async def test_configurations_named_again_share_one_list_up_to_a_size(broker: SmallBroker) -> None:
    request = configs_many(1_000, 4, "1")
    response = await describe_configs.handle(request, broker.context(3))
    shown = [result for result in response.results if result.error_code == ErrorCode.NONE]
    assert 10 < len(shown) < 1_000
    assert all(result.configs is shown[0].configs for result in shown)
    assert response.results[-1].error_code == ErrorCode.INVALID_REQUEST


async def test_a_broker_id_of_thousands_of_digits_is_refused(broker: SmallBroker) -> None:
    response = await describe_configs.handle(configs_many(1, 4, "1" * 5_000), broker.context(3))
    assert response.results[0].error_code == ErrorCode.INVALID_REQUEST


async def test_an_answer_shows_the_configurations_of_so_many_new_topics(broker: SmallBroker) -> None:
    request = creation_many(create_topics.MAX_DESCRIBED + 1, num_partitions=1, replication_factor=1)
    for topic in request.topics[:2]:
        topic.configs = [CreateableTopicConfig("retention.ms", "5")]
    response = await create_topics.handle(request, broker.context(6))
    first, second, third, *_, last = response.topics
    assert first.configs is second.configs is not third.configs
    assert (last.error_code, last.configs) == (ErrorCode.NONE, None)
    assert last.topic_config_error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.interpreted
async def test_starts_of_segments_are_bounded_in_one_answer(
    broker: SmallBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_offsets, "_MAX_SEGMENT_STARTS", 2)
    await broker.lead(str(tmp_path))
    wanted = ListOffsetPartition(partition_index=0, timestamp=-1, max_num_offsets=1)
    request = ListOffsetRequest(replica_id=-1, topics=[ListOffsetTopic(name="t", partitions=[wanted] * 3)])
    response: Any = list_offsets.handle(request, broker.context(0))
    errors = [partition.error_code for partition in response.topics[0].partitions]
    assert errors == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.INVALID_REQUEST]


FORGED: Final = "a\nERROR forged\x1b[2J\0"


async def test_names_from_clients_stay_on_one_line_of_the_log(
    broker: SmallBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    await metadata.handle(MetadataRequest(topics=[MetadataRequestTopic(name=FORGED)]), broker.context(4))  # type: ignore[misc]
    creation = CreateTopicsRequest(topics=[CreatableTopic(name=FORGED, num_partitions=1, replication_factor=1)])
    await create_topics.handle(creation, broker.context(6))
    growth = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=FORGED, count=2)])
    await create_partitions.handle(growth, broker.context(3))
    lines = [record.getMessage() for record in caplog.records if "forged" in record.getMessage()]
    assert len(lines) == 3
    assert all(line.isprintable() for line in lines)
