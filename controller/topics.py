"""What the broker that gets a request decides about topics: names, numbers, assignments, and what to write.  [P]

As in Kafka 2.7 the receiving broker checks a CreateTopics or CreatePartitions, chooses the assignment and writes it to
ZooKeeper; the controller's watches do the rest. A refusal is a `TopicRefused` with the error code and a sentence for
the client. The checks come in the order in which Kafka 2.7 makes them, so that a request with two faults is told the
same one. Looking at ZooKeeper, configuration values and policies are the caller's.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerId
from controller.placement import Dice, PlacementBroker, RackMissing, RackMode, place, place_more
from zk_schema import paths
from zk_schema.ops import Create, Op, Set
from zk_schema.payloads import EntityConfig, TopicAssignment

Assignment = dict[int, tuple[BrokerId, ...]]

MAX_NAME_LENGTH: Final = 249
_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)


class TopicRefused(Exception):
    """A request about a topic that is answered with `error` and `message`."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


def check_topic_name(name: str) -> None:
    """Refuse a name that no topic may have: 1 to 249 of [a-zA-Z0-9._-], neither "." nor ".."."""
    if not name:
        reason = "a topic name must not be empty"
    elif name in {".", ".."}:
        reason = f"a topic must not be named '{name}'"
    elif len(name) > MAX_NAME_LENGTH:
        reason = f"the topic name is longer than {MAX_NAME_LENGTH} characters: {name}"
    elif not _NAME.fullmatch(name):
        reason = f"the topic name '{name}' has a character other than ASCII letters, digits, '.', '_' and '-'"
    else:
        return
    raise TopicRefused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Invalid topic: {reason}.")


def check_collision(name: str, existing: Collection[str]) -> None:
    """Refuse a name that differs from an existing one only in '.' and '_': their metrics would have one name."""
    if "." not in name and "_" not in name:
        return
    merged = name.replace(".", "_")
    collisions = sorted(other for other in existing if other != name and other.replace(".", "_") == merged)
    if collisions:
        message = f"Topic '{name}' collides with existing topics: {', '.join(collisions)}."
        raise TopicRefused(ErrorCode.INVALID_TOPIC_EXCEPTION, message)


def _is_topic_name(name: str) -> bool:
    try:
        check_topic_name(name)
    except TopicRefused:
        return False
    return True


def decide_creation(
    name: str,
    *,
    num_partitions: int,
    replication_factor: int,
    manual: Mapping[int, Sequence[int]],
    existing: Collection[str],
    brokers: Collection[PlacementBroker],
    default_num_partitions: int,
    default_replication_factor: int,
    random: Dice,
    rack_mode: RackMode = RackMode.ENFORCED,
) -> Assignment:
    """The assignment of a topic to be made; -1 stands for the default, an empty `manual` for "you choose".

    `brokers` are the live ones, `existing` the names of all topics.

    Raises:
        TopicRefused: TOPIC_ALREADY_EXISTS, INVALID_REQUEST, INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR,
            INVALID_REPLICA_ASSIGNMENT or INVALID_TOPIC_EXCEPTION.
    """
    if name in existing:
        raise TopicRefused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    if manual:
        if num_partitions != -1 or replication_factor != -1:
            message = "An assignment was given together with a number of partitions or a replication factor."
            raise TopicRefused(ErrorCode.INVALID_REQUEST, message)
        assignment = {number: tuple(map(BrokerId, replicas)) for number, replicas in manual.items()}
    else:
        partitions = default_num_partitions if num_partitions == -1 else num_partitions
        assignment = _place_new(
            brokers,
            # A name that is refused below need not be worked for: one partition shows what else is wrong.
            partitions=partitions if _is_topic_name(name) else min(partitions, 1),
            replication_factor=default_replication_factor if replication_factor == -1 else replication_factor,
            random=random,
            rack_mode=rack_mode,
        )
    check_topic_name(name)
    check_collision(name, existing)
    if manual:
        _check_manual_creation(assignment)
        assignment = dict(sorted(assignment.items()))
    return assignment


def decide_growth(
    name: str,
    *,
    present: Mapping[int, Sequence[BrokerId]],
    total: int,
    manual: Sequence[Sequence[int]] | None,
    brokers: Collection[PlacementBroker],
    rack_mode: RackMode = RackMode.ENFORCED,
) -> Assignment:
    """The replicas of the partitions that bring topic `name` from `present` to `total` partitions, only the new ones.

    Raises:
        TopicRefused: INVALID_PARTITIONS, INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR.
    """
    count = len(present)
    if total == count:
        raise TopicRefused(ErrorCode.INVALID_PARTITIONS, f"Topic '{name}' already has {count} partitions.")
    if total < count:
        message = f"Topic '{name}' has {count} partitions, more than the {total} asked for."
        raise TopicRefused(ErrorCode.INVALID_PARTITIONS, message)
    first_replicas = tuple(present[0])
    factor = len(first_replicas)
    if manual is not None:
        return _check_manual_growth(
            manual, first=count, added=total - count, replication_factor=factor, brokers=brokers
        )
    _check_replication_factor(factor, live=len(brokers))
    try:
        return place_more(
            brokers, present=count, added=total - count, first_replicas=first_replicas, rack_mode=rack_mode
        )
    except RackMissing as error:
        raise _refuse_racks(error) from error


def creation_ops(
    name: str, assignment: Mapping[int, Sequence[BrokerId]], config: Mapping[str, str], *, config_exists: bool = False
) -> list[Op]:
    """The multi that makes a topic. NodeExists at its first operation: a config without a topic; set `config_exists`.

    NodeExists at its second operation: the topic exists. Kafka writes the two one after the other; together they
    cannot be seen half done.
    """
    path, data = paths.topic_config(name), EntityConfig(dict(config)).encode()
    first: Op = Set(path, data) if config_exists else Create(path, data)
    return [first, Create(paths.topic(name), _encode(assignment))]


def growth_ops(
    name: str,
    present: TopicAssignment,
    added: Mapping[int, Sequence[BrokerId]],
    *,
    version: int,
) -> list[Op]:
    """The write that adds partitions to topic `name`, whose znode was read as `present` at `version`."""
    assert not set(added) & set(present.partitions)
    replicas = {number: tuple(ids) for number, ids in added.items()}
    grown = replace(present, partitions={**present.partitions, **replicas})
    return [Set(paths.topic(name), grown.encode(), version)]


def deletion_ops(name: str) -> list[Op]:
    """The request that the controller deletes topic `name`. NodeExists: it was asked already."""
    return [Create(paths.delete_topic(name), b"")]


def _encode(assignment: Mapping[int, Sequence[BrokerId]]) -> bytes:
    return TopicAssignment({number: tuple(ids) for number, ids in assignment.items()}).encode()


def _place_new(
    brokers: Collection[PlacementBroker],
    *,
    partitions: int,
    replication_factor: int,
    random: Dice,
    rack_mode: RackMode,
) -> Assignment:
    if partitions <= 0:
        raise TopicRefused(ErrorCode.INVALID_PARTITIONS, "The number of partitions must be greater than 0.")
    _check_replication_factor(replication_factor, live=len(brokers))
    try:
        return place(
            brokers, partitions=partitions, replication_factor=replication_factor, random=random, rack_mode=rack_mode
        )
    except RackMissing as error:
        raise _refuse_racks(error) from error


def _check_replication_factor(factor: int, *, live: int) -> None:
    if factor <= 0:
        message = "The replication factor must be greater than 0."
    elif factor > live:
        message = f"Replication factor {factor} is larger than the number of live brokers, {live}."
    else:
        return
    raise TopicRefused(ErrorCode.INVALID_REPLICATION_FACTOR, message)


def _check_manual_creation(assignment: Mapping[int, Sequence[BrokerId]]) -> None:
    factors = {len(replicas) for replicas in assignment.values()}
    if len(factors) != 1:
        raise _refuse_assignment("all partitions must have the same number of replicas")
    for number, replicas in assignment.items():
        if len(set(replicas)) != len(replicas):
            raise _refuse_assignment(f"partition {number} names a broker twice: {list(replicas)}")
    if set(assignment) != set(range(len(assignment))):
        raise _refuse_assignment(f"partitions must be numbered from 0 without gaps, not {sorted(assignment)}")
    if factors == {0}:
        raise _refuse_assignment("a partition must have a replica")


def _check_manual_growth(
    manual: Sequence[Sequence[int]],
    *,
    first: int,
    added: int,
    replication_factor: int,
    brokers: Collection[PlacementBroker],
) -> Assignment:
    if len(manual) != added:
        raise _refuse_assignment(f"{added} partitions are to be added but {len(manual)} assignments were given")
    live = {broker.broker_id for broker in brokers}
    unknown = sorted({broker for replicas in manual for broker in replicas} - live)
    if unknown:
        raise _refuse_assignment(f"brokers {unknown} are not known")
    assignment: Assignment = {}
    for number, replicas in enumerate(manual, first):
        if not replicas:
            raise _refuse_assignment(f"partition {number} must have a replica")
        if len(set(replicas)) != len(replicas):
            raise _refuse_assignment(f"partition {number} names a broker twice: {list(replicas)}")
        if len(replicas) != replication_factor:
            reason = f"partition 0 has {replication_factor} replicas but partition {number} has {len(replicas)}"
            raise _refuse_assignment(reason)
        assignment[number] = tuple(map(BrokerId, replicas))
    return assignment


def _refuse_assignment(reason: str) -> TopicRefused:
    return TopicRefused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Invalid replica assignment: {reason}.")


def _refuse_racks(error: RackMissing) -> TopicRefused:
    """Kafka has no error code of its own for this and answers UNKNOWN_SERVER_ERROR."""
    return TopicRefused(ErrorCode.UNKNOWN_SERVER_ERROR, f"Replicas cannot be placed: {error}.")
