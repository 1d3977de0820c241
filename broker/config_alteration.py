"""Changes of settings that clients ask for: checked, written to ZooKeeper, and heard by all brokers from there.

An entity's znode and the notification are written together, and only over the version that the decision was made from:
of two brokers that change single settings of one entity at the same time neither undoes the other's change. Kafka 2.7
writes them one after the other, and over whatever is there.

Nothing is changed in memory here; `broker.config_changes` hears of the notification as every broker does.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final, TypeVar

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey
from broker import logger_levels
from broker.config import BrokerConfig
from broker.config_keys.key import ConfigError
from broker.config_layers import DynamicConfigRefused, check_change
from broker.config_operations import Change, Operation, check_changes
from broker.config_resources import ResourceRefused, require_this_broker
from broker.connection_limits import HOST_LIMITS, connection_limits
from broker.services import Services
from broker.topic_configs import TopicConfigRefused, TopicValueInvalid, check_topic_change
from broker.turns import Turns
from zk_schema import paths
from zk_schema.json_text import InvalidPayload
from zk_schema.ops import (
    ANY_VERSION,
    Check,
    Create,
    Created,
    NodeExists,
    NodeMissing,
    Op,
    OutcomeUnknown,
    Set,
    VersionMoved,
    WriteForbidden,
    Znode,
    ZooKeeperError,
)
from zk_schema.payloads import ConfigChange, EntityConfig

log = logging.getLogger(__name__)

T = TypeVar("T")

Decide = Callable[[Mapping[str, str] | None], dict[str, str]]
"""What an entity's settings become, given what they are, None where that cannot be read; may raise ResourceRefused."""

Named = tuple[int, str]
"""The type and the name of a resource."""
Outcomes = dict[Named, ResourceRefused | None]

_HEARD_MS: Final = 5_000
_MOST_TRIES: Final = 20
"""A write fails again only while somebody else keeps changing the same entity."""


async def alter_each(
    broker: Services, api_key: ApiKey, resources: Mapping[Named, T], alter: Callable[[T], Awaitable[str | None]]
) -> Outcomes:
    """Change each resource by itself, then wait until the changes act on this broker, as long as is reasonable."""
    turns = Turns(broker.clock)
    outcomes: Outcomes = {}
    notification = ""
    for named, resource in resources.items():
        try:
            notification = await alter(resource) or notification
            outcomes[named] = None
        except ResourceRefused as refused:
            broker.metrics.count_error(api_key, refused.error)
            outcomes[named] = refused
        await turns.maybe_yield()
    if notification and not await broker.config_changes.until_heard(notification, timeout_ms=_HEARD_MS):
        log.warning("%s is written and was not heard in %d ms", notification, _HEARD_MS)
    return outcomes


def refuse_all(broker: Services, api_key: ApiKey, resources: Sequence[Named], message: str) -> Outcomes:
    """The request as a whole is INVALID_REQUEST."""
    broker.metrics.count_error(api_key, ErrorCode.INVALID_REQUEST)
    return dict.fromkeys(resources, _refused(message))


async def alter_topic(
    broker: Services, topic: str, decide: Decide, *, asked: Collection[str], validate_only: bool
) -> str | None:
    """Change what a topic sets, of which the keys `asked` are to be checked; the path of the notification, if any.

    Raises:
        ResourceRefused: it may not be so, or cannot be done.
    """
    if not broker.metadata.has_topic(topic):
        raise ResourceRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{topic:.300}' does not exist.")

    def checked(present: Mapping[str, str] | None) -> dict[str, str]:
        wanted = decide(present)
        try:
            check_topic_change(wanted, asked)
        except TopicValueInvalid as error:
            raise ResourceRefused(ErrorCode.INVALID_REQUEST, str(error)) from error
        except TopicConfigRefused as error:
            raise ResourceRefused(ErrorCode.INVALID_CONFIG, str(error)) from error
        return wanted

    # A topic that was deleted meanwhile leaves no settings to the next one of its name.
    fence = (Check(paths.topic(topic), ANY_VERSION),)
    return await _write(broker, paths.topic_entity(topic), checked, fence=fence, validate_only=validate_only)


async def alter_broker(
    broker: Services, name: str, decide: Decide, *, asked: Collection[str], validate_only: bool
) -> str | None:
    """Change what ZooKeeper sets for this broker or, where `name` is empty, for all; the path of the notification.

    Raises:
        ResourceRefused: it may not be so, or cannot be done.
    """
    if name:
        require_this_broker(broker.broker_id, name)
    entity = paths.broker_entity(broker.broker_id if name else None)
    then = broker.config

    def checked(present: Mapping[str, str] | None) -> dict[str, str]:
        nonlocal then
        wanted = decide(present)
        try:
            then = check_change(broker.config, wanted, changed=asked, of_this_broker=bool(name))
        except DynamicConfigRefused as error:
            raise ResourceRefused(ErrorCode.INVALID_REQUEST, str(error)) from error
        return wanted

    if HOST_LIMITS in asked:
        checked(await _read(broker, entity))
        await _check_hosts(broker, then)
    return await _write(broker, entity, checked, validate_only=validate_only)


def alter_loggers(broker: Services, name: str, changes: Sequence[Change], *, validate_only: bool) -> None:
    """Change levels of this broker's loggers (KIP-412); an empty `name` means this broker too, as in Kafka.

    Raises:
        ResourceRefused: INVALID_REQUEST; nothing was changed.
    """
    if name:
        require_this_broker(broker.broker_id, name)
    check_changes(changes)
    for change in changes:
        if change.operation not in (Operation.SET, Operation.DELETE):
            raise _refused(f"{change.name}: a level is no list, it can be set or deleted.")
        if not logger_levels.exists(change.name):
            raise _refused(f"There is no logger '{change.name:.300}'.")
        if change.operation == Operation.SET and change.value not in logger_levels.LEVELS:
            raise _refused(f"{change.name}: '{change.value:.300}' is no level of {', '.join(logger_levels.LEVELS)}.")
        if change.operation == Operation.DELETE and change.name == logger_levels.ROOT:
            raise _refused("The root logger must have a level.")
    if not validate_only:
        for change in changes:
            level = change.value if change.operation == Operation.SET else None
            logger_levels.set_level(change.name, level)
            log.warning("logger %s: level %s", change.name, level or "of the one above it")


async def _check_hosts(broker: Services, config: BrokerConfig) -> None:
    """The names in the limits of hosts must be known, as at a start."""
    try:
        await broker.offload.thread("names of hosts", connection_limits, config)
    except ConfigError as error:
        raise _refused(f"{error}.") from error


async def _read(broker: Services, entity: str) -> dict[str, str] | None:
    try:
        return _settings(entity, await broker.zk.get(paths.entity_config(entity)))
    except ZooKeeperError as error:
        raise _failed(entity, error) from error


async def _write(
    broker: Services, entity: str, decide: Decide, *, fence: tuple[Op, ...] = (), validate_only: bool
) -> str | None:
    try:
        for _ in range(_MOST_TRIES):
            before = await broker.zk.get(paths.entity_config(entity))
            wanted = decide(_settings(entity, before))
            if validate_only:
                return None
            try:
                return await _write_once(broker, entity, before, wanted, fence)
            except (VersionMoved, NodeExists):
                continue
            except NodeMissing as error:
                if fence and error.index == 0:
                    raise ResourceRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{entity} is gone.") from error
            except WriteForbidden as error:
                raise _refused(f"{entity}: that is more than one znode holds.") from error
    except ZooKeeperError as error:
        raise _failed(entity, error) from error
    raise ResourceRefused(ErrorCode.UNKNOWN_SERVER_ERROR, f"{entity}: somebody else keeps changing it.")


async def _write_once(
    broker: Services, entity: str, before: Znode | None, wanted: Mapping[str, str], fence: tuple[Op, ...]
) -> str | None:
    """Raises WriteRefused, and OutcomeUnknown where even reading again does not tell."""
    path, data = paths.entity_config(entity), EntityConfig(wanted).encode()
    write = Create(path, data) if before is None else Set(path, data, before.stat.version)
    notification = Create(paths.CONFIG_CHANGE_PREFIX, ConfigChange(entity).encode(), sequential=True)
    try:
        results = await broker.zk.write(*fence, write, notification)
    except OutcomeUnknown:
        after = await broker.zk.get(path)
        if after is None or (before is not None and after.stat.mzxid == before.stat.mzxid):
            raise VersionMoved(write) from None
        if after.data != data:
            raise
        return None
    log.info("%s: %s", entity, dict(wanted))
    created = results[-1]
    assert isinstance(created, Created)
    return created.path


def _settings(entity: str, znode: Znode | None) -> dict[str, str] | None:
    if znode is None:
        return {}
    try:
        return dict(EntityConfig.decode(znode.data).config)
    except InvalidPayload as error:
        log.warning("%s cannot be read: %s", entity, error)
        return None


def _failed(entity: str, error: ZooKeeperError) -> ResourceRefused:
    log.warning("%s: not changed: %s", entity, error)
    return ResourceRefused(ErrorCode.UNKNOWN_SERVER_ERROR, f"{entity}: whether it was changed is not known.")


def _refused(message: str) -> ResourceRefused:
    return ResourceRefused(ErrorCode.INVALID_REQUEST, message)
