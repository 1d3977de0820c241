"""Changes of single settings (KIP-339): set, delete, append to a list, take away from it.  [P]

An entity's settings are texts by key. Whether they may be so is another question (`broker.config_layers`,
`broker.topic_configs`). Elements of a list are compared as they are written, between commas; the list of a key that is
not set is its default. An empty list has no element: Kafka 2.7 counts one that is empty, and what is appended to it
is refused then.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from barnabas.protocol.error_code import ErrorCode
from broker.config_keys.key import REQUIRED, ConfigKey, ConfigType, render_value
from broker.config_resources import ResourceRefused


class Operation(IntEnum):
    """What to do with a key. The number is that of IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


_OPERATIONS: Final = frozenset(map(int, Operation))


@dataclass(frozen=True, slots=True)
class Change:
    """One of the changes of a request; `operation` may be a number that there is not."""

    name: str
    operation: int
    value: str | None


def check_changes(changes: Sequence[Change]) -> None:
    """Refuse what no entity takes.

    Raises:
        ResourceRefused: INVALID_REQUEST.
    """
    counts = Counter(change.name for change in changes)
    repeated = [name for name, count in counts.items() if count > 1]
    if repeated:
        raise _refused(f"A key can be changed once in a request: {', '.join(repeated)}.")
    for change in changes:
        if change.operation not in _OPERATIONS:
            raise _refused(f"{change.name}: there is no operation {change.operation}.")
    unset = [change.name for change in changes if change.value is None and change.operation != Operation.DELETE]
    if unset:
        raise _refused(f"A key can be deleted, and not set to null: {', '.join(unset)}.")


def apply_changes(
    present: Mapping[str, str], changes: Sequence[Change], keys: Mapping[str, ConfigKey]
) -> dict[str, str]:
    """What is set after these changes, which `check_changes` lets pass.

    Raises:
        ResourceRefused: a key has no list; INVALID_REQUEST.
    """
    wanted = dict(present)
    for change in changes:
        if change.operation == Operation.DELETE:
            wanted.pop(change.name, None)
            continue
        assert change.value is not None
        if change.operation == Operation.SET:
            wanted[change.name] = change.value
            continue
        elements = _elements(wanted, change, keys)
        if change.operation == Operation.APPEND:
            elements += _split(change.value)
        else:
            for element in _split(change.value):
                if element in elements:
                    elements.remove(element)
        wanted[change.name] = ",".join(elements)
    return wanted


def _elements(wanted: Mapping[str, str], change: Change, keys: Mapping[str, ConfigKey]) -> list[str]:
    key = keys.get(change.name)
    if key is None:
        raise _refused(f"{change.name} is not a key that there is.")
    if key.type is not ConfigType.LIST:
        raise _refused(f"{change.name} is no list: nothing can be appended to it or taken from it.")
    assert key.default is not REQUIRED
    return _split(wanted.get(change.name, render_value(key.default) or ""))


def _split(text: str) -> list[str]:
    return [element for element in text.split(",") if element]


def _refused(message: str) -> ResourceRefused:
    return ResourceRefused(ErrorCode.INVALID_REQUEST, message)
