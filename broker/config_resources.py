"""What configuration belongs to, as requests name it: topics, this broker or all brokers, and the broker's loggers."""

import re
from enum import IntEnum
from typing import Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerId

_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_MAX_ID_LENGTH: Final = 100


class ResourceType(IntEnum):
    """What has configuration. The number is that of Kafka's ConfigResource."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8


class ResourceRefused(Exception):
    """A resource that is answered with an error."""

    def __init__(self, error: ErrorCode, message: str | None) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


def told(refused: ResourceRefused | None) -> tuple[ErrorCode, str | None]:
    """What a resource is answered with: its error and message."""
    return (ErrorCode.NONE, None) if refused is None else (refused.error, refused.message)


def require_this_broker(broker_id: BrokerId, name: str) -> None:
    """Refuse a broker that is not this one; each knows itself only.

    Raises:
        ResourceRefused: INVALID_REQUEST.
    """
    # Python does not read a number of thousands of digits.
    if len(name) > _MAX_ID_LENGTH or not _INTEGER.fullmatch(name) or not -(2**31) <= int(name) < 2**31:
        raise ResourceRefused(ErrorCode.INVALID_REQUEST, f"A broker's id is a number, not '{name}'.")
    if int(name) != broker_id:
        raise ResourceRefused(ErrorCode.INVALID_REQUEST, f"This is broker {broker_id}: ask broker {name} itself.")
