"""The corpus as a list: every public function of a corpus module is a scenario, in the order of the files."""

import importlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from tests.differential.cluster_conversation import Cluster, ClusterConversation
from tests.differential.conversation import Conversation, Server, SetupFailed
from tests.differential.normalise import Value
from tests.support.kafka import ONE_BROKER_SETTINGS
from tests.support.raw_client import ConnectionClosed, NoAnswer

BROKE_OFF = "broke off"

GROUPS = (
    "api_versions",
    "headers",
    "metadata",
    "produce",
    "produce_refusals",
    "produce_sequences",
    "fetch",
    "fetch_refusals",
    "fetch_sessions",
    "list_offsets",
    "create_topics",
    "delete_topics",
    "delete_records",
    "create_partitions",
    "describe_log_dirs",
    "alter_replica_log_dirs",
    "describe_configs",
    "alter_configs",
    "incremental_alter_configs",
    "init_producer_id",
    "offset_for_leader_epoch",
    "elect_leaders",
    "reassignments",
    "update_features",
    "describe_cluster",
    "old_clients",
    "old_formats_produced",
    "old_formats_refused",
    "old_formats_fetched",
    "find_coordinator",
    "group_membership",
    "group_rebalances",
    "group_refusals",
    "static_members",
    "group_descriptions",
    "group_deletions",
    "offset_commits",
    "offset_fetches",
    "offset_deletions",
    "transactional_ids",
    "transactions",
    "transaction_refusals",
    "transactional_offsets",
    "transaction_markers",
    "transaction_listings",
)

THREE_BROKER_GROUPS = (
    "cluster_controller",
    "cluster_metadata",
    "cluster_topics",
    "cluster_produce",
    "cluster_fetch",
    "cluster_fetch_replicas",
    "cluster_offsets",
    "cluster_log_dirs",
    "cluster_configs",
    "cluster_coordinators",
    "cluster_reassignments",
    "cluster_moves",
    "cluster_elections",
)
"""What is asked of a cluster of three; the others are asked of one broker."""

ALL_GROUPS = GROUPS + THREE_BROKER_GROUPS

SERVER_SETTINGS = {
    # The records of the corpus are stamped in 2020, so that a time near now can only be the server's.
    "log.retention.ms": "-1",
    # What a topic gets that asks for the default.
    "num.partitions": "2",
    # Groups and transactions on a single broker, without a wait for members that might come.
    **ONE_BROKER_SETTINGS,
}
"""What both single servers are configured with, beside addresses and directories; the broker id is 1."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One function of the corpus."""

    group: str
    name: str
    play: Callable[[Any], None]


def scenarios(group: str) -> Iterator[Scenario]:
    """The scenarios of a group in the order in which they are written."""
    module = importlib.import_module(f"tests.differential.corpus.{group}")
    found = [one for name, one in vars(module).items() if _is_scenario(module, name, one)]
    for function in sorted(found, key=lambda one: one.__code__.co_firstlineno):
        yield Scenario(group, function.__name__, function)


@dataclass(slots=True)
class Played:
    """What came of a group: the answers by the names of the requests, and which versions of which APIs were asked."""

    answers: dict[str, Value] = field(default_factory=dict)
    asked: set[tuple[int, int]] = field(default_factory=set)


def play(group: str, asked: Server | Cluster) -> Played:
    """Have the talks of a group with a server, or with a cluster.

    A talk that cannot go on, because a preparation was refused or an answer that it builds on is missing, says so in a
    last answer of its own.
    """
    played = Played()
    for scenario in scenarios(group):
        talk = _begin(asked, group, scenario.name)
        try:
            scenario.play(talk)
        except (SetupFailed, ConnectionClosed, NoAnswer, OSError, AttributeError) as error:
            talk.note(BROKE_OFF, f"{type(error).__name__}: {error}")
        finally:
            talk.close()
        played.answers.update(talk.answers)
        played.asked |= talk.asked
    return played


def _begin(asked: Server | Cluster, group: str, scenario: str) -> Conversation | ClusterConversation:
    if isinstance(asked, Cluster):
        return ClusterConversation(asked, group, scenario)
    return Conversation(asked, group, scenario)


def _is_scenario(module: ModuleType, name: str, candidate: object) -> bool:
    return inspect.isfunction(candidate) and candidate.__module__ == module.__name__ and not name.startswith("_")
