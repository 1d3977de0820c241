"""Where things stand in ZooKeeper: every path of Kafka 2.7, relative to the chroot. Pure.

Entity names in /config are percent-encoded as Kafka does (`sanitize`); topic names elsewhere need no encoding.
"""

from typing import Final
from urllib.parse import quote, unquote

CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"

BROKERS: Final = "/brokers"
BROKER_IDS: Final = f"{BROKERS}/ids"
BROKER_TOPICS: Final = f"{BROKERS}/topics"
BROKER_SEQUENCE_ID: Final = f"{BROKERS}/seqid"

CONFIG: Final = "/config"
CONFIG_CHANGES: Final = f"{CONFIG}/changes"
TOPICS: Final = "topics"
CLIENTS: Final = "clients"
USERS: Final = "users"
CONFIG_BROKERS: Final = "brokers"
ENTITY_TYPES: Final = (TOPICS, CLIENTS, USERS, CONFIG_BROKERS)
DEFAULT_ENTITY: Final = "<default>"

ADMIN: Final = "/admin"
DELETE_TOPICS: Final = f"{ADMIN}/delete_topics"
REASSIGN_PARTITIONS: Final = f"{ADMIN}/reassign_partitions"
PREFERRED_REPLICA_ELECTION: Final = f"{ADMIN}/preferred_replica_election"

ISR_CHANGE_NOTIFICATION: Final = "/isr_change_notification"
LOG_DIR_EVENT_NOTIFICATION: Final = "/log_dir_event_notification"
CONSUMERS: Final = "/consumers"
CLUSTER_ID: Final = "/cluster/id"
LATEST_PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"
FEATURE: Final = "/feature"

ACL: Final = "/kafka-acl"
ACL_CHANGES: Final = "/kafka-acl-changes"
EXTENDED_ACL: Final = "/kafka-acl-extended"
EXTENDED_ACL_CHANGES: Final = "/kafka-acl-extended-changes"
CLUSTER_RESOURCE: Final = "kafka-cluster"

DELEGATION_TOKENS: Final = "/delegation_token/tokens"
DELEGATION_TOKEN_CHANGES: Final = "/delegation_token/token_changes"  # noqa: S105

# Sequential znodes are made under these prefixes.
CONFIG_CHANGE_PREFIX: Final = f"{CONFIG_CHANGES}/config_change_"
ISR_CHANGE_PREFIX: Final = f"{ISR_CHANGE_NOTIFICATION}/isr_change_"
LOG_DIR_EVENT_PREFIX: Final = f"{LOG_DIR_EVENT_NOTIFICATION}/log_dir_event_"
ACL_CHANGE_PREFIX: Final = f"{ACL_CHANGES}/acl_changes_"
EXTENDED_ACL_CHANGE_PREFIX: Final = f"{EXTENDED_ACL_CHANGES}/acl_changes_"
DELEGATION_TOKEN_CHANGE_PREFIX: Final = f"{DELEGATION_TOKEN_CHANGES}/token_change_"

PERSISTENT_PATHS: Final = (
    CONSUMERS,
    BROKER_IDS,
    BROKER_TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQUENCE_ID,
    ISR_CHANGE_NOTIFICATION,
    LATEST_PRODUCER_ID_BLOCK,
    LOG_DIR_EVENT_NOTIFICATION,
    *(f"{CONFIG}/{entity_type}" for entity_type in ENTITY_TYPES),
)
"""What every broker makes at its start where it is missing, with null data."""


def broker(broker_id: int) -> str:
    """The ephemeral registration of a broker."""
    return f"{BROKER_IDS}/{broker_id}"


def topic(name: str) -> str:
    """The assignment of a topic."""
    return f"{BROKER_TOPICS}/{name}"


def topic_partitions(name: str) -> str:
    """Parent of a topic's partitions; null data."""
    return f"{topic(name)}/partitions"


def partition(topic_name: str, number: int) -> str:
    """Parent of a partition's state; null data."""
    return f"{topic_partitions(topic_name)}/{number}"


def partition_state(topic_name: str, number: int) -> str:
    """Leader, ISR and epochs of a partition."""
    return f"{partition(topic_name, number)}/state"


def delete_topic(name: str) -> str:
    """The request that a topic be deleted."""
    return f"{DELETE_TOPICS}/{name}"


def topic_config(name: str) -> str:
    """What is set for a topic."""
    return entity_config(topic_entity(name))


def broker_config(broker_id: int | None) -> str:
    """Dynamic configuration of one broker, or with None the cluster's default."""
    return entity_config(broker_entity(broker_id))


def entity_config(entity_path: str) -> str:
    """The configuration of what a change notification calls `entity_path`, e.g. `topics/foo`."""
    return f"{CONFIG}/{entity_path}"


def topic_entity(name: str) -> str:
    """The entity path of a topic."""
    return f"{TOPICS}/{sanitize(name)}"


def broker_entity(broker_id: int | None) -> str:
    """The entity path of a broker, or with None of the cluster's default."""
    return f"{CONFIG_BROKERS}/{DEFAULT_ENTITY if broker_id is None else broker_id}"


def quota_entity(*, user: str | None = None, client_id: str | None = None) -> str:
    """The entity path of a user, a client id, or a client id of a user; DEFAULT_ENTITY stands for the default."""
    assert user is not None or client_id is not None
    parts = [] if user is None else [USERS, _entity_name(user)]
    if client_id is not None:
        parts += [CLIENTS, _entity_name(client_id)]
    return "/".join(parts)


def acl(*, resource_type: str, name: str, pattern_type: str = "LITERAL") -> str:
    """The access control list of a resource; types as Kafka spells them (`Topic`, `TransactionalId`; `PREFIXED`)."""
    parent = ACL if pattern_type == "LITERAL" else f"{EXTENDED_ACL}/{pattern_type.lower()}"
    return f"{parent}/{resource_type}/{name}"


def delegation_token(token_id: str) -> str:
    """What is known of a delegation token."""
    return f"{DELEGATION_TOKENS}/{token_id}"


def consumer_offset(*, group: str, topic_name: str, partition_number: int) -> str:
    """An offset that OffsetCommit v0 stored."""
    return f"{CONSUMERS}/{group}/offsets/{topic_name}/{partition_number}"


def consumer_ids(group: str) -> str:
    """Parent of the members of a group that is coordinated here."""
    return f"{CONSUMERS}/{group}/ids"


def consumer_id(*, group: str, name: str) -> str:
    """The ephemeral registration of a member."""
    return f"{consumer_ids(group)}/{name}"


def consumer_owner(*, group: str, topic_name: str, partition_number: int) -> str:
    """Which stream of which member reads a partition; ephemeral."""
    return f"{CONSUMERS}/{group}/owners/{topic_name}/{partition_number}"


def sanitize(name: str) -> str:
    """Percent-encode an entity's name as Kafka's Sanitizer: all but letters, digits and `.-_`."""
    return quote(name, safe="").replace("~", "%7E")


def desanitize(name: str) -> str:
    """The name that `sanitize` encoded."""
    return unquote(name)


def parents(path: str) -> list[str]:
    """Every path above `path`, from the top, without the root."""
    parts = path.split("/")[1:-1]
    return ["/" + "/".join(parts[: count + 1]) for count in range(len(parts))]


def _entity_name(name: str) -> str:
    return name if name == DEFAULT_ENTITY else sanitize(name)
