"""Bugs of the coordinators by their number in the museum, with the plans that show them."""

from collections.abc import Mapping
from typing import Any, Final

from tests.simulation.mutants import coordinator_stories as stories
from tests.simulation.mutants import coordinators
from tests.simulation.mutants.mutant import Mutant, Plan, mutant

_SHARD: Final = "barnabas.coordinator.shard"
_TRANSACTIONS: Final = "barnabas.coordinator.transactions.transaction_coordinator"


def _cluster(settings: Mapping[str, str] | None = None, **more: int) -> Mapping[str, Any]:
    return {"settings": stories.SETTINGS | dict(settings or {}), **more}


_FOUR: Final = {"brokers": 4, "partitions": stories.PARTITIONS}

EARLY: Final[Mutant] = mutant(
    "a coordinator tells what is not in the log yet",
    (_SHARD, "Shard._put", coordinators.tell_at_once),
)
UNGUARDED: Final[Mutant] = mutant(
    "a late request begins a transaction that nobody ends",
    ("replication.transaction_guards", "TransactionGuards._may_begin", coordinators.ask_nobody),
)
SENT_ONCE: Final[Mutant] = mutant(
    "a marker that cannot be written at once is not tried again",
    ("broker.marker_sending", "MarkerSending._look_again", coordinators.send_markers_once),
)
OVERTAKEN: Final[Mutant] = mutant(
    "a transaction that ends brings back an older offset",
    ("barnabas.coordinator.offsets.committed", "CommittedOffsets._overtake", coordinators.overtake_nothing),
)

PLANS: Final[Mapping[int, Plan]] = {
    52: Plan(
        mutant(
            "a producer is forgotten soon after its coordinator's abort",
            ("barnabas.storage.producer_state", "ProducerState.apply_marker", coordinators.markers_leave_no_time),
        ),
        stories.an_aborted_producer_comes_back,
        _cluster({"transactional.id.expiration.ms": "60000", "log.retention.check.interval.ms": "1000"}),
    ),
    53: Plan(EARLY, stories.a_coordinator_goes_with_what_it_told, _cluster({"offsets.commit.timeout.ms": "500"})),
    54: Plan(
        mutant(
            "an epoch rises though the log does not take it",
            (_SHARD, "Shard._refuse", coordinators.count_what_is_refused),
        ),
        stories.the_log_takes_no_epochs,
        _cluster(),
    ),
    55: Plan(SENT_ONCE, stories.a_marker_meets_no_leader, _cluster(**_FOUR)),
    56: Plan(
        mutant(
            "tombstones are written in a batch that does not fit",
            ("barnabas.coordinator.transactions.sweeps", "BatchRoom.takes", coordinators.everything_fits),
        ),
        stories.tombstones_do_not_fit,
        _cluster(
            {
                "message.max.bytes": "400",
                "transactional.id.expiration.ms": "10000",
                "transaction.remove.expired.transaction.cleanup.interval.ms": "1000",
            }
        ),
    ),
    57: Plan(UNGUARDED, stories.a_request_comes_after_the_end, _cluster()),
    59: Plan(
        mutant(
            "EndTxn is confirmed while the transaction completes",
            (_TRANSACTIONS, "TransactionCoordinator.end", coordinators.confirm_while_it_completes),
        ),
        stories.an_end_is_asked_for_again,
        _cluster(**_FOUR),
    ),
    60: Plan(
        mutant(
            "the wall clock tells how long a transaction is open",
            (_TRANSACTIONS, "TransactionCoordinator._abort_overdue", coordinators.time_by_the_wall),
        ),
        stories.a_wall_clock_steps,
        _cluster(),
    ),
    61: Plan(
        mutant(
            "who waits when the leader is replaced hears UNKNOWN_SERVER_ERROR",
            ("replication.acknowledgements", "Acknowledgements.end", coordinators.end_with_an_unknown_error),
        ),
        stories.an_error_is_taken_for_the_last_word,
        _cluster(**_FOUR),
    ),
    62: Plan(OVERTAKEN, stories.a_commit_is_overtaken, _cluster()),
    63: Plan(
        mutant(
            "offsets of a group with members expire",
            ("barnabas.coordinator.offsets.expiry", "expired_partitions", coordinators.everybody_is_gone),
        ),
        stories.a_member_reads_on_and_on,
        _cluster({"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "1000"}),
    ),
    64: Plan(
        mutant(
            "the restart of a static member is not stored",
            ("barnabas.coordinator.groups.joining", "_store_replacement", coordinators.restarts_are_not_stored),
        ),
        stories.a_static_member_is_restarted,
        _cluster(),
    ),
}
"""Those that a scripted plan shows."""

OTHER_PLANS: Final[Mapping[str, Plan]] = {
    "read index": Plan(
        mutant(
            "a coordinator that was replaced tells what was committed before",
            ("replication.leadership_proof", "LeadershipProof.begin", coordinators.prove_nothing),
        ),
        stories.a_coordinator_is_cut_off,
        _cluster(),
    ),
    "time-out": Plan(
        mutant(
            "a transaction whose producer is gone stays open",
            ("barnabas.coordinator.transactions.sweeps", "is_overdue", coordinators.never_overdue),
        ),
        stories.a_producer_is_gone,
        _cluster(),
    ),
}
"""No bugs of the museum."""
