"""Which state of a transaction may follow which, and what EndTxn hears in each: tables, no code that decides. Pure.

The states' names are what DescribeTransactions and ListTransactions answer (KIP-664). A state is written only over one
of its `VALID_PREVIOUS`.
"""

from collections.abc import Mapping
from typing import Final

from barnabas.coordinator.transaction_records import TransactionState
from barnabas.protocol.error_code import ErrorCode

IDLE: Final = frozenset({TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})
"""Nothing is open: the next transaction may begin, and an id that stays so may be forgotten."""

COMPLETED: Final[Mapping[TransactionState, TransactionState]] = {
    TransactionState.PREPARE_COMMIT: TransactionState.COMPLETE_COMMIT,
    TransactionState.PREPARE_ABORT: TransactionState.COMPLETE_ABORT,
}
"""A state in which the decision stands and markers are on their way -> what follows when all of them are written."""

VALID_PREVIOUS: Final[Mapping[TransactionState, frozenset[TransactionState]]] = {
    TransactionState.EMPTY: IDLE,
    TransactionState.ONGOING: IDLE | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    TransactionState.PREPARE_ABORT: frozenset({TransactionState.ONGOING, TransactionState.PREPARE_EPOCH_FENCE}),
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
    TransactionState.DEAD: IDLE,
    TransactionState.PREPARE_EPOCH_FENCE: frozenset({TransactionState.ONGOING}),
}
"""DEAD is a tombstone in the log; PREPARE_EPOCH_FENCE is never written, as the fence and the abort are one record."""

NAMES: Final[Mapping[TransactionState, str]] = {
    state: "".join(word.capitalize() for word in state.name.split("_")) for state in TransactionState
}
STATE_BY_NAME: Final[Mapping[str, TransactionState]] = {name: state for state, name in NAMES.items()}

_COMMIT, _ABORT = True, False
END_ANSWERS: Final[Mapping[tuple[TransactionState, bool], ErrorCode]] = {
    (TransactionState.EMPTY, _COMMIT): ErrorCode.INVALID_TXN_STATE,
    (TransactionState.EMPTY, _ABORT): ErrorCode.INVALID_TXN_STATE,
    (TransactionState.PREPARE_COMMIT, _COMMIT): ErrorCode.CONCURRENT_TRANSACTIONS,
    (TransactionState.PREPARE_COMMIT, _ABORT): ErrorCode.INVALID_TXN_STATE,
    (TransactionState.PREPARE_ABORT, _COMMIT): ErrorCode.INVALID_TXN_STATE,
    (TransactionState.PREPARE_ABORT, _ABORT): ErrorCode.CONCURRENT_TRANSACTIONS,
    (TransactionState.COMPLETE_COMMIT, _COMMIT): ErrorCode.NONE,
    (TransactionState.COMPLETE_COMMIT, _ABORT): ErrorCode.INVALID_TXN_STATE,
    (TransactionState.COMPLETE_ABORT, _COMMIT): ErrorCode.INVALID_TXN_STATE,
    (TransactionState.COMPLETE_ABORT, _ABORT): ErrorCode.NONE,
}
"""(state, whether EndTxn commits) -> its answer where there is nothing to end; an ONGOING transaction is ended.

While a transaction completes the answer is CONCURRENT_TRANSACTIONS and not NONE: a client that hears NONE begins the
next transaction, and a marker of this one would end that.
"""


def prepared(*, commit: bool) -> TransactionState:
    """The state in which a decision is written down."""
    return TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT
