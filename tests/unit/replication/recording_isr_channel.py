"""A way to the controller on which the test answers."""

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerId, TopicPartition
from replication.isr import IsrAnswer, IsrProposal, OnAnswer


class RecordingIsrChannel:
    """Keeps the proposal of each partition that has no answer yet."""

    def __init__(self) -> None:
        self.waiting: dict[TopicPartition, tuple[IsrProposal, OnAnswer]] = {}
        self.proposed: list[tuple[BrokerId, ...]] = []

    def propose(self, topic_partition: TopicPartition, proposal: IsrProposal, on_answer: OnAnswer) -> None:
        self.waiting[topic_partition] = (proposal, on_answer)
        self.proposed.append(proposal.new_isr)

    def withdraw(self, topic_partition: TopicPartition) -> None:
        self.waiting.pop(topic_partition, None)

    def obey(self, topic_partition: TopicPartition) -> None:
        """Answer as a controller that has written what was proposed."""
        proposal, _ = self.waiting[topic_partition]
        state = IsrAnswer(ErrorCode.NONE, proposal.leader_epoch, proposal.new_isr, proposal.zk_version + 1)
        self.answer(topic_partition, state)

    def answer(self, topic_partition: TopicPartition, answer: IsrAnswer) -> None:
        _, on_answer = self.waiting.pop(topic_partition)
        on_answer(answer)
