"""Making and growing topics, for CreateTopics, CreatePartitions and the automatic creation of Metadata.

As in Kafka 2.7 the broker that was asked checks the request, chooses the assignment and writes it to ZooKeeper; the
controller's watch makes the partitions. `controller.topics` decides; this module reads what the decision needs, writes
it, and settles what a lost connection left open by reading again.

Not everything that Kafka tries is tried: an assignment that cannot fit into a znode is refused before it is made.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerId, TopicPartition
from broker.config import BrokerConfig
from broker.metadata_view import MetadataView
from broker.services import Services
from broker.topic_configs import TopicConfigRefused, check_topic_config
from controller.placement import PlacementBroker, RackMode
from controller.topics import (
    Assignment,
    TopicRefused,
    check_topic_name,
    creation_ops,
    decide_creation,
    decide_growth,
    deletion_ops,
    growth_ops,
)
from zk_schema import paths
from zk_schema.json_text import InvalidPayload
from zk_schema.ops import NodeExists, NodeMissing, OutcomeUnknown, VersionMoved, ZooKeeperError
from zk_schema.payloads import TopicAssignment

log = logging.getLogger(__name__)

DEFAULT: Final = -1
MAX_PARTITIONS: Final = 60_000
"""Of one topic. ZooKeeper refuses a znode of 1 MiB, and Kafka fails there; here it is an answer."""


@dataclass(slots=True)
class NewTopic:
    """A topic as it is asked for: -1 for the broker's default, an empty `manual` for "you choose"."""

    name: str
    num_partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    manual: Mapping[int, Sequence[int]] = field(default_factory=dict)
    config: Mapping[str, str | None] = field(default_factory=dict)


def placement_brokers(metadata: MetadataView) -> list[PlacementBroker]:
    """The live brokers, as placement wants them."""
    return [PlacementBroker(broker.broker_id, broker.rack) for broker in metadata.brokers.values()]


async def plan_topic(broker: Services, topic: NewTopic, *, rack_mode: RackMode = RackMode.ENFORCED) -> Assignment:
    """Check a topic that is to be made, in the order of Kafka's checks, and choose where its replicas go.

    Raises:
        TopicRefused: it may not be made so.
        ZooKeeperError: the names of the present topics cannot be read.
    """
    if broker.metadata.has_topic(topic.name):
        raise TopicRefused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists.")
    unset = [name for name, value in topic.config.items() if value is None]
    if unset:
        raise TopicRefused(ErrorCode.INVALID_REQUEST, f"A topic config must have a value: {', '.join(unset)}.")
    _check_size(topic, broker.config)
    assignment = decide_creation(
        topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        manual=topic.manual,
        existing=await _existing_names(broker, topic.name),
        brokers=placement_brokers(broker.metadata),
        default_num_partitions=broker.config.num_partitions,
        default_replication_factor=broker.config.default_replication_factor,
        random=broker.random,
        rack_mode=rack_mode,
    )
    try:
        check_topic_config(_set_values(topic.config))
    except TopicConfigRefused as error:
        raise TopicRefused(ErrorCode.INVALID_CONFIG, str(error)) from error
    return assignment


def _check_size(topic: NewTopic, config: BrokerConfig) -> None:
    chosen = config.num_partitions if topic.num_partitions == DEFAULT else topic.num_partitions
    count = len(topic.manual) if topic.manual else chosen
    if count > MAX_PARTITIONS:
        raise TopicRefused(ErrorCode.INVALID_PARTITIONS, _too_many(topic.name, count))


def _too_many(name: str, count: int) -> str:
    return f"Topic '{name}' cannot have {count} partitions; {MAX_PARTITIONS} are what fits."


def _set_values(config: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in config.items() if value is not None}


async def _existing_names(broker: Services, name: str) -> Collection[str]:
    """The names that a new one could meet: all of them where '.' and '_' could collide, else itself."""
    if "." in name or "_" in name:
        return await broker.zk.children(paths.BROKER_TOPICS) or ()
    if _can_be_a_topic(name) and await broker.zk.exists(paths.topic(name)) is not None:
        return (name,)
    return ()


def _can_be_a_topic(name: str) -> bool:
    try:
        check_topic_name(name)
    except TopicRefused:
        return False
    return True


async def write_topic(broker: Services, name: str, assignment: Assignment, config: Mapping[str, str | None]) -> None:
    """Write a planned topic to ZooKeeper.

    Raises:
        TopicRefused: TOPIC_ALREADY_EXISTS, somebody was faster.
        ZooKeeperError: ZooKeeper cannot be asked.
    """
    values = _set_values(config)
    config_exists = False
    while True:
        try:
            await broker.zk.write(*creation_ops(name, assignment, values, config_exists=config_exists))
        except NodeExists as error:
            if error.index != 0 or config_exists:
                raise TopicRefused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.") from error
            config_exists = True
        except NodeMissing:
            if not config_exists:
                raise
            config_exists = False
        except OutcomeUnknown:
            found = await read_assignment(broker, name)
            if found is not None:
                if dict(found[0].partitions) != assignment:
                    raise TopicRefused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.") from None
                return
        else:
            log.info("topic %s: created with %d partitions %s", name, len(assignment), values or "")
            return


async def read_assignment(broker: Services, name: str) -> tuple[TopicAssignment, int] | None:
    """A topic's assignment and the version of its znode; None when there is no such topic."""
    if not _can_be_a_topic(name):
        return None
    znode = await broker.zk.get(paths.topic(name))
    if znode is None:
        return None
    try:
        return TopicAssignment.decode(znode.data), znode.stat.version
    except InvalidPayload as error:
        raise TopicRefused(ErrorCode.UNKNOWN_SERVER_ERROR, f"The assignment of '{name}' is broken: {error}.") from error


async def auto_create(broker: Services, name: str) -> ErrorCode:
    """Make a topic that a client asked for; what Metadata answers for it. A topic that is new has no leader yet."""
    try:
        assignment = await plan_topic(broker, NewTopic(name), rack_mode=RackMode.SAFE)
        await write_topic(broker, name, assignment, {})
    except TopicRefused as error:
        if error.error is ErrorCode.TOPIC_ALREADY_EXISTS:
            return ErrorCode.LEADER_NOT_AVAILABLE
        log.debug("topic %.300r: not created: %.600r", name, error.message)
        return error.error
    except ZooKeeperError as error:
        log.warning("topic %.300r: not created: %s", name, error)
    return ErrorCode.LEADER_NOT_AVAILABLE


async def grow_topic(
    broker: Services, name: str, *, total: int, manual: Sequence[Sequence[int]] | None, validate_only: bool
) -> int:
    """Bring a topic to `total` partitions, or with `validate_only` see whether that could be; how many there are then.

    Raises:
        TopicRefused: it may not grow so.
        ZooKeeperError: ZooKeeper cannot be asked.
    """
    written: dict[int, tuple[BrokerId, ...]] = {}
    while True:
        found = await read_assignment(broker, name)
        if found is None or not found[0].partitions:
            raise TopicRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{name}' does not exist.")
        present, version = found
        if written and written.items() <= dict(present.partitions).items():
            return len(present.partitions)
        added = _plan_growth(broker, name, present, total=total, manual=manual)
        if validate_only:
            return total
        try:
            await broker.zk.write(*growth_ops(name, present, added, version=version))
        except VersionMoved:
            written = {}
        except OutcomeUnknown:
            written = added
        else:
            log.info("topic %s: %d partitions added", name, len(added))
            return total


def _plan_growth(
    broker: Services, name: str, present: TopicAssignment, *, total: int, manual: Sequence[Sequence[int]] | None
) -> Assignment:
    if present.adding_replicas or present.removing_replicas:
        raise TopicRefused(ErrorCode.REASSIGNMENT_IN_PROGRESS, f"Replicas of topic '{name}' are being reassigned.")
    if total > MAX_PARTITIONS:
        raise TopicRefused(ErrorCode.INVALID_PARTITIONS, _too_many(name, total))
    return decide_growth(
        name, present=present.partitions, total=total, manual=manual, brokers=placement_brokers(broker.metadata)
    )


async def request_deletion(broker: Services, name: str) -> None:
    """Ask the controller, through ZooKeeper, to delete a topic; asking twice is asking once.

    Raises:
        TopicRefused: there is no such topic.
        ZooKeeperError: ZooKeeper cannot be asked.
    """
    if await read_assignment(broker, name) is None:
        raise TopicRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{name}' does not exist.")
    while True:
        try:
            await broker.zk.write(*deletion_ops(name))
        except NodeExists:
            return
        except OutcomeUnknown:
            continue
        else:
            log.info("topic %s: deletion requested", name)
            return


async def is_being_deleted(broker: Services, name: str) -> bool:
    """Whether the deletion of a topic was asked for and is not done."""
    return _can_be_a_topic(name) and await broker.zk.exists(paths.delete_topic(name)) is not None


async def wait_for_leaders(broker: Services, counts: Mapping[str, int], *, timeout_ms: int) -> None:
    """Wait until this broker knows a leader of every partition of these topics, given by their count, or time is up."""
    # Asked again at each change: a topic that was seen led is not looked at again.
    left = list(counts.items())

    def all_led() -> bool:
        while left and is_led(broker.metadata, *left[-1]):
            left.pop()
        return not left

    await broker.metadata.wait_until(list(counts), all_led, timeout_ms=timeout_ms)


async def wait_until_gone(broker: Services, names: Sequence[str], *, timeout_ms: int) -> None:
    """Wait until this broker knows none of these topics, or time is up."""
    left = list(names)

    def all_gone() -> bool:
        while left and not broker.metadata.has_topic(left[-1]):
            left.pop()
        return not left

    await broker.metadata.wait_until(list(names), all_gone, timeout_ms=timeout_ms)


def is_led(metadata: MetadataView, name: str, count: int) -> bool:
    """Whether partitions 0 to `count` - 1 of a topic are known and led."""
    return all(metadata.has_leader(TopicPartition(name, number)) for number in range(count))
