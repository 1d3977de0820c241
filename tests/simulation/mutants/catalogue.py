"""The mutants, by their number in the museum of bugs (`tests/simulation/museum.toml`)."""

from collections.abc import Mapping
from typing import Final

from tests.simulation.mutants import cluster, replication
from tests.simulation.mutants.mutant import Mutant, mutant

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
    ),
    22: mutant(
        "a leader whose version is old is never told the present one",
        ("controller.isr_changes", "decide_isr", cluster.never_tell_the_version),
    ),
    27: mutant(
        "a controller that was replaced is obeyed, by ZooKeeper and by brokers",
        ("controller.office", "Office.fenced", cluster.write_without_fence),
        ("controller.fencing", "decide_fence", cluster.obey_any_controller),
    ),
    32: mutant(
        "brokers are told of partitions before they know each other",
        ("controller.outbox", "Outbox.greet", cluster.lead_before_metadata),
    ),
}
"""Those that drawn seeds of whole brokers find."""
