import pytest

from barnabas.client.membership_rules import Verdict, judge, to_revoke_before_joining
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (ErrorCode.NONE, Verdict.FINE),
        (ErrorCode.REBALANCE_IN_PROGRESS, Verdict.REJOIN),
        (ErrorCode.ILLEGAL_GENERATION, Verdict.LOST),
        (ErrorCode.UNKNOWN_MEMBER_ID, Verdict.STRANGER),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Verdict.LATER),
        (ErrorCode.NOT_COORDINATOR, Verdict.LATER),
        (ErrorCode.FENCED_INSTANCE_ID, Verdict.FATAL),
        (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, Verdict.FATAL),
    ],
    ids=str,
)
def test_what_an_answer_asks_of_a_member(error: ErrorCode, verdict: Verdict) -> None:
    assert judge(error) is verdict


def test_all_is_given_up_before_joining_but_what_a_cooperative_member_still_wants() -> None:
    assert to_revoke_before_joining([B, A], ["a"], is_cooperative=False) == [A, B]
    assert to_revoke_before_joining([B, A], ["a"], is_cooperative=True) == [B]
