"""The newest leader epochs that a client has heard of, so that no broker that lags behind takes it to an old leader.

A broker that was paused or cut off tells for a while who led when it was last told. Were it believed, its log would be
read, which may lack what was read before and hold what nobody else will ever have. So where a partition's epoch is
older than one heard of before, what is known stays, and the next question goes to another broker (KIP-320).

The epochs of a topic that is deleted and made again begin anew, and Kafka's clients would wait for ever (KAFKA-12257).
Here older ones are believed where a broker said that there was no such topic, or where all brokers tell them.
"""

from dataclasses import replace
from typing import Final

from barnabas.client.connection import Address
from barnabas.client.metadata import PartitionMetadata, TopicMetadata
from barnabas.protocol.error_code import ErrorCode

_NOBODY: Final = -1


class LeaderEpochs:
    """By topic and partition, and who told older ones since anybody last told none."""

    def __init__(self) -> None:
        self._newest: dict[str, dict[int, int]] = {}
        self._behind: dict[str, set[Address]] = {}
        self._teller: dict[str, Address] = {}
        self._doubted: dict[str, set[Address]] = {}

    def is_behind(self, broker: Address) -> bool:
        """Whether a broker told an older epoch than somebody else, or may not know of a newer one."""
        return any(broker in some for some in (*self._behind.values(), *self._doubted.values()))

    def doubt(self, topic: str, leader: Address) -> None:
        """Until a topic is told of again, who led it and who said so may not know of its newest epochs."""
        # They may be one and the same, under the address that it registered and under one where we started.
        self._doubted[topic] = {leader, self._teller.get(topic, leader)}

    def hear(self, topic: str, partition: int, leader_epoch: int) -> None:
        """A partition has had this leader epoch; -1 says nothing."""
        epochs = self._newest.setdefault(topic, {})
        epochs[partition] = max(leader_epoch, epochs.get(partition, _NOBODY))

    def sift(
        self, told: TopicMetadata, known: TopicMetadata | None, *, teller: Address, registered: set[Address]
    ) -> TopicMetadata:
        """What is to be believed of a topic of which a broker told this; `registered` are all brokers."""
        self._doubted.pop(told.name, None)
        self._teller[told.name] = teller
        if told.error:
            if told.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                self._begin_anew(told.name)
            return told
        older = [each for each in told.partitions.values() if self._is_older(told.name, each)]
        behind = self._behind.get(told.name, set()) | {teller} if older else set()
        if older and registered <= behind:
            self._begin_anew(told.name)
            older = []
        elif older:
            self._behind[told.name] = behind
        else:
            self._behind.pop(told.name, None)
        for each in told.partitions.values():
            self.hear(told.name, each.partition, each.leader_epoch)
        before = {} if known is None else known.partitions
        kept = {each.partition: before.get(each.partition) or _leaderless(each) for each in older}
        return replace(told, partitions=told.partitions | kept)

    def _is_older(self, topic: str, told: PartitionMetadata) -> bool:
        return 0 <= told.leader_epoch < self._newest.get(topic, {}).get(told.partition, _NOBODY)

    def _begin_anew(self, topic: str) -> None:
        self._newest.pop(topic, None)
        self._behind.pop(topic, None)


def _leaderless(told: PartitionMetadata) -> PartitionMetadata:
    return replace(told, leader=_NOBODY, error=ErrorCode.LEADER_NOT_AVAILABLE)
