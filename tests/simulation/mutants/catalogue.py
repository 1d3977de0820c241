"""The mutants, by their number in the museum of bugs (`tests/simulation/museum.toml`)."""

from collections.abc import Mapping
from typing import Final

from tests.simulation.mutants import (
    cluster,
    compaction,
    coordinator_plans,
    coordinators,
    outcomes,
    replication,
    stories,
)
from tests.simulation.mutants.mutant import Mutant, Plan, mutant

_COUNTS: Final = ("replication.leader", "LeaderState.counts", replication.every_fetch_counts)
_FENCE: Final = ("replication.leader", "fence", replication.no_fence)

MODEL: Final[Mapping[int, Mutant]] = {
    1: mutant(
        "a follower cuts its log to its high watermark",
        ("replication.follower", "decide_truncation", replication.cut_to_high_watermark),
    ),
    2: mutant(
        "epochs are not compared: logs of one length are taken for equal",
        ("barnabas.storage.leader_epochs", "LeaderEpochs.end_offset_for", replication.epochs_end_with_the_log),
    ),
    3: mutant(
        "a leader's answer for another epoch is taken for the one asked for (KIP-101 without KIP-279)",
        ("replication.follower", "decide_truncation", replication.trust_any_epoch),
    ),
    4: mutant("requests of another leader epoch are answered", _FENCE),
    5: mutant("a follower of an earlier epoch moves the high watermark", _COUNTS, _FENCE),
    6: mutant(
        "a replica joins below the start of the leader's epoch",
        ("replication.leader", "may_join", replication.join_at_high_watermark),
    ),
    7: mutant(
        "a follower does not truncate when it is told of a new epoch",
        ("replication.follower", "FollowedPartition.__init__", replication.fetch_at_once),
    ),
    8: mutant(
        "an epoch without records is not known",
        ("barnabas.storage.leader_epochs", "LeaderEpochs.end_offset_for", replication.forget_empty_epochs),
    ),
    9: mutant(
        "an epoch that begins at the log's end outlives the truncation",
        ("barnabas.storage.leader_epochs", "LeaderEpochs.truncate_from_end", replication.keep_epoch_at_end),
    ),
    18: mutant(
        "the last member of the in-sync set leads whatever it lost",
        ("controller.last_replica", "doubtful", replication.nobody_is_doubtful),
    ),
    19: mutant(
        "the high watermark moves though too few are in sync",
        ("replication.leader", "has_enough_in_sync", replication.always_enough),
    ),
}
"""Those that the small model finds."""

CLUSTER: Final[Mapping[int, Mutant]] = {
    **{number: MODEL[number] for number in (1, 3, 4, 5, 7, 8, 9, 19)},
    21: mutant(
        "a leader that is none any more changes the in-sync set",
        ("controller.isr_changes", "decide_isr", cluster.obey_any_leader),
        ("controller.isr_changes", "on_alter_partition", cluster.obey_any_registration),
    ),
    22: mutant(
        "a leader whose version is old is never told the present one",
        ("controller.isr_changes", "decide_isr", cluster.never_tell_the_version),
    ),
    27: mutant(
        "a controller that was replaced is obeyed, by ZooKeeper and by brokers",
        ("controller.driver", "Controller._end_term", cluster.stay_in_office),
        ("controller.office", "Office.fenced", cluster.write_without_fence),
        ("controller.fencing", "decide_fence", cluster.obey_any_controller),
    ),
    53: coordinator_plans.EARLY,
    55: coordinator_plans.SENT_ONCE,
    32: mutant(
        "brokers are told of partitions before they know each other",
        ("controller.outbox", "Outbox.greet", cluster.lead_before_metadata),
    ),
}
"""Those that drawn seeds of whole brokers find."""

OUTCOMES: Final[Mapping[str, Mutant]] = {
    "leadership": mutant(
        "a leadership is taken for written though the connection went before it was",
        ("controller.partitions", "_read_again", outcomes.take_leaderships_for_written),
    ),
    "in-sync set": mutant(
        "an in-sync set is taken for written though the connection went before it was",
        ("controller.isr_changes", "_learn", outcomes.take_in_sync_sets_for_written),
    ),
    "election": mutant(
        "an election is taken for won though the connection went before it was",
        ("controller.campaign", "Campaign._has_won", outcomes.always_won),
    ),
}
"""No bugs of the museum: writes of which nobody told whether they were done. Drawn seeds find them too."""

COMPACTION: Final[Mapping[str, Mutant]] = {
    "uncommitted": mutant(
        "committed values give way to values that are not",
        ("barnabas.storage.cleaning.clean_plan", "decide_range", compaction.clean_what_is_not_committed),
    ),
    "last value": mutant(
        "the last value of a key goes",
        ("barnabas.storage.cleaning.record_filter", "RecordFilter._keep", compaction.keep_one_too_few),
    ),
}
"""Compaction. Drawn seeds find them."""

COORDINATION: Final[Mapping[str, Mutant]] = {
    "open": mutant(
        "readers of what is committed are given what is open",
        ("barnabas.storage.producer_state", "ProducerState._refresh_unstable", coordinators.hide_nothing),
    ),
    "pending": mutant(
        "offsets count before their transaction is committed",
        (
            "barnabas.coordinator.offsets.committed",
            "CommittedOffsets.replay_pending",
            coordinators.offsets_count_at_once,
        ),
    ),
}
"""Groups and transactions, no bugs of the museum. Drawn seeds find them."""

HUNTED: Final[Mapping[int | str, Mutant]] = {**CLUSTER, **OUTCOMES, **COMPACTION, **COORDINATION}


_WANTED: Final = "broker.fetch_sessions"

PLANS: Final[Mapping[int, Plan]] = {
    **coordinator_plans.PLANS,
    6: Plan(
        MODEL[6],
        stories.a_replica_joins_too_early,
        {
            "settings": {
                "replica.high.watermark.checkpoint.interval.ms": "600000",
                "replica.fetch.max.bytes": "100",
                "replica.fetch.response.max.bytes": "100",
            }
        },
    ),
    13: Plan(
        mutant(
            "a log that begins anew keeps its high watermark",
            ("barnabas.storage.log", "Log.set_high_watermark", cluster.high_watermark_stays),
        ),
        stories.a_follower_begins_above_its_log,
    ),
    15: Plan(
        mutant(
            "a fetch session forgets the leader epoch",
            (_WANTED, "WantedPartition.__init__", cluster.forget_the_epoch),
            (_WANTED, "WantedPartition.update", cluster.forget_the_epoch),
            _COUNTS,
        ),
        stories.a_session_outlives_an_epoch,
        {"brokers": 4, "settings": {"auto.leader.rebalance.enable": "false"}},
    ),
    18: Plan(MODEL[18], stories.the_last_replica_loses_power),
    20: Plan(
        mutant(
            "a replica cannot begin within a batch",
            ("replication.followed", "Followed._append", cluster.append_or_fail),
        ),
        stories.a_log_starts_within_a_batch,
    ),
    25: Plan(
        mutant(
            "a broker that is gone joins the in-sync set",
            ("controller.isr_changes", "may_join", cluster.everybody_may_join),
        ),
        stories.a_dead_broker_is_proposed,
        {"settings": {"auto.leader.rebalance.enable": "false"}},
    ),
    26: Plan(
        mutant(
            "a broker obeys what was meant for its earlier life",
            ("controller.fencing", "decide_fence", cluster.obey_old_commands),
            ("broker.control_service", "ControlService._fence", cluster.do_not_wait),
        ),
        stories.a_command_comes_to_the_next_life,
        {"settings": {"auto.leader.rebalance.enable": "false", "zookeeper.session.timeout.ms": "18000"}},
    ),
    38: Plan(
        mutant(
            "a log directory goes on after an error",
            ("barnabas.storage.directory", "LogDirectory.fail", cluster.go_on_after_a_failure),
            ("barnabas.storage.log", "Log.finish_flush", cluster.forgive_a_failed_sync),
        ),
        stories.a_sync_fails,
        {"replication_factor": 1, "min_in_sync": 1, "topic_settings": {"flush.messages": "1"}},
    ),
}
"""Those that a scripted plan shows."""

OTHER_PLANS: Final[Mapping[str, Plan]] = {
    **coordinator_plans.OTHER_PLANS,
    "KIP-903": Plan(
        mutant(
            "a request from before its broker lost power lets the replica join the in-sync set",
            (_WANTED, "FetchSessions.plan", cluster.sessions_outlive_brokers),
            ("replication.partition", "Partition.on_follower_fetch", cluster.every_request_is_proven),
        ),
        stories.a_request_outlives_its_broker,
        {"settings": {"auto.leader.rebalance.enable": "false"}},
    ),
}
"""No bugs of the museum."""
