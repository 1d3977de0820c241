"""`barnabas txn` against a small cluster whose answers are written down."""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey, TopicPartition
from barnabas.protocol.messages.describe_producers import (
    DescribeProducersPartitionResponse,
    DescribeProducersProducerState,
    DescribeProducersResponse,
    DescribeProducersTopicResponse,
)
from barnabas.protocol.messages.describe_transactions import (
    DescribeTransactionsResponse,
    DescribeTransactionsTopicData,
    DescribeTransactionsTransactionState,
)
from barnabas.protocol.messages.find_coordinator import FindCoordinatorResponse
from barnabas.protocol.messages.list_transactions import ListTransactionsResponse, ListTransactionsTransactionState
from barnabas.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from barnabas.runtime.clock import SystemClock
from tests.unit.admin.conftest import Run
from tests.unit.client.small_cluster import Asked, SmallCluster

HOUR_MS = 3_600_000


@dataclass
class Scripted:
    """Transactional ids (state, producer id, epoch, partitions), and the open transactions of partitions."""

    ids: dict[str, tuple[str, int, int, list[TopicPartition]]] = field(default_factory=dict)
    open: dict[TopicPartition, list[DescribeProducersProducerState]] = field(default_factory=dict)
    markers: list[Any] = field(default_factory=list)
    marker_error: ErrorCode = ErrorCode.NONE

    def answer(self, asked: Asked) -> Any:
        request = asked.request
        if asked.key is ApiKey.FIND_COORDINATOR:
            return FindCoordinatorResponse(error_message=None, node_id=1, host="127.0.0.1", port=1)
        if asked.key is ApiKey.LIST_TRANSACTIONS:
            states = [
                ListTransactionsTransactionState(name, producer_id, state)
                for name, (state, producer_id, _, _) in self.ids.items()
                if asked.node_id == 1
                and (not request.producer_id_filters or producer_id in request.producer_id_filters)
                and (not request.state_filters or state in request.state_filters)
            ]
            unknown = [each for each in request.state_filters if each == "Wrong"]
            return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=states)
        if asked.key is ApiKey.DESCRIBE_TRANSACTIONS:
            return DescribeTransactionsResponse(transaction_states=[self._described(request.transactional_ids[0])])
        if asked.key is ApiKey.DESCRIBE_PRODUCERS:
            return DescribeProducersResponse(
                topics=[
                    DescribeProducersTopicResponse(
                        topic.name,
                        [
                            DescribeProducersPartitionResponse(
                                each, active_producers=self.open.get(TopicPartition(topic.name, each), [])
                            )
                            for each in topic.partition_indexes
                        ],
                    )
                    for topic in request.topics
                ]
            )
        if asked.key is ApiKey.WRITE_TXN_MARKERS:
            self.markers.append((asked.node_id, request.markers[0]))
            result = WritableTxnMarkerPartitionResult(0, self.marker_error)
            return WriteTxnMarkersResponse([WritableTxnMarkerResult(9, [WritableTxnMarkerTopicResult("t", [result])])])
        return None

    def _described(self, name: str) -> DescribeTransactionsTransactionState:
        if name not in self.ids:
            return DescribeTransactionsTransactionState(ErrorCode.INVALID_PRODUCER_ID_MAPPING, name)
        state, producer_id, epoch, partitions = self.ids[name]
        topics = [DescribeTransactionsTopicData(at.topic, [at.partition]) for at in partitions]
        return DescribeTransactionsTransactionState(
            0, name, state, 60_000, 1_700_000_000_000, producer_id, epoch, topics
        )


def producer(producer_id: int, *, start: int, age_ms: int = HOUR_MS, epoch: int = 0) -> DescribeProducersProducerState:
    last = SystemClock().wall_ms() - age_ms
    return DescribeProducersProducerState(producer_id, epoch, 4, last, 3, start)


T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def scripted(served: SmallCluster) -> Scripted:
    served.add_topic("t", 2)
    script = Scripted()
    served.on_request = script.answer
    return script


def test_ids_are_listed_by_all_brokers_and_described_by_their_coordinator(scripted: Scripted, on_cluster: Run) -> None:
    scripted.ids = {"b": ("Ongoing", 9, 1, [T1, T0]), "a": ("Empty", 8, 0, [])}
    listed = json.loads(on_cluster("txn", "list", "-o", "json").out)
    assert [(each["transactional_id"], each["state"]) for each in listed] == [("a", "Empty"), ("b", "Ongoing")]
    assert len(json.loads(on_cluster("txn", "list", "--state", "Ongoing", "-o", "json").out)) == 1
    ran = on_cluster("txn", "list", "--state", "Wrong")
    assert (ran.status, "no state is called Wrong" in ran.err) == (1, True)
    (row,) = json.loads(on_cluster("txn", "describe", "b", "-o", "json").out)
    assert (row["producer_id"], row["producer_epoch"], row["partitions"]) == (9, 1, ["t-0", "t-1"])
    assert row["started"] == "2023-11-14T22:13:20.000+00:00"
    ran = on_cluster("txn", "describe", "missing")
    assert (ran.status, "transactional id missing" in ran.err) == (1, True)


def test_a_transaction_hangs_when_no_coordinator_will_end_it(scripted: Scripted, on_cluster: Run) -> None:
    scripted.ids = {
        "living": ("Ongoing", 1, 0, [T0]),
        "elsewhere": ("Ongoing", 2, 0, [T1]),
        "idle": ("Empty", 3, 0, []),
    }
    scripted.open = {
        T0: [
            producer(1, start=10),
            producer(2, start=20),
            producer(3, start=30),
            producer(4, start=40),
            producer(5, start=50, age_ms=60_000),
            producer(6, start=-1),
            producer(1, start=70, epoch=1),
        ]
    }
    found = json.loads(on_cluster("txn", "find-hanging", "t", "-o", "json").out)
    assert [(each["start_offset"], each["transactional_id"]) for each in found] == [
        (20, "elsewhere"), (30, "idle"), (40, None), (70, "living"),
    ]  # fmt: skip
    assert len(json.loads(on_cluster("txn", "find-hanging", "--older-than", "0", "-o", "json").out)) == 5
    assert on_cluster("txn", "find-hanging", "t:1").lines == ["no transaction hangs"]


def test_a_hanging_transaction_is_aborted_at_its_leader(scripted: Scripted, on_cluster: Run) -> None:
    scripted.open = {T1: [producer(9, start=5, epoch=7)]}
    assert on_cluster("txn", "abort", "t:1", "--start-offset", "5", "--yes").status == 0
    ((node_id, marker),) = scripted.markers
    assert (node_id, marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (2, 9, 7, 3)
    assert (marker.transaction_result, marker.topics[0].partition_indexes) == (False, [1])
    ran = on_cluster("txn", "abort", "t:1", "--start-offset", "6", "--yes")
    assert (ran.status, "no open transaction begins at offset 6" in ran.err) == (3, True)
    ran = on_cluster("txn", "abort", "t:1", "--start-offset", "5", stdin=b"n\n")
    assert (ran.status, len(scripted.markers)) == (1, 1)


def test_by_hand_a_transaction_is_named_by_its_producer(scripted: Scripted, on_cluster: Run) -> None:
    who = ("--producer-id", "9", "--producer-epoch", "0", "--coordinator-epoch", "-1")
    assert on_cluster("txn", "abort", "t:0", *who, "--yes").status == 0
    assert scripted.markers[0][1].coordinator_epoch == 0
    scripted.marker_error = ErrorCode.INVALID_PRODUCER_EPOCH
    ran = on_cluster("txn", "abort", "t:0", *who, "--yes")
    assert (ran.status, "INVALID_PRODUCER_EPOCH" in ran.err) == (1, True)


@pytest.mark.usefixtures("scripted")
def test_a_partition_that_there_is_not_is_not_found_at_once(on_cluster: Run) -> None:
    by_hand = ("--producer-id", "9", "--producer-epoch", "0", "--coordinator-epoch", "-1")
    for arguments in (
        ("abort", "t:7", "--start-offset", "5", "-y"),
        ("abort", "t:7", *by_hand),
        ("find-hanging", "t:7"),
    ):
        ran = on_cluster("txn", *arguments)
        assert (ran.status, "t has partitions 0 to 1, not 7" in ran.err) == (3, True)


@pytest.mark.parametrize(
    "arguments",
    [
        ("t", "--start-offset", "5"),
        ("t:0",),
        ("t:0", "--producer-id", "9"),
        ("t:0", "--start-offset", "5", "--producer-id", "0"),
        ("t:0", "--producer-id", "9", "--producer-epoch", "0"),
    ],
)
def test_half_a_name_is_a_mistake_of_usage(run: Run, arguments: tuple[str, ...]) -> None:
    assert run("txn", "abort", *arguments, "--yes").status == 2
