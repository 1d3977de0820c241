"""The options that a query gives to one of our sources or sinks: taken by name, and none left over. Pure.

What is accepted acts. An option that is not known, that is refused, or that has nothing to act on is refused by name
with what to do. Names are compared without case, as Spark hands them over.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NoReturn, TypeVar

T = TypeVar("T")

MIB: Final = 1024 * 1024


class OptionError(ValueError):
    """An option that cannot be taken; the text names it, its value and what would do."""


class GivenOptions:
    """Options by lower-case name, and which of them were asked for."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._values = {name.lower(): value for name, value in given.items()}
        self._known: set[str] = set()

    def text(self, name: str) -> str | None:
        self._known.add(name.lower())
        return self._values.get(name.lower())

    def read(self, name: str, parse: Callable[[str], T], default: T) -> T:
        text = self.text(name)
        if text is None:
            return default
        try:
            return parse(text.strip())
        except ValueError as error:
            self.fail(name, str(error))

    def maybe(self, name: str, parse: Callable[[str], T]) -> T | None:
        """What `read` returns, or None where the option is not given."""
        nothing: T | None = None
        return self.read(name, parse, nothing)

    def bootstrap_servers(self) -> str:
        servers = self.text("kafka.bootstrap.servers")
        if not servers:
            self.fail("kafka.bootstrap.servers", "it must name brokers, as host:port with commas between")
        return servers

    def fail(self, name: str, why: str) -> NoReturn:
        value = self._values.get(name.lower())
        raise OptionError(f"option {name}={value!r}: {why}" if value is not None else f"option {name}: {why}")

    def refuse(self, names: Mapping[str, str] | tuple[str, ...], why: str) -> None:
        for name in names:
            if self.text(name) is not None:
                self.fail(name, names[name] if isinstance(names, Mapping) else why)

    def refuse_the_rest(self, *, of: str, names: Sequence[str], client_names: Sequence[str]) -> None:
        """Refuse what nobody asked for. `of` is whose options these are, `names` those that act."""
        for name in self._values:
            if name not in self._known:
                is_client = name.startswith("kafka.")
                why = "no such setting acts in this client" if is_client else f"no option of {of}"
                acting = client_names if is_client else names
                self.fail(name, f"{why}; take it away (these act: {', '.join(acting)})")


def natural(text: str) -> int:
    """A whole number from 0 on. Raises ValueError with what it must be, as all of these do."""
    if not (text.isascii() and text.isdecimal()):
        raise ValueError("it must be a whole number, not negative")
    return int(text)


def positive(text: str) -> int:
    """A whole number from 1 on."""
    number = natural(text)
    if number == 0:
        raise ValueError("it must be greater than 0")
    return number


def natural_int32(text: str) -> int:
    """A whole number from 0 on that fits 32 bits with a sign."""
    return _int32(natural(text))


def positive_int32(text: str) -> int:
    """A whole number from 1 on that fits 32 bits with a sign."""
    return _int32(positive(text))


def _int32(number: int) -> int:
    if number >= 1 << 31:
        raise ValueError("it must be less than 2147483648")
    return number


def boolean(text: str) -> bool:
    """True or false, in either case."""
    if text.lower() not in {"true", "false"}:
        raise ValueError("it must be true or false")
    return text.lower() == "true"


def isolation(text: str) -> bool:
    """Whether committed records alone are read, by Kafka's name of the isolation level."""
    if text not in {"read_committed", "read_uncommitted"}:
        raise ValueError("it must be read_committed or read_uncommitted")
    return text == "read_committed"


def plaintext(text: str) -> None:
    """A security protocol that this client speaks."""
    if text.upper() != "PLAINTEXT":
        raise ValueError("this client speaks PLAINTEXT only")


def duration_ms(text: str) -> int:
    """A time in milliseconds, or with its unit."""
    found = re.fullmatch(r"(\d+)\s*([a-z]*)", text.lower(), re.ASCII)
    if found is None or found[2] not in _UNITS_MS:
        raise ValueError("it must be a time such as 30s, 15m or 1h")
    return int(found[1]) * _UNITS_MS[found[2]]


_UNITS_MS: Final = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
