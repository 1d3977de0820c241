"""What a configuration key is: its name, type, default, what it may be, and whether it acts in this version.

A value comes as text, is trimmed and parsed as Kafka 2.7 does (ConfigDef: `INT` is 32-bit decimal, `LIST` is separated
by commas, booleans ignore case), then held against `check`, which is Kafka's own rule. `served` narrows that to the
values that this version acts on; a key with `acts=False` is known by name and type and has no effect.

`render` gives the text that DescribeConfigs shows. Nothing here reads a file or logs.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any, Final

ConfigValue = bool | int | float | str | list[str] | None

_JAVA_BLANKS: Final = "".join(map(chr, range(33)))
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_DOUBLE: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?")
_COMMA: Final = re.compile(r"\s*,\s*", re.ASCII)


class ConfigType(IntEnum):
    """Type of a key's value. The number is that of DescribeConfigs v3 (KIP-569)."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Importance(Enum):
    """How much an operator should care, in Kafka's documentation."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Required(Enum):
    """The type of `REQUIRED`."""

    REQUIRED = "required"


REQUIRED: Final = Required.REQUIRED
BOOLEAN: Final = ConfigType.BOOLEAN
STRING: Final = ConfigType.STRING
INT: Final = ConfigType.INT
SHORT: Final = ConfigType.SHORT
LONG: Final = ConfigType.LONG
DOUBLE: Final = ConfigType.DOUBLE
LIST: Final = ConfigType.LIST
CLASS: Final = ConfigType.CLASS
PASSWORD: Final = ConfigType.PASSWORD
HIGH: Final = Importance.HIGH
MEDIUM: Final = Importance.MEDIUM
LOW: Final = Importance.LOW
INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1

_BITS: Final = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}
_TYPE_TEXT: Final = {
    ConfigType.BOOLEAN: "true or false",
    ConfigType.SHORT: "a 16-bit integer",
    ConfigType.INT: "a 32-bit integer",
    ConfigType.LONG: "a 64-bit integer",
    ConfigType.DOUBLE: "a decimal number",
}


class ConfigError(Exception):
    """A configuration that cannot be: the key, the value that was given and what is allowed."""

    def __init__(self, key: str, value: str | None, allowed: str) -> None:
        shown = "not set" if value is None else f"'{value}'"
        super().__init__(f"{key} is {shown}; allowed is {allowed}")
        self.key = key
        self.value = value
        self.allowed = allowed


@dataclass(frozen=True, slots=True)
class Check:
    """A rule on a parsed value, and its text for an error."""

    allowed: str
    passes: Callable[[Any], bool]


def at_least(minimum: int) -> Check:
    """A number not below `minimum`; null is refused, as by Kafka."""
    return Check(f"a number of at least {minimum}", lambda value: value is not None and value >= minimum)


def between(minimum: float, maximum: float) -> Check:
    """A number from `minimum` to `maximum`, both included."""
    return Check(
        f"a number from {minimum} to {maximum}", lambda value: value is not None and minimum <= value <= maximum
    )


def one_of(*names: str) -> Check:
    """One of these words, in this spelling."""
    return Check("one of " + ", ".join(names), lambda value: value in names)


def one_of_ignoring_case(*names: str) -> Check:
    """One of these words in any case."""
    return Check("one of " + ", ".join(names), lambda value: str(value).lower() in names)


def each_of(*names: str) -> Check:
    """A list of these words."""
    return Check("a list of " + ", ".join(names), lambda values: all(value in names for value in values))


def only(value: ConfigValue) -> Check:
    """This value alone acts."""
    shown = "nothing" if value in (None, "") else f"'{render_value(value)}'"
    return Check(f"{shown} in this version of Barnabas", lambda given: bool(given == value))


_INTERNAL_VERSIONS: Final = dict.fromkeys(("0.8.0", "0.8.1", "0.8.2", "0.9.0"), 0) | {
    **dict.fromkeys(("0.10.2", "1.0", "1.1", "2.5", "2.6"), 1),
    **dict.fromkeys(("0.10.0", "2.0", "2.2", "2.3", "2.4"), 2),
    **dict.fromkeys(("0.10.1", "0.11.0", "2.1", "2.7"), 3),
}


def full_protocol_version(text: str) -> str | None:
    """The version that `text` names, with the newest internal number if it has none; `2.7` and `2.7.2` are 2.7-IV2.

    None when there is no such version.
    """
    segments = text.split(".")
    version = ".".join(segments[: 3 if text.startswith("0.") else 2])
    short, _, internal = version.partition("-")
    count = _INTERNAL_VERSIONS.get(short)
    if count is None:
        return None
    if not internal:
        return f"{short}-IV{count - 1}" if count else short
    return version if internal in {f"IV{number}" for number in range(count)} else None


def message_format_of(version: str) -> int:
    """The magic of the records that this version of Kafka wrote (KIP-31, KIP-98)."""
    if version.startswith(("0.8", "0.9")):
        return 0
    return 1 if version.startswith("0.10") else 2


PROTOCOL_VERSION: Final = Check(
    "a version of Kafka from 0.8.0 to 2.7-IV2", lambda text: full_protocol_version(text) is not None
)


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One key. `default` is a parsed value; `dynamic` tells whether Kafka 2.7 can change it while a broker runs.

    A dynamic key that acts does so at once when it is changed, unless it takes a `restart` in this version.
    """

    name: str
    type: ConfigType
    default: ConfigValue | Required
    importance: Importance
    documentation: str
    check: Check | None = None
    acts: bool = False
    served: Check | None = None
    dynamic: bool = False
    restart: bool = False

    @property
    def is_changeable(self) -> bool:
        """Whether this version takes a new value while the broker runs."""
        return self.dynamic and self.acts and not self.restart

    @property
    def is_sensitive(self) -> bool:
        """Whether its value must never be shown."""
        return self.type is ConfigType.PASSWORD

    def parse(self, text: str) -> ConfigValue:
        """The value of `text`.

        Raises:
            ConfigError: the text is not of the key's type or breaks Kafka's rule for it.
        """
        value = _parse(self, text)
        if self.check is not None and not self.check.passes(value):
            raise ConfigError(self.name, self._shown(text), self.check.allowed)
        return value

    def require_served(self, value: ConfigValue, text: str) -> None:
        """Refuse a value that Kafka takes and this version does not act on.

        Raises:
            ConfigError: so it is.
        """
        if self.served is not None and not self.served.passes(value):
            raise ConfigError(self.name, self._shown(text), self.served.allowed)

    def _shown(self, text: str) -> str:
        return "[hidden]" if self.is_sensitive else text


def _parse(key: ConfigKey, text: str) -> ConfigValue:
    trimmed = text.strip(_JAVA_BLANKS)
    if key.type is ConfigType.BOOLEAN:
        if trimmed.lower() in ("true", "false"):
            return trimmed.lower() == "true"
    elif key.type in _BITS:
        if _INTEGER.fullmatch(trimmed):
            number = int(trimmed)
            limit = 1 << (_BITS[key.type] - 1)
            if -limit <= number < limit:
                return number
    elif key.type is ConfigType.DOUBLE:
        if _DOUBLE.fullmatch(trimmed):
            return float(trimmed.rstrip("dDfF"))
    elif key.type is ConfigType.LIST:
        return _COMMA.split(trimmed) if trimmed else []
    else:
        return trimmed
    raise ConfigError(key.name, text, _TYPE_TEXT[key.type])


def render_value(value: ConfigValue) -> str | None:
    """The text of a parsed value, as Java prints it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(value)
    if isinstance(value, float):
        return _render_double(value)
    return str(value)


def _render_double(value: float) -> str:
    """Java's Double.toString: plain from 10^-3 to below 10^7, else one digit, a point and an exponent after E."""
    if value == 0.0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, _ = (number := Decimal(repr(value))).as_tuple()
    text = "".join(map(str, digits)).rstrip("0")
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{number.adjusted()}"
