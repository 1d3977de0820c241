from barnabas.coordinator.transaction_records import TransactionState
from barnabas.coordinator.transactions.states import (
    COMPLETED,
    END_ANSWERS,
    IDLE,
    NAMES,
    STATE_BY_NAME,
    VALID_PREVIOUS,
    prepared,
)


def test_every_state_says_what_may_come_before_it() -> None:
    assert set(VALID_PREVIOUS) == set(TransactionState)


def test_no_state_is_reached_but_from_an_idle_one_by_way_of_an_open_transaction() -> None:
    for state, previous in VALID_PREVIOUS.items():
        if state in COMPLETED.values():
            (only,) = previous
            assert COMPLETED[only] is state
        elif state not in COMPLETED and state is not TransactionState.PREPARE_EPOCH_FENCE:
            assert previous >= IDLE


def test_a_decision_is_written_over_an_open_transaction_only() -> None:
    for commit in (True, False):
        assert TransactionState.ONGOING in VALID_PREVIOUS[prepared(commit=commit)]
        assert not VALID_PREVIOUS[prepared(commit=commit)] & IDLE


def test_end_has_an_answer_in_every_state_in_which_nothing_is_to_be_ended() -> None:
    states = IDLE | set(COMPLETED)
    assert set(END_ANSWERS) == {(state, commit) for state in states for commit in (True, False)}


def test_names_are_those_of_kafka() -> None:
    assert [NAMES[state] for state in TransactionState] == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]
    assert all(STATE_BY_NAME[NAMES[state]] is state for state in TransactionState)
