"""The in-sync set between a proposal and its answer: what counts meanwhile, and which answers change it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerEpoch, BrokerId, LeaderEpoch
from replication.isr import AnswerEffect, IsrAnswer, IsrState

A, B, C = BrokerId(1), BrokerId(2), BrokerId(3)
EPOCH = LeaderEpoch(7)


def in_sync(*members: BrokerId, version: int = 4) -> IsrState:
    return IsrState(leader_epoch=EPOCH, isr=members, zk_version=version)


def written(*members: BrokerId, version: int = 5, error: ErrorCode = ErrorCode.NONE, epoch: int = EPOCH) -> IsrAnswer:
    return IsrAnswer(error, epoch, members, version)


def test_a_proposed_member_counts_at_once_in_the_maximal_set_and_only_there() -> None:
    state = in_sync(A, B)
    proposal = state.propose_expand(C, broker_epoch=BrokerEpoch(9))
    assert (state.committed, state.maximal) == ((A, B), (A, B, C))
    assert (proposal.new_isr, proposal.zk_version, proposal.leader_epoch) == ((A, B, C), 4, EPOCH)
    assert (proposal.is_expand, proposal.joiner_epoch) == (True, 9)


def test_who_is_to_leave_counts_until_that_is_committed() -> None:
    state = in_sync(A, B, C)
    proposal = state.propose_shrink({B, C})
    assert (state.committed, state.maximal) == ((A, B, C), (A, B, C))
    assert proposal.new_isr == (A,)
    assert not proposal.is_expand
    assert state.apply_answer(proposal, written(A)) is AnswerEffect.COMMITTED
    assert (state.committed, state.maximal, state.zk_version, state.pending) == ((A,), (A,), 5, None)


def test_one_change_is_under_way_at_a_time() -> None:
    state = in_sync(A, B)
    state.propose_expand(C)
    with pytest.raises(AssertionError):
        state.propose_shrink({B})


def test_an_answer_to_what_is_not_pending_changes_nothing() -> None:
    # The answer races LeaderAndIsr, after which there is another state (KAFKA-12686).
    early = in_sync(A).propose_expand(B)
    state = in_sync(A)
    pending = state.propose_expand(B)
    assert state.apply_answer(early, written(A, B)) is AnswerEffect.IGNORED
    assert state.pending is pending
    assert state.committed == (A,)


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INELIGIBLE_REPLICA,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_an_error_without_a_state_decides_nothing(error: ErrorCode) -> None:
    state = in_sync(A, B)
    proposal = state.propose_expand(C)
    assert state.apply_answer(proposal, IsrAnswer(error)) is AnswerEffect.UNDECIDED
    assert state.pending is proposal
    assert state.maximal == (A, B, C), "the controller may have written it at an earlier attempt"


def test_a_version_that_moved_unheard_is_taken_over() -> None:
    # KAFKA-2729: else each later proposal would fail for ever.
    state = in_sync(A, B)
    proposal = state.propose_shrink({B})
    answer = written(A, B, C, version=8, error=ErrorCode.INVALID_UPDATE_VERSION)
    assert state.apply_answer(proposal, answer) is AnswerEffect.COMMITTED
    assert (state.committed, state.maximal, state.zk_version) == ((A, B, C), (A, B, C), 8)
    assert state.propose_shrink({B}).zk_version == 8


def test_a_joiner_that_is_refused_for_good_counts_no_longer() -> None:
    state = in_sync(A, B)
    proposal = state.propose_expand(C)
    refused = written(A, B, version=4, error=ErrorCode.INELIGIBLE_REPLICA)
    assert state.apply_answer(proposal, refused) is AnswerEffect.COMMITTED
    assert (state.maximal, state.zk_version, state.pending) == ((A, B), 4, None)


def test_a_refusal_counts_for_nothing_while_an_earlier_attempt_could_be_obeyed() -> None:
    state = in_sync(A, B)
    proposal = state.propose_expand(C)
    refused = IsrAnswer(ErrorCode.INELIGIBLE_REPLICA, EPOCH, (A, B), 4, may_still_apply=True)
    assert state.apply_answer(proposal, refused) is AnswerEffect.UNDECIDED
    assert state.maximal == (A, B, C)


@pytest.mark.parametrize("epoch", [EPOCH - 1, EPOCH + 1])
def test_the_state_of_another_leader_epoch_is_not_taken(epoch: int) -> None:
    # LeaderAndIsr will tell it, with all that belongs to it.
    state = in_sync(A, B)
    proposal = state.propose_expand(C)
    assert state.apply_answer(proposal, written(A, B, C, epoch=epoch)) is AnswerEffect.UNDECIDED
    assert state.committed == (A, B)


def test_an_older_version_than_ours_is_not_taken() -> None:
    state = in_sync(A, B, version=6)
    proposal = state.propose_expand(C)
    assert state.apply_answer(proposal, written(A, version=5)) is AnswerEffect.UNDECIDED
    assert (state.committed, state.maximal) == ((A, B), (A, B, C))


# Properties: a leader, and a controller whose answers are lost, late and repeated.


@given(st.data())
def test_the_maximal_set_holds_whatever_the_controller_may_have_written(data: st.DataObject) -> None:
    members = [BrokerId(each) for each in range(1, 5)]
    truth, version = (A, B), 4
    state = IsrState(leader_epoch=EPOCH, isr=truth, zk_version=version)
    attempts: list[tuple[object, IsrAnswer]] = []
    for _ in range(data.draw(st.integers(1, 25))):
        action = data.draw(st.sampled_from(["expand", "shrink", "reach", "answer"]))
        if action == "expand" and state.pending is None and (out := [m for m in members if m not in state.committed]):
            state.propose_expand(data.draw(st.sampled_from(out)))
        elif action == "shrink" and state.pending is None and len(state.committed) > 1:
            state.propose_shrink({data.draw(st.sampled_from(state.committed[1:]))})
        elif action == "reach" and state.pending is not None:
            # The pending proposal reaches the controller once more; its answer is lost, or waits to be heard.
            proposal = state.pending
            error = ErrorCode.NONE
            if proposal.new_isr != truth:
                if proposal.zk_version == version:
                    truth, version = proposal.new_isr, version + 1
                else:
                    error = ErrorCode.INVALID_UPDATE_VERSION
            attempts.append((proposal, IsrAnswer(error, EPOCH, truth, version)))
        elif action == "answer" and attempts:
            proposal, answer = attempts.pop(data.draw(st.integers(0, len(attempts) - 1)))
            state.apply_answer(proposal, answer)  # type: ignore[arg-type]
        assert set(state.committed) <= set(state.maximal)
        assert set(truth) <= set(state.maximal), "a member that nobody waits for"
