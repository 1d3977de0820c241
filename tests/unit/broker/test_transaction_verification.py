from dataclasses import replace

import pytest

from barnabas.coordinator.transactions.requests import Producer, TransactionDescription
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from broker.transaction_verification import Described, judge

PARTITION = TopicPartition("t", 0)
PRODUCER = Producer("a", 7, 1)
OPEN = TransactionDescription("a", 7, 1, "Ongoing", 60_000, 0, (PARTITION, TopicPartition("t", 1)), 5)


@pytest.mark.parametrize(
    ("described", "answer"),
    [
        (OPEN, ErrorCode.NONE),
        (None, ErrorCode.INVALID_TXN_STATE),
        (replace(OPEN, partitions=()), ErrorCode.INVALID_TXN_STATE),
        (replace(OPEN, producer_id=8), ErrorCode.INVALID_TXN_STATE),
        (replace(OPEN, producer_epoch=2), ErrorCode.INVALID_PRODUCER_EPOCH),
        (replace(OPEN, producer_epoch=0), ErrorCode.INVALID_PRODUCER_EPOCH),
        (replace(OPEN, state="Empty", partitions=()), ErrorCode.INVALID_TXN_STATE),
        # Markers are on their way: this partition still lacks its own, and takes no records all the same.
        (replace(OPEN, state="PrepareCommit"), ErrorCode.INVALID_TXN_STATE),
        (replace(OPEN, state="PrepareAbort"), ErrorCode.INVALID_TXN_STATE),
        (replace(OPEN, state="CompleteCommit", partitions=()), ErrorCode.INVALID_TXN_STATE),
        (replace(OPEN, state="OfALaterVersion"), ErrorCode.NOT_ENOUGH_REPLICAS),
        # A later coordinator has written a marker here: this one has been replaced, and does not know what that ended.
        (replace(OPEN, coordinator_epoch=4), ErrorCode.NOT_ENOUGH_REPLICAS),
        (replace(OPEN, coordinator_epoch=4, partitions=()), ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_ENOUGH_REPLICAS),
    ],
)
def test_what_follows_from_what_the_coordinator_says(described: Described, answer: ErrorCode) -> None:
    assert judge(described, PRODUCER, PARTITION, marked_epoch=5) is answer
