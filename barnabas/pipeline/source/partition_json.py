"""The JSON in which Spark's Kafka source writes partitions and offsets. Pure.

{"topic": {"0": 23, "1": -2}}     a number for each partition
{"topic": [0, 1]}                 partitions
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from barnabas.protocol.ids import TopicPartition

_MAX_INT32: Final = 2**31 - 1


class WrongShape(ValueError):
    """Text that is not such JSON; says what is wrong."""


def parse_numbers(text: str) -> dict[TopicPartition, int]:
    """Read a number for each partition. Raises WrongShape."""
    return numbers_of(_parse(text))


def numbers_of(topics: Any) -> dict[TopicPartition, int]:
    """The same of JSON that was parsed. Raises WrongShape."""
    if not isinstance(topics, dict):
        raise WrongShape('it is not of the form {"topic":{"0":23}}')
    numbers: dict[TopicPartition, int] = {}
    for topic, partitions in topics.items():
        if not isinstance(partitions, dict):
            raise WrongShape(f'topic {topic!r} is not of the form {{"0":23}}')
        for partition, number in partitions.items():
            if not isinstance(number, int) or isinstance(number, bool):
                raise WrongShape(f"{topic}-{partition} has {number!r}, which is no whole number")
            numbers[TopicPartition(topic, _partition(topic, partition))] = number
    return numbers


def parse_partitions(text: str) -> frozenset[TopicPartition]:
    """Read a list of partitions for each topic. Raises WrongShape."""
    topics = _parse(text)
    if not isinstance(topics, dict) or not all(isinstance(each, list) for each in topics.values()):
        raise WrongShape('it is not of the form {"topic":[0,1]}')
    return frozenset(
        TopicPartition(topic, _partition(topic, number)) for topic, numbers in topics.items() for number in numbers
    )


def nest(values: Mapping[TopicPartition, Any]) -> dict[str, dict[str, Any]]:
    """Values by topic and by partition as text, always in the same order."""
    nested: dict[str, dict[str, Any]] = {}
    for (topic, partition), value in sorted(values.items(), key=lambda item: item[0]):
        nested.setdefault(topic, {})[str(partition)] = value
    return nested


def show(values: Mapping[TopicPartition, Any]) -> str:
    """Values as compact JSON, for messages."""
    return json.dumps(nest(values), separators=(",", ":"))


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise WrongShape(f"it is not JSON: {error}") from None


def _partition(topic: str, number: object) -> int:
    text = str(number)
    if isinstance(number, bool) or not (text.isascii() and text.isdecimal() and int(text) <= _MAX_INT32):
        raise WrongShape(f"topic {topic!r} has {number!r}, which is no number of a partition")
    return int(text)
